"""Both ends of a step in one kernel: a state comes in, a state goes out, and its bodies are placed.

The state that goes out is mostly the one that comes in next. So the kernel places the bodies at the end of a step,
from what it reads back out of the finished state: exactly the numbers that the next step will read. The next step
compares, world by world, and takes over the result if the numbers are equal. If they are not - a user has changed
something, or passes another state - it places the bodies itself, with the same instructions.

Between two steps of which nobody sees the state in between, both ends are one: the new coordinates are rounded as the
state would hold them and stay in the solver's own buffers, the bodies are placed where the next step reads them, and
nothing is compared or copied. Only poses are written, for collision detection. It is the same code with other
buffers, so that the numbers are the same to the last bit.
"""

import functools
from typing import Any

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.launch import solver_kernel
from ..kernels.structs import StructArgument, make_flat, padded_zeros
from ..kernels.types import FP32, FP64, TYPES, Types
from ..model import SapControl, SapState
from .boundary import Coordinates, make_boundary, make_coordinates
from .free_motion import NOT_FINITE, make_free_motion_data
from .integrate import MIDPOINT, make_advance_joint
from .kinematics import JointParameters, Links, make_kinematics, make_link
from .layout import Layout, LayoutSizes
from .parts import Part
from .placement import make_placement
from .status import FREE_MOTION_FAILED

CHANGED = wp.constant(2)
"""Mark of a world whose kinematics are not known yet."""

FORCED = wp.constant(4)
"""Mark of a world with forces that depend on its pose, to be read in every step."""

GRID = 1.5 * 2.0**12
"""Added to an fp64 number and taken away again, this leaves a multiple of 2^-40."""

READ = wp.constant(0)
PLACE = wp.constant(1)
LEAVE = wp.constant(2)
STAY = wp.constant(3)
"""What the kernel does: read a state, also place its bodies, finish a step, or finish it and begin the next one."""


@functools.cache
def make_ends(pose: Types, types: Types):
    """Struct of the solver's own arrays that the kernel works with: one argument costs less than a dozen."""
    Data, Link = make_free_motion_data(pose, types), make_link(pose)

    @wp.struct
    class Ends:
        layout: wp.array(dtype=Layout)
        links: wp.array(dtype=Link)
        axis: wp.array(dtype=pose.vec3)
        before: wp.array(dtype=Coordinates)  # what the step came in with
        result: wp.array(dtype=Coordinates)  # where the state is read to
        known: wp.array(dtype=Coordinates)  # what the last step left
        data: wp.array(dtype=Data)  # where the kinematics go
        known_data: wp.array(dtype=Data)

    return Ends


