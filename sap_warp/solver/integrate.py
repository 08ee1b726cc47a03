"""Stage 5: integrate positions, then forward kinematics and the way back to public order.

    midpoint    positions move with (v_n + v_{n+1}) / 2, rotations by the rotation of angle h |w| about w
    sap_euler   positions move with v_{n+1}, quaternions by q + h/2 (w, 0) q, normalized

Floating bodies translate with the velocity of their *origin*. A world that failed keeps its state.
"""

import functools
from typing import Any

import warp as wp

from ..precision import FP64, TYPES, Types
from .block import barrier, lane
from .boundary import make_boundary_kernels
from .kinematics import BALL, FIXED, JointParameters, make_kinematics
from .layout import Layout, LayoutSizes
from .options import POSITION_INTEGRATIONS
from .status import FREE_MOTION_FAILED

MIDPOINT = wp.constant(POSITION_INTEGRATIONS.index("midpoint"))


@wp.struct
class BodyMotion:
    """Scratch of the forward kinematics, by body in solver order."""

    p: wp.array(dtype=wp.vec3d)  # origin [m, world]
    r: wp.array(dtype=wp.quatd)
    w: wp.array(dtype=wp.vec3d)  # angular velocity [rad/s, world]
    v: wp.array(dtype=wp.vec3d)  # velocity of the origin [m/s, world]


