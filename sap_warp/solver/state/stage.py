"""`SapBoundary`: both ends of a step, where a state comes in and where one goes out; between steps it can stay.

begin      read joint_q, joint_qd and forces of a state in sap order, and place its bodies for the step
continue   advance with the velocity that the solve found, and place the bodies for the next step: of the state only
           the poses are written, for collision detection
end        advance with that velocity, and write all of the state
place      no step: let the bodies of a state follow its joints

The solver works on fp64 copies of the coordinates. Continuing rounds them as the state would hold them, so many steps
give the same bits whether or not the state was written in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.scratch import Scratch, ScratchShare, rebase_scratch_of, world_starts
from ...core.kernels.structs import StructArgument, StructCache, allocate_arrays, argument, assume_contiguous
from ...core.kernels.template import Parameter, Variant, device
from ...core.kernels.types import FP64, TYPES, Bools
from ...model.model import SapControl, SapModel, SapState
from ..model.layout import Layout, LayoutSizes
from ..model.links import Links
from ..model.motion_data import FORCED, KINEMATICS, MotionData, entry_counts
from ..settings.status import FREE_MOTION_FAILED
from .boundary_data import BoundaryData, Coordinates, FloatingChildMotion, StateArrays
from .floating_children import release_floating_children, remember_floating_children
from .integrate import CENTERED, advance_world
from .kinematics import place_world
from .reading import order_velocities, read_coordinates, read_forces, read_loops, watch_anew_if_set
from .writing import round_coordinates, write_bodies, write_coordinates

if TYPE_CHECKING:
    from ..dynamics.free_motion import SapFreeMotion
    from ..minimize.solve import SapContactSolve

BEGIN = wp.constant(0)
CONTINUE = wp.constant(1)
END = wp.constant(2)
PLACE = wp.constant(3)
"""What the kernel does."""

has_floating_children = Parameter("has_floating_children")
"""Whether floating bodies below others are to move in the world (`floating_children`)."""

assume_contiguous_io, assume_contiguous_arrays = assume_contiguous(BoundaryData), assume_contiguous(StateArrays)
shift_scratch = rebase_scratch_of(BoundaryData, KINEMATICS, "motion.")
BoundaryArgument, read_io = argument(BoundaryData)


@device
def place_moving(io: wp.ref[BoundaryData], world: int, after: int):
    """Place the bodies of a world, with the velocities before the step (``after`` 0) or those after it (1)."""
    e_end = io.layout.world_dof[world + 1]
    e = int(io.layout.world_dof[world] + lane())
    while e < e_end:
        dof = io.layout.dof_newton[e]
        io.motion.v0[e] = wp.where(after != 0, io.v_new[dof], io.coordinates.v[dof])
        e += lane_count()
    barrier()
    place_world(io, world)
    barrier()


@device
def release_by_depth(io: wp.ref[BoundaryData], world: int, dt: wp.float64):
    """Find the joint coordinates of a world's floating children, one depth after the other: they may have children."""
    i_end = io.layout.world_floating_child[world + 1]
    i = int(io.layout.world_floating_child[world])
    while i < i_end:
        depth = io.layout.floating_child_depth[i]
        place_moving(io, world, 1)
        last = int(i)
        while last < i_end and io.layout.floating_child_depth[last] == depth:
            last += 1
        k = i + lane()
        while k < last:
            release_floating_children(io, k, dt)
            k += lane_count()
        barrier()
        i = last


@device
def advance(io: wp.ref[BoundaryData], world: int, dt: wp.float64):
    """Find new positions from the velocity of the solve, by all lanes of a block.

    A world that failed keeps its positions, and its velocities.
    """
    if io.status[world] < FREE_MOTION_FAILED:
        if wp.static(has_floating_children):
            for after in range(2):
                place_moving(io, world, after)
                remember_floating_children(io, world, after)
        advance_world(io, world, dt)
        if wp.static(has_floating_children):
            release_by_depth(io, world, dt)
    else:
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            io.v_new[io.layout.dof_newton[e]] = io.coordinates.v[io.layout.dof_newton[e]]
            e += lane_count()
        barrier()


@device
def pass_boundary(world: int, task: int, io_in: BoundaryArgument, state_in: wp.array[StateArrays], dt: wp.float64):
    """Do one of the four tasks for one world, by all lanes of a block."""
    io = read_io(io_in)
    arrays = state_in[0]
    starts = world_starts(io.share, io.layout.world_body[world], io.layout.world_dof[world], 0, 0)
    shift_scratch(io, starts)
    assume_contiguous_io(io)
    assume_contiguous_arrays(arrays)
    forced = task == BEGIN
    if task == CONTINUE:
        forced = (io.motion.mark[world] & FORCED) != 0
    flags = int(0)
    if task == BEGIN or task == PLACE:
        flags = read_coordinates(io, arrays, world)
        if task == PLACE:
            wp.atomic_min(io.energy_watch, world, 0)  # lanes may do so at once
    else:
        advance(io, world, dt)
        flags = round_coordinates(io, arrays, world)
        if task == END:
            write_coordinates(io, arrays, world)
    barrier()
    order_velocities(io, arrays, world)
    barrier()
    place_world(io, world)
    if task != BEGIN:
        write_bodies(io, arrays, world, task != CONTINUE)
        if world == 0 and lane() == 0 and task != PLACE:
            io.time[0] = io.time[0] + dt
            io.frame[0] = io.frame[0] + wp.int64(1)
    if task == BEGIN:
        watch_anew_if_set(io, world)
    if task == BEGIN or task == CONTINUE:
        if lane() == 0:
            io.motion.mark[world] = 0
        barrier()
        if forced:
            flags = flags | read_forces(io, arrays, world)
            read_loops(io, arrays, world)
        if flags != 0:
            wp.atomic_or(io.motion.mark, world, flags)


