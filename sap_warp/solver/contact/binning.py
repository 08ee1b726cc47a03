"""Which contacts of the flat buffer belong to which world.

Every contact that can move something takes the next free slot of its world. What finds its world full is counted, and
the deepest contacts are kept: such a contact takes the slot of the shallowest one. One thread, as on the CPU, does so
at once. Several threads cannot without locks: they put these contacts into a list, and the block that makes the rows of
a world chooses (`contact/choice.py`).
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.contact_gap import contact_gap
from ...core.kernels.deepest import shallowest_place
from ...core.kernels.launch import kernel
from ...core.kernels.spatial import to_quat, to_vec3
from ...core.kernels.structs import assume_contiguous
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ..model.layout import Layout
from ..settings.precisions import state
from .data import ContactInput

state_pose = state.transform
to_vec3_64, to_quat_64 = to_vec3.on(number=Constant(FP64)), to_quat.on(number=Constant(FP64))


@wp.struct
class Bins:
    """Which contacts each world holds."""

    layout: Layout
    capacity: int  # contacts that one world can hold
    found: wp.array(dtype=wp.int32)  # how many there are, by world
    slot: wp.array(dtype=wp.int32)  # which of them were kept, ``capacity`` entries for each world
    gap: wp.array(dtype=wp.float64)  # phi0 of those [m], in worlds that have too many; for one thread
    overflow_head: wp.array(dtype=wp.int32)  # by world: the last contact that found it full, plus 1; 0 for none
    lost: wp.array(dtype=wp.int64)  # contacts that did not fit into the flat buffer: over all steps, most in one


assume_contiguous_input, assume_contiguous_bins = assume_contiguous(ContactInput), assume_contiguous(Bins)


@device
def world_point(
    layout: wp.ref[Layout], buffer: wp.ref[ContactInput], body_q: wp.array[state_pose], shape: int, point: wp.vec3f
) -> wp.vec3d:
    """Position of a point of a shape, given in the frame of its body [m, world]."""
    x = to_vec3_64(point)
    b = buffer.shape_owner[shape + 1].body
    if b >= 0:
        body = layout.body_newton[b]
        p = to_vec3_64(wp.transform_get_translation(body_q[body]))
        x = p + wp.quat_rotate(to_quat_64(wp.transform_get_rotation(body_q[body])), x)
    return x


@device
def gap(layout: wp.ref[Layout], buffer: wp.ref[ContactInput], body_q: wp.array[state_pose], i: int) -> wp.float64:
    """phi0 of a contact [m]."""
    x0 = world_point(layout, buffer, body_q, buffer.rows.shape0[i], buffer.rows.point0[i])
    x1 = world_point(layout, buffer, body_q, buffer.rows.shape1[i], buffer.rows.point1[i])
    margin0 = wp.float64(buffer.rows.margin0[i])
    return contact_gap(to_vec3_64(buffer.rows.normal[i]), x1 - x0, margin0, wp.float64(buffer.rows.margin1[i]))


@device
def displace_shallowest(
    bins: wp.ref[Bins], buffer: wp.ref[ContactInput], body_q: wp.array[state_pose], i: int, first: int, n: int
):
    """Give contact i, the n-th of its world after all slots were taken, the slot of the shallowest one."""
    end = first + bins.capacity
    if n == 0:
        slot = int(first)
        while slot < end:
            bins.gap[slot] = gap(bins.layout, buffer, body_q, bins.slot[slot])
            slot += 1
    phi = gap(bins.layout, buffer, body_q, i)
    place = shallowest_place(phi, bins.gap, first, end)
    if place >= 0:
        bins.slot[place] = i
        bins.gap[place] = phi


@kernel
def bin_contacts(
    bins_in: wp.array[Bins],
    buffer_in: wp.array[ContactInput],
    body_q: wp.array[state_pose],
    contact_max: int,
    threads: int,
):
    """Sort the contacts of the buffer by worlds; ``threads`` threads stride over those there are."""
    bins = bins_in[0]
    buffer = buffer_in[0]
    assume_contiguous_bins(bins)
    assume_contiguous_input(buffer)
    capacity = bins.capacity
    i_end = wp.min(buffer.rows.count[0], contact_max)
    i = int(wp.tid())
    if i == 0 and buffer.rows.count[0] > contact_max:
        lost = wp.int64(buffer.rows.count[0] - contact_max)
        bins.lost[0] += lost
        bins.lost[1] = wp.max(bins.lost[1], lost)
    while i < i_end:
        owner0 = buffer.rows.shape0[i] + 1
        owner1 = buffer.rows.shape1[i] + 1
        world = wp.max(buffer.shape_owner[owner0].world, buffer.shape_owner[owner1].world)
        if world >= 0:
            slot = wp.atomic_add(bins.found, world, 1)
            if slot < capacity:
                bins.slot[world * capacity + slot] = i
            elif threads == 1:
                displace_shallowest(bins, buffer, body_q, i, world * capacity, slot - capacity)
            else:
                buffer.overflow_next[i] = wp.atomic_exch(bins.overflow_head, world, i + 1)
        i += threads
