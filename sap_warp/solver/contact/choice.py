"""Which contacts of a full world are kept on CUDA: the deepest, as on the CPU, whatever order the threads came in.

`contact/binning.py` fills the slots of a world with those that come first, and lists the others. Here one of these
after the other takes the slot of the shallowest contact, if it is deeper; of two that are equally deep the first in the
buffer stays. No gap is stored: lanes find those in the slots anew for each, which costs nothing but in worlds that are
too full.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.template import Constant, device, device_struct
from ...core.kernels.types import Ints
from ...core.kernels.warps import from_lane, is_warp
from ..model.motion_data import MotionData
from ..settings.precisions import contact_pose
from .data import ContactInput
from .rows import row_gap

scalar = contact_pose.scalar
gap_from, index_from = from_lane.on(dtype=scalar), from_lane.on(dtype=Constant(int))

FARTHEST = 1e30
"""Stands for a gap that is NaN or larger [m]."""


@device_struct
class KeptContact:
    """A contact that has a slot."""

    phi: scalar
    contact: int
    slot: int


@device
def finite_gap(buffer: wp.ref[ContactInput], motion: wp.ref[MotionData], i: int) -> scalar:
    """phi0 of a contact of the buffer [m], or FARTHEST."""
    phi = row_gap(buffer, motion, i)
    if not (wp.abs(phi) < scalar(wp.static(FARTHEST))):
        phi = scalar(wp.static(FARTHEST))
    return phi


@device
def is_deeper(a_phi: scalar, a: int, b_phi: scalar, b: int) -> bool:
    """Return True if contact a goes before contact b: by the gap, then by the place in the buffer."""
    return a_phi < b_phi or (a_phi == b_phi and a < b)


@device
def find_shallowest(
    buffer: wp.ref[ContactInput], motion: wp.ref[MotionData], slot: Ints, first: int, last: int
) -> KeptContact:
    """Find the shallowest contact of a world, on all lanes. Those of a warp share the slots, else each looks at all."""
    found = KeptContact()
    found.phi = -scalar(wp.static(2.0 * FARTHEST))
    found.contact = -1
    found.slot = -1
    stride = wp.where(is_warp(), lane_count(), 1)
    at = first + wp.where(is_warp(), lane(), 0)
    while at < last:
        i = slot[at]
        phi = finite_gap(buffer, motion, i)
        if is_deeper(found.phi, found.contact, phi, i):
            found.phi = phi
            found.contact = i
            found.slot = at
        at += stride
    k = wp.where(is_warp(), lane_count() // 2, 0)
    while k > 0:
        phi = gap_from(found.phi, lane() ^ k)
        contact = index_from(found.contact, lane() ^ k)
        at = index_from(found.slot, lane() ^ k)
        if is_deeper(found.phi, found.contact, phi, contact):
            found.phi = phi
            found.contact = contact
            found.slot = at
        k = k // 2
    return found


@device
def keep_deepest(
    buffer: wp.ref[ContactInput], motion: wp.ref[MotionData], slot: Ints, first: int, last: int, overflow_head: int
):
    """Let the contacts that found a world full into its slots, by all lanes."""
    i = int(overflow_head - 1)
    while i >= 0:
        shallowest = find_shallowest(buffer, motion, slot, first, last)
        phi = finite_gap(buffer, motion, i)
        barrier()  # all have read the slots
        if lane() == 0 and is_deeper(phi, i, shallowest.phi, shallowest.contact):
            slot[shallowest.slot] = i
        barrier()
        i = buffer.overflow_next[i] - 1
