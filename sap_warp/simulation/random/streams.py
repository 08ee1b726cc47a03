"""Counter-based random numbers: each is a function of seed, stream, world, draw and index alone.

So they do not depend on the number of worlds or threads, on the order of draws, or on what other worlds do; and a
stream's state is the number of draws so far. The generator is Philox4x32-10 (Salmon and others 2011).
"""

import zlib
from typing import Any, TypeAlias

import numpy as np
import warp as wp

from ...core.kernels.types import Bools, Floats, Ints, IntTable

UNIFORM, LOG_UNIFORM, NORMAL, CHOICE = (wp.constant(i) for i in range(4))
SET, SCALE, OFFSET = (wp.constant(i) for i in range(3))
# written out in a kernel they would be signed, and the compiler would warn
FACTOR_0, FACTOR_1 = wp.constant(wp.uint32(0xD2511F53)), wp.constant(wp.uint32(0xCD9E8D57))
STRIDE_0, STRIDE_1 = wp.constant(wp.uint32(0x9E3779B9)), wp.constant(wp.uint32(0xBB67AE85))
"""Constants of Philox: factors of counters, and increments of keys."""
Numbers: TypeAlias = wp.array[Any]
LOTTERY = wp.constant(wp.uint32(0xFFFFFFFF))
"""Index of the number that decides whether a world takes part."""


@wp.func
def high_product(a: wp.uint32, b: wp.uint32) -> wp.uint32:
    """Return the upper half of a product."""
    return wp.uint32((wp.uint64(a) * wp.uint64(b)) >> wp.uint64(32))


@wp.func
def philox(c0: wp.uint32, c1: wp.uint32, c2: wp.uint32, c3: wp.uint32, k0: wp.uint32, k1: wp.uint32) -> wp.vec4ui:
    """Return four random numbers for a counter of four and a key of two."""
    x0 = wp.uint32(c0)
    x1 = wp.uint32(c1)
    x2 = wp.uint32(c2)
    x3 = wp.uint32(c3)
    y0 = wp.uint32(k0)
    y1 = wp.uint32(k1)
    i = int(0)
    while i < 10:
        high0 = high_product(FACTOR_0, x0)
        high1 = high_product(FACTOR_1, x2)
        low0 = FACTOR_0 * x0
        low1 = FACTOR_1 * x2
        x0 = high1 ^ x1 ^ y0
        x1 = low1
        x2 = high0 ^ x3 ^ y1
        x3 = low0
        y0 = y0 + STRIDE_0
        y1 = y1 + STRIDE_1
        i += 1
    return wp.vec4ui(x0, x1, x2, x3)


@wp.struct
class Stream:
    """One distribution with its own numbers."""

    seed0: wp.uint32
    seed1: wp.uint32
    number: wp.uint32
    first_world: wp.uint32
    kind: int
    a: wp.float64  # low, or mean
    b: wp.float64  # high, or standard deviation
    low: wp.float64
    high: wp.float64
    choices: wp.array[wp.float64]
    probability: wp.float64


@wp.func
def to_unit(x: wp.uint32) -> wp.float64:
    """Map random bits to a number in (0, 1)."""
    return (wp.float64(x) + wp.float64(0.5)) * wp.float64(2.3283064365386963e-10)


@wp.func
def takes_part(s: Stream, world: int, draw: int) -> bool:
    """Return True if a world takes part in a draw."""
    if s.probability >= wp.float64(1.0):
        return True
    x = philox(LOTTERY, wp.uint32(draw), s.first_world + wp.uint32(world), s.number, s.seed0, s.seed1)
    return to_unit(x[0]) < s.probability


@wp.func
def draw_number(s: Stream, world: int, draw: int, index: int) -> wp.float64:
    """Return the number with an index in a draw of a world."""
    x = philox(wp.uint32(index), wp.uint32(draw), s.first_world + wp.uint32(world), s.number, s.seed0, s.seed1)
    u = to_unit(x[0])
    result = s.a + (s.b - s.a) * u
    if s.kind == LOG_UNIFORM:
        result = wp.clamp(s.a * wp.exp(wp.log(s.b / s.a) * u), s.a, s.b)
    elif s.kind == NORMAL:
        angle = wp.float64(6.283185307179586) * to_unit(x[1])
        result = wp.clamp(s.a + s.b * wp.sqrt(wp.float64(-2.0) * wp.log(u)) * wp.cos(angle), s.low, s.high)
    elif s.kind == CHOICE:
        last = s.choices.shape[0] - 1
        result = s.choices[wp.min(int(u * wp.float64(s.choices.shape[0])), last)]
    return result


