"""Which contacts of the flat buffer belong to which world.

Every contact that can move something takes the next free slot of its world. What finds its world full is counted. With
one thread, as on the CPU, the deepest contacts are kept: a newcomer takes the place of the shallowest one. Several
threads cannot do that without locks; there the first to come are kept.
"""

import functools

import warp as wp

from ..precision import FP64, Types
from .arguments import make_flat
from .contact_input import ContactInput
from .kernel import solver_kernel
from .kinematics import make_kinematics
from .layout import Layout


@functools.cache
def make_bin_kernel(state: Types):
    """The kernel for states of one precision: ``threads`` threads stride over the contacts there are."""
    to_vec3_64 = make_kinematics(FP64).to_vec3
    flat_layout, flat_input = make_flat(Layout), make_flat(ContactInput)

    @wp.func
    def world_point(
        c: wp.ref[ContactInput], body_q: wp.array(dtype=state.transform), shape: int, point: wp.vec3f
    ) -> wp.vec3d:
        x = to_vec3_64(point)
        if shape >= 0:
            body = c.shape_body[shape]
            if body >= 0:
                p = wp.transform_get_translation(body_q[body])
                r = wp.transform_get_rotation(body_q[body])
                q = wp.quatd(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]), wp.float64(r[3]))
                x = wp.vec3d(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2])) + wp.quat_rotate(q, x)
        return x

    @wp.func
    def gap(c: wp.ref[ContactInput], body_q: wp.array(dtype=state.transform), i: int) -> wp.float64:
        """phi0 of a contact [m]."""
        x0 = world_point(c, body_q, c.shape0[i], c.point0[i])
        x1 = world_point(c, body_q, c.shape1[i], c.point1[i])
        return wp.dot(to_vec3_64(c.normal[i]), x1 - x0) - wp.float64(c.margin0[i]) - wp.float64(c.margin1[i])

    @wp.func
    def displace_shallowest(
        c: wp.ref[ContactInput],
        body_q: wp.array(dtype=state.transform),
        i: int,
        first: int,
        capacity: int,
        slot_out: wp.array(dtype=wp.int32),
    ):
        """Give contact i the slot of the shallowest contact of a full world, if i is deeper."""
        widest = gap(c, body_q, i)
        place = int(-1)
        slot_end = first + capacity
        slot = int(first)
        while slot < slot_end:
            other = gap(c, body_q, slot_out[slot])
            if other > widest:
                widest = other
                place = slot
            slot += 1
        if place >= 0:
            slot_out[place] = i

    @wp.func
    def world_of(layout: wp.ref[Layout], c: wp.ref[ContactInput], shape: int) -> int:
        """World of the moving body that a shape belongs to, or -1."""
        if shape < 0:
            return -1
        body = c.shape_body[shape]
        if body < 0:
            return -1
        b = layout.newton_body[body]
        return wp.where(layout.body_chain[b] >= 0, layout.body_world[b], -1)

    @wp.func
    def bin_share(
        layout_in: wp.array(dtype=Layout),
        contacts_in: wp.array(dtype=ContactInput),
        body_q: wp.array(dtype=state.transform),
        thread: int,
        threads: int,
        contact_max: int,
        found_out: wp.array(dtype=wp.int32),
        slot_out: wp.array(dtype=wp.int32),
    ):
        """One thread's share of the contacts."""
        layout = layout_in[0]
        c = contacts_in[0]
        flat_layout(layout)
        flat_input(c)
        capacity = slot_out.shape[0] // found_out.shape[0]
        i_end = wp.min(c.count[0], contact_max)
        i = int(thread)
        while i < i_end:
            world = wp.max(world_of(layout, c, c.shape0[i]), world_of(layout, c, c.shape1[i]))
            if world >= 0:
                slot = wp.atomic_add(found_out, world, 1)
                if slot < capacity:
                    slot_out[world * capacity + slot] = i
                elif threads == 1:
                    displace_shallowest(c, body_q, i, world * capacity, capacity, slot_out)
            i += threads

    @solver_kernel
    def bin_contacts(
        layout: wp.array(dtype=Layout),
        contacts: wp.array(dtype=ContactInput),
        body_q: wp.array(dtype=state.transform),
        contact_max: int,
        threads: int,
        found_out: wp.array(dtype=wp.int32),
        slot_out: wp.array(dtype=wp.int32),
    ):
        bin_share(layout, contacts, body_q, wp.tid(), threads, contact_max, found_out, slot_out)

    return bin_contacts
