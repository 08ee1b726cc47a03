"""Between the public order of users and Newton and the sap order of the kernels.

Only free and distance joints differ. With r the vector from the body origin O to the centre of mass C:

    velocity   public [v_C, w]     sap [w, v_O]       v_O = v_C - w x r
    force      public [f, tau_C]   sap [tau_O, f]     tau_O = tau_C + r x f

The force map is the inverse transpose of the velocity map, so both orders give the same power. Components are in
the joint's parent frame F, which is the world frame for every free joint with an unrotated ``joint_X_p`` on the
world; Newton defines public *forces* of floating joints in world axes, so these are rotated into F. External body
wrenches become the residual -[tau_O, f] in world axes. r turns with the body: reading uses the pose at the start of
the step, writing the new one. Everything is calculated in fp64.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from ...core.kernels.spatial import load_vec3, to_unit_quat, to_vec3
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64, Doubles
from ..model.links import JointParameters
from ..model.motion_data import FORCED
from ..settings.precisions import state
from .boundary_data import Coordinates, StateArrays
from .kinematics import com_offset

load_vec3d, to_vec3d, to_quatd = (function.on(number=Constant(FP64)) for function in (load_vec3, to_vec3, to_unit_quat))


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


@wp.func
def store_vec3d(a: Doubles, i: int, v: wp.vec3d):
    """Write v to the entries i to i + 2."""
    a[i] = v[0]
    a[i + 1] = v[1]
    a[i + 2] = v[2]


@device
def convert_velocity(parameters: wp.ref[JointParameters], joint: int, coordinates: wp.ref[Coordinates]):
    """Convert the public velocity of one floating joint to sap order, in place."""
    iv = parameters.joint_qd_start[joint]
    w, v = public_to_sap_velocity(
        load_vec3d(coordinates.v, iv),
        load_vec3d(coordinates.v, iv + 3),
        com_offset(parameters, joint, coordinates.q),
    )
    store_vec3d(coordinates.v, iv, w)
    store_vec3d(coordinates.v, iv + 3, v)


@device
def convert_force(
    parameters: wp.ref[JointParameters], joint: int, coordinates: wp.ref[Coordinates], r_WP: wp.quatd
) -> int:
    """Convert the public force of one floating joint to sap order, in place. ``r_WP`` is the rotation of its parent.

    Returns FORCED if there is a force, else 0.
    """
    iv = parameters.joint_qd_start[joint]
    public_f = load_vec3d(coordinates.f, iv)
    public_m = load_vec3d(coordinates.f, iv + 3)
    if wp.length_sq(public_f) + wp.length_sq(public_m) == wp.float64(0.0):
        return 0
    r_WF = r_WP * to_quatd(wp.transform_get_rotation(parameters.joint_X_p[joint]))
    f = wp.quat_rotate_inv(r_WF, public_f)
    m, f = public_to_sap_force(f, wp.quat_rotate_inv(r_WF, public_m), com_offset(parameters, joint, coordinates.q))
    store_vec3d(coordinates.f, iv, m)
    store_vec3d(coordinates.f, iv + 3, f)
    return FORCED


@device
def read_wrench(
    parameters: wp.ref[JointParameters], arrays: wp.ref[StateArrays], body: int, wrench: wp.spatial_vectorf
) -> wp.spatial_vectord:
    """Return the residual of the external wrench on one body."""
    a = wp.vec3d(wp.float64(wrench[0]), wp.float64(wrench[1]), wp.float64(wrench[2]))
    b = wp.vec3d(wp.float64(wrench[3]), wp.float64(wrench[4]), wp.float64(wrench[5]))
    if arrays.public_body_force != 0:
        r_WB = to_quatd(wp.transform_get_rotation(arrays.body_q[body]))
        r_W = wp.quat_rotate(r_WB, to_vec3d(parameters.body_com[body]))
        tau_O, f_W = public_to_sap_force(a, b, r_W)
        a = -tau_O
        b = -f_W
    return wp.spatial_vectord(a[0], a[1], a[2], b[0], b[1], b[2])


@device
def write_velocity(parameters: wp.ref[JointParameters], joint: int, q: Doubles, v: Doubles, out: Doubles):
    """Convert a floating joint's sap velocity v at positions q to public order, rounded as a state holds it."""
    iv = parameters.joint_qd_start[joint]
    linear, angular = sap_to_public_velocity(load_vec3d(v, iv), load_vec3d(v, iv + 3), com_offset(parameters, joint, q))
    for i in range(3):
        out[iv + i] = wp.float64(state.scalar(linear[i]))
        out[iv + 3 + i] = wp.float64(state.scalar(angular[i]))
