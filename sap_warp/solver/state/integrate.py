"""Stage 5: integrate positions.

    midpoint    positions move with (v_n + v_{n+1}) / 2, rotations by the rotation of angle h |w| about w
    sap_euler   positions move with v_{n+1}, quaternions by q + h/2 (w, 0) q, normalized

Floating bodies translate with the velocity of their *origin*, or, on request, of their centre of mass C: then v_C is
what the step found for it, where C was when the step began, and the velocity of the origin follows from the new
rotation. Then those below bodies with dofs move in the world, and their joint coordinates follow from where both are
after that (`floating_children.py`). A world that failed keeps its state. The joints of kinematic bodies pass through
unchanged, as Newton defines it: whoever prescribes a motion sets position and velocity.
"""

from __future__ import annotations

import math

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import load_quat, load_vec3, to_unit_quat, to_vec3
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64, Doubles
from ...model.joint_types import is_floating
from ..model.layout import FRAME_STILL
from ..settings.options import POSITION_INTEGRATIONS, SapOptions
from .boundary_data import BoundaryData
from .kinematics import com_offset

F = wp.float64
to_vec3d, to_quatd, load_vec3d, load_quatd = (
    function.on(number=Constant(FP64)) for function in (to_vec3, to_unit_quat, load_vec3, load_quat)
)

MIDPOINT = wp.constant(POSITION_INTEGRATIONS.index("midpoint"))
CENTERED = wp.constant(len(POSITION_INTEGRATIONS))
"""What is added to the mode of integration if floating bodies move with their centre of mass."""


def integration_mode(options: SapOptions) -> int:
    """Return the mode of `advance_world`."""
    centered = int(CENTERED) * (options.floating_body_point == "center_of_mass")
    return POSITION_INTEGRATIONS.index(options.position_integration) + centered


# Series of sin(a) / a and cos(a). They are constants: Warp rounds a plain number in a kernel to fp32 first.
S1, S2, S3, S4, S5 = (wp.constant(F(1.0 / math.factorial(k))) for k in (3, 5, 7, 9, 11))
C1, C2, C3, C4, C5, C6 = (wp.constant(F(1.0 / math.factorial(k))) for k in (2, 4, 6, 8, 10, 12))


@wp.func
def turn(q: wp.quatd, w: wp.vec3d, h: F, mode: int) -> wp.quatd:
    """Return rotation q after turning for h with angular velocity w, given in the axes that q maps to."""
    if mode == MIDPOINT:
        half = F(0.5) * h
        x = half * half * wp.dot(w, w)  # square of half the angle
        if x <= F(0.0):
            return q
        s = half
        c = F(1.0)
        if x < F(0.0625):
            # the series of sin(a) / a and cos(a); what is left out is less than 1e-17
            s *= F(1.0) - x * (S1 - x * (S2 - x * (S3 - x * (S4 - x * S5))))
            c -= x * (C1 - x * (C2 - x * (C3 - x * (C4 - x * (C5 - x * C6)))))
        else:
            angle = wp.sqrt(x)
            s *= wp.sin(angle) / angle
            c = wp.cos(angle)
        return wp.normalize(wp.quatd(w[0] * s, w[1] * s, w[2] * s, c) * q)
    rate = wp.quatd(w[0], w[1], w[2], F(0.0)) * q
    return wp.normalize(q + rate * (F(0.5) * h))


@wp.func
def store_quat(a: Doubles, i: int, q: wp.quatd):
    """Set a[i] to a[i + 3] to a rotation."""
    for k in range(4):
        a[i + k] = q[k]


@device
def advance_joint(io: wp.ref[BoundaryData], joint: int, h: F, centered: bool):
    """Set joint_q of a floating or ball joint, and v_new of a floating body that moves with its centre of mass."""
    mode = io.integration % CENTERED
    kind = io.joints.joint_type[joint]
    iq = io.joints.joint_q_start[joint]
    iv = io.joints.joint_qd_start[joint]
    old = F(0.0)
    new = F(1.0)
    if mode == MIDPOINT:
        old = F(0.5)
        new = F(0.5)
    if is_floating(kind):
        w = wp.vec3d()
        v = wp.vec3d()
        for i in range(3):
            w[i] = old * io.coordinates.v[iv + i] + new * io.v_new[iv + i]
            v[i] = old * io.coordinates.v[iv + 3 + i] + new * io.v_new[iv + 3 + i]
        r_FM = load_quatd(io.coordinates.q, iq + 3)
        r_new = turn(r_FM, w, h, mode)
        x = wp.vec3d(io.coordinates.q[iq], io.coordinates.q[iq + 1], io.coordinates.q[iq + 2]) + v * h
        # the body origin moves with v; joint_q holds the moving frame M
        p_BM = to_vec3d(wp.transform_get_translation(io.joints.joint_X_c[joint]))
        if wp.abs(p_BM[0]) + wp.abs(p_BM[1]) + wp.abs(p_BM[2]) != F(0.0):
            r_MB = wp.quat_inverse(to_quatd(wp.transform_get_rotation(io.joints.joint_X_c[joint])))
            x += wp.quat_rotate(r_new * r_MB, p_BM) - wp.quat_rotate(r_FM * r_MB, p_BM)
        # from the origin to the centre of mass, if that is what moves with v
        arm = wp.vec3d()
        if centered:
            arm = com_offset(io.joints, joint, io.coordinates.q)
            x += wp.cross(w, arm) * h
        for i in range(3):
            io.coordinates.q[iq + i] = x[i]
        store_quat(io.coordinates.q, iq + 3, r_new)
        if wp.length_sq(arm) > F(0.0):
            arm -= com_offset(io.joints, joint, io.coordinates.q)
            spin = wp.cross(load_vec3d(io.v_new, iv), arm)
            for i in range(3):
                io.coordinates.q[iq + i] = io.coordinates.q[iq + i] + arm[i]
                io.v_new[iv + 3 + i] = io.v_new[iv + 3 + i] + spin[i]
    else:  # a ball joint
        w = wp.vec3d()
        for i in range(3):
            w[i] = old * io.coordinates.v[iv + i] + new * io.v_new[iv + i]
        store_quat(io.coordinates.q, iq, turn(load_quatd(io.coordinates.q, iq), w, h, mode))


@device
def advance_world(io: wp.ref[BoundaryData], world: int, h: F):
    """Advance the positions of a world from io.coordinates.v and io.v_new, in place, in fp64, by all lanes."""
    mode = io.integration % CENTERED
    # scalar joints dof by dof, others joint by joint
    old = F(0.0)
    new = h
    if mode == MIDPOINT:
        old = F(0.5) * h
        new = old
    e_end = io.layout.world_dof[world + 1]
    e = int(io.layout.world_dof[world] + lane())
    while e < e_end:
        i = io.layout.dof_coord[e]
        if i >= 0:
            dof = io.layout.dof_newton[e]
            io.coordinates.q[i] = io.coordinates.q[i] + (old * io.coordinates.v[dof] + new * io.v_new[dof])
        e += lane_count()
    i_end = io.layout.world_turning[world + 1]
    i = int(io.layout.world_turning[world] + lane())
    while i < i_end:
        b = io.layout.turning_body[i]
        if io.layout.body_kinematic[b] == 0:
            centered = io.integration >= CENTERED and io.layout.body_frame[b] == FRAME_STILL
            advance_joint(io, io.layout.body_joint[b], h, centered)
        i += lane_count()
    barrier()