@functools.cache
def make_passage_kernel(state: Types, pose: Types, types: Types, native: bool = True):
    """The kernel for states of one precision, poses and motions of others: one block per world.

    ``native=False`` places bodies without `wide`.
    """
    Data, Link = make_free_motion_data(pose, types), make_link(pose)
    Ends = make_ends(pose, types)
    boundary = make_boundary(state)
    convert_velocity, convert_force, read_wrench = (
        boundary.convert_velocity,
        boundary.convert_force,
        boundary.read_wrench,
    )
    round_velocity = boundary.round_velocity
    advance_joint, place_world = make_advance_joint(), make_placement(pose, types, native).place_world
    K = make_kinematics(pose)
    is_floating, rotate = K.is_floating, K.rotate
    scalar, vec3 = state.scalar, types.vec3
    F = wp.float64
    KIND = wp.constant(1 if state is FP32 else 2)
    flat_layout, flat_joints = make_flat(Layout), make_flat(JointParameters)
    flat_data, flat_coordinates, flat_ends = make_flat(Data), make_flat(Coordinates), make_flat(Ends)

    @wp.func
    def to_motion(v: pose.vec3) -> vec3:
        return vec3(types.scalar(v[0]), types.scalar(v[1]), types.scalar(v[2]))

    @wp.func
    def advance(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        before: wp.ref[Coordinates],
        after: wp.ref[Coordinates],
        world: int,
        h: F,
        mode: int,
        v_new: wp.array(dtype=F),
    ):
        """New positions of a world: of scalar joints dof by dof, of others joint by joint."""
        old = F(0.0)
        new = h
        if mode == MIDPOINT:
            old = F(0.5) * h
            new = old
        e_end = layout.world_dof[world + 1]
        e = int(layout.world_dof[world] + lane())
        while e < e_end:
            i = layout.dof_coord[e]
            if i >= 0:
                dof = layout.dof_newton[e]
                after.q[i] = before.q[i] + (old * before.v[dof] + new * v_new[dof])
            e += wp.block_dim()
        i_end = layout.world_turning[world + 1]
        i = int(layout.world_turning[world] + lane())
        while i < i_end:
            b = layout.turning_body[i]
            if layout.body_prescribed[b] == 0:
                advance_joint(p, layout.body_joint[b], h, mode, before.q, before.v, v_new, after.q)
            i += wp.block_dim()

    @wp.func
    def keep_positions(layout: wp.ref[Layout], before: wp.ref[Coordinates], after: wp.ref[Coordinates], world: int):
        """Positions of a world as they were: what moves is advanced afterwards."""
        run_end = layout.world_coord_run[world + 1]
        run = int(layout.world_coord_run[world])
        while run < run_end:
            i_end = layout.coord_run_end[run]
            i = int(layout.coord_run[run] + lane())
            while i < i_end:
                after.q[i] = before.q[i]
                i += wp.block_dim()
            run += 1
        barrier()

    @wp.func
    def round_coordinates(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        after: wp.ref[Coordinates],
        world: int,
        public_velocity: int,
        v_new: wp.array(dtype=F),
    ) -> int:
        """Round positions and velocities of a world as a state holds them; says whether the positions are finite."""
        mark = int(0)
        run_end = layout.world_dof_run[world + 1]
        run = int(layout.world_dof_run[world])
        while run < run_end:
            i_end = layout.dof_run_end[run]
            i = int(layout.dof_run[run] + lane())
            while i < i_end:
                after.v[i] = F(scalar(v_new[i]))
                i += wp.block_dim()
            run += 1
        if public_velocity != 0:
            barrier()
            i_end = layout.world_turning[world + 1]
            i = int(layout.world_turning[world] + lane())
            while i < i_end:
                joint = layout.body_joint[layout.turning_body[i]]
                if is_floating(p.joint_type[joint]):
                    round_velocity(p, joint, after.q, v_new, after.v)
                i += wp.block_dim()
            barrier()
        run_end = layout.world_coord_run[world + 1]
        run = int(layout.world_coord_run[world])
        while run < run_end:
            i_end = layout.coord_run_end[run]
            i = int(layout.coord_run[run] + lane())
            while i < i_end:
                x = F(scalar(after.q[i]))
                mark = mark | wp.where(x - x == F(0.0), 0, NOT_FINITE)
                after.q[i] = x
                i += wp.block_dim()
            run += 1
        return mark

    @wp.func
    def write_coordinates(
        layout: wp.ref[Layout],
        after: wp.ref[Coordinates],
        world: int,
        joint_q: wp.array(dtype=scalar),
        joint_qd: wp.array(dtype=scalar),
    ):
        """Rounded positions and velocities of a world into a state."""
        run_end = layout.world_dof_run[world + 1]
        run = int(layout.world_dof_run[world])
        while run < run_end:
            i_end = layout.dof_run_end[run]
            i = int(layout.dof_run[run] + lane())
            while i < i_end:
                joint_qd[i] = scalar(after.v[i])
                i += wp.block_dim()
            run += 1
        run_end = layout.world_coord_run[world + 1]
        run = int(layout.world_coord_run[world])
        while run < run_end:
            i_end = layout.coord_run_end[run]
            i = int(layout.coord_run[run] + lane())
            while i < i_end:
                joint_q[i] = scalar(after.q[i])
                i += wp.block_dim()
            run += 1

    @wp.func
    def read_coordinates(
        layout: wp.ref[Layout],
        c: wp.ref[Coordinates],
        known: wp.ref[Coordinates],
        world: int,
        joint_q: wp.array(dtype=scalar),
        joint_qd: wp.array(dtype=scalar),
    ) -> int:
        """Positions and velocities of a world out of a state; says whether positions are finite and the known ones."""
        mark = int(0)
        run_end = layout.world_coord_run[world + 1]
        run = int(layout.world_coord_run[world])
        while run < run_end:
            i_end = layout.coord_run_end[run]
            i = int(layout.coord_run[run] + lane())
            while i < i_end:
                x = F(joint_q[i])
                mark = mark | wp.where(x == known.q[i], 0, CHANGED) | wp.where(x - x == F(0.0), 0, NOT_FINITE)
                c.q[i] = x
                i += wp.block_dim()
            run += 1
        run_end = layout.world_dof_run[world + 1]
        run = int(layout.world_dof_run[world])
        while run < run_end:
            i_end = layout.dof_run_end[run]
            i = int(layout.dof_run[run] + lane())
            while i < i_end:
                c.v[i] = F(joint_qd[i])
                i += wp.block_dim()
            run += 1
        return mark

    @wp.func
    def order_velocities(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        c: wp.ref[Coordinates],
        known: wp.ref[Coordinates],
        d: wp.ref[Data],
        world: int,
        public_velocity: int,
    ) -> int:
        """Velocities of a world to sap and solver order; says whether they are the known ones."""
        if public_velocity != 0:
            i_end = layout.world_turning[world + 1]
            i = int(layout.world_turning[world] + lane())
            while i < i_end:
                joint = layout.body_joint[layout.turning_body[i]]
                if is_floating(p.joint_type[joint]):
                    convert_velocity(p, joint, c.q, c.v)
                i += wp.block_dim()
            barrier()
        mark = int(0)
        e_end = layout.world_dof[world + 1]
        e = int(layout.world_dof[world] + lane())
        while e < e_end:
            i = layout.dof_newton[e]
            v = c.v[i]
            mark = mark | wp.where(v == known.v[i], 0, CHANGED)
            d.v0[e] = v
            e += wp.block_dim()
        e_end = layout.world_prescribed[world + 1]
        e = int(layout.world_prescribed[world] + lane())
        while e < e_end:
            i = layout.dof_newton[e]
            v = c.v[i]
            mark = mark | wp.where(v == known.v[i], 0, CHANGED)
            d.v0[e] = v
            e += wp.block_dim()
        return mark

    @wp.func
    def read_forces(
        layout: wp.ref[Layout],
        p: wp.ref[JointParameters],
        c: wp.ref[Coordinates],
        world: int,
        public_joint_force: int,
        public_body_force: int,
        joint_f: wp.array(dtype=wp.float32),
        body_f: wp.array(dtype=wp.spatial_vectorf),
        body_q: wp.array(dtype=state.transform),
    ) -> int:
        """Forces on the joints and bodies of a world; says whether there are any that depend on its pose."""
        mark = int(0)
        run_end = layout.world_dof_run[world + 1]
        run = int(layout.world_dof_run[world])
        while run < run_end:
            i_end = layout.dof_run_end[run]
            i = int(layout.dof_run[run] + lane())
            while i < i_end:
                c.f[i] = F(joint_f[i])
                i += wp.block_dim()
            run += 1
        if public_joint_force != 0:
            barrier()
            i_end = layout.world_turning[world + 1]
            i = int(layout.world_turning[world] + lane())
            while i < i_end:
                joint = layout.body_joint[layout.turning_body[i]]
                if is_floating(p.joint_type[joint]):
                    mark = mark | wp.where(convert_force(p, joint, c.q, body_q, c.f), FORCED, 0)
                i += wp.block_dim()
        b_end = layout.world_body[world + 1]
        b = int(layout.world_body[world] + lane())
        while b < b_end:
            body = layout.body_newton[b]
            wrench = body_f[body]
            size = float(0.0)
            for k in range(6):
                size += wp.abs(wrench[k])
            c.body_f[body] = wp.spatial_vectord()
            if size != float(0.0):
                c.body_f[body] = read_wrench(p, public_body_force, body, wrench, body_q)
                mark = mark | FORCED
            b += wp.block_dim()
        return mark

    @wp.func
    def read_loop(
        p: wp.ref[JointParameters],
        c: wp.ref[Coordinates],
        joint: int,
        public_velocity: int,
        public_joint_force: int,
        joint_q: wp.array(dtype=scalar),
        joint_qd: wp.array(dtype=scalar),
        joint_f: wp.array(dtype=wp.float32),
        body_q: wp.array(dtype=state.transform),
    ):
        """All of a joint that closes a loop."""
        i_end = p.joint_q_start[joint + 1]
        i = int(p.joint_q_start[joint])
        while i < i_end:
            c.q[i] = F(joint_q[i])
            i += 1
        i_end = p.joint_qd_start[joint + 1]
        i = int(p.joint_qd_start[joint])
        while i < i_end:
            c.v[i] = F(joint_qd[i])
            c.f[i] = F(joint_f[i])
            i += 1
        if is_floating(p.joint_type[joint]):
            if public_velocity != 0:
                convert_velocity(p, joint, c.q, c.v)
            if public_joint_force != 0:
                convert_force(p, joint, c.q, body_q, c.f)

    @wp.func
    def take_over(layout: wp.ref[Layout], n: wp.ref[Data], d: wp.ref[Data], world: int):
        """Copy the known kinematics of a world."""
        b_end = layout.world_body[world + 1]
        b = int(layout.world_body[world] + lane())
        while b < b_end:
            d.origin[b] = n.origin[b]
            d.p[b] = n.p[b]
            d.r[b] = n.r[b]
            d.Vw[b] = n.Vw[b]
            d.Vv[b] = n.Vv[b]
            d.aw[b] = n.aw[b]
            d.av[b] = n.av[b]
            b += wp.block_dim()
        e_end = layout.world_dof[world + 1]
        e = int(layout.world_dof[world] + lane())
        while e < e_end:
            d.Sw[e] = n.Sw[e]
            d.Sv[e] = n.Sv[e]
            e += wp.block_dim()
        e_end = layout.world_prescribed[world + 1]
        e = int(layout.world_prescribed[world] + lane())
        while e < e_end:
            d.Sw[e] = n.Sw[e]
            d.Sv[e] = n.Sv[e]
            e += wp.block_dim()

    @wp.func
    def rounded(x: F) -> scalar:
        """A position or part of a rotation as a state holds it.

        In fp32 multiples of 2^-40: what an exact zero has become by round-off in fp64, 1e-16 or so, makes denormal
        numbers of fp32 in collision detection, which take a hundred times longer than others.
        """
        if wp.static(state is FP32):
            return scalar((x + F(wp.static(GRID))) - F(wp.static(GRID)))
        return scalar(x)

    @wp.func
    def write_pose(
        layout: wp.ref[Layout],
        link: wp.ref[Link],
        d: wp.ref[Data],
        b: int,
        body_q: wp.array(dtype=state.transform),
    ):
        """Pose of one body."""
        o = d.origin[layout.body_root[b]]
        p = d.p[b]
        r = d.r[b]
        body_q[link.body] = state.transform(
            state.vec3(rounded(o[0] + F(p[0])), rounded(o[1] + F(p[1])), rounded(o[2] + F(p[2]))),
            state.quat(rounded(F(r[0])), rounded(F(r[1])), rounded(F(r[2])), rounded(F(r[3]))),
        )

    @wp.func
    def write_twist(link: wp.ref[Link], d: wp.ref[Data], b: int, body_qd: wp.array(dtype=wp.spatial_vectorf)):
        """Public twist of one body."""
        w = d.Vw[b]
        v_C = d.Vv[b] + wp.cross(w, to_motion(d.p[b] + rotate(d.r[b], link.com)))
        twist = wp.spatial_vectorf()
        for k in range(3):
            twist[k] = wp.float32(v_C[k])
            twist[k + 3] = wp.float32(w[k])
        body_qd[link.body] = twist

    @wp.func
    def pass_world(
        world: int,
        ends_in: wp.array(dtype=Ends),
        joints_in: wp.array(dtype=JointParameters),
        task: int,
        public_velocity: int,
        public_joint_force: int,
        public_body_force: int,
        mode: int,
        dt: F,
        status: wp.array(dtype=wp.int32),
        joint_f: wp.array(dtype=wp.float32),
        body_f: wp.array(dtype=wp.spatial_vectorf),
        v_new: wp.array(dtype=F),
        joint_q: wp.array(dtype=scalar),
        joint_qd: wp.array(dtype=scalar),
        body_q: wp.array(dtype=state.transform),
        body_qd: wp.array(dtype=wp.spatial_vectorf),
        time: wp.array(dtype=F),
        frame: wp.array(dtype=wp.int64),
    ):
        ends = ends_in[0]
        flat_ends(ends)
        layout = ends.layout[0]
        p = joints_in[0]
        c = ends.result[0]
        known = ends.known[0]
        d = ends.data[0]
        flat_layout(layout)
        flat_joints(p)
        flat_coordinates(c)
        flat_coordinates(known)
        flat_data(d)
        first = layout.world_body[world]
        b_end = layout.world_body[world + 1]
        if lane() == 0:
            mark = int(0)
            if task == PLACE and known.known[world] != KIND:
                mark = CHANGED
            if task == STAY:
                mark = d.mark[world] & FORCED
            d.mark[world] = mark
        mark = int(0)
        if task == LEAVE or task == STAY:
            before = ends.before[0]
            flat_coordinates(before)
            failed = status[world] >= FREE_MOTION_FAILED
            if task == LEAVE and (failed or layout.world_prescribed[world] < layout.world_prescribed[world + 1]):
                keep_positions(layout, before, c, world)
            if failed:
                e_end = layout.world_dof[world + 1]
                e = int(layout.world_dof[world] + lane())
                while e < e_end:
                    v_new[layout.dof_newton[e]] = before.v[layout.dof_newton[e]]
                    e += wp.block_dim()
            else:
                advance(layout, p, before, c, world, dt, mode, v_new)
            barrier()
            mark = round_coordinates(layout, p, c, world, public_velocity, v_new)
            if task == LEAVE:
                write_coordinates(layout, c, world, joint_q, joint_qd)
        else:
            mark = read_coordinates(layout, c, known, world, joint_q, joint_qd)
        barrier()
        mark = mark | order_velocities(layout, p, c, known, d, world, public_velocity)
        if mark != 0:
            wp.atomic_or(d.mark, world, mark)
        barrier()
        if task == PLACE and (d.mark[world] & CHANGED) == 0:
            n = ends.known_data[0]
            flat_data(n)
            take_over(layout, n, d, world)
        elif task != READ:
            place_world(layout, ends.links, ends.axis, d, world, c.q)
        if task == LEAVE or task == STAY:
            b = int(first + lane())
            while b < b_end:
                write_pose(layout, ends.links[b], d, b, body_q)
                if task == LEAVE:
                    write_twist(ends.links[b], d, b, body_qd)
                b += wp.block_dim()
            if lane() == 0:
                if task == LEAVE:
                    c.known[world] = KIND
                if world == 0:
                    time[0] = time[0] + dt
                    frame[0] = frame[0] + wp.int64(1)
            barrier()
        if task == READ or task == PLACE or (task == STAY and (d.mark[world] & FORCED) != 0):
            mark = read_forces(layout, p, c, world, public_joint_force, public_body_force, joint_f, body_f, body_q)
            if mark != 0:
                wp.atomic_or(d.mark, world, mark)
            i_end = layout.world_loop[world + 1]
            i = int(layout.world_loop[world] + lane())
            while i < i_end:
                joint = layout.loop_joint[i]
                read_loop(p, c, joint, public_velocity, public_joint_force, joint_q, joint_qd, joint_f, body_q)
                i += wp.block_dim()

    @solver_kernel
    def passage(
        first_world: int,
        ends: wp.array(dtype=Ends),
        p: wp.array(dtype=JointParameters),
        task: int,
        public_velocity: int,
        public_joint_force: int,
        public_body_force: int,
        mode: int,
        dt: F,
        status: wp.array(dtype=wp.int32),
        joint_f: wp.array(dtype=wp.float32),
        body_f: wp.array(dtype=wp.spatial_vectorf),
        v_new: wp.array(dtype=F),
        joint_q: wp.array(dtype=scalar),
        joint_qd: wp.array(dtype=scalar),
        body_q: wp.array(dtype=state.transform),
        body_qd: wp.array(dtype=wp.spatial_vectorf),
        time: wp.array(dtype=F),
        frame: wp.array(dtype=wp.int64),
    ):
        pass_world(
            first_world + wp.tid() // wp.block_dim(),
            ends,
            p,
            task,
            public_velocity,
            public_joint_force,
            public_body_force,
            mode,
            dt,
            status,
            joint_f,
            body_f,
            v_new,
            joint_q,
            joint_qd,
            body_q,
            body_qd,
            time,
            frame,
        )

    return passage


