"""What the solver writes of a state: coordinates as a state holds them, poses and twists of the bodies.

Device functions are called by all lanes of a block, unless they are about one entry or body.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import rotate, to_vec3
from ...core.kernels.template import Template, device
from ...core.kernels.types import FP32
from ...model.joint_types import is_floating
from ..model.links import PoseLink
from ..settings.precisions import dynamics, pose, state
from .boundary_data import BoundaryData, StateArrays
from .conversions import write_velocity
from .copies import over_floating, over_loops, round_positions, round_velocities, store_positions, store_velocities

GRID = 1.5 * 2.0**12
"""Added to an fp64 number and taken away again, this leaves a multiple of 2^-40."""

scalar = state.scalar
is_fp32 = Template(lambda variant: state.of(variant) is FP32)
to_motion, rotate_pose = to_vec3.on(number=dynamics), rotate.on(number=pose)


@device
def order_velocity(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], b: int, joint: int) -> int:
    """Convert the new velocity of one floating body to public order."""
    write_velocity(io.joints, joint, io.coordinates.q, io.v_new, io.coordinates.v)
    return 0


order_floating_velocities = over_floating.on(visit=order_velocity)


@device
def round_coordinates(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int) -> int:
    """Round positions and new velocities of a world as a state holds them; returns NOT_FINITE if a position is not."""
    round_velocities(io, arrays, io.layout.dof_runs, world)
    if arrays.public_velocity != 0:
        barrier()
        order_floating_velocities(io, arrays, world)
        barrier()
    return round_positions(io, arrays, io.layout.coord_runs, world)


@device
def store_loop(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], joint: int):
    """Keep what the state said of a joint that closes a loop: bodies decide where it is, see `newton.eval_ik`."""
    i_end = io.joints.joint_q_start[joint + 1]
    i = int(io.joints.joint_q_start[joint])
    while i < i_end:
        arrays.joint_q[i] = scalar(io.coordinates.q[i])
        i += 1
    if arrays.public_velocity != 0 and is_floating(io.joints.joint_type[joint]):
        write_velocity(io.joints, joint, io.coordinates.q, io.coordinates.v, io.coordinates.v)
    i_end = io.joints.joint_qd_start[joint + 1]
    i = int(io.joints.joint_qd_start[joint])
    while i < i_end:
        arrays.joint_qd[i] = scalar(io.coordinates.v[i])
        i += 1


store_loops = over_loops.on(visit=store_loop)


@device
def write_coordinates(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int):
    """Write rounded positions and velocities of a world into a state."""
    store_velocities(io, arrays, io.layout.dof_runs, world)
    store_positions(io, arrays, io.layout.coord_runs, world)
    store_loops(io, arrays, world)


@device
def rounded(x: wp.float64) -> scalar:
    """Round a position or a part of a rotation as a state holds it.

    In fp32 these are multiples of 2^-40: what an exact zero has become by round-off in fp64, 1e-16 or so, makes
    denormal numbers of fp32 in collision detection, which take a hundred times longer than others.
    """
    if wp.static(is_fp32):
        return scalar((x + wp.float64(wp.static(GRID))) - wp.float64(wp.static(GRID)))
    return scalar(x)


@device
def write_pose(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], body: int, b: int):
    """Write the pose of one body."""
    o = io.motion.origin[io.layout.body_root[b]]
    p = io.motion.p[b]
    r = io.motion.r[b]
    arrays.body_q[body] = state.transform(
        state.vec3(
            rounded(o[0] + wp.float64(p[0])), rounded(o[1] + wp.float64(p[1])), rounded(o[2] + wp.float64(p[2]))
        ),
        state.quat(
            rounded(wp.float64(r[0])),
            rounded(wp.float64(r[1])),
            rounded(wp.float64(r[2])),
            rounded(wp.float64(r[3])),
        ),
    )


@device
def write_twist(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], link: wp.ref[PoseLink], b: int):
    """Write the public twist of one body."""
    w = io.motion.Vw[b]
    v_C = io.motion.Vv[b] + wp.cross(w, to_motion(io.motion.p[b] + rotate_pose(io.motion.r[b], link.com)))
    twist = wp.spatial_vectorf()
    for k in range(3):
        twist[k] = wp.float32(v_C[k])
        twist[k + 3] = wp.float32(w[k])
    arrays.body_qd[link.body] = twist


@device
def write_bodies(io: wp.ref[BoundaryData], arrays: wp.ref[StateArrays], world: int, twists: bool):
    """Write poses of the bodies of a world, and on request their twists."""
    b_end = io.layout.world_body[world + 1]
    b = int(io.layout.world_body[world] + lane())
    while b < b_end:
        write_pose(io, arrays, io.links[b].body, b)
        if twists:
            write_twist(io, arrays, io.links[b], b)
        b += lane_count()
