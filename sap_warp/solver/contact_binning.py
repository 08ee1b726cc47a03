"""Which contacts of the flat buffer belong to which world.

Every contact that can move something takes the next free slot of its world. What finds its world full is counted. With
one thread, as on the CPU, the deepest contacts are kept: a newcomer takes the place of the shallowest one. Several
threads cannot do that without locks; there the first to come are kept.
"""

import functools

import warp as wp

from ..kernels.launch import solver_kernel
from ..kernels.structs import make_flat
from ..kernels.types import FP64, Types
from .contact_input import ContactInput
from .kinematics import make_kinematics
from .layout import Layout


@wp.struct
class Bins:
    """Which contacts each world holds."""

    capacity: int  # contacts that one world can hold
    found: wp.array(dtype=wp.int32)  # how many there are, by world
    slot: wp.array(dtype=wp.int32)  # which of them were kept, ``capacity`` entries for each world


@functools.cache
def make_bin_kernel(state: Types):
    """The kernel for states of one precision: ``threads`` threads stride over the contacts there are."""
    to_vec3_64 = make_kinematics(FP64).to_vec3
    flat_layout, flat_input, flat_bins = make_flat(Layout), make_flat(ContactInput), make_flat(Bins)

    @wp.func
    def world_point(
        layout: wp.ref[Layout],
        c: wp.ref[ContactInput],
        body_q: wp.array(dtype=state.transform),
        shape: int,
        point: wp.vec3f,
    ) -> wp.vec3d:
        x = to_vec3_64(point)
        b = c.shape_owner[shape + 1].body
        if b >= 0:
            body = layout.body_newton[b]
            p = wp.transform_get_translation(body_q[body])
            r = wp.transform_get_rotation(body_q[body])
            q = wp.quatd(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]), wp.float64(r[3]))
            x = wp.vec3d(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2])) + wp.quat_rotate(q, x)
        return x

    @wp.func
    def gap(
        layout: wp.ref[Layout], c: wp.ref[ContactInput], body_q: wp.array(dtype=state.transform), i: int
    ) -> wp.float64:
        """phi0 of a contact [m]."""
        x0 = world_point(layout, c, body_q, c.shape0[i], c.point0[i])
        x1 = world_point(layout, c, body_q, c.shape1[i], c.point1[i])
        return wp.dot(to_vec3_64(c.normal[i]), x1 - x0) - wp.float64(c.margin0[i]) - wp.float64(c.margin1[i])

    @wp.func
    def displace_shallowest(
        layout: wp.ref[Layout],
        c: wp.ref[ContactInput],
        body_q: wp.array(dtype=state.transform),
        i: int,
        first: int,
        capacity: int,
        slot_out: wp.array(dtype=wp.int32),
    ):
        """Give contact i the slot of the shallowest contact of a full world, if i is deeper."""
        widest = gap(layout, c, body_q, i)
        place = int(-1)
        slot_end = first + capacity
        slot = int(first)
        while slot < slot_end:
            other = gap(layout, c, body_q, slot_out[slot])
            if other > widest:
                widest = other
                place = slot
            slot += 1
        if place >= 0:
            slot_out[place] = i

    @wp.func
    def bin_share(
        layout_in: wp.array(dtype=Layout),
        contacts_in: wp.array(dtype=ContactInput),
        body_q: wp.array(dtype=state.transform),
        thread: int,
        threads: int,
        contact_max: int,
        bins_in: wp.array(dtype=Bins),
    ):
        """One thread's share of the contacts."""
        layout = layout_in[0]
        c = contacts_in[0]
        flat_layout(layout)
        flat_input(c)
        bins = bins_in[0]
        flat_bins(bins)
        capacity = bins.capacity
        i_end = wp.min(c.count[0], contact_max)
        i = int(thread)
        while i < i_end:
            world = wp.max(c.shape_owner[c.shape0[i] + 1].world, c.shape_owner[c.shape1[i] + 1].world)
            if world >= 0:
                slot = wp.atomic_add(bins.found, world, 1)
                if slot < capacity:
                    bins.slot[world * capacity + slot] = i
                elif threads == 1:
                    displace_shallowest(layout, c, body_q, i, world * capacity, capacity, bins.slot)
            i += threads

    @solver_kernel
    def bin_contacts(
        layout: wp.array(dtype=Layout),
        contacts: wp.array(dtype=ContactInput),
        body_q: wp.array(dtype=state.transform),
        contact_max: int,
        threads: int,
        bins: wp.array(dtype=Bins),
    ):
        bin_share(layout, contacts, body_q, wp.tid(), threads, contact_max, bins)

    return bin_contacts
