"""Stage 5: integrate positions.

    midpoint    positions move with (v_n + v_{n+1}) / 2, rotations by the rotation of angle h |w| about w
    sap_euler   positions move with v_{n+1}, quaternions by q + h/2 (w, 0) q, normalized

Floating bodies translate with the velocity of their *origin*, or, on request, of their centre of mass C: then v_C is
what the step found for it, where C was when the step began, and the velocity of the origin follows from the new
rotation. Then those below bodies with dofs move in the world, and their joint coordinates follow from where both are
after that (`floating_children.py`). A world that failed keeps its state. The joints of kinematic bodies pass through
unchanged, as Newton defines it: whoever prescribes a motion sets position and velocity.
"""

import functools
import math
from typing import Any

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import FP64, Doubles, Types
from ..model.layout import FRAME_STILL
from ..settings.options import POSITION_INTEGRATIONS
from .boundary_data import make_boundary_data
from .kinematics import is_floating, make_com_offset

MIDPOINT = wp.constant(POSITION_INTEGRATIONS.index("midpoint"))
CENTERED = wp.constant(len(POSITION_INTEGRATIONS))
"""Added to the mode of integration if floating bodies move with their centre of mass."""


def integration_mode(options: Any) -> int:
    """The mode of `advance_world`."""
    centered = int(CENTERED) * (options.floating_body_point == "center_of_mass")
    return POSITION_INTEGRATIONS.index(options.position_integration) + centered


@functools.cache
def make_turn() -> Any:
    """``turn(q, w, h, mode)``: where an angular velocity leads, in fp64."""
    F = wp.float64
    # constants of their own: a plain number in a kernel is rounded to fp32 first
    S1, S2, S3, S4, S5 = (wp.constant(F(1.0 / math.factorial(k))) for k in (3, 5, 7, 9, 11))
    C1, C2, C3, C4, C5, C6 = (wp.constant(F(1.0 / math.factorial(k))) for k in (2, 4, 6, 8, 10, 12))

    @wp.func
    def turn(q: wp.quatd, w: wp.vec3d, h: F, mode: int) -> wp.quatd:
        """Rotation q after turning with angular velocity w, given in the axes q maps to."""
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

    return turn


@functools.cache
def make_advance_world(pose: Types, types: Types) -> Any:
    """``advance_world(io, world, h)``: positions of a world advance from io.c.v and io.v_new, in place and in fp64."""
    Boundary = make_boundary_data(pose, types)
    S = make_spatial(FP64)
    to_vec3, to_quat, load_quat, load3 = S.to_vec3, S.to_unit_quat, S.load_quat, S.load_vec3
    F = wp.float64
    com_offset, turn = make_com_offset(), make_turn()

    @wp.func
    def store_quat(a: Doubles, i: int, q: wp.quatd):
        for k in range(4):
            a[i + k] = q[k]

    @wp.func
    def advance_joint(io: wp.ref[Boundary], joint: int, h: F, centered: bool):
        """New joint_q of a floating or ball joint; v_new of a floating body that moves with its centre of mass."""
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
                w[i] = old * io.c.v[iv + i] + new * io.v_new[iv + i]
                v[i] = old * io.c.v[iv + 3 + i] + new * io.v_new[iv + 3 + i]
            r_FM = load_quat(io.c.q, iq + 3)
            r_new = turn(r_FM, w, h, mode)
            x = wp.vec3d(io.c.q[iq], io.c.q[iq + 1], io.c.q[iq + 2]) + v * h
            # the body origin moves with v; joint_q holds the moving frame M
            p_BM = to_vec3(wp.transform_get_translation(io.joints.joint_X_c[joint]))
            if wp.abs(p_BM[0]) + wp.abs(p_BM[1]) + wp.abs(p_BM[2]) != F(0.0):
                r_MB = wp.quat_inverse(to_quat(wp.transform_get_rotation(io.joints.joint_X_c[joint])))
                x += wp.quat_rotate(r_new * r_MB, p_BM) - wp.quat_rotate(r_FM * r_MB, p_BM)
            # the same for the centre of mass, if that is what moves with v
            arm = wp.vec3d()
            if centered:
                arm = com_offset(io.joints, joint, io.c.q)
                x += wp.cross(w, arm) * h
            for i in range(3):
                io.c.q[iq + i] = x[i]
            store_quat(io.c.q, iq + 3, r_new)
            if wp.length_sq(arm) > F(0.0):
                arm -= com_offset(io.joints, joint, io.c.q)
                spin = wp.cross(load3(io.v_new, iv), arm)
                for i in range(3):
                    io.c.q[iq + i] = io.c.q[iq + i] + arm[i]
                    io.v_new[iv + 3 + i] = io.v_new[iv + 3 + i] + spin[i]
        else:  # a ball joint
            w = wp.vec3d()
            for i in range(3):
                w[i] = old * io.c.v[iv + i] + new * io.v_new[iv + i]
            store_quat(io.c.q, iq, turn(load_quat(io.c.q, iq), w, h, mode))

    @wp.func
    def advance_world(io: wp.ref[Boundary], world: int, h: F):
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
                io.c.q[i] = io.c.q[i] + (old * io.c.v[dof] + new * io.v_new[dof])
            e += lane_count()
        i_end = io.layout.world_turning[world + 1]
        i = int(io.layout.world_turning[world] + lane())
        while i < i_end:
            b = io.layout.turning_body[i]
            if io.layout.body_prescribed[b] == 0:
                centered = io.integration >= CENTERED and io.layout.body_frame[b] == FRAME_STILL
                advance_joint(io, io.layout.body_joint[b], h, centered)
            i += lane_count()
        barrier()

    return advance_world
