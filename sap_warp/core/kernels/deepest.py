"""Which contacts are kept when there are too many: the deepest, those of the smallest phi0.

One thread that comes by the contacts in turn asks `shallowest_place` which one the next contact replaces. Many threads
sort by `depth_key`.
"""

from typing import Any

import warp as wp

SIGN, LAST = wp.constant(wp.uint32(0x80000000)), wp.constant(wp.uint32(0xFFFFFFFF))
"""Sign bit and largest value of a key; written out in a kernel they would be taken for signed numbers."""


@wp.func
def shallowest_place(phi: Any, kept: Any, first: int, last: int) -> int:
    """Return the place of the shallowest contact, which a new one replaces; -1 if none is shallower than the new one.

    Of several that are equally shallow the first one is replaced.

    Args:
        phi: phi0 of the new contact [m].
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
    """Return a key that sorts like phi, then like i; NaN comes last."""
    bits = wp.cast(phi, wp.uint32)
    if (bits & SIGN) != wp.uint32(0):
        bits = ~bits
    else:
        bits = bits | SIGN
    if phi != phi:
        bits = LAST
    return (wp.uint64(bits) << wp.uint64(32)) | wp.uint64(i)
