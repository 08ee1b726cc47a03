"""Which contacts are kept when there are too many: the deepest, those of the smallest phi0.

One thread that comes by the contacts in turn asks `shallowest_place` whose place the next one takes. Many threads
sort by `depth_key`.
"""

from typing import Any

import warp as wp

SIGN, LAST = wp.constant(wp.uint32(0x80000000)), wp.constant(wp.uint32(0xFFFFFFFF))
"""Sign bit and largest value of a key; written out in a kernel they would be taken for signed numbers."""


@wp.func
def shallowest_place(phi: Any, kept: Any, first: int, last: int) -> int:
    """Where a contact goes that finds all places taken: the place of the shallowest one, or -1 if none is shallower.

    Of several that are equally shallow the first one gives way.

    Args:
        phi: phi0 of the newcomer [m].
        kept: phi0 of the contacts in their places: an array or a vector.
        first: First place.
        last: One after the last place.
    """
    widest = phi
    place = int(-1)
    k = int(first)
    while k < last:
        if kept[k] > widest:
            widest = kept[k]
            place = k
        k += 1
    return place


@wp.func
def depth_key(phi: float, i: int) -> wp.uint64:
    """Sorts like phi, then like i; a value that is no number comes last."""
    bits = wp.cast(phi, wp.uint32)
    if (bits & SIGN) != wp.uint32(0):
        bits = ~bits
    else:
        bits = bits | SIGN
    if phi != phi:
        bits = LAST
    return (wp.uint64(bits) << wp.uint64(32)) | wp.uint64(i)
