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
from .contact_rows import make_body_point
from .free_motion import make_free_motion_data
from .kernel import solver_kernel
from .kinematics import make_kinematics
from .layout import Layout


@functools.cache
def make_bin_kernel(pose: Types, contact_pose: Types, dynamics: Types):
    """The kernel: ``threads`` threads stride over the contacts there are, not over the buffer's capacity."""
    FreeMotion = make_free_motion_data(pose, dynamics)
    body_point = make_body_point(pose, contact_pose, dynamics).body_point
    to_vec3_64 = make_kinematics(FP64).to_vec3
    flat_layout, flat_input, flat_motion = make_flat(Layout), make_flat(ContactInput), make_flat(FreeMotion)

    @wp.func
    def world_point(
        layout: wp.ref[Layout], c: wp.ref[ContactInput], d: wp.ref[FreeMotion], shape: int, point: wp.vec3f
    ) -> wp.vec3d:
        x = to_vec3_64(point)
        if shape >= 0:
            body = c.shape_body[shape]
            if body >= 0:
                b = layout.newton_body[body]
                r = body_point(d, b, x)
                x = d.origin[layout.body_root[b]] + wp.vec3d(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]))
        return x

    @wp.func
    def gap(layout: wp.ref[Layout], c: wp.ref[ContactInput], d: wp.ref[FreeMotion], i: int) -> wp.float64:
        """phi0 of a contact [m]."""
        x0 = world_point(layout, c, d, c.shape0[i], c.point0[i])
        x1 = world_point(layout, c, d, c.shape1[i], c.point1[i])
        return wp.dot(to_vec3_64(c.normal[i]), x1 - x0) - wp.float64(c.margin0[i]) - wp.float64(c.margin1[i])

    @wp.func
    def displace_shallowest(
        layout: wp.ref[Layout],
        c: wp.ref[ContactInput],
        d: wp.ref[FreeMotion],
        i: int,
        first: int,
        capacity: int,
        slot_out: wp.array(dtype=wp.int32),
    ):
        """Give contact i the slot of the shallowest contact of a full world, if i is deeper."""
        widest = gap(layout, c, d, i)
        place = int(-1)
        slot_end = first + capacity
        slot = int(first)
        while slot < slot_end:
            other = gap(layout, c, d, slot_out[slot])
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
        motion_in: wp.array(dtype=FreeMotion),
        thread: int,
        threads: int,
        contact_max: int,
        found_out: wp.array(dtype=wp.int32),
        slot_out: wp.array(dtype=wp.int32),
    ):
        """One thread's share of the contacts."""
        layout = layout_in[0]
        c = contacts_in[0]
        d = motion_in[0]
        flat_layout(layout)
        flat_input(c)
        flat_motion(d)
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
                    displace_shallowest(layout, c, d, i, world * capacity, capacity, slot_out)
            i += threads

    @solver_kernel
    def bin_contacts(
        layout: wp.array(dtype=Layout),
        contacts: wp.array(dtype=ContactInput),
        d: wp.array(dtype=FreeMotion),
        contact_max: int,
        threads: int,
        found_out: wp.array(dtype=wp.int32),
        slot_out: wp.array(dtype=wp.int32),
    ):
        bin_share(layout, contacts, d, wp.tid(), threads, contact_max, found_out, slot_out)

    return bin_contacts
