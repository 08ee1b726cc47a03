"""What the solver reads of a state and a control: coordinates and forces, from public to sap order.

Device functions are called by all lanes of a block, unless they are about one entry.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Types
from ..model.motion_data import FORCED, NOT_FINITE
from .boundary import make_orders
from .boundary_data import make_boundary_data, make_state_arrays
from .copies import MOVED, make_copies, make_walks
from .kinematics import is_floating


@functools.cache
def make_reading(state: Types, pose: Types, types: Types) -> SimpleNamespace:
    """Device functions that read positions and velocities of a world."""
    Boundary, StateArrays = make_boundary_data(pose, types), make_state_arrays(state)
    walks, convert_velocity = make_walks(state, pose, types), make_orders(state).convert_velocity
    copies = make_copies(state, pose, types)
    read_positions, read_velocities = copies.read_positions, copies.read_velocities
    F = wp.float64

    @wp.func
    def order_velocity(io: wp.ref[Boundary], s: wp.ref[StateArrays], b: int, joint: int) -> int:
        convert_velocity(io.joints, joint, io.c)
        return 0

    order_floating = walks.over_floating(order_velocity)

    @wp.func
    def read_coordinates(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
        """Positions and velocities of a world; NOT_FINITE if a position is not."""
        mark = read_positions(io, s, io.layout.coord_runs, world)
        read_velocities(io, s, io.layout.dof_runs, world)
        if (mark & MOVED) != 0:
            wp.atomic_min(io.watched, world, 0)  # lanes may do so at once
        return mark & NOT_FINITE

    @wp.func
    def order_velocities(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int):
        """Velocities of a world to sap order, and to solver order in d.v0."""
        if s.public_velocity != 0:
            order_floating(io, s, world)
            barrier()
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            io.d.v0[e] = io.c.v[io.layout.dof_newton[e]]
            e += lane_count()
        e_end = io.layout.world_prescribed[world + 1]
        e = int(io.layout.world_prescribed[world] + lane())
        while e < e_end:
            io.d.v0[e] = io.c.v[io.layout.dof_newton[e]]
            e += lane_count()

    @wp.func
    def notice_kick(io: wp.ref[Boundary], world: int):
        """Velocities that differ by more than round-off from those of the last step were set."""
        e_end = io.layout.world_dof[world + 1]
        e = int(io.layout.world_dof[world] + lane())
        while e < e_end:
            v = io.d.v0[e]
            if wp.abs(v - io.v_new[io.layout.dof_newton[e]]) > F(1e-4) + F(1e-3) * wp.abs(v):
                wp.atomic_min(io.watched, world, 0)  # lanes may do so at once
            e += lane_count()

    return SimpleNamespace(
        read_coordinates=read_coordinates, order_velocities=order_velocities, notice_kick=notice_kick
    )


@functools.cache
def make_force_reading(state: Types, pose: Types, types: Types) -> SimpleNamespace:
    """Device functions that read the forces on a world, and all of its joints that close loops."""
    Boundary, StateArrays = make_boundary_data(pose, types), make_state_arrays(state)
    walks, orders = make_walks(state, pose, types), make_orders(state)
    convert_velocity, convert_force, read_wrench = orders.convert_velocity, orders.convert_force, orders.read_wrench
    read_joint_forces = make_copies(state, pose, types).read_joint_forces
    to_unit_quat = make_spatial(FP64).to_unit_quat
    F = wp.float64

    @wp.func
    def order_force(io: wp.ref[Boundary], s: wp.ref[StateArrays], b: int, joint: int) -> int:
        r_WP = wp.quat_identity(F)
        if io.layout.body_parent[b] >= 0:
            r_WP = to_unit_quat(io.d.r[io.layout.body_parent[b]])
        return convert_force(io.joints, joint, io.c, r_WP)

    order_floating = walks.over_floating(order_force)

    @wp.func
    def read_forces(io: wp.ref[Boundary], s: wp.ref[StateArrays], world: int) -> int:
        """Forces on the joints and bodies of a world; FORCED if there are any that depend on its pose."""
        mark = read_joint_forces(io, s, io.layout.dof_runs, world)
        if s.public_joint_force != 0:
            barrier()
            mark = mark | order_floating(io, s, world)
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
            b += lane_count()
        return mark

    @wp.func
    def read_loop(io: wp.ref[Boundary], s: wp.ref[StateArrays], joint: int):
        """All of a joint that closes a loop."""
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

    return SimpleNamespace(read_forces=read_forces, read_loops=walks.over_loops(read_loop))
