"""What a collision pass needed, kept on the device: the last pass, and the most of all passes."""

import warp as wp

LAST, LAST_DROPPED, PEAK, PEAK_DROPPED, PEAK_PAIRS, PEAK_TRIANGLES, REDUCTION_LOSS, PEAK_LOST = range(8)
"""Entries of a record."""


@wp.func
def note_contacts(count: int, capacity: int, written: int, room: int, record: wp.array[wp.int32]) -> None:
    """Contacts that should be in the caller's buffer and its size; the same of the buffer that they were found in."""
    dropped = wp.max(count - capacity, 0)
    record[wp.static(LAST)] = count
    record[wp.static(LAST_DROPPED)] = dropped
    record[wp.static(PEAK)] = wp.max(record[wp.static(PEAK)], count)
    record[wp.static(PEAK_DROPPED)] = wp.max(record[wp.static(PEAK_DROPPED)], dropped)
    record[wp.static(PEAK_LOST)] = wp.max(record[wp.static(PEAK_LOST)], written - room)


@wp.func
def count_pass(found: int, part: int, totals: wp.array[wp.int32]) -> None:
    """Add the contacts of one part of the worlds to those of the parts before it at the same pass.

    Args:
        found: Contacts of the part.
        part: 1 if it is the part's first pass since the last `note_totals`, else 2.
        totals: The number of the pass that was last counted, then the contacts of each pass.
    """
    i = wp.where(part == 1, 0, totals[0]) + 1
    totals[0] = i
    totals[i] = totals[i] + found


@wp.kernel(enable_backward=False)
def note_totals(totals: wp.array[wp.int32], record: wp.array[wp.int32]) -> None:
    """The most contacts of all parts at any pass, into a record. The totals are zero again then."""
    i = int(1)
    while i <= totals[0]:
        record[wp.static(PEAK)] = wp.max(record[wp.static(PEAK)], totals[i])
        totals[i] = 0
        i += 1


@wp.func
def note_stages(
    pair_count: wp.array[wp.int32], triangle_count: wp.array[wp.int32], loss: int, record: wp.array[wp.int32]
) -> None:
    """Pairs of shapes and of triangles that Newton's stages found, and its flag of lost candidates."""
    record[wp.static(PEAK_PAIRS)] = wp.max(record[wp.static(PEAK_PAIRS)], pair_count[0])
    if triangle_count.shape[0] > 0:
        record[wp.static(PEAK_TRIANGLES)] = wp.max(record[wp.static(PEAK_TRIANGLES)], triangle_count[0])
    record[wp.static(REDUCTION_LOSS)] = wp.max(record[wp.static(REDUCTION_LOSS)], loss)


@wp.kernel(enable_backward=False)
def record_need(
    counters_in: wp.array[wp.int32],
    pair_count_in: wp.array[wp.int32],
    triangle_count_in: wp.array[wp.int32],
    capacity: int,
    written_in: wp.array[wp.int32],
    room: int,
    record: wp.array[wp.int32],
) -> None:
    """What the collision pass needed, and the largest need so far."""
    note_contacts(counters_in[0], capacity, written_in[0], room, record)
    note_stages(pair_count_in, triangle_count_in, counters_in[2], record)
