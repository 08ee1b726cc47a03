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

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.launch import WorldRange, solver_kernel
from ...core.kernels.scratch import Scratch, Slot, make_window, world_starts
from ...core.kernels.structs import StructArgument, StructCache, allocate_arrays, make_flat, struct_parameter
from ...core.kernels.types import FP64, TYPES, Bools, Types
from ...model.model import SapControl, SapState
from ..model.layout import LayoutSizes
from ..model.links import Links
from ..model.motion_data import FORCED, KINEMATICS, entry_counts, make_motion_data
from ..settings.status import FREE_MOTION_FAILED
from .boundary_data import CarriedMotion, Coordinates, make_boundary_data, make_state_arrays
from .floating_children import make_carried
from .integrate import CENTERED, make_advance_world
from .kinematics import make_place_world
from .reading import make_force_reading, make_reading
from .writing import make_write_bodies, make_writing

BEGIN = wp.constant(0)
CONTINUE = wp.constant(1)
END = wp.constant(2)
PLACE = wp.constant(3)
"""What the kernel does."""


@functools.cache
def make_advance(pose: Types, types: Types, carries: bool) -> Any:
    """``advance(io, world, dt)``: new positions from the velocity of the solve, by all lanes of a block.

    ``carries`` says whether floating bodies below others are to move in the world (`floating_children`).
    """
    Boundary = make_boundary_data(pose, types)
    advance_world, place_world = make_advance_world(pose, types), make_place_world(pose, types)
    remember_carried, release_carried = make_carried(pose, types)

    @wp.func
    def place_moving(io: wp.ref[Boundary], world: int, after: int):
        """Place the bodies of a world, with the velocities before the step or those after it."""
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            dof = io.layout.dof_newton[e]
            io.d.v0[e] = wp.where(after != 0, io.v_new[dof], io.c.v[dof])
            e += lane_count()
        barrier()
        place_world(io, world)
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
                release_carried(io, k, dt)
                k += lane_count()
            barrier()
            i = last

    @wp.func
    def advance(io: wp.ref[Boundary], world: int, dt: wp.float64):
        """New positions; a world that failed keeps its own, and its velocities."""
        if io.status[world] < FREE_MOTION_FAILED:
            if wp.static(carries):
                for after in range(2):
                    place_moving(io, world, after)
                    remember_carried(io, world, after)
            advance_world(io, world, dt)
            if wp.static(carries):
                release_all(io, world, dt)
        else:
            e_end = io.layout.world_dof[world + 1]
            e = int(io.layout.world_dof[world] + lane())
            while e < e_end:
                io.v_new[io.layout.dof_newton[e]] = io.c.v[io.layout.dof_newton[e]]
                e += lane_count()
            barrier()

    return advance


@functools.cache
def make_boundary_kernel(state: Types, pose: Types, types: Types, carries: bool, by_value: bool):
    """The kernel for states of one precision, poses and motions of others: one block per world.

    ``by_value`` is that of `struct_parameter`.
    """
    Boundary, StateArrays = make_boundary_data(pose, types), make_state_arrays(state)
    advance, place_world = make_advance(pose, types, carries), make_place_world(pose, types)
    reading, forces = make_reading(state, pose, types), make_force_reading(state, pose, types)
    read_coordinates, order_velocities = reading.read_coordinates, reading.order_velocities
    notice_kick, read_forces, read_loops = reading.notice_kick, forces.read_forces, forces.read_loops
    writing, write_bodies = make_writing(state, pose, types), make_write_bodies(state, pose, types)
    round_coordinates, write_coordinates = writing.round_coordinates, writing.write_coordinates
    flat_io, flat_state = make_flat(Boundary), make_flat(StateArrays)
    window = make_window(Boundary, tuple((f"d.{name}", at) for name, at in KINEMATICS))
    io_type, read_io = struct_parameter(Boundary, by_value)

    @wp.func
    def pass_boundary(world: int, task: int, io_in: io_type, state_in: wp.array[StateArrays], dt: wp.float64):
        io = read_io(io_in)
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
        barrier()
        order_velocities(io, s, world)
        barrier()
        place_world(io, world)
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
    def boundary(first_world: int, task: int, io: io_type, state: wp.array[StateArrays], mask: Bools, dt: wp.float64):
        world = first_world + wp.tid() // lane_count()
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
        kernel = self._kernel(state, pose, types)
        arrays, chosen = self._state(state, control), self._no_mask if mask is None else mask
        blocks = self._scratch.max_blocks if io.struct.slot.shared else 0
        worlds.launch(kernel, int(task), io.best, arrays, chosen, dt, device=self.model.device, max_blocks=blocks)

    def kernels(self, state: SapState) -> list[Any]:
        """What these launch for a state like ``state``."""
        types = {(self._motion.pose_types, self._motion.types), self._end_types(state)}
        return [self._kernel(state, *each) for each in types]

    def _kernel(self, state: SapState, pose: Types, types: Types) -> Any:
        on_cuda = not self.model.device.is_cpu
        return make_boundary_kernel(TYPES[state.precision], pose, types, self._carries, on_cuda)

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
        io.watched = self._motion.data.energy_watch
        io.time, io.frame = self.time, self.frame
        return StructArgument(io, self.model.device)
