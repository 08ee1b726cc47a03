"""Counting of collision passes on the device."""

from typing import TypeAlias

import warp as wp

LAST, LAST_DROPPED, PEAK, PEAK_DROPPED, PEAK_PAIRS, PEAK_TRIANGLES, REDUCTION_LOSS, PEAK_LOST = range(8)
"""Entries of a record: of the last pass, and the most of all passes."""

WHOLE, FIRST, FURTHER = wp.constant(0), wp.constant(1), wp.constant(2)
"""Passes over all worlds, and over a range of them: its first one since the totals were noted, and others."""


@wp.struct
class PassCounts:
    """Where a pass finds what Newton's stages counted, and where it notes its own counts."""

    pair_count: wp.array[wp.int32]
    triangle_count: wp.array[wp.int32]  # empty if Newton's stages count none
    record: wp.array[wp.int32]
    totals: wp.array[wp.int32]  # of passes over ranges of worlds, see `add_to_totals`


Counts: TypeAlias = wp.array[PassCounts]
"""A parameter of kernels: `PassCounts` in an array of one."""


@wp.func
def note_most(record: wp.array[wp.int32], entry: int, value: int) -> None:
    """The larger one stays."""
    record[entry] = wp.max(record[entry], value)


@wp.func
def note_contacts(c: wp.ref[PassCounts], count: int, capacity: int, written: int, found_max: int) -> None:
    """Contacts that should be in the caller's buffer and its size; the same of the buffer that they were found in."""
    record = c.record
    dropped = wp.max(count - capacity, 0)
    record[wp.static(LAST)] = count
    record[wp.static(LAST_DROPPED)] = dropped
    note_most(record, wp.static(PEAK), count)
    note_most(record, wp.static(PEAK_DROPPED), dropped)
    note_most(record, wp.static(PEAK_LOST), written - found_max)


@wp.func
def note_stages(c: wp.ref[PassCounts], loss: int) -> None:
    """Pairs of shapes and of triangles that Newton's stages found, and its flag of lost candidates."""
    note_most(c.record, wp.static(PEAK_PAIRS), c.pair_count[0])
    if c.triangle_count.shape[0] > 0:
        note_most(c.record, wp.static(PEAK_TRIANGLES), c.triangle_count[0])
    note_most(c.record, wp.static(REDUCTION_LOSS), loss)


@wp.func
def add_to_totals(totals: wp.array[wp.int32], found: int, is_first: bool) -> None:
    """Add the contacts of one range of worlds to those of the ranges before it at the same pass.

    Args:
        totals: The number of the pass that was last counted, then the contacts of each pass.
        found: Contacts of the range.
        is_first: Whether it is the range's first pass since the last `note_totals`.
    """
    i = wp.where(is_first, 0, totals[0]) + 1
    totals[0] = i
    totals[i] = totals[i] + found


@wp.kernel(enable_backward=False)
def note_totals(counts: Counts) -> None:
    """The most contacts of all ranges at any pass, into the record. The totals are zero again then."""
    i = int(1)
    while i <= counts[0].totals[0]:
        note_most(counts[0].record, wp.static(PEAK), counts[0].totals[i])
        counts[0].totals[i] = 0
        i += 1


@wp.func
def note_pass(c: wp.ref[PassCounts], count: int, capacity: int, written: int, found_max: int, loss: int) -> None:
    """All that a pass of Newton's pipeline found; the arguments are those of `note_contacts` and `note_stages`."""
    note_contacts(c, count, capacity, written, found_max)
    note_stages(c, loss)


@wp.func
def note_range(c: wp.ref[PassCounts], kind_of_pass: int, found: int, capacity: int, loss: int) -> None:
    """The same of a pass over a range of worlds, `FIRST` or `FURTHER`, with a buffer that should hold all it finds."""
    add_to_totals(c.totals, found, kind_of_pass == FIRST)
    note_most(c.record, wp.static(PEAK_DROPPED), found - capacity)
    note_most(c.record, wp.static(PEAK_LOST), found - capacity)
    note_stages(c, loss)
