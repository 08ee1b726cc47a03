"""What the solver writes of a state: coordinates as a state holds them, poses and twists of the bodies.

Device functions are called by all lanes of a block, unless they are about one entry or body.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP32, Types
from ..model.links import make_link
from .boundary import make_orders
from .boundary_data import make_boundary_data, make_state_arrays
from .copies import make_copies, make_walks
from .kinematics import is_floating

GRID = 1.5 * 2.0**12
"""Added to an fp64 number and taken away again, this leaves a multiple of 2^-40."""


@functools.cache
def make_writing(state: Types, pose: Types, types: Types) -> SimpleNamespace:
    """Device functions that round the coordinates of a world, and write them into a state."""
    Boundary, StateArrays = make_boundary_data(pose, types), make_state_arrays(state)
    walks, write_velocity = make_walks(state, pose, types), make_orders(state).write_velocity
    copies, scalar = make_copies(state, pose, types), state.scalar
    round_velocities, round_positions = copies.round_velocities, copies.round_positions
    store_velocities, store_positions = copies.store_velocities, copies.store_positions

    @wp.func
    def order_velocity(io: wp.ref[Boundary], s: wp.ref[StateArrays], b: int, joint: int) -> int:
        write_velocity(io.joints, joint, io.c.q, io.v_new, io.c.v)
        return 0

    order_floating = walks.over_floating(order_velocity)

    @wp.func
    def round_coordinates(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
        """Positions and new velocities of a world as a state holds them; NOT_FINITE if a position is not."""
        round_velocities(io, s, io.layout.dof_runs, world)
        if s.public_velocity != 0:
            barrier()
            order_floating(io, s, world)
            barrier()
        return round_positions(io, s, io.layout.coord_runs, world)

    @wp.func
    def store_loop(io: wp.ref[Boundary], s: wp.ref[StateArrays], joint: int):
        """A joint that closes a loop keeps what the state said: bodies decide where it is, see `newton.eval_ik`."""
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

    store_loops = walks.over_loops(store_loop)

    @wp.func
    def write_coordinates(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
        """Rounded positions and velocities of a world into a state."""
        store_velocities(io, s, io.layout.dof_runs, world)
        store_positions(io, s, io.layout.coord_runs, world)
        store_loops(io, s, world)

    return SimpleNamespace(round_coordinates=round_coordinates, write_coordinates=write_coordinates)


@functools.cache
def make_write_bodies(state: Types, pose: Types, types: Types):
    """``write_bodies(io, s, world, twists)``: poses of the bodies of a world, and on request their twists."""
    Boundary, StateArrays, Link = make_boundary_data(pose, types), make_state_arrays(state), make_link(pose)
    to_motion, rotate = make_spatial(types).to_vec3, make_spatial(pose).rotate
    scalar = state.scalar
    F = wp.float64

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
        b_end = io.layout.world_body[world + 1]
        b = int(io.layout.world_body[world] + lane())
        while b < b_end:
            write_pose(io, s, io.links[b].body, b)
            if twists:
                write_twist(io, s, io.links[b], b)
            b += lane_count()

    return write_bodies
