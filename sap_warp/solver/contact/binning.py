"""Which contacts of the flat buffer belong to which world.

Every contact that can move something takes the next free slot of its world. What finds its world full is counted, and
the deepest contacts are kept: a newcomer takes the place of the shallowest one. One thread, as on the CPU, does so at
once. Several threads cannot without locks: they put newcomers into a list, and the block that makes the rows of a world
chooses (`choice`).
"""

import functools

import warp as wp

from ...core.kernels.contact_gap import contact_gap
from ...core.kernels.deepest import shallowest_place
from ...core.kernels.launch import solver_kernel
from ...core.kernels.spatial import make_spatial
from ...core.kernels.structs import make_flat
from ...core.kernels.types import FP64, Types
from ..model.layout import Layout
from .input import ContactInput


@wp.struct
class Bins:
    """Which contacts each world holds."""

    layout: Layout
    capacity: int  # contacts that one world can hold
    found: wp.array(dtype=wp.int32)  # how many there are, by world
    slot: wp.array(dtype=wp.int32)  # which of them were kept, ``capacity`` entries for each world
    gap: wp.array(dtype=wp.float64)  # phi0 of those [m], in worlds that have too many; for one thread
    newcomer: wp.array(dtype=wp.int32)  # by world: the last contact that found it full, plus 1; 0 if there is none
    lost: wp.array(dtype=wp.int64)  # contacts that did not fit into the flat buffer: over all steps, most in one


@functools.cache
def make_bin_kernel(state: Types):
    """The kernel for states of one precision: ``threads`` threads stride over the contacts there are."""
    S = make_spatial(FP64)
    to_vec3_64, to_quat_64 = S.to_vec3, S.to_quat
    flat_input, flat_bins = make_flat(ContactInput), make_flat(Bins)
    StatePoses = wp.array[state.transform]

    @wp.func
    def world_point(
        layout: wp.ref[Layout], c: wp.ref[ContactInput], body_q: StatePoses, shape: int, point: wp.vec3f
    ) -> wp.vec3d:
        x = to_vec3_64(point)
        b = c.shape_owner[shape + 1].body
        if b >= 0:
            body = layout.body_newton[b]
            p = to_vec3_64(wp.transform_get_translation(body_q[body]))
            x = p + wp.quat_rotate(to_quat_64(wp.transform_get_rotation(body_q[body])), x)
        return x

    @wp.func
    def gap(layout: wp.ref[Layout], c: wp.ref[ContactInput], body_q: StatePoses, i: int) -> wp.float64:
        """phi0 of a contact [m]."""
        x0 = world_point(layout, c, body_q, c.rows.shape0[i], c.rows.point0[i])
        x1 = world_point(layout, c, body_q, c.rows.shape1[i], c.rows.point1[i])
        return contact_gap(
            to_vec3_64(c.rows.normal[i]), x1 - x0, wp.float64(c.rows.margin0[i]), wp.float64(c.rows.margin1[i])
        )

    @wp.func
    def displace_shallowest(
        bins: wp.ref[Bins], c: wp.ref[ContactInput], body_q: StatePoses, i: int, first: int, n: int
    ):
        """Give contact i, the n-th of its world after all slots were taken, the slot of the shallowest one."""
        end = first + bins.capacity
        if n == 0:
            slot = int(first)
            while slot < end:
                bins.gap[slot] = gap(bins.layout, c, body_q, bins.slot[slot])
                slot += 1
        phi = gap(bins.layout, c, body_q, i)
        place = shallowest_place(phi, bins.gap, first, end)
        if place >= 0:
            bins.slot[place] = i
            bins.gap[place] = phi

    @solver_kernel
    def bin_contacts(
        bins_in: wp.array[Bins], contacts: wp.array[ContactInput], body_q: StatePoses, contact_max: int, threads: int
    ):
        bins = bins_in[0]
        c = contacts[0]
        flat_bins(bins)
        flat_input(c)
        capacity = bins.capacity
        i_end = wp.min(c.rows.count[0], contact_max)
        i = int(wp.tid())
        if i == 0 and c.rows.count[0] > contact_max:
            lost = wp.int64(c.rows.count[0] - contact_max)
            bins.lost[0] += lost
            bins.lost[1] = wp.max(bins.lost[1], lost)
        while i < i_end:
            world = wp.max(c.shape_owner[c.rows.shape0[i] + 1].world, c.shape_owner[c.rows.shape1[i] + 1].world)
            if world >= 0:
                slot = wp.atomic_add(bins.found, world, 1)
                if slot < capacity:
                    bins.slot[world * capacity + slot] = i
                elif threads == 1:
                    displace_shallowest(bins, c, body_q, i, world * capacity, slot - capacity)
                else:
                    c.newcomer[i] = wp.atomic_exch(bins.newcomer, world, i + 1)
            i += threads

    return bin_contacts