class _Known:
    """Kinematics of the state that the last step left, and the coordinates they belong to."""

    def __init__(self, model: Any, sizes: LayoutSizes, pose: Types, types: Types):
        self.pose, self.types = pose, types
        data: Any = make_free_motion_data(pose, types)()
        counts = dict.fromkeys(("origin", "p", "r", "Vw", "Vv", "aw", "av"), sizes.body_count)
        counts |= dict.fromkeys(("Sw", "Sv", "turn", "v0"), sizes.dof_count)
        counts["mark"] = sizes.world_count
        for name, count in counts.items():
            setattr(data, name, padded_zeros(count, data._cls.vars[name].type.dtype, model.device))
        self.data = StructArgument(data, model.device)
        self.coordinates = make_coordinates(model, sizes.world_count, forces=False)
        self.ends: Any = None

    def make_ends(self, layout: StructArgument, links: Links, before: wp.array, result: Any, data: Any) -> Any:
        """Arguments of a launch that reads to ``result`` and places in ``data``; None stands for its own."""
        ends: Any = make_ends(self.pose, self.types)()
        ends.layout, ends.before = layout.array, before
        ends.links, ends.axis = links.get(self.pose)
        ends.known, ends.known_data = self.coordinates.array, self.data.array
        ends.result = self.coordinates.array if result is None else result
        ends.data = self.data.array if data is None else data
        return StructArgument(ends, layout.array.device)


