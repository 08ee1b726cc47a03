"""Counters of collision passes on the device."""

from typing import TypeAlias

import warp as wp

LAST, LAST_DROPPED, PEAK, PEAK_DROPPED, PEAK_PAIRS, PEAK_TRIANGLES, REDUCTION_LOSS, PEAK_LOST = range(8)
"""Entries of a record: counts of the last pass, and maxima over all passes."""

WHOLE, FIRST, FURTHER = wp.constant(0), wp.constant(1), wp.constant(2)
"""Kinds of passes: over all worlds; over a range of worlds, the first one since `count_totals`; further ones."""


@wp.struct
class PassCounts:
    """The counters of Newton's stages, and those of this package."""

    pair_count: wp.array[wp.int32]
    triangle_count: wp.array[wp.int32]  # empty if Newton's stages count none
    record: wp.array[wp.int32]
    totals: wp.array[wp.int32]  # of passes over ranges of worlds, see `add_to_totals`


Counts: TypeAlias = wp.array[PassCounts]
"""Type of a kernel parameter: `PassCounts` in an array of one."""


@wp.func
def raise_peak(record: wp.array[wp.int32], entry: int, value: int) -> None:
    """Raise an entry to ``value`` if it is less."""
    record[entry] = wp.max(record[entry], value)


@wp.func
def count_contacts(counts: wp.ref[PassCounts], count: int, capacity: int, written: int, found_max: int) -> None:
    """Count the contacts of a pass.

    Args:
        counts: The counters.
        count: Contacts that should be in the caller's buffer.
        capacity: Size of the caller's buffer.
        written: Contacts that should be in the buffer that the pass wrote.
        found_max: Size of that buffer.
    """
    record = counts.record
    dropped = wp.max(count - capacity, 0)
    record[wp.static(LAST)] = count
    record[wp.static(LAST_DROPPED)] = dropped
    raise_peak(record, wp.static(PEAK), count)
    raise_peak(record, wp.static(PEAK_DROPPED), dropped)
    raise_peak(record, wp.static(PEAK_LOST), written - found_max)


@wp.func
def count_stages(counts: wp.ref[PassCounts], loss: int) -> None:
    """Count the pairs of shapes and of triangles that Newton's stages found, and store its flag of lost candidates."""
    raise_peak(counts.record, wp.static(PEAK_PAIRS), counts.pair_count[0])
    if counts.triangle_count.shape[0] > 0:
        raise_peak(counts.record, wp.static(PEAK_TRIANGLES), counts.triangle_count[0])
    raise_peak(counts.record, wp.static(REDUCTION_LOSS), loss)


@wp.func
def add_to_totals(totals: wp.array[wp.int32], found: int, is_first: bool) -> None:
    """Add the contacts of one range of worlds to those of the ranges before it at the same pass.

    Args:
        totals: The number of the pass that was last counted, then the contacts of each pass.
        found: Contacts of the range.
        is_first: True for the range's first pass since the last `count_totals`.
    """
    i = wp.where(is_first, 0, totals[0]) + 1
    totals[0] = i
    totals[i] = totals[i] + found


@wp.kernel(enable_backward=False)
def count_totals(counts: Counts) -> None:
    """Raise the peak of the record to the largest total over all ranges at a pass, and clear the totals."""
    i = int(1)
    while i <= counts[0].totals[0]:
        raise_peak(counts[0].record, wp.static(PEAK), counts[0].totals[i])
        counts[0].totals[i] = 0
        i += 1


@wp.func
def count_pass(counts: wp.ref[PassCounts], count: int, capacity: int, written: int, found_max: int, loss: int) -> None:
    """Count a pass of Newton's pipeline; the arguments are those of `count_contacts` and `count_stages`."""
    count_contacts(counts, count, capacity, written, found_max)
    count_stages(counts, loss)


@wp.func
def count_range(counts: wp.ref[PassCounts], kind_of_pass: int, found: int, capacity: int, loss: int) -> None:
    """Count a pass over a range of worlds, `FIRST` or `FURTHER`; its buffer should hold all that it finds."""
    add_to_totals(counts.totals, found, kind_of_pass == FIRST)
    raise_peak(counts.record, wp.static(PEAK_DROPPED), found - capacity)
    raise_peak(counts.record, wp.static(PEAK_LOST), found - capacity)
    count_stages(counts, loss)