@wp.kernel(module="unique", enable_backward=False)
def count_draws(mask: Bools, rows: Ints, draws: IntTable) -> None:
    """Count one more draw of each of these streams in the chosen worlds."""
    world = wp.tid()
    if mask[world]:
        for i in range(rows.shape[0]):
            draws[rows[i], world] = draws[rows[i], world] + 1


@wp.kernel(module="unique", enable_backward=False)
def choose_due(slot: int, slots: int, phases: int, first_world: int, due: Bools) -> None:
    """Mark the worlds that are due: worlds are dealt to ``phases`` groups, spread over the slots of a period."""
    world = wp.tid()
    due[world] = (((first_world + world) % phases) * slots) // phases == slot


@wp.kernel(module="unique", enable_backward=False)
def choose_worlds(stream: Stream, row: int, draws: IntTable, due: Bools, mask: Bools) -> None:
    """Mark the due worlds that take part in the present draw."""
    world = wp.tid()
    mask[world] = due[world] and takes_part(stream, world, draws[row, world])


@wp.struct
class Target:
    """Entries that a stream is for, and how its numbers are applied."""

    row: int  # of the counters of draws
    how: int  # SET, SCALE or OFFSET
    keeps_zero: int  # whether a zero stays
    entry: wp.array[wp.int32]  # of the values
    world: wp.array[wp.int32]
    index: wp.array[wp.int32]  # in the stream


@wp.kernel(module="unique", enable_backward=False)
def draw_values(
    mask: Bools, stream: Stream, at: Target, draws: IntTable, nominal: Numbers, values: Numbers, good: Numbers
) -> None:
    """Draw new values of the chosen entries in the chosen worlds; without ``nominal``, from their present values.

    ``good``, if it is not empty, keeps them too: they are known to be valid.
    """
    i = wp.tid()
    world = at.world[i]
    if not mask[world]:
        return
    x = draw_number(stream, world, draws[at.row, world], at.index[i])
    base = wp.float64(0.0)
    if nominal.shape[0] > 0:
        base = wp.float64(nominal[at.entry[i]])
    else:
        base = wp.float64(values[at.entry[i]])
    if at.keeps_zero != 0 and base == wp.float64(0.0):
        return
    if at.how == SCALE:
        x = base * x
    elif at.how == OFFSET:
        x = base + x
    values[at.entry[i]] = values.dtype(x)
    if good.shape[0] > 0:
        good[at.entry[i]] = good.dtype(x)


@wp.kernel(module="unique", enable_backward=False)
def restore_values(mask: Bools, entry: Ints, world_of: Ints, nominal: Numbers, values: Numbers, good: Numbers) -> None:
    """Restore the nominal values."""
    i = wp.tid()
    if mask[world_of[i]]:
        values[entry[i]] = nominal[entry[i]]
        if good.shape[0] > 0:
            good[entry[i]] = nominal[entry[i]]


@wp.kernel(module="unique", enable_backward=False)
def scale_inertias(
    mask: Bools, body: Ints, world: Ints, mass0: Floats, inertia0: Floats, mass: Floats, inertia: Floats, good: Floats
) -> None:
    """Scale inertias in proportion to masses; ``mass0`` and ``inertia0`` are the nominal ones."""
    i = wp.tid()
    b = body[i]
    if mask[world[i]] and mass0[b] > 0.0:
        factor = wp.float64(mass[b]) / wp.float64(mass0[b])
        for k in range(9):
            inertia[9 * b + k] = wp.float32(wp.float64(inertia0[9 * b + k]) * factor)
            good[9 * b + k] = inertia[9 * b + k]


def stream_number(name: str) -> int:
    """Return the number of a stream by its name."""
    return zlib.crc32(name.encode())


def split_seed(seed: int) -> tuple[int, int]:
    """Split a seed of up to 64 bits into the two words of a key."""
    return int(np.uint64(seed) & np.uint64(0xFFFFFFFF)), int(np.uint64(seed) >> np.uint64(32))
