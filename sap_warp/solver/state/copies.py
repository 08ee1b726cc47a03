"""How the lanes of a block go through the coordinates of a world, and what is copied from and to a state as it is."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.types import Types
from ..model.layout import Runs
from ..model.motion_data import NOT_FINITE
from .boundary_data import make_boundary_data, make_state_arrays
from .kinematics import is_floating

MOVED = wp.constant(16)
"""Mark of a coordinate that is not the one that the last step left; no mark of a world."""


@functools.cache
def make_walks(state: Types, pose: Types, types: Types) -> SimpleNamespace:
    """How lanes share the entries of a world; all walks return all bits that their visits returned.

    ``over_runs(visit)`` makes ``walk(io, s, runs, world)``, which calls ``visit(io, s, i)`` for the entries of runs,
    ``over_floating(visit)`` makes ``walk(io, s, world)``, which calls ``visit(io, s, b, joint)`` for floating bodies,
    and so does ``over_loops(visit)`` with ``visit(io, s, joint)`` for joints that close loops.
    """
    Boundary, StateArrays = make_boundary_data(pose, types), make_state_arrays(state)

    def over_runs(visit: Any) -> Any:
        @wp.func
        def walk(io: wp.ref[Boundary], s: wp.ref[StateArrays], runs: wp.ref[Runs], world: int) -> int:
            mark = int(0)
            run_end = runs.world[world + 1]
            run = int(runs.world[world])
            while run < run_end:
                i_end = runs.end[run]
                i = int(runs.first[run] + lane())
                while i < i_end:
                    mark = mark | visit(io, s, i)
                    i += lane_count()
                run += 1
            return mark

        return walk

    def over_floating(visit: Any) -> Any:
        @wp.func
        def walk(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
            mark = int(0)
            i_end = io.layout.world_turning[world + 1]
            i = int(io.layout.world_turning[world] + lane())
            while i < i_end:
                b = io.layout.turning_body[i]
                joint = io.layout.body_joint[b]
                if is_floating(io.joints.joint_type[joint]):
                    mark = mark | visit(io, s, b, joint)
                i += lane_count()
            return mark

        return walk

    def over_loops(visit: Any) -> Any:
        @wp.func
        def walk(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
            k_end = io.layout.world_loop[world + 1]
            k = int(io.layout.world_loop[world] + lane())
            while k < k_end:
                visit(io, s, io.layout.loop_joint[k])
                k += lane_count()

        return walk

    return SimpleNamespace(over_runs=over_runs, over_floating=over_floating, over_loops=over_loops)


@functools.cache
def make_copies(state: Types, pose: Types, types: Types) -> SimpleNamespace:
    """Walks over the runs of a world, see `make_walks`.

    ``read_*`` take what a state holds, ``round_*`` make of coordinates what a state would hold, and ``store_*`` write
    them into a state. Those of positions return NOT_FINITE if one is not, and MOVED if one is new.
    """
    Boundary, StateArrays = make_boundary_data(pose, types), make_state_arrays(state)
    over_runs, scalar, F = make_walks(state, pose, types).over_runs, state.scalar, wp.float64

    @wp.func
    def read_position(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        x = F(s.joint_q[i])
        mark = wp.where(x != io.c.q[i], MOVED, 0)
        io.c.q[i] = x
        return mark | wp.where(x - x == F(0.0), 0, NOT_FINITE)

    @wp.func
    def read_velocity(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        io.c.v[i] = F(s.joint_qd[i])
        return 0

    @wp.func
    def read_force(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        io.c.f[i] = F(s.joint_f[i])
        return 0

    @wp.func
    def round_position(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        x = F(scalar(io.c.q[i]))
        io.c.q[i] = x
        return wp.where(x - x == F(0.0), 0, NOT_FINITE)

    @wp.func
    def round_velocity(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        io.c.v[i] = F(scalar(io.v_new[i]))
        return 0

    @wp.func
    def store_position(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        s.joint_q[i] = scalar(io.c.q[i])
        return 0

    @wp.func
    def store_velocity(io: wp.ref[Boundary], s: wp.ref[StateArrays], i: int) -> int:
        s.joint_qd[i] = scalar(io.c.v[i])
        return 0

    return SimpleNamespace(
        read_positions=over_runs(read_position),
        read_velocities=over_runs(read_velocity),
        read_joint_forces=over_runs(read_force),
        round_positions=over_runs(round_position),
        round_velocities=over_runs(round_velocity),
        store_positions=over_runs(store_position),
        store_velocities=over_runs(store_velocity),
    )
