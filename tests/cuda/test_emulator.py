"""The emulator itself: it computes what the CPU computes, and sees what must not happen on a GPU."""

import ctypes
import re

import numpy as np
import pytest
import warp as wp

from sap_warp.core.kernels.lanes import barrier, block_size, lane, lane_count
from sap_warp.core.kernels.lanes import block_sum as block_sum_of
from sap_warp.core.kernels.template import Variant
from sap_warp.core.kernels.warps import count_lanes, first_lane, lanes_before
from tests.cuda.emulator import ptx
from tests.cuda.emulator.device import EmulationError
from tests.cuda.emulator.driver import Driver
from tests.cuda.emulator.translate import UnknownOpcodeError, translate
from tests.cuda.twins import GPU

LANES = 64
block_sum = block_sum_of.of(Variant(dtype=wp.float64))


def launch(kernel, blocks, *arrays, lanes=LANES, device=GPU):
    """``blocks`` is how many times ``lanes`` work together: a block each, or parts of warps."""
    threads = block_size(lanes, wp.get_device(device))
    wp.launch(kernel, dim=blocks * lanes, inputs=list(arrays), block_dim=threads, device=device)


def numbers(count, device=GPU, dtype=wp.float64):
    return wp.array(np.arange(count), dtype=dtype, device=device)


# --- results ----------------------------------------------------------------------------------------------------------


@wp.kernel(enable_backward=False, module="unique")
def evaluate_64(x: wp.array[wp.float64], out: wp.array2d[wp.float64]):
    i = wp.tid()
    a = x[i]
    b = x[(i + 7) % x.shape[0]]
    n = int(a)
    small = wp.float64(0.005)
    out[i, 0] = a / (wp.abs(b) + wp.float64(0.1)) + wp.sqrt(wp.abs(a)) - wp.pow(wp.abs(b) + wp.float64(1.0), a * small)
    out[i, 1] = wp.sin(a) + wp.cos(a * wp.float64(1e9)) + wp.tan(b)  # large arguments take a way of their own
    out[i, 2] = wp.exp(a / wp.float64(50.0)) + wp.log(wp.abs(a) + wp.float64(1e-3)) + wp.atan2(a, b)
    out[i, 3] = wp.min(a, b) + wp.max(a, wp.float64(0.25)) + wp.clamp(a, wp.float64(-1.0), wp.float64(1.0))
    out[i, 4] = wp.floor(a) + wp.ceil(b) + wp.rint(a) + wp.trunc(b) + wp.sign(a)
    out[i, 5] = wp.float64(n / 3) + wp.float64(n % 5) + wp.float64(n >> 1) + wp.float64((n << 2) ^ (n & 12) | 3)
    out[i, 6] = wp.float64(wp.float32(a)) + wp.float64(wp.int8(n)) + wp.float64(wp.uint16(n)) + wp.float64(wp.int64(a))
    out[i, 7] = wp.where(a > b or wp.isnan(a), a, -b) + wp.acos(wp.clamp(a, wp.float64(-1.0), wp.float64(1.0)))


@wp.kernel(enable_backward=False, module="unique")
def evaluate_32(x: wp.array[wp.float32], out: wp.array2d[wp.float32]):
    i = wp.tid()
    a = x[i]
    b = x[(i + 7) % x.shape[0]]
    out[i, 0] = a / (wp.abs(b) + 0.1) + wp.sqrt(wp.abs(a))
    out[i, 1] = wp.sin(a) + wp.cos(b) + wp.exp(a / 200.0) + wp.log(wp.abs(a) + 0.1)
    out[i, 2] = wp.min(a, b) + wp.max(a, 0.25) + wp.floor(a) + wp.rint(b)
    q = wp.quat_rpy(a, b, a + b)
    out[i, 3] = wp.length(wp.quat_rotate(q, wp.vec3(1.0, 2.0, 3.0)))


PRECISIONS = [(evaluate_64, wp.float64, 1e-14), (evaluate_32, wp.float32, 1e-5)]