@functools.cache
def make_integrate_kernel(state: Types):
    """The kernel of the stage for states of one precision; it computes in fp64."""
    K = make_kinematics(FP64)
    to_vec3, to_transform, unit_axis = K.to_vec3, K.to_transform, K.unit_axis
    is_floating, joint_transform, load_quat = K.is_floating, K.joint_transform, K.load_quat
    write_joint_velocity = make_boundary_kernels(state).write_joint_velocity
    scalar = state.scalar
    F = wp.float64

    @wp.func
    def turn(q: wp.quatd, w: wp.vec3d, h: F, mode: int) -> wp.quatd:
        """Rotation q after turning with angular velocity w, given in the axes q maps to."""
        if mode == MIDPOINT:
            angle = wp.length(w) * h
            if angle <= F(0.0):
                return q
            return wp.normalize(wp.quat_from_axis_angle(wp.normalize(w), angle) * q)
        rate = wp.quatd(w[0], w[1], w[2], F(0.0)) * q
        return wp.normalize(q + rate * (F(0.5) * h))

    @wp.func
    def store_quat(a: wp.array(dtype=F), i: int, q: wp.quatd):
        for k in range(4):
            a[i + k] = q[k]

    @wp.func
    def advance_joint(
        p: wp.ref[JointParameters],
        joint: int,
        h: F,
        mode: int,
        q: wp.array(dtype=F),
        v0: wp.array(dtype=F),
        v1: wp.array(dtype=F),
        q_out: wp.array(dtype=F),
    ):
        """New joint_q of one joint."""
        kind = p.joint_type[joint]
        iq = p.joint_q_start[joint]
        iv = p.joint_qd_start[joint]
        old = F(0.0)
        new = F(1.0)
        if mode == MIDPOINT:
            old = F(0.5)
            new = F(0.5)
        if is_floating(kind):
            w = wp.vec3d()
            v = wp.vec3d()
            for i in range(3):
                w[i] = old * v0[iv + i] + new * v1[iv + i]
                v[i] = old * v0[iv + 3 + i] + new * v1[iv + 3 + i]
            X_BM = to_transform(p.joint_X_c[joint])
            r_MB = wp.quat_inverse(wp.transform_get_rotation(X_BM))
            p_BM = wp.transform_get_translation(X_BM)
            r_FM = load_quat(q, iq + 3)
            r_new = turn(r_FM, w, h, mode)
            # the body origin moves with v; joint_q holds the moving frame M
            x = wp.vec3d(q[iq], q[iq + 1], q[iq + 2]) - wp.quat_rotate(r_FM * r_MB, p_BM)
            x = x + v * h + wp.quat_rotate(r_new * r_MB, p_BM)
            for i in range(3):
                q_out[iq + i] = x[i]
            store_quat(q_out, iq + 3, r_new)
        elif kind == BALL:
            w = wp.vec3d()
            for i in range(3):
                w[i] = old * v0[iv + i] + new * v1[iv + i]
            store_quat(q_out, iq, turn(load_quat(q, iq), w, h, mode))
        else:
            for i in range(p.joint_qd_start[joint + 1] - iv):
                q_out[iq + i] = q[iq + i] + h * (old * v0[iv + i] + new * v1[iv + i])

    @wp.func
    def place_body(
        layout: wp.ref[Layout], p: wp.ref[JointParameters], m: wp.ref[BodyMotion], b: int, q: wp.array(dtype=F), v: wp.array(dtype=F)
    ):
        """Pose and velocity of one body from those of its parent."""
        joint = layout.body_joint[b]
        parent = layout.body_parent[b]
        kind = p.joint_type[joint]
        iq = p.joint_q_start[joint]
        iv = p.joint_qd_start[joint]
        X_WF = to_transform(p.joint_X_p[joint])
        if parent >= 0:
            X_WF = wp.transformd(m.p[parent], m.r[parent]) * X_WF
        X_BM = to_transform(p.joint_X_c[joint])
        X_WM = X_WF * joint_transform(p, joint, q)
        r_WF = wp.transform_get_rotation(X_WF)
        r_WB = wp.normalize(wp.transform_get_rotation(X_WM) * wp.quat_inverse(wp.transform_get_rotation(X_BM)))
        p_WM = wp.transform_get_translation(X_WM)
        p_WB = p_WM - wp.quat_rotate(r_WB, wp.transform_get_translation(X_BM))
        w_rel = wp.vec3d()
        v_rel = wp.vec3d()  # of the body origin
        if is_floating(kind):
            w_rel = wp.quat_rotate(r_WF, wp.vec3d(v[iv], v[iv + 1], v[iv + 2]))
            v_rel = wp.quat_rotate(r_WF, wp.vec3d(v[iv + 3], v[iv + 4], v[iv + 5]))
        else:
            if kind == BALL:
                w_rel = wp.quat_rotate(r_WF, wp.vec3d(v[iv], v[iv + 1], v[iv + 2]))
            elif kind != FIXED:
                linear = p.joint_dof_dim[joint, 0]
                turned = r_WF
                for i in range(layout.body_dof_count[b]):
                    axis = unit_axis(p, iv + i)
                    if i < linear:
                        v_rel += wp.quat_rotate(r_WF, axis) * v[iv + i]
                    else:
                        w_rel += wp.quat_rotate(turned, axis) * v[iv + i]
                        turned = turned * wp.quat_from_axis_angle(axis, q[iq + i])
            v_rel += wp.cross(w_rel, p_WB - p_WM)
        if parent >= 0:
            v_rel += m.v[parent] + wp.cross(m.w[parent], p_WB - m.p[parent])
            w_rel += m.w[parent]
        m.p[b] = p_WB
        m.r[b] = r_WB
        m.w[b] = w_rel
        m.v[b] = v_rel

    @wp.kernel(module="unique", enable_backward=False)
    def integrate(
        layout: Layout,
        p: JointParameters,
        mode: int,
        public_velocity: int,
        dt: F,
        status: wp.array(dtype=wp.int32),
        q_in: wp.array(dtype=F),
        v_in: wp.array(dtype=F),
        v_new: wp.array(dtype=F),
        m: BodyMotion,
        q_new: wp.array(dtype=F),
        joint_q_out: wp.array(dtype=scalar),
        joint_qd_out: wp.array(dtype=scalar),
        body_q_out: wp.array(dtype=state.transform),
        body_qd_out: wp.array(dtype=wp.spatial_vectorf),
        time_out: wp.array(dtype=F),
        frame_out: wp.array(dtype=wp.int64),
    ):
        world = wp.tid() // wp.block_dim()
        h = dt
        if status[world] >= FREE_MOTION_FAILED:
            h = F(0.0)
            for e in range(layout.world_dof[world] + lane(), layout.world_dof[world + 1], wp.block_dim()):
                v_new[layout.dof_newton[e]] = v_in[layout.dof_newton[e]]
            barrier()
        for b in range(layout.world_body[world] + lane(), layout.world_body[world + 1], wp.block_dim()):
            joint = layout.body_joint[b]
            if h > F(0.0):
                advance_joint(p, joint, h, mode, q_in, v_in, v_new, q_new)
            else:
                for i in range(p.joint_q_start[joint], p.joint_q_start[joint + 1]):
                    q_new[i] = q_in[i]
            for i in range(p.joint_q_start[joint], p.joint_q_start[joint + 1]):
                joint_q_out[i] = scalar(q_new[i])
            write_joint_velocity(p, public_velocity, joint, q_new, v_new, joint_qd_out)
        barrier()
        for level in range(layout.world_level[world], layout.world_level[world + 1]):
            for i in range(layout.level_start[level] + lane(), layout.level_start[level + 1], wp.block_dim()):
                b = layout.level_body[i]
                place_body(layout, p, m, b, q_new, v_new)
                body = layout.body_newton[b]
                x = m.p[b]
                r = m.r[b]
                body_q_out[body] = state.transform(
                    state.vec3(scalar(x[0]), scalar(x[1]), scalar(x[2])),
                    state.quat(scalar(r[0]), scalar(r[1]), scalar(r[2]), scalar(r[3])),
                )
                w = m.w[b]
                v_C = m.v[b] + wp.cross(w, wp.quat_rotate(r, to_vec3(p.body_com[body])))
                twist = wp.spatial_vectorf()
                for k in range(3):
                    twist[k] = wp.float32(v_C[k])
                    twist[k + 3] = wp.float32(w[k])
                body_qd_out[body] = twist
            barrier()
        if world == 0 and lane() == 0:
            time_out[0] = time_out[0] + dt
            frame_out[0] = frame_out[0] + wp.int64(1)

    return integrate


