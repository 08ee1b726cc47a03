"""Stages 1 and 5: a state comes in, a state goes out, and between two steps it can stay.

begin      read joint_q, joint_qd and forces of a state in sap order, and place its bodies for the step
continue   advance with the velocity that the solve found, and place the bodies for the next step: of the state only
           the poses are written, for collision detection
end        advance likewise, and write all of the state
place      no step: let the bodies of a state follow its joints

The solver works on fp64 copies of the coordinates. Continuing rounds them as the state would hold them, so many steps
give the same bits whether or not the state was written in between.
"""

import functools
from typing import Any

import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.launch import WorldRange, solver_kernel
from ..kernels.spatial import make_spatial
from ..kernels.structs import (
    Scratch,
    Slot,
    StructArgument,
    StructCache,
    allocate_arrays,
    make_flat,
    make_window,
    world_starts,
)
from ..kernels.types import FP32, FP64, TYPES, Types
from ..model import SapControl, SapState
from .boundary import Coordinates, make_orders, make_state_arrays
from .carried import CarriedMotion, make_carried
from .integrate import CENTERED, make_advance_world
from .kinematics import is_floating, make_place_world
from .layout import Layout, LayoutSizes
from .links import JointParameters, Links, make_link
from .motion_data import FORCED, KINEMATICS, NOT_FINITE, entry_counts, make_motion_data
from .status import FREE_MOTION_FAILED

GRID = 1.5 * 2.0**12
"""Added to an fp64 number and taken away again, this leaves a multiple of 2^-40."""

BEGIN = wp.constant(0)
CONTINUE = wp.constant(1)
END = wp.constant(2)
PLACE = wp.constant(3)
"""What the kernel does."""


@functools.cache
def make_boundary_data(pose: Types, types: Types):
    """Struct of the solver's side: where a state is read to, and where its bodies are placed."""
    Data, Link = make_motion_data(pose, types), make_link(pose)

    @wp.struct
    class BoundaryData:
        layout: Layout
        joints: JointParameters
        links: wp.array(dtype=Link)
        axis: wp.array(dtype=pose.vec3)
        c: Coordinates
        d: Data
        carried: wp.array(dtype=CarriedMotion)  # by carried body
        slot: Slot  # of the kinematics of d, if worlds share them
        integration: int
        status: wp.array(dtype=wp.int32)  # outcome of the solve, by world
        v_new: wp.array(dtype=wp.float64)  # what it found, Newton's dofs, sap order
        watched: wp.array(dtype=wp.int32)  # to be 0 for a world whose state is not the one that the last step left
        time: wp.array(dtype=wp.float64)
        frame: wp.array(dtype=wp.int64)

    return BoundaryData


