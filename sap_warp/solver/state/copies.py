"""How the lanes of a block go through the coordinates of a world, and what is copied from and to a state as it is.

A walk visits entries of a world, shared by the lanes, and returns all bits that its visits returned.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.template import Parameter, device
from ...model.joint_types import is_floating
from ..model.layout import Runs
from ..model.motion_data import NOT_FINITE
from ..settings.precisions import state
from .boundary_data import BoundaryData, StateArrays

MOVED = wp.constant(16)
"""Flag of a coordinate that is not the one that the last step left; no flag of a world."""

scalar = state.scalar
visit = Parameter("visit")
"""The device function that a walk calls: ``over_runs.on(visit=read_position)`` reads all positions of a world."""


@device
def over_runs(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], runs: wp.ref[Runs], world: int) -> int:
    """Call ``visit(io, arrays, i)`` for the entries of a world's runs."""
    flags = int(0)
    run_end = runs.world[world + 1]
    run = int(runs.world[world])
    while run < run_end:
        i_end = runs.end[run]
        i = int(runs.first[run] + lane())
        while i < i_end:
            flags = flags | visit(io, arrays, i)
            i += lane_count()
        run += 1
    return flags


@device
def over_floating(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int) -> int:
    """Call ``visit(io, arrays, b, joint)`` for the floating bodies of a world."""
    flags = int(0)
    i_end = io.layout.world_turning[world + 1]
    i = int(io.layout.world_turning[world] + lane())
    while i < i_end:
        b = io.layout.turning_body[i]
        joint = io.layout.body_joint[b]
        if is_floating(io.joints.joint_type[joint]):
            flags = flags | visit(io, arrays, b, joint)
        i += lane_count()
    return flags


@device
def over_loops(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int):
    """Call ``visit(io, arrays, joint)``, which returns nothing, for the joints of a world that close loops."""
    k_end = io.layout.world_loop[world + 1]
    k = int(io.layout.world_loop[world] + lane())
    while k < k_end:
        visit(io, arrays, io.layout.loop_joint[k])
        k += lane_count()


@device
def read_position(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Take a position from a state; returns MOVED if it is new, and NOT_FINITE if it is not finite."""
    x = wp.float64(arrays.joint_q[i])
    flags = wp.where(x != io.coordinates.q[i], MOVED, 0)
    io.coordinates.q[i] = x
    return flags | wp.where(x - x == wp.float64(0.0), 0, NOT_FINITE)


@device
def read_velocity(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Take a velocity from a state."""
    io.coordinates.v[i] = wp.float64(arrays.joint_qd[i])
    return 0


@device
def read_joint_force(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Take a joint force from a control."""
    io.coordinates.f[i] = wp.float64(arrays.joint_f[i])
    return 0


@device
def round_position(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Round a position as a state would hold it; returns NOT_FINITE if it is not finite."""
    x = wp.float64(scalar(io.coordinates.q[i]))
    io.coordinates.q[i] = x
    return wp.where(x - x == wp.float64(0.0), 0, NOT_FINITE)


@device
def round_velocity(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Round the velocity that the solve found as a state would hold it."""
    io.coordinates.v[i] = wp.float64(scalar(io.v_new[i]))
    return 0


@device
def store_position(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Write a position into a state."""
    arrays.joint_q[i] = scalar(io.coordinates.q[i])
    return 0


@device
def store_velocity(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], i: int) -> int:
    """Write a velocity into a state."""
    arrays.joint_qd[i] = scalar(io.coordinates.v[i])
    return 0


read_positions = over_runs.on(visit=read_position)
read_velocities = over_runs.on(visit=read_velocity)
read_joint_forces = over_runs.on(visit=read_joint_force)
round_positions = over_runs.on(visit=round_position)
round_velocities = over_runs.on(visit=round_velocity)
store_positions = over_runs.on(visit=store_position)
store_velocities = over_runs.on(visit=store_velocity)