class SapIntegrate:
    """Owns the buffers of the stage and the clock."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes, parameters: Any, options: Any):
        """Allocate everything once."""
        self.model, self.layout, self.sizes, self.parameters = model, layout, sizes, parameters
        device = model.device
        self._mode = POSITION_INTEGRATIONS.index(options.position_integration)
        self._motion: Any = BodyMotion()
        for name, variable in BodyMotion.vars.items():
            setattr(self._motion, name, wp.zeros(sizes.body_count, dtype=variable.type.dtype, device=device))
        self._q = wp.zeros(model.joint_coord_count, dtype=wp.float64, device=device)
        self.time = wp.zeros(1, dtype=wp.float64, device=device)
        self.frame = wp.zeros(1, dtype=wp.int64, device=device)

    def write(self, boundary: Any, velocity: wp.array, status: wp.array, state_out: Any, dt: float, block_dim: int) -> None:
        """Advance the positions held by ``boundary`` with ``velocity`` and fill ``state_out``."""
        wp.launch(
            make_integrate_kernel(TYPES[state_out.precision]),
            dim=self.sizes.world_count * block_dim,
            inputs=[
                self.layout,
                self.parameters,
                self._mode,
                int(state_out.joint_qd_order == "public"),
                dt,
                status,
                boundary.joint_q,
                boundary.joint_qd,
                velocity,
            ],
            outputs=[
                self._motion,
                self._q,
                state_out.joint_q,
                state_out.joint_qd,
                state_out.body_q,
                state_out.body_qd,
                self.time,
                self.frame,
            ],
            block_dim=block_dim,
            device=self.model.device,
        )