@functools.cache
def make_boundary_kernel(state: Types, pose: Types, types: Types, carries: bool = False):
    """The kernel for states of one precision, poses and motions of others: one block per world.

    ``carries`` says whether floating bodies below others are to move in the world (`carried`).

    Functions are called by all lanes of a block, unless they are about one body.
    """
    Boundary, StateArrays, Link = make_boundary_data(pose, types), make_state_arrays(state), make_link(pose)
    orders = make_orders(state)
    convert_velocity, convert_force = orders.convert_velocity, orders.convert_force
    read_wrench, write_velocity = orders.read_wrench, orders.write_velocity
    advance_world, place_world = make_advance_world(), make_place_world(pose, types)
    remember_carried, release_carried = make_carried(pose, types)
    to_motion, rotate = make_spatial(types).to_vec3, make_spatial(pose).rotate
    to_unit_quat = make_spatial(FP64).to_unit_quat
    flat_io, flat_state = make_flat(Boundary), make_flat(StateArrays)
    window = make_window(Boundary, tuple((f"d.{name}", at) for name, at in KINEMATICS))
    scalar = state.scalar
    F = wp.float64

    @wp.func
    def read_coordinates(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
        """Positions and velocities of a world; NOT_FINITE if a position is not."""
        mark = int(0)
        moved = bool(False)
        run_end = io.layout.world_coord_run[world + 1]
        run = int(io.layout.world_coord_run[world])
        while run < run_end:
            i_end = io.layout.coord_run_end[run]
            i = int(io.layout.coord_run[run] + lane())
            while i < i_end:
                x = F(s.joint_q[i])
                mark = mark | wp.where(x - x == F(0.0), 0, NOT_FINITE)
                moved = moved or x != io.c.q[i]
                io.c.q[i] = x
                i += wp.block_dim()
            run += 1
        run_end = io.layout.world_dof_run[world + 1]
        run = int(io.layout.world_dof_run[world])
        while run < run_end:
            i_end = io.layout.dof_run_end[run]
            i = int(io.layout.dof_run[run] + lane())
            while i < i_end:
                io.c.v[i] = F(s.joint_qd[i])
                i += wp.block_dim()
            run += 1
        if moved:
            wp.atomic_min(io.watched, world, 0)  # lanes may do so at once
        return mark

    @wp.func
    def order_velocities(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
        """Velocities of a world to sap order, and to solver order in d.v0."""
        if s.public_velocity != 0:
            i_end = io.layout.world_turning[world + 1]
            i = int(io.layout.world_turning[world] + lane())
            while i < i_end:
                joint = io.layout.body_joint[io.layout.turning_body[i]]
                if is_floating(io.joints.joint_type[joint]):
                    convert_velocity(io.joints, joint, io.c)
                i += wp.block_dim()
            barrier()
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            io.d.v0[e] = io.c.v[io.layout.dof_newton[e]]
            e += wp.block_dim()
        e_end = io.layout.world_prescribed[world + 1]
        e = int(io.layout.world_prescribed[world] + lane())
        while e < e_end:
            io.d.v0[e] = io.c.v[io.layout.dof_newton[e]]
            e += wp.block_dim()

    @wp.func
    def notice_kick(io: wp.ref[Boundary], world: int):
        """Velocities that differ by more than round-off from those of the last step were set."""
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            v = io.d.v0[e]
            if wp.abs(v - io.v_new[io.layout.dof_newton[e]]) > F(1e-4) + F(1e-3) * wp.abs(v):
                wp.atomic_min(io.watched, world, 0)  # lanes may do so at once
            e += wp.block_dim()

    @wp.func
    def read_forces(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
        """Forces on the joints and bodies of a world; FORCED if there are any that depend on its pose."""
        mark = int(0)
        run_end = io.layout.world_dof_run[world + 1]
        run = int(io.layout.world_dof_run[world])
        while run < run_end:
            i_end = io.layout.dof_run_end[run]
            i = int(io.layout.dof_run[run] + lane())
            while i < i_end:
                io.c.f[i] = F(s.joint_f[i])
                i += wp.block_dim()
            run += 1
        if s.public_joint_force != 0:
            barrier()
            i_end = io.layout.world_turning[world + 1]
            i = int(io.layout.world_turning[world] + lane())
            while i < i_end:
                b = io.layout.turning_body[i]
                joint = io.layout.body_joint[b]
                if is_floating(io.joints.joint_type[joint]):
                    r_WP = wp.quat_identity(F)
                    if io.layout.body_parent[b] >= 0:
                        r_WP = to_unit_quat(io.d.r[io.layout.body_parent[b]])
                    mark = mark | convert_force(io.joints, joint, io.c, r_WP)
                i += wp.block_dim()
        b_end = io.layout.world_body[world + 1]
        b = int(io.layout.world_body[world] + lane())
        while b < b_end:
            body = io.layout.body_newton[b]
            wrench = s.body_f[body]
            size = float(0.0)
            for k in range(6):
                size += wp.abs(wrench[k])
            io.c.body_f[body] = wp.spatial_vectord()
            if size != float(0.0):
                io.c.body_f[body] = read_wrench(io.joints, s, body, wrench)
                mark = mark | FORCED
            b += wp.block_dim()
        return mark

    @wp.func
    def read_loops(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
        """All of the joints of a world that close loops."""
        k_end = io.layout.world_loop[world + 1]
        k = int(io.layout.world_loop[world] + lane())
        while k < k_end:
            joint = io.layout.loop_joint[k]
            i_end = io.joints.joint_q_start[joint + 1]
            i = int(io.joints.joint_q_start[joint])
            while i < i_end:
                io.c.q[i] = F(s.joint_q[i])
                i += 1
            i_end = io.joints.joint_qd_start[joint + 1]
            i = int(io.joints.joint_qd_start[joint])
            while i < i_end:
                io.c.v[i] = F(s.joint_qd[i])
                io.c.f[i] = F(s.joint_f[i])
                i += 1
            if is_floating(io.joints.joint_type[joint]):
                if s.public_velocity != 0:
                    convert_velocity(io.joints, joint, io.c)
                if s.public_joint_force != 0:
                    r_WP = wp.quat_identity(F)
                    if io.joints.joint_parent[joint] >= 0:
                        r_WP = to_unit_quat(wp.transform_get_rotation(s.body_q[io.joints.joint_parent[joint]]))
                    convert_force(io.joints, joint, io.c, r_WP)
            k += wp.block_dim()

    @wp.func
    def round_coordinates(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
        """Positions and new velocities of a world as a state holds them; NOT_FINITE if a position is not."""
        mark = int(0)
        run_end = io.layout.world_dof_run[world + 1]
        run = int(io.layout.world_dof_run[world])
        while run < run_end:
            i_end = io.layout.dof_run_end[run]
            i = int(io.layout.dof_run[run] + lane())
            while i < i_end:
                io.c.v[i] = F(scalar(io.v_new[i]))
                i += wp.block_dim()
            run += 1
        if s.public_velocity != 0:
            barrier()
            i_end = io.layout.world_turning[world + 1]
            i = int(io.layout.world_turning[world] + lane())
            while i < i_end:
                joint = io.layout.body_joint[io.layout.turning_body[i]]
                if is_floating(io.joints.joint_type[joint]):
                    write_velocity(io.joints, joint, io.c.q, io.v_new, io.c.v)
                i += wp.block_dim()
            barrier()
        run_end = io.layout.world_coord_run[world + 1]
        run = int(io.layout.world_coord_run[world])
        while run < run_end:
            i_end = io.layout.coord_run_end[run]
            i = int(io.layout.coord_run[run] + lane())
            while i < i_end:
                x = F(scalar(io.c.q[i]))
                mark = mark | wp.where(x - x == F(0.0), 0, NOT_FINITE)
                io.c.q[i] = x
                i += wp.block_dim()
            run += 1
        return mark

    @wp.func
    def write_coordinates(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
        """Rounded positions and velocities of a world into a state."""
        run_end = io.layout.world_dof_run[world + 1]
        run = int(io.layout.world_dof_run[world])
        while run < run_end:
            i_end = io.layout.dof_run_end[run]
            i = int(io.layout.dof_run[run] + lane())
            while i < i_end:
                s.joint_qd[i] = scalar(io.c.v[i])
                i += wp.block_dim()
            run += 1
        run_end = io.layout.world_coord_run[world + 1]
        run = int(io.layout.world_coord_run[world])
        while run < run_end:
            i_end = io.layout.coord_run_end[run]
            i = int(io.layout.coord_run[run] + lane())
            while i < i_end:
                s.joint_q[i] = scalar(io.c.q[i])
                i += wp.block_dim()
            run += 1

    @wp.func
    def write_loops(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
        """Joints that close loops keep what the state said: the bodies decide where they are, see `newton.eval_ik`."""
        k_end = io.layout.world_loop[world + 1]
        k = int(io.layout.world_loop[world] + lane())
        while k < k_end:
            joint = io.layout.loop_joint[k]
            i_end = io.joints.joint_q_start[joint + 1]
            i = int(io.joints.joint_q_start[joint])
            while i < i_end:
                s.joint_q[i] = scalar(io.c.q[i])
                i += 1
            if s.public_velocity != 0 and is_floating(io.joints.joint_type[joint]):
                write_velocity(io.joints, joint, io.c.q, io.c.v, io.c.v)
            i_end = io.joints.joint_qd_start[joint + 1]
            i = int(io.joints.joint_qd_start[joint])
            while i < i_end:
                s.joint_qd[i] = scalar(io.c.v[i])
                i += 1
            k += wp.block_dim()

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
    def write_pose(io: wp.ref[Boundary], s: wp.ref[StateArrays], body: int, b: int):
        """Pose of one body."""
        o = io.d.origin[io.layout.body_root[b]]
        p = io.d.p[b]
        r = io.d.r[b]
        s.body_q[body] = state.transform(
            state.vec3(rounded(o[0] + F(p[0])), rounded(o[1] + F(p[1])), rounded(o[2] + F(p[2]))),
            state.quat(rounded(F(r[0])), rounded(F(r[1])), rounded(F(r[2])), rounded(F(r[3]))),
        )

    @wp.func
    def write_twist(io: wp.ref[Boundary], s: wp.ref[StateArrays], link: wp.ref[Link], b: int):
        """Public twist of one body."""
        w = io.d.Vw[b]
        v_C = io.d.Vv[b] + wp.cross(w, to_motion(io.d.p[b] + rotate(io.d.r[b], link.com)))
        twist = wp.spatial_vectorf()
        for k in range(3):
            twist[k] = wp.float32(v_C[k])
            twist[k + 3] = wp.float32(w[k])
        s.body_qd[link.body] = twist

    @wp.func
    def write_bodies(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int, twists: bool):
        """Poses of the bodies of a world, and on request their twists."""
        b_end = io.layout.world_body[world + 1]
        b = int(io.layout.world_body[world] + lane())
        while b < b_end:
            write_pose(io, s, io.links[b].body, b)
            if twists:
                write_twist(io, s, io.links[b], b)
            b += wp.block_dim()

    @wp.func
    def place_moving(io: wp.ref[Boundary], world: int, after: int):
        """Place the bodies of a world, with the velocities before the step or those after it."""
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            dof = io.layout.dof_newton[e]
            io.d.v0[e] = wp.where(after != 0, io.v_new[dof], io.c.v[dof])
            e += wp.block_dim()
        barrier()
        place_world(io.layout, io.links, io.axis, io.d, world, io.c.q)
        barrier()

    @wp.func
    def release_all(io: wp.ref[Boundary], world: int, dt: wp.float64):
        """Joint coordinates of carried bodies, one depth after the other: a carried body may carry another one."""
        i_end = io.layout.world_carried[world + 1]
        i = int(io.layout.world_carried[world])
        while i < i_end:
            depth = io.layout.carried_depth[i]
            place_moving(io, world, 1)
            last = int(i)
            while last < i_end and io.layout.carried_depth[last] == depth:
                last += 1
            k = i + lane()
            while k < last:
                b = io.layout.carried_body[k]
                release_carried(io.layout, io.links[b], io.d, b, io.carried[k], dt, io.integration, io.c.q, io.v_new)
                k += wp.block_dim()
            barrier()
            i = last

    @wp.func
    def advance(io: wp.ref[Boundary], world: int, dt: wp.float64):
        """New positions; a world that failed keeps its own, and its velocities."""
        if io.status[world] < FREE_MOTION_FAILED:
            if wp.static(carries):
                for after in range(2):
                    place_moving(io, world, after)
                    remember_carried(io.layout, io.d, world, after, io.integration, io.carried)
            advance_world(io.layout, io.joints, world, dt, io.integration, io.c.q, io.c.v, io.v_new)
            if wp.static(carries):
                release_all(io, world, dt)
        else:
            e_end = io.layout.world_dof[world + 1]
            e = int(io.layout.world_dof[world] + lane())
            while e < e_end:
                io.v_new[io.layout.dof_newton[e]] = io.c.v[io.layout.dof_newton[e]]
                e += wp.block_dim()
            barrier()

    @wp.func
    def pass_boundary(
        world: int, task: int, io_in: wp.array(dtype=Boundary), state_in: wp.array(dtype=StateArrays), dt: wp.float64
    ):
        io = io_in[0]
        s = state_in[0]
        starts = world_starts(io.slot, io.layout.world_body[world], io.layout.world_dof[world], 0, 0)
        window(io, starts)
        flat_io(io)
        flat_state(s)
        forced = task == BEGIN
        if task == CONTINUE:
            forced = (io.d.mark[world] & FORCED) != 0
        mark = int(0)
        if task == BEGIN or task == PLACE:
            mark = read_coordinates(io, s, world)
            if task == PLACE:
                wp.atomic_min(io.watched, world, 0)  # lanes may do so at once
        else:
            advance(io, world, dt)
            mark = round_coordinates(io, s, world)
            if task == END:
                write_coordinates(io, s, world)
                write_loops(io, s, world)
        barrier()
        order_velocities(io, s, world)
        barrier()
        place_world(io.layout, io.links, io.axis, io.d, world, io.c.q)
        if task != BEGIN:
            write_bodies(io, s, world, task != CONTINUE)
            if world == 0 and lane() == 0 and task != PLACE:
                io.time[0] = io.time[0] + dt
                io.frame[0] = io.frame[0] + wp.int64(1)
        if task == BEGIN:
            notice_kick(io, world)
        if task == BEGIN or task == CONTINUE:
            if lane() == 0:
                io.d.mark[world] = 0
            barrier()
            if forced:
                mark = mark | read_forces(io, s, world)
                read_loops(io, s, world)
            if mark != 0:
                wp.atomic_or(io.d.mark, world, mark)

    @solver_kernel
    def boundary(
        first_world: int,
        task: int,
        io: wp.array(dtype=Boundary),
        state: wp.array(dtype=StateArrays),
        mask: wp.array(dtype=wp.bool),
        dt: wp.float64,
    ):
        world = first_world + wp.tid() // wp.block_dim()
        if mask.shape[0] > 0:
            if not mask[world]:
                return
        pass_boundary(world, task, io, state, dt)

    return boundary


class SapBoundary:
    """Both ends of a step: the solver's own copy of a state and a control, and the clock."""

    def __init__(
        self, model: Any, layout: Any, sizes: LayoutSizes, parameters: Any, links: Links, free_motion: Any, outcome: Any
    ):
        """Allocate the copies. ``outcome`` is the solve, whose velocity and status end a step."""
        self.model, self._layout, self._sizes, self._links = model, layout, sizes, links
        self._motion, self._outcome = free_motion, outcome
        counts = {"q": model.joint_coord_count, "body_f": model.body_count}
        coordinates: Any = Coordinates()
        allocate_arrays(coordinates, counts, model.joint_dof_count, model.device)
        coordinates.f = free_motion.data.applied
        self.joint_q, self.joint_qd = coordinates.q, coordinates.v
        self.joint_f, self.body_f = coordinates.f, coordinates.body_f
        self.coordinates = coordinates
        self.time = wp.zeros(1, dtype=wp.float64, device=model.device)
        self.frame = wp.zeros(1, dtype=wp.int64, device=model.device)
        self._carried = wp.zeros(sizes.carried_count, dtype=CarriedMotion, device=model.device)
        self._carries = sizes.carried_count > 0 and outcome.integration >= int(CENTERED)
        self._states = StructCache(model.device)
        self._no_mask = wp.empty(0, dtype=wp.bool, device=model.device)
        self._after: dict[str, Any] = {}
        self._scratch = Scratch(self._layout, self._sizes, model.device)
        self.refresh(parameters)

    def refresh(self, parameters: Any) -> None:
        """Take Newton's joint and body arrays, which may have been replaced."""
        self.parameters = parameters
        self._here = self._argument(self._motion.pose_types, self._motion.types, self._motion.data, Slot())
        self._ends: dict[str, tuple[Types, Types, StructArgument]] = {}

    def begin(self, state: SapState, control: SapControl, worlds: WorldRange) -> None:
        """Read ``state`` and ``control``, and place the bodies for the free motion."""
        self._launch(BEGIN, state, control, 0.0, worlds)

    def continues(self, state: SapState) -> bool:
        """Whether joint coordinates of ``state`` stay as they are until `end`."""
        return self._end_types(state) == (self._motion.pose_types, self._motion.types)

    def proceed(self, state: SapState, control: SapControl, dt: float, worlds: WorldRange) -> None:
        """Finish a step and begin the next one with the same forces: the same bits as `end` and `begin`.

        Of ``state`` only the poses are written.
        """
        if self.continues(state):
            self._launch(CONTINUE, state, control, dt, worlds)
        else:
            self.end(state, control, dt, worlds)
            self.begin(state, control, worlds)

    def end(self, state: SapState, control: SapControl, dt: float, worlds: WorldRange) -> None:
        """Finish a step: advance what was read with the velocity of the solve and fill ``state``."""
        self._launch(END, state, control, dt, worlds)

    def place(self, state: SapState, control: SapControl, worlds: WorldRange, mask: wp.array | None = None) -> None:
        """Let poses and twists of the bodies of ``state`` follow its joints, where ``mask`` by world allows it."""
        self._launch(PLACE, state, control, 0.0, worlds, mask)

    def _launch(
        self,
        task: Any,
        state: SapState,
        control: SapControl,
        dt: float,
        worlds: WorldRange,
        mask: wp.array | None = None,
    ) -> None:
        pose, types, io = self._motion.pose_types, self._motion.types, self._here
        if task in (END, PLACE):
            pose, types, io = self._end(state)
        kernel = make_boundary_kernel(TYPES[state.precision], pose, types, self._carries)
        arrays, chosen = self._state(state, control), self._no_mask if mask is None else mask
        blocks = self._scratch.max_blocks if io.struct.slot.shared else 0
        worlds.launch(kernel, int(task), io.array, arrays, chosen, dt, device=self.model.device, max_blocks=blocks)

    def kernels(self, state: SapState) -> list[Any]:
        """What these launch for a state like ``state``."""
        types = {(self._motion.pose_types, self._motion.types), self._end_types(state)}
        return [make_boundary_kernel(TYPES[state.precision], *each, self._carries) for each in types]

    def _state(self, state: SapState, control: SapControl) -> wp.array:
        names = ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")
        arrays = {name: getattr(state, name) for name in names} | {"joint_f": control.joint_f}
        orders = (state.joint_qd_order, control.joint_f_order, state.body_f_order)

        def make() -> Any:
            struct: Any = make_state_arrays(TYPES[state.precision])()
            public = [int(order == "public") for order in orders]
            struct.public_velocity, struct.public_joint_force, struct.public_body_force = public
            return struct

        return self._states.get(arrays, make, orders)

    def _end_types(self, state: SapState) -> tuple[Types, Types]:
        """Precision of the poses and motions that a state gets: not coarser than the state itself."""
        if state.precision == "fp64":
            return FP64, FP64
        return self._motion.pose_types, self._motion.types

    def _end(self, state: SapState) -> tuple[Types, Types, StructArgument]:
        """Where the bodies of a finished state are placed: apart from those of its start, which can still be read."""
        pose, types = self._end_types(state)
        key = f"{pose.name} {types.name}"
        if key not in self._ends:
            device, sizes = self.model.device, self._sizes
            shared = sizes.dof_count == sizes.free_dof_count  # others belong to no world
            scratch = self._scratch
            if key not in self._after:
                bodies, dofs = (
                    (scratch.body_count, scratch.dof_count) if shared else (sizes.body_count, sizes.dof_count)
                )
                counts = dict.fromkeys(entry_counts(sizes), 0) | dict.fromkeys(("composite", "diagonal"), 0)
                counts |= {"column_force": 0, "applied": 0} | {name: dofs for name, at in KINEMATICS if at == "dof"}
                self._after[key] = make_motion_data(pose, types)()
                allocate_arrays(self._after[key], counts, bodies, device)
            self._ends[key] = (
                pose,
                types,
                self._argument(pose, types, self._after[key], scratch.slot if shared else Slot()),
            )
        return self._ends[key]

    def _argument(self, pose: Types, types: Types, data: Any, slot: Any) -> StructArgument:
        io: Any = make_boundary_data(pose, types)()
        io.layout, io.joints, io.c, io.d = self._layout, self.parameters, self.coordinates, data
        io.links, io.axis = self._links.get(pose)
        io.carried = self._carried
        io.slot, io.integration = slot, self._outcome.integration
        io.status, io.v_new = self._outcome.status, self._outcome.velocity
        io.watched = self._motion.data.watched
        io.time, io.frame = self.time, self.frame
        return StructArgument(io, self.model.device)
