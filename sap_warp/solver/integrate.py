"""Stage 5: integrate positions, then forward kinematics and the way back to public order.

    midpoint    positions move with (v_n + v_{n+1}) / 2, rotations by the rotation of angle h |w| about w
    sap_euler   positions move with v_{n+1}, quaternions by q + h/2 (w, 0) q, normalized

Floating bodies translate with the velocity of their *origin*. A world that failed keeps its state. The joints of
kinematic bodies pass through unchanged, as Newton defines it: whoever prescribes a motion sets position and velocity.
"""

import functools
from typing import Any

import warp as wp

from ..precision import FP64, TYPES, Types
from .arguments import StructArgument, make_flat
from .block import barrier, lane
from .boundary import make_boundary_kernels
from .kernel import solver_kernel
from .kinematics import BALL, JointParameters, Links, make_kinematics, make_link
from .layout import Layout, LayoutSizes
from .options import POSITION_INTEGRATIONS
from .parts import Part
from .status import FREE_MOTION_FAILED

MIDPOINT = wp.constant(POSITION_INTEGRATIONS.index("midpoint"))


@functools.cache
def make_body_motion(types: Types):
    """Struct of the forward kinematics' scratch, by body in solver order."""

    @wp.struct
    class BodyMotion:
        p: wp.array(dtype=types.vec3)  # origin [m, world]
        r: wp.array(dtype=types.quat)
        w: wp.array(dtype=types.vec3)  # angular velocity [rad/s, world]
        v: wp.array(dtype=types.vec3)  # velocity of the origin [m/s, world]

    return BodyMotion


