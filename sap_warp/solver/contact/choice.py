"""Which contacts of a full world are kept on CUDA: the deepest, as on the CPU, whatever order the threads came in.

`binning` fills the slots of a world with those that come first, and lists the others. Here one newcomer after
the other takes the place of the shallowest contact, if it is deeper; of two that are equally deep the first in the
buffer stays. No gap is stored: lanes find those in the slots anew for each newcomer, which costs nothing but in worlds
that are too full.
"""

import functools
from typing import Any

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.types import Types
from ...core.kernels.warps import is_warp, make_from_lane
from ..model.motion_data import make_motion_data
from .input import ContactInput
from .rows import make_contact_gap

FARTHEST = 1e30
"""Stands for a gap that is no number [m]."""


@functools.cache
def make_keep_deepest(pose: Types, contact_pose: Types, dynamics: Types) -> Any:
    """``keep_deepest(c, d, slot, first, last, newcomer)``: let newcomers into the slots of a world, by all lanes."""
    Motion = make_motion_data(pose, dynamics)
    scalar = contact_pose.scalar
    contact_gap = make_contact_gap(pose, contact_pose, dynamics)
    gap_from, index_from = make_from_lane(scalar), make_from_lane(int)

    @wp.struct
    class Held:
        phi: scalar
        contact: int
        place: int

    @wp.func
    def gap(c: wp.ref[ContactInput], d: wp.ref[Motion], i: int) -> scalar:
        phi = contact_gap(c, d, i)
        if not (wp.abs(phi) < scalar(wp.static(FARTHEST))):
            phi = scalar(wp.static(FARTHEST))
        return phi

    @wp.func
    def is_deeper(a_phi: scalar, a: int, b_phi: scalar, b: int) -> bool:
        return a_phi < b_phi or (a_phi == b_phi and a < b)

    @wp.func
    def find_shallowest(
        c: wp.ref[ContactInput], d: wp.ref[Motion], slot: wp.array(dtype=wp.int32), first: int, last: int
    ) -> Held:
        """The same on all lanes: those of a warp share the slots, else each looks at all."""
        found = Held()
        found.phi = -scalar(wp.static(2.0 * FARTHEST))
        found.contact = -1
        found.place = -1
        stride = wp.where(is_warp(), lane_count(), 1)
        place = first + wp.where(is_warp(), lane(), 0)
        while place < last:
            i = slot[place]
            phi = gap(c, d, i)
            if is_deeper(found.phi, found.contact, phi, i):
                found.phi = phi
                found.contact = i
                found.place = place
            place += stride
        k = wp.where(is_warp(), lane_count() // 2, 0)
        while k > 0:
            phi = gap_from(found.phi, lane() ^ k)
            contact = index_from(found.contact, lane() ^ k)
            place = index_from(found.place, lane() ^ k)
            if is_deeper(found.phi, found.contact, phi, contact):
                found.phi = phi
                found.contact = contact
                found.place = place
            k = k // 2
        return found

    @wp.func
    def keep_deepest(
        c: wp.ref[ContactInput],
        d: wp.ref[Motion],
        slot: wp.array(dtype=wp.int32),
        first: int,
        last: int,
        newcomer: int,
    ):
        i = int(newcomer - 1)
        while i >= 0:
            shallowest = find_shallowest(c, d, slot, first, last)
            phi = gap(c, d, i)
            barrier()  # all have read the slots
            if lane() == 0 and is_deeper(phi, i, shallowest.phi, shallowest.contact):
                slot[shallowest.place] = i
            barrier()
            i = c.newcomer[i] - 1

    return keep_deepest
