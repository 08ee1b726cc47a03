"""Between the public order of users and Newton and the sap order of the kernels.

Only free and distance joints differ. With r the vector from the body origin O to the centre of mass C:

    velocity   public [v_C, w]     sap [w, v_O]       v_O = v_C - w x r
    force      public [f, tau_C]   sap [tau_O, f]     tau_O = tau_C + r x f

The force map is the inverse transpose of the velocity map, so both orders give the same power. Components are in
the joint's parent frame F, which is the world frame for every free joint with an unrotated ``joint_X_p`` on the
world; Newton defines public *forces* of floating joints in world axes, so these are rotated into F. External body
wrenches become the residual -[tau_O, f] in world axes. r turns with the body: reading uses the pose at the start of
the step, writing the new one.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Doubles, Types
from ..model.links import JointParameters
from ..model.motion_data import FORCED
from .boundary_data import Coordinates, make_state_arrays
from .kinematics import make_com_offset


@wp.func
def public_to_sap_velocity(linear: Any, angular: Any, r: Any):
    """P_v: [v_C, w] -> (w, v_O)."""
    return angular, linear - wp.cross(angular, r)


@wp.func
def sap_to_public_velocity(angular: Any, linear: Any, r: Any):
    """P_v^-1: [w, v_O] -> (v_C, w)."""
    return linear + wp.cross(angular, r), angular


@wp.func
def public_to_sap_force(force: Any, moment: Any, r: Any):
    """P_f: [f, tau_C] -> (tau_O, f)."""
    return moment + wp.cross(r, force), force


@functools.cache
def make_orders(state: Types) -> SimpleNamespace:
    """Conversions between public and sap order for states of one precision; all in fp64."""
    scalar, vec3 = state.scalar, wp.vec3d
    com_offset = make_com_offset()
    S = make_spatial(FP64)
    to_vec3, to_unit_quat, load3 = S.to_vec3, S.to_unit_quat, S.load_vec3

    @wp.func
    def store3(a: Doubles, i: int, v: vec3):
        a[i] = v[0]
        a[i + 1] = v[1]
        a[i + 2] = v[2]

    @wp.func
    def convert_velocity(p: wp.ref[JointParameters], joint: int, c: wp.ref[Coordinates]):
        """Public velocity of one floating joint to sap order, in place."""
        iv = p.joint_qd_start[joint]
        w, v = public_to_sap_velocity(load3(c.v, iv), load3(c.v, iv + 3), com_offset(p, joint, c.q))
        store3(c.v, iv, w)
        store3(c.v, iv + 3, v)

    @wp.func
    def convert_force(p: wp.ref[JointParameters], joint: int, c: wp.ref[Coordinates], r_WP: wp.quatd) -> int:
        """Public force of one floating joint to sap order, in place; FORCED if there is any. r_WP turns its parent."""
        iv = p.joint_qd_start[joint]
        public_f = load3(c.f, iv)
        public_m = load3(c.f, iv + 3)
        if wp.length_sq(public_f) + wp.length_sq(public_m) == wp.float64(0.0):
            return 0
        r_WF = r_WP * to_unit_quat(wp.transform_get_rotation(p.joint_X_p[joint]))
        f = wp.quat_rotate_inv(r_WF, public_f)
        m, f = public_to_sap_force(f, wp.quat_rotate_inv(r_WF, public_m), com_offset(p, joint, c.q))
        store3(c.f, iv, m)
        store3(c.f, iv + 3, f)
        return FORCED

    @wp.func
    def read_wrench(
        p: wp.ref[JointParameters], s: wp.ref[make_state_arrays(state)], body: int, wrench: wp.spatial_vectorf
    ) -> wp.spatial_vectord:
        """Residual of the external wrench on one body."""
        a = vec3(wp.float64(wrench[0]), wp.float64(wrench[1]), wp.float64(wrench[2]))
        b = vec3(wp.float64(wrench[3]), wp.float64(wrench[4]), wp.float64(wrench[5]))
        if s.public_body_force != 0:
            r_W = wp.quat_rotate(to_unit_quat(wp.transform_get_rotation(s.body_q[body])), to_vec3(p.body_com[body]))
            tau_O, f_W = public_to_sap_force(a, b, r_W)
            a = -tau_O
            b = -f_W
        return wp.spatial_vectord(a[0], a[1], a[2], b[0], b[1], b[2])

    @wp.func
    def write_velocity(p: wp.ref[JointParameters], joint: int, q: Doubles, v: Doubles, out: Doubles):
        """A floating joint's sap velocity v at positions q, in public order as a state holds it."""
        iv = p.joint_qd_start[joint]
        linear, angular = sap_to_public_velocity(load3(v, iv), load3(v, iv + 3), com_offset(p, joint, q))
        for i in range(3):
            out[iv + i] = wp.float64(scalar(linear[i]))
            out[iv + 3 + i] = wp.float64(scalar(angular[i]))

    return SimpleNamespace(
        convert_velocity=convert_velocity,
        convert_force=convert_force,
        read_wrench=read_wrench,
        write_velocity=write_velocity,
    )