@functools.cache
def make_integrate_kernel(state: Types):
    """The kernel of the stage for states of one precision: coordinates advance in fp64, kinematics in the state's."""
    Link, Motion = make_link(state), make_body_motion(state)
    K, K64 = make_kinematics(state), make_kinematics(FP64)
    is_floating, joint_translation, joint_rotation = K.is_floating, K.joint_translation, K.joint_rotation
    to_vec3_64, to_quat_64, load_quat = K64.to_vec3, K64.to_quat, K64.load_quat
    vec3 = state.vec3
    write_joint_velocity = make_boundary_kernels(state).write_joint_velocity
    scalar = state.scalar
    F = wp.float64
    flat_layout, flat_joints, flat_motion = make_flat(Layout), make_flat(JointParameters), make_flat(Motion)

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
            r_MB = wp.quat_inverse(to_quat_64(wp.transform_get_rotation(p.joint_X_c[joint])))
            p_BM = to_vec3_64(wp.transform_get_translation(p.joint_X_c[joint]))
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
            i_end = p.joint_qd_start[joint + 1] - iv
            i = int(0)
            while i < i_end:
                q_out[iq + i] = q[iq + i] + h * (old * v0[iv + i] + new * v1[iv + i])
                i += 1

    @wp.func
    def load3(v: wp.array(dtype=F), i: int) -> vec3:
        return vec3(scalar(v[i]), scalar(v[i + 1]), scalar(v[i + 2]))

    @wp.func
    def place_body(
        link: wp.ref[Link],
        axis: wp.array(dtype=vec3),
        m: wp.ref[Motion],
        b: int,
        q: wp.array(dtype=F),
        v: wp.array(dtype=F),
    ):
        """Pose and velocity of one body from those of its parent."""
        parent = link.parent
        iv = link.qd_start
        r_WF = link.r_PF
        p_WF = link.p_PF
        if parent >= 0:
            p_WF = m.p[parent] + wp.quat_rotate(m.r[parent], p_WF)
            r_WF = m.r[parent] * r_WF
        p_WM = p_WF + wp.quat_rotate(r_WF, joint_translation(link, axis, q))
        r_WM = r_WF
        w_rel = vec3()
        v_rel = vec3()  # of the body origin
        if is_floating(link.kind) or link.kind == BALL:
            r_WM = r_WF * joint_rotation(link, axis, q)
            w_rel = wp.quat_rotate(r_WF, load3(v, iv))
        else:
            i = int(0)
            while i < link.dof_count:
                a = axis[link.dof + i]
                if i < link.linear:
                    v_rel += wp.quat_rotate(r_WF, a) * scalar(v[iv + i])
                else:
                    w_rel += wp.quat_rotate(r_WM, a) * scalar(v[iv + i])
                    r_WM = r_WM * wp.quat_from_axis_angle(a, scalar(q[link.q_start + i]))
                i += 1
        r_WB = wp.normalize(r_WM * link.r_MB)
        arm = wp.quat_rotate(r_WB, link.p_BM)
        p_WB = p_WM - arm
        if is_floating(link.kind):
            v_rel = wp.quat_rotate(r_WF, load3(v, iv + 3))
        else:
            v_rel -= wp.cross(w_rel, arm)
        if parent >= 0:
            v_rel += m.v[parent] + wp.cross(m.w[parent], p_WB - m.p[parent])
            w_rel += m.w[parent]
        m.p[b] = p_WB
        m.r[b] = r_WB
        m.w[b] = w_rel
        m.v[b] = v_rel

    @wp.func
    def advance_world(
        world: int,
        layout_in: wp.array(dtype=Layout),
        joints_in: wp.array(dtype=JointParameters),
        links: wp.array(dtype=Link),
        axis: wp.array(dtype=vec3),
        mode: int,
        public_velocity: int,
        dt: F,
        status: wp.array(dtype=wp.int32),
        q_in: wp.array(dtype=F),
        v_in: wp.array(dtype=F),
        v_new: wp.array(dtype=F),
        motion_in: wp.array(dtype=Motion),
        q_new: wp.array(dtype=F),
        joint_q_out: wp.array(dtype=scalar),
        joint_qd_out: wp.array(dtype=scalar),
        body_q_out: wp.array(dtype=state.transform),
        body_qd_out: wp.array(dtype=wp.spatial_vectorf),
        time_out: wp.array(dtype=F),
        frame_out: wp.array(dtype=wp.int64),
    ):
        layout = layout_in[0]
        p = joints_in[0]
        m = motion_in[0]
        flat_layout(layout)
        flat_joints(p)
        flat_motion(m)
        h = dt
        if status[world] >= FREE_MOTION_FAILED:
            h = F(0.0)
            e_end = layout.world_dof[world + 1]
            e = int(layout.world_dof[world] + lane())
            while e < e_end:
                v_new[layout.dof_newton[e]] = v_in[layout.dof_newton[e]]
                e += wp.block_dim()
            barrier()
        b_end = layout.world_body[world + 1]
        b = int(layout.world_body[world] + lane())
        while b < b_end:
            joint = layout.body_joint[b]
            if h > F(0.0) and layout.body_prescribed[b] == 0:
                advance_joint(p, joint, h, mode, q_in, v_in, v_new, q_new)
            else:
                i_end = p.joint_q_start[joint + 1]
                i = int(p.joint_q_start[joint])
                while i < i_end:
                    q_new[i] = q_in[i]
                    i += 1
            i_end = p.joint_q_start[joint + 1]
            i = int(p.joint_q_start[joint])
            while i < i_end:
                joint_q_out[i] = scalar(q_new[i])
                i += 1
            write_joint_velocity(p, public_velocity, joint, q_new, v_new, joint_qd_out)
            b += wp.block_dim()
        barrier()
        level_end = layout.world_level[world + 1]
        level = int(layout.world_level[world])
        while level < level_end:
            i_end = layout.level_start[level + 1]
            i = int(layout.level_start[level] + lane())
            while i < i_end:
                b = layout.level_body[i]
                place_body(links[b], axis, m, b, q_new, v_new)
                body = links[b].body
                r = m.r[b]
                body_q_out[body] = state.transform(m.p[b], r)
                w = m.w[b]
                v_C = m.v[b] + wp.cross(w, wp.quat_rotate(r, links[b].com))
                twist = wp.spatial_vectorf()
                for k in range(3):
                    twist[k] = wp.float32(v_C[k])
                    twist[k + 3] = wp.float32(w[k])
                body_qd_out[body] = twist
                i += wp.block_dim()
            barrier()
            level += 1
        if world == 0 and lane() == 0:
            time_out[0] = time_out[0] + dt
            frame_out[0] = frame_out[0] + wp.int64(1)

    @solver_kernel
    def integrate(
        first_world: int,
        layout: wp.array(dtype=Layout),
        p: wp.array(dtype=JointParameters),
        links: wp.array(dtype=Link),
        axis: wp.array(dtype=vec3),
        mode: int,
        public_velocity: int,
        dt: F,
        status: wp.array(dtype=wp.int32),
        q_in: wp.array(dtype=F),
        v_in: wp.array(dtype=F),
        v_new: wp.array(dtype=F),
        m: wp.array(dtype=Motion),
        q_new: wp.array(dtype=F),
        joint_q_out: wp.array(dtype=scalar),
        joint_qd_out: wp.array(dtype=scalar),
        body_q_out: wp.array(dtype=state.transform),
        body_qd_out: wp.array(dtype=wp.spatial_vectorf),
        time_out: wp.array(dtype=F),
        frame_out: wp.array(dtype=wp.int64),
    ):
        advance_world(
            first_world + wp.tid() // wp.block_dim(),
            layout,
            p,
            links,
            axis,
            mode,
            public_velocity,
            dt,
            status,
            q_in,
            v_in,
            v_new,
            m,
            q_new,
            joint_q_out,
            joint_qd_out,
            body_q_out,
            body_qd_out,
            time_out,
            frame_out,
        )

    return integrate