@pytest.mark.parametrize("kernel, dtype, tolerance", PRECISIONS)
def test_functions_have_the_values_of_the_cpu(gpu, rng, kernel, dtype, tolerance):
    """Arithmetic, conversions and elementary functions, also of large, zero and negative numbers."""
    x = np.concatenate([rng.normal(size=40) * 30.0, [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 127.5, 1e3]])
    results = []
    for device in ("cpu", GPU):
        source = wp.array(x, dtype=dtype, device=device)
        out = wp.zeros((len(x), 8), dtype=dtype, device=device)
        wp.launch(kernel, dim=len(x), inputs=[source], outputs=[out], device=device)
        results.append(out.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=tolerance * 100.0)


@wp.kernel(enable_backward=False)
def reverse(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    block = wp.tid() // lane_count()
    base = block * lane_count()
    scratch[base + lane()] = values[base + lane()]
    barrier()
    values[base + lane()] = scratch[base + lane_count() - 1 - lane()]


@wp.kernel(enable_backward=False)
def total(values: wp.array[wp.float64], scratch: wp.array[wp.float64], out: wp.array[wp.float64]):
    block = wp.tid() // lane_count()
    out[wp.tid()] = block_sum(values[wp.tid()], scratch, block)


@pytest.mark.parametrize("lanes", [1, 8, 16, 32, 64, 128])
def test_barriers_order_what_lanes_do(gpu, lanes):
    """Blocks of several sizes and parts of a warp reverse and sum their numbers, in any order of lanes and blocks."""
    values, scratch, out = numbers(3 * lanes), numbers(3 * lanes), numbers(3 * lanes)
    expected = values.numpy().reshape(3, lanes)
    for _ in range(3):
        launch(reverse, 3, values, scratch, lanes=lanes)
        expected = expected[:, ::-1]
        np.testing.assert_array_equal(values.numpy().reshape(3, lanes), expected)
    launch(total, 3, values, scratch, out, lanes=lanes)
    np.testing.assert_array_equal(out.numpy(), np.repeat(expected.sum(axis=1), lanes))
    events = gpu.device.counts["reverse"].events
    assert events["barriers"] + events["warp_barriers"] == 9 and (events["warp_barriers"] == 9) == (8 <= lanes <= 32)


@wp.func_native("for (int k = 16; k > 0; k >>= 1) x += __shfl_xor_sync(0xffffffffu, x, k); return x;")
def warp_sum(x: float) -> float: ...


@wp.func_native("return __shfl_down_sync(0xffffffffu, x, 3);")
def third_after(x: float) -> float: ...


@wp.func_native("return __shfl_sync(0xffffffffu, x, 5, 8);")
def fifth_of_eight(x: float) -> float: ...


@wp.func_native("return __ballot_sync(0xffffffffu, x > 40.0f);")
def ballot(x: float) -> wp.uint32: ...


@wp.kernel(enable_backward=False)
def exchange(values: wp.array[float], out: wp.array2d[float], votes: wp.array[wp.uint32]):
    i = wp.tid()
    out[i, 0] = warp_sum(values[i])
    out[i, 1] = third_after(values[i])
    out[i, 2] = fifth_of_eight(values[i])
    votes[i] = ballot(values[i])


def test_warps_exchange_values(gpu):
    """Butterfly, down and indexed shuffles, and votes."""
    values, out = numbers(64, dtype=float), wp.zeros((64, 3), dtype=float, device=GPU)
    votes = wp.zeros(64, dtype=wp.uint32, device=GPU)
    launch(exchange, 1, values, out, votes)
    i, got = np.arange(64), out.numpy()
    np.testing.assert_array_equal(got[:, 0], np.where(i < 32, 496, 1520))
    np.testing.assert_array_equal(got[:, 1], np.where(i % 32 < 29, i + 3, i))
    np.testing.assert_array_equal(got[:, 2], i // 8 * 8 + 5)
    np.testing.assert_array_equal(votes.numpy(), np.where(i < 32, 0, 0xFFFFFE00))
    assert gpu.device.counts["exchange"].warp["shuffles"] == 2 * 8


def test_graphs_record_and_replay(gpu):
    """What is captured runs when the graph is launched, with the arguments of then; copies and fills too."""
    values, scratch, copy = numbers(64), numbers(64), numbers(64)
    launch(reverse, 1, values, scratch)
    with wp.ScopedCapture(GPU) as capture:
        launch(reverse, 1, values, scratch)
        wp.copy(copy, values)
        scratch.zero_()
    np.testing.assert_array_equal(values.numpy(), np.arange(64)[::-1])
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(copy.numpy(), np.arange(64))
    assert not scratch.numpy().any()
    with pytest.raises(EmulationError, match="copy to the host while a graph"), wp.ScopedCapture(GPU):
        values.numpy()


def test_a_graph_of_an_earlier_driver_can_be_destroyed_late(gpu):
    """Warp destroys a graph when its garbage is collected, by then perhaps through the next driver."""
    stream, made = ctypes.c_void_p(7), []
    for driver in (Driver(gpu.native, gpu.device, 1, 80) for _ in range(2)):
        graph = ctypes.c_void_p()
        driver.wp_cuda_graph_begin_capture(None, stream, 0, 0)
        driver.wp_cuda_graph_end_capture(None, stream, ctypes.byref(graph))
        made.append(graph)
    driver.wp_cuda_graph_destroy(None, made[0])
    assert driver.wp_cuda_graph_launch(made[1], stream)


@wp.kernel(enable_backward=False)
def vote(values: wp.array[wp.float64], out: wp.array2d[int]):
    world = wp.tid() // lane_count()
    i = int(0)
    while i < world % 5:  # parts of a warp come apart, and each waits for its own lanes
        barrier()
        i += 1
    chosen = values[wp.tid()] >= wp.float64(world * lane_count() + 3 + i)
    out[wp.tid(), 0] = first_lane(chosen)
    out[wp.tid(), 1] = count_lanes(chosen)
    out[wp.tid(), 2] = lanes_before(chosen)


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_parts_of_a_warp_vote_for_themselves(gpu, lanes):
    """Each in its own number of turns; the last block is not full."""
    worlds = 15
    out = wp.zeros((worlds * lanes, 3), dtype=int, device=GPU)
    launch(vote, worlds, numbers(worlds * lanes), out, lanes=lanes)
    first = 3 + np.arange(worlds)[:, None] % 5
    expected = [first + 0 * np.arange(lanes), lanes - first + 0 * np.arange(lanes), np.arange(lanes) - first]
    np.testing.assert_array_equal(out.numpy().reshape(worlds, lanes, 3), np.maximum(np.stack(expected, axis=2), 0))


# --- faults -----------------------------------------------------------------------------------------------------------


@wp.kernel(enable_backward=False)
def reverse_without_barrier(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[lane()] = values[lane()]
    values[lane()] = scratch[lane_count() - 1 - lane()]


@wp.kernel(enable_backward=False)
def all_write(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[0] = values[lane()]


@wp.kernel(enable_backward=False)
def meet_elsewhere(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    if values[lane()] < wp.float64(10.0):
        scratch[lane()] = wp.float64(1.0)
        barrier()
        scratch[lane()] = wp.float64(2.0)
    else:
        barrier()


@wp.kernel(enable_backward=False)
def leave_early(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    if values[lane()] > wp.float64(10.0):
        return
    barrier()
    scratch[lane()] = wp.float64(2.0)


@wp.kernel(enable_backward=False)
def one_too_far(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[lane()] = values[lane() + 1]


@wp.kernel(enable_backward=False)
def never_ends(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    while values[0] == wp.float64(0.0):
        scratch[lane()] = scratch[lane()] + wp.float64(1.0)


@wp.kernel(enable_backward=False)
def read_beside(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[wp.tid()] = values[wp.tid()]
    barrier()
    values[wp.tid()] = scratch[(wp.tid() + lane_count()) % scratch.shape[0]]


@wp.kernel(enable_backward=False)
def part_leaves_early(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    if wp.tid() == 21:
        return
    barrier()
    scratch[wp.tid()] = wp.float64(2.0)


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (reverse_without_barrier, {"block race: two writes", "lane race: write, then read"}),
        (read_beside, {"block race: write, then read"}),
        (part_leaves_early, {"divergent warp"}),
    ],
)
def test_worlds_that_share_a_warp_are_watched_like_blocks(driver, faults, kernel, what):
    """A barrier of one world is none for its neighbour in the warp, and lanes of a world still race."""
    try:
        launch(kernel, 4, numbers(32), numbers(32), lanes=8)
    except EmulationError:
        assert kernel is part_leaves_early
    assert what <= faults()


@wp.func_native("__shared__ double place[64]; return place[WP_TILE_THREAD_IDX];")
def from_unset_shared() -> wp.float64: ...


@wp.func_native(
    "__shared__ double place[64]; place[WP_TILE_THREAD_IDX] = x; WP_TILE_SYNC(); return place[63 - WP_TILE_THREAD_IDX];"
)
def by_shared(x: wp.float64) -> wp.float64: ...


@wp.func_native("__shared__ double place[64]; place[WP_TILE_THREAD_IDX] = x; return place[63 - WP_TILE_THREAD_IDX];")
def by_shared_without_barrier(x: wp.float64) -> wp.float64: ...


@wp.func_native("*(double*)((char*)a.data + 4) = 1.0;")
def store_between(a: wp.array(dtype=wp.float64)): ...


@wp.func_native("return WP_TILE_THREAD_IDX < 10 ? __shfl_xor_sync(0xffffffffu, x, 1) : x;")
def shuffle_of_some(x: wp.int32) -> wp.int32: ...


@wp.kernel(enable_backward=False)
def read_unset(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[lane()] = from_unset_shared()


@wp.kernel(enable_backward=False)
def race_in_shared(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[lane()] = by_shared_without_barrier(values[lane()])


@wp.kernel(enable_backward=False)
def use_shared(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[lane()] = by_shared(values[lane()])


@wp.kernel(enable_backward=False)
def misplaced(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    if lane() == 0:
        store_between(scratch)


@wp.kernel(enable_backward=False)
def diverge_in_warp(values: wp.array[wp.float64], scratch: wp.array[wp.float64]):
    scratch[lane()] = wp.float64(shuffle_of_some(int(values[lane()])))


STOPS = {
    meet_elsewhere: "divergent barrier",
    leave_early: "left barrier",
    never_ends: "endless loop",
    diverge_in_warp: "divergent warp",
}
GOES_ON = {
    reverse_without_barrier: "lane race",
    all_write: "lane race: two writes",
    one_too_far: "out of bounds",
    read_unset: "unset shared memory",
    race_in_shared: "lane race",
    misplaced: "misaligned",
}


@pytest.mark.parametrize("kernel", STOPS, ids=lambda k: k.key)
def test_what_would_hang_a_gpu_stops_the_launch(driver, faults, kernel):
    """The error names the kernel and the fault."""
    with pytest.raises(EmulationError, match=kernel.key):
        launch(kernel, 1, numbers(64), numbers(64))
    assert STOPS[kernel] in faults()


@pytest.mark.parametrize("kernel", GOES_ON, ids=lambda k: k.key)
def test_faults_are_seen(driver, faults, kernel):
    """Races, wrong addresses and memory that nobody has set, each with the lines of the kernel."""
    launch(kernel, 1, numbers(64), numbers(64))
    messages = [str(fault) for fault in driver.device.faults]
    assert all(re.search(rf"^{kernel.key}: .*; line \d+: \S+", m) for m in messages), messages
    assert any(what.startswith(GOES_ON[kernel]) for what in faults())


@wp.kernel(enable_backward=False)
def count_up(values: wp.array[wp.int32], by_lane: wp.array[wp.int32]):
    wp.atomic_add(values, 0, 1)
    by_lane[wp.tid()] = 1


@wp.kernel(enable_backward=False)
def blocks_write(values: wp.array[wp.int32], by_lane: wp.array[wp.int32]):
    if lane() == 0:
        values[0] = wp.tid()


@wp.kernel(enable_backward=False)
def blocks_read(values: wp.array[wp.int32], by_lane: wp.array[wp.int32]):
    if wp.tid() == 70:
        values[0] = 1
    by_lane[wp.tid()] = values[lane()]


def test_blocks_must_not_share_what_one_writes(driver, faults):
    """Two blocks that write a word, or write and read one, are seen in any order; atomics are allowed."""
    values, by_lane = numbers(64, dtype=wp.int32), numbers(128, dtype=wp.int32)
    launch(count_up, 2, values, by_lane)
    assert not faults() and values.numpy()[0] == 128
    launch(blocks_write, 2, values, by_lane)
    assert faults() == {"block race: two writes"}
    for _ in range(5):
        launch(blocks_read, 2, values, by_lane)
        assert any(what.startswith("block race") for what in faults())


def test_shared_memory_of_blocks_is_their_own(gpu):
    """Blocks use the same shared memory one after the other."""
    values, out = numbers(64), numbers(64)
    for _ in range(3):
        launch(use_shared, 1, values, out)
    np.testing.assert_array_equal(out.numpy(), np.arange(64)[::-1])


def test_memory_that_was_freed_is_not_touched(driver, faults):
    """A graph that outlives its arrays is seen."""
    values, scratch = numbers(64), numbers(64)
    launch(reverse, 1, values, scratch)
    with wp.ScopedCapture(GPU) as capture:
        launch(reverse, 1, values, scratch)
    del scratch
    wp.capture_launch(capture.graph)
    assert faults() == {"out of bounds"}


def test_a_missing_opcode_is_named():
    """The error has opcode, kernel, line and text."""
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry odd_kernel(\n.param .u32 a\n)\n{\n"
    text += ".reg .b32 %r<3>;\nmov.u32 %r1, 1;\nfrobnicate.b32 %r2, %r1;\nret;\n}\n"
    with pytest.raises(UnknownOpcodeError, match=r"frobnicate\.b32 in kernel odd_kernel, line 10: frobnicate"):
        translate(ptx.parse(text), "odd_kernel")
    with pytest.raises(UnknownOpcodeError, match=r"add\.rz\.f32.*odd_kernel"):
        translate(ptx.parse(text.replace("frobnicate.b32 %r2, %r1", "add.rz.f32 %r2, %r1, %r1")), "odd_kernel")


# --- counts -----------------------------------------------------------------------------------------------------------


@wp.kernel(enable_backward=False)
def some_work(values: wp.array[wp.float64], out: wp.array[wp.float64]):
    x = values[lane()]
    if lane() % 2 == 0:
        for _ in range(100):
            x = x * x + wp.float64(0.5)
    else:
        for _ in range(100):
            x = wp.sqrt(x)
    out[lane()] = x


def test_instructions_are_counted(gpu):
    """Lanes that go different ways cost both ways; a warp issues what a lane executes."""
    launch(some_work, 1, numbers(64), numbers(64))
    counts = gpu.device.counts["some_work"]
    assert counts.lane["fp64 divisions"] == 32 * 100 and counts.warp["fp64 divisions"] == 2 * 100
    assert counts.lane["fp64"] == 64 * 100 and counts.warp["fp64"] == 2 * 200
    assert counts.warp["loads"] == 2 and counts.lane["stores"] == 64 and counts.events["barriers"] == 0
    assert counts.events["sectors_read"] == 64 * 8 // 32 and counts.events["sectors_written"] == 64 * 8 // 32
    assert counts.events["launches"] == counts.events["blocks"] == 1
