"""What the solver reads of a state and a control: coordinates and forces, from public to sap order.

Device functions are called by all lanes of a block, unless they are about one entry.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import to_unit_quat
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ...model.joint_types import is_floating
from ..model.motion_data import FORCED, NOT_FINITE
from .boundary_data import BoundaryData, StateArrays
from .conversions import convert_force, convert_velocity, read_wrench
from .copies import MOVED, over_floating, over_loops, read_joint_forces, read_positions, read_velocities

to_quatd = to_unit_quat.on(number=Constant(FP64))


@device
def read_coordinates(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int) -> int:
    """Read positions and velocities of a world; returns NOT_FINITE if a position is not."""
    flags = read_positions(io, arrays, io.layout.coord_runs, world)
    read_velocities(io, arrays, io.layout.dof_runs, world)
    if (flags & MOVED) != 0:
        wp.atomic_min(io.energy_watch, world, 0)  # lanes may do so at once
    return flags & NOT_FINITE


@device
def order_velocity(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], b: int, joint: int) -> int:
    """Convert the velocity of one floating body to sap order."""
    convert_velocity(io.joints, joint, io.coordinates)
    return 0


order_floating_velocities = over_floating.on(visit=order_velocity)


@device
def order_velocities(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int):
    """Convert the velocities of a world to sap order, and fill v0 with them, in solver order."""
    if arrays.public_velocity != 0:
        order_floating_velocities(io, arrays, world)
        barrier()
    e_end = io.layout.world_dof[world + 1]
    e = int(io.layout.world_dof[world] + lane())
    while e < e_end:
        io.motion.v0[e] = io.coordinates.v[io.layout.dof_newton[e]]
        e += lane_count()
    e_end = io.layout.world_kinematic[world + 1]
    e = int(io.layout.world_kinematic[world] + lane())
    while e < e_end:
        io.motion.v0[e] = io.coordinates.v[io.layout.dof_newton[e]]
        e += lane_count()


@device
def watch_anew_if_set(io: wp.ref[BoundaryData], world: int):
    """Start to watch the energy of a world anew if its velocities were set.

    They were if they differ by more than round-off from those that the last step found.
    """
    e_end = io.layout.world_dof[world + 1]
    e = int(io.layout.world_dof[world] + lane())
    while e < e_end:
        v = io.motion.v0[e]
        if wp.abs(v - io.v_new[io.layout.dof_newton[e]]) > wp.float64(1e-4) + wp.float64(1e-3) * wp.abs(v):
            wp.atomic_min(io.energy_watch, world, 0)  # lanes may do so at once
        e += lane_count()


@device
def order_force(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], b: int, joint: int) -> int:
    """Convert the force on one floating body to sap order; returns FORCED if there is any."""
    r_WP = wp.quat_identity(wp.float64)
    if io.layout.body_parent[b] >= 0:
        r_WP = to_quatd(io.motion.r[io.layout.body_parent[b]])
    return convert_force(io.joints, joint, io.coordinates, r_WP)


order_floating_forces = over_floating.on(visit=order_force)


@device
def read_forces(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int) -> int:
    """Read the forces on joints and bodies of a world; returns FORCED if there are any that depend on its pose."""
    flags = read_joint_forces(io, arrays, io.layout.dof_runs, world)
    if arrays.public_joint_force != 0:
        barrier()
        flags = flags | order_floating_forces(io, arrays, world)
    b_end = io.layout.world_body[world + 1]
    b = int(io.layout.world_body[world] + lane())
    while b < b_end:
        body = io.layout.body_newton[b]
        wrench = arrays.body_f[body]
        size = float(0.0)
        for k in range(6):
            size += wp.abs(wrench[k])
        io.coordinates.body_f[body] = wp.spatial_vectord()
        if size != float(0.0):
            io.coordinates.body_f[body] = read_wrench(io.joints, arrays, body, wrench)
            flags = flags | FORCED
        b += lane_count()
    return flags


@device
def read_loop(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], joint: int):
    """Read coordinates and forces of a joint that closes a loop."""
    i_end = io.joints.joint_q_start[joint + 1]
    i = int(io.joints.joint_q_start[joint])
    while i < i_end:
        io.coordinates.q[i] = wp.float64(arrays.joint_q[i])
        i += 1
    i_end = io.joints.joint_qd_start[joint + 1]
    i = int(io.joints.joint_qd_start[joint])
    while i < i_end:
        io.coordinates.v[i] = wp.float64(arrays.joint_qd[i])
        io.coordinates.f[i] = wp.float64(arrays.joint_f[i])
        i += 1
    if is_floating(io.joints.joint_type[joint]):
        if arrays.public_velocity != 0:
            convert_velocity(io.joints, joint, io.coordinates)
        if arrays.public_joint_force != 0:
            r_WP = wp.quat_identity(wp.float64)
            if io.joints.joint_parent[joint] >= 0:
                r_WP = to_quatd(wp.transform_get_rotation(arrays.body_q[io.joints.joint_parent[joint]]))
            convert_force(io.joints, joint, io.coordinates, r_WP)


read_loops = over_loops.on(visit=read_loop)