class SapIntegrate:
    """Owns the buffers of the stage and the clock."""

    def __init__(
        self,
        model: Any,
        layout: StructArgument,
        sizes: LayoutSizes,
        parameters: StructArgument,
        links: Links,
        options: Any,
    ):
        """Allocate everything once."""
        self.model, self.sizes, self.parameters, self.links = model, sizes, parameters, links
        self.layout_argument = layout.array
        device = model.device
        self._mode = POSITION_INTEGRATIONS.index(options.position_integration)
        self._motion: dict[str, StructArgument] = {}
        self._q = wp.zeros(model.joint_coord_count, dtype=wp.float64, device=device)
        self.time = wp.zeros(1, dtype=wp.float64, device=device)
        self.frame = wp.zeros(1, dtype=wp.int64, device=device)

    def write(self, boundary: Any, velocity: wp.array, status: wp.array, state_out: Any, dt: float, part: Part) -> None:
        """Advance the positions held by ``boundary`` with ``velocity`` and fill ``state_out``."""
        types = TYPES[state_out.precision]
        wp.launch(
            make_integrate_kernel(types),
            dim=part.threads,
            inputs=[
                part.first,
                self.layout_argument,
                self.parameters.array,
                *self.links.get(types),
                self._mode,
                int(state_out.joint_qd_order == "public"),
                dt,
                status,
                boundary.joint_q,
                boundary.joint_qd,
                velocity,
            ],
            outputs=[
                self._scratch(types),
                self._q,
                state_out.joint_q,
                state_out.joint_qd,
                state_out.body_q,
                state_out.body_qd,
                self.time,
                self.frame,
            ],
            block_dim=part.lanes,
            device=self.model.device,
        )

    def _scratch(self, types: Types) -> Any:
        """Buffers of one state precision, made when a state of it first comes by."""
        if types.name not in self._motion:
            motion: Any = make_body_motion(types)()
            for name, variable in motion._cls.vars.items():
                count, dtype = self.sizes.body_count, variable.type.dtype
                setattr(motion, name, wp.zeros(count, dtype=dtype, device=self.model.device))
            self._motion[types.name] = StructArgument(motion, self.model.device)
        return self._motion[types.name].array
