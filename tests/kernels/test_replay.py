"""Graphs of the CPU that call their kernels from tables."""

import gc
import threading

import numpy as np
import pytest
import warp as wp
from warp._src import context

from sap_warp.core.runtime import replay
from sap_warp.core.runtime.replay import TABLE_CALLS, capture_calls


@wp.kernel(module="unique", enable_backward=False)
def append_digit(digit: int, number: wp.array[wp.int64]) -> None:
    """To the number of each thread; the order of calls shows in it, modulo a prime."""
    i = wp.tid()
    number[i] = (number[i] * wp.int64(10) + wp.int64(digit + i)) % wp.int64(1000003)


def launch_digits(number, digits, clear_after=()):
    """Append digits; where asked to, the number is set to 7 by a fill in between."""
    for k, digit in enumerate(digits):
        wp.launch(append_digit, dim=len(number), inputs=[int(digit)], outputs=[number], device="cpu")
        if k in clear_after:
            number.fill_(7)


def expected(count, digits, clear_after=()):
    numbers = [0] * count
    for k, digit in enumerate(digits):
        numbers = [7 if k in clear_after else (10 * n + int(digit) + i) % 1000003 for i, n in enumerate(numbers)]
    return numbers


def operations(graph):
    return context.runtime.core.wp_apic_get_operation_count(graph.apic_state)


@pytest.mark.parametrize(
    ("calls", "clear_after", "recorded"),
    [(1, (), 1), (40, (), 1), (40, (12, 30), 5), (TABLE_CALLS + 3, (), 2), (5, (0, 1, 4), 6)],
)
def test_calls_run_in_order_with_what_lies_between_them(rng, calls, clear_after, recorded):
    number = wp.zeros(3, dtype=wp.int64, device="cpu")
    digits = rng.integers(0, 10, calls)
    graph = capture_calls("cpu", lambda: launch_digits(number, digits, clear_after))
    assert not number.numpy().any()  # captured, not executed
    gc.collect()
    wp.capture_launch(graph)
    assert number.numpy().tolist() == expected(3, digits, clear_after)
    assert operations(graph) == recorded
    number.zero_()
    wp.capture_launch(graph)  # and again
    assert number.numpy().tolist() == expected(3, digits, clear_after)


def test_memory_is_set_between_calls_of_one_table(rng):
    """Zeros, or another byte, in a part of an array; other memory stays."""
    numbers, others = wp.zeros(4, dtype=wp.int64, device="cpu"), wp.full(4, 5, dtype=wp.int64, device="cpu")
    digits = rng.integers(1, 10, 3)

    def launch():
        launch_digits(numbers, digits[:1])
        numbers[1:3].zero_()
        launch_digits(numbers, digits[1:])
        wp.get_device("cpu").memset(others.ptr, 255, 16)

    graph = capture_calls("cpu", launch)
    assert not numbers.numpy().any() and others.numpy().tolist() == 4 * [5]
    wp.capture_launch(graph)
    cleared, kept = expected(4, digits[1:]), expected(4, digits)
    assert numbers.numpy().tolist() == [kept[0], *cleared[1:3], kept[3]]
    assert others.numpy().tolist() == [-1, -1, 5, 5]
    assert operations(graph) == 1


def test_a_failed_capture_leaves_memory_as_it_was_set():
    device = wp.get_device("cpu")
    usual = device.memset
    with pytest.raises(ZeroDivisionError):
        capture_calls("cpu", lambda: 1 / 0)
    assert device.memset is usual


def test_two_graphs_have_tables_of_their_own(rng):
    numbers = [wp.zeros(2, dtype=wp.int64, device="cpu") for _ in range(2)]
    digits = rng.integers(0, 10, (2, 20))
    graphs = [capture_calls("cpu", lambda i=i: launch_digits(numbers[i], digits[i])) for i in range(2)]
    for graph in reversed(graphs):
        wp.capture_launch(graph)
    for i in range(2):
        assert numbers[i].numpy().tolist() == expected(2, digits[i])


def test_a_failed_capture_leaves_warps_launches_as_they_were():
    usual = context.runtime.core.wp_cpu_launch_kernel
    with pytest.raises(ZeroDivisionError):
        capture_calls("cpu", lambda: 1 / 0)
    assert context.runtime.core.wp_cpu_launch_kernel is usual
    number = wp.zeros(1, dtype=wp.int64, device="cpu")
    launch_digits(number, [4])
    assert number.numpy().tolist() == [4]


def test_another_way_to_launch_is_captured_as_usual(monkeypatch, rng):
    core = context.runtime.core

    class Other:
        """A runtime whose launches take other arguments."""

        argtypes = (int,)

    class Runtime:
        wp_cpu_launch_kernel = Other()

    class Context:
        runtime = type("Runtime", (), {"core": Runtime})

    monkeypatch.setattr(replay, "context", Context)
    number, digits = wp.zeros(2, dtype=wp.int64, device="cpu"), rng.integers(0, 10, 9)
    graph = capture_calls("cpu", lambda: launch_digits(number, digits))
    assert core.wp_apic_get_operation_count(graph.apic_state) == 9
    wp.capture_launch(graph)
    assert np.array_equal(number.numpy(), expected(2, digits))


def test_a_kept_launch_may_change_after_its_capture(rng):
    """Its bounds and arguments are copied when it is captured, as in a graph of Warp's own."""
    number = wp.zeros(3, dtype=wp.int64, device="cpu")
    kept = wp.launch(append_digit, dim=3, inputs=[4], outputs=[number], device="cpu", record_cmd=True)
    graph = capture_calls("cpu", kept.launch)
    kept.set_dim(1)
    kept.set_param_at_index(0, 9)
    kept.launch()  # at once
    assert number.numpy().tolist() == [9, 0, 0]
    number.zero_()
    wp.capture_launch(graph)
    assert number.numpy().tolist() == [4, 5, 6]


def test_launches_of_another_thread_run_at_once(rng):
    """They are not part of the graph: a capture is its own thread's."""
    numbers = [wp.zeros(2, dtype=wp.int64, device="cpu") for _ in range(2)]
    digits = rng.integers(0, 10, 6)

    def launch():
        launch_digits(numbers[0], digits[:3])
        other = threading.Thread(target=launch_digits, args=(numbers[1], digits))
        other.start()
        other.join()
        launch_digits(numbers[0], digits[3:])

    graph = capture_calls("cpu", launch)
    assert not numbers[0].numpy().any()
    assert numbers[1].numpy().tolist() == expected(2, digits)
    wp.capture_launch(graph)
    for number in numbers:
        assert number.numpy().tolist() == expected(2, digits)