@kernel
def boundary(
    first_world: int, task: int, io: BoundaryArgument, state_in: wp.array[StateArrays], mask: Bools, dt: wp.float64
):
    """Do one of the four tasks, one block per world. An empty mask stands for all worlds."""
    world = first_world + wp.tid() // lane_count()
    if mask.shape[0] > 0:
        if not mask[world]:
            return
    pass_boundary(world, task, io, state_in, dt)


class SapBoundary:
    """Both ends of a step: the solver's own copy of a state and a control, and the clock."""

    def __init__(
        self,
        model: SapModel,
        layout: Layout,
        sizes: LayoutSizes,
        parameters: Any,
        links: Links,
        free_motion: SapFreeMotion,
        outcome: SapContactSolve,
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
        self._floating_children = wp.zeros(sizes.floating_child_count, dtype=FloatingChildMotion, device=model.device)
        moves_children = sizes.floating_child_count > 0 and outcome.integration >= int(CENTERED)
        self._variant = free_motion.variant | {"has_floating_children": moves_children}
        self._states = StructCache(model.device)
        self._no_mask = wp.empty(0, dtype=wp.bool, device=model.device)
        self._after: dict[Variant, Any] = {}
        self._scratch = Scratch(self._layout, self._sizes, model.device)
        self.refresh(parameters)

    def refresh(self, parameters: Any) -> None:
        """Take Newton's joint and body arrays, which may have been replaced."""
        self.parameters = parameters
        self._here = self._argument(self._variant, self._motion.data, ScratchShare())
        self._ends: dict[Variant, StructArgument] = {}

    def begin(self, state: SapState, control: SapControl, worlds: WorldRange) -> None:
        """Read ``state`` and ``control``, and place the bodies for the free motion."""
        self._launch(BEGIN, state, control, 0.0, worlds)

    def continues(self, state: SapState) -> bool:
        """Return True if joint coordinates of ``state`` stay as they are until `end`."""
        return self._end_variant(state) == self._variant

    def continue_step(self, state: SapState, control: SapControl, dt: float, worlds: WorldRange) -> None:
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
        task: int,
        state: SapState,
        control: SapControl,
        dt: float,
        worlds: WorldRange,
        mask: wp.array | None = None,
    ) -> None:
        variant, io = self._variant, self._here
        if task in (END, PLACE):
            variant, io = self._end_variant(state), self._end(state)
        arrays, chosen = self._state(state, control), self._no_mask if mask is None else mask
        blocks = self._scratch.max_blocks if io.struct.share.shared else 0
        inputs = (int(task), io.kernel_argument, arrays, chosen, dt)
        worlds.launch(self._kernel(state, variant), *inputs, device=self.model.device, max_blocks=blocks)

    def kernels(self, state: SapState) -> list[Any]:
        """Return the kernels that these methods launch for a state like ``state``."""
        return [self._kernel(state, variant) for variant in {self._variant, self._end_variant(state)}]

    def _kernel(self, state: SapState, variant: Variant) -> Any:
        return boundary.of(variant | {"state": TYPES[state.precision]})

    def _state(self, state: SapState, control: SapControl) -> wp.array:
        names = ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")
        arrays = {name: getattr(state, name) for name in names} | {"joint_f": control.joint_f}
        orders = (state.joint_qd_order, control.joint_f_order, state.body_f_order)

        def make() -> Any:
            struct: Any = StateArrays.of(Variant(state=TYPES[state.precision]))()
            public = [int(order == "public") for order in orders]
            struct.public_velocity, struct.public_joint_force, struct.public_body_force = public
            return struct

        return self._states.get(arrays, make, orders)

    def _end_variant(self, state: SapState) -> Variant:
        """The variant for poses and motions that a state gets: not coarser than the state itself."""
        if state.precision == "fp64":
            return self._variant | {"pose": FP64, "dynamics": FP64}
        return self._variant

    def _end(self, state: SapState) -> StructArgument:
        """Where the bodies of a finished state are placed: apart from those of its start, which can still be read."""
        variant = self._end_variant(state)
        if variant not in self._ends:
            sizes, scratch = self._sizes, self._scratch
            shared = sizes.dof_count == sizes.free_dof_count  # others belong to no world
            if variant not in self._after:
                bodies, dofs = sizes.body_count, sizes.dof_count
                if shared:
                    bodies, dofs = scratch.body_count, scratch.dof_count
                counts = dict.fromkeys(entry_counts(sizes), 0) | dict.fromkeys(("composite", "diagonal"), 0)
                counts |= {"column_force": 0, "applied": 0} | {name: dofs for name, at in KINEMATICS if at == "dof"}
                self._after[variant] = MotionData.of(variant)()
                allocate_arrays(self._after[variant], counts, bodies, self.model.device)
            share = scratch.share if shared else ScratchShare()
            self._ends[variant] = self._argument(variant, self._after[variant], share)
        return self._ends[variant]

    def _argument(self, variant: Variant, motion: Any, share: Any) -> StructArgument:
        io: Any = BoundaryData.of(variant)()
        io.layout, io.joints, io.coordinates, io.motion = self._layout, self.parameters, self.coordinates, motion
        io.links, io.axis = self._links.get(variant["pose"])
        io.floating_children = self._floating_children
        io.share, io.integration = share, self._outcome.integration
        io.status, io.v_new = self._outcome.status, self._outcome.velocity
        io.energy_watch = self._motion.data.energy_watch
        io.time, io.frame = self.time, self.frame
        return StructArgument(io, self.model.device)