class Passage:
    """Launches the kernel; owns what the boundary has read and what is known of the state that goes out."""

    def __init__(
        self,
        model: Any,
        layout: StructArgument,
        sizes: LayoutSizes,
        parameters: StructArgument,
        links: Links,
        free_motion: Any,
        all_worlds: Part,
    ):
        """Allocate everything that is needed for states of the free motion's precision."""
        self.parameters = parameters
        self.coordinates = make_coordinates(model, sizes.world_count, forces=True)
        self._model, self._layout, self._sizes, self._links = model, layout, sizes, links
        self.all_worlds = all_worlds
        self._free_motion = free_motion  # whose data the kernel writes to, so it must live as long
        self._known = known = self._make_known(free_motion.pose_types, free_motion.types)
        here = self.coordinates.array
        # place and stay: what is read, or advanced, is placed where the free motion reads it
        self._place_ends = known.make_ends(layout, links, here, here, free_motion.argument)
        self._read_ends = known.make_ends(layout, links, here, here, None)
        self._fine: _Known | None = None
        dtypes = (wp.int32, wp.int64, wp.float32, wp.float64, wp.spatial_vectorf)
        self._none = {dtype: wp.empty(0, dtype=dtype, device=model.device) for dtype in dtypes}

    def forget(self) -> None:
        """Take over nothing from before: the model has changed."""
        self._known.coordinates.struct.known.zero_()

    def enter(self, state: SapState, control: SapControl, part: Part, place: bool) -> None:
        """Read ``state`` and ``control``, and ``place`` the bodies in the free motion's data."""
        known = self._known
        none = self._none
        wp.launch(
            make_passage_kernel(TYPES[state.precision], known.pose, known.types),
            dim=part.threads,
            inputs=[
                part.first,
                self._place_ends.array if place else self._read_ends.array,
                self.parameters.array,
                PLACE if place else READ,
                int(state.joint_qd_order == "public"),
                int(control.joint_f_order == "public"),
                int(state.body_f_order == "public"),
                0,
                0.0,
                none[wp.int32],
                control.joint_f,
                state.body_f,
                none[wp.float64],
            ],
            outputs=[
                state.joint_q,
                state.joint_qd,
                state.body_q,
                state.body_qd,
                none[wp.float64],
                none[wp.int64],
            ],
            block_dim=part.lanes,
            device=self._model.device,
        )

    def leave(
        self,
        velocity: wp.array,
        status: wp.array,
        state: SapState,
        dt: float,
        mode: int,
        time: wp.array,
        frame: wp.array,
        part: Part,
    ) -> None:
        """Advance what was read with ``velocity``, write it to ``state`` and place the bodies there."""
        precision = TYPES[state.precision]
        known = self._known_of(precision)
        none = self._none
        wp.launch(
            make_passage_kernel(precision, known.pose, known.types),
            dim=part.threads,
            inputs=[
                part.first,
                known.ends.array,
                self.parameters.array,
                LEAVE,
                int(state.joint_qd_order == "public"),
                0,
                0,
                mode,
                dt,
                status,
                none[wp.float32],
                none[wp.spatial_vectorf],
                velocity,
            ],
            outputs=[
                state.joint_q,
                state.joint_qd,
                state.body_q,
                state.body_qd,
                time,
                frame,
            ],
            block_dim=part.lanes,
            device=self._model.device,
        )

    def can_stay(self, state: SapState) -> bool:
        """Whether `stay` gives what `leave` and `enter` give together: not if a state is finer than the poses."""
        return self._known_of(TYPES[state.precision]) is self._known

    def stay(
        self,
        velocity: wp.array,
        status: wp.array,
        state: SapState,
        control: SapControl,
        dt: float,
        mode: int,
        time: wp.array,
        frame: wp.array,
        part: Part,
    ) -> None:
        """Advance what was read with ``velocity`` as if it went to ``state`` and were read again.

        Of ``state`` only the poses are written, and the external forces read. Needs an `enter` of ``part`` with the
        same forces before.
        """
        known = self._known
        wp.launch(
            make_passage_kernel(TYPES[state.precision], known.pose, known.types),
            dim=part.threads,
            inputs=[
                part.first,
                self._place_ends.array,
                self.parameters.array,
                STAY,
                int(state.joint_qd_order == "public"),
                int(control.joint_f_order == "public"),
                int(state.body_f_order == "public"),
                mode,
                dt,
                status,
                control.joint_f,
                state.body_f,
                velocity,
            ],
            outputs=[
                state.joint_q,
                state.joint_qd,
                state.body_q,
                state.body_qd,
                time,
                frame,
            ],
            block_dim=part.lanes,
            device=self._model.device,
        )

    def _known_of(self, state: Types) -> _Known:
        """What the kinematics of a state that goes out are written to: poses must not be coarser than the state."""
        known = self._known
        if state is FP32 or (known.pose is FP64 and known.types is FP64):
            return known
        if self._fine is None:
            self._fine = self._make_known(FP64, FP64)
        return self._fine

    def _make_known(self, pose: Types, types: Types) -> _Known:
        known = _Known(self._model, self._sizes, pose, types)
        known.ends = known.make_ends(self._layout, self._links, self.coordinates.array, None, None)
        return known
