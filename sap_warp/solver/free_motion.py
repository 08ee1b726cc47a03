"""Stage 2: free motion. Kinematics, the dynamics matrix A and the unconstrained velocity v*.

    A  = M + diag(joint_armature) + h diag(joint_damping)
    v* = v0 + A^-1 h (tau - c(q, v0) - diag(joint_damping) v0)

All spatial quantities of a tree are taken about one point o, the origin of the tree's root body at the start of the
step: composite inertias and forces are then plain sums over subtrees, and fp32 keeps its digits however far from
the world origin a replicated world lies. A spatial velocity is (w, u) with u the velocity of the body-fixed point
at o; a column S_k of the motion subspace is the spatial velocity for v_k = 1.
"""

import functools
from typing import Any

import warp as wp

from ..precision import FP64, TYPES, Types
from .block import barrier, lane, make_cholesky
from .kinematics import BALL, FIXED, JointParameters, make_kinematics
from .layout import Layout, LayoutSizes
from .status import FREE_MOTION_FAILED


@functools.cache
def make_free_motion_data(pose: Types, types: Types):
    """Struct of the stage's results: poses in ``pose`` precision, dynamics in ``types`` precision."""
    scalar, vec3, mat33 = types.scalar, types.vec3, types.mat33

    @wp.struct
    class FreeMotionData:
        # by body, solver order
        origin: wp.array(dtype=wp.vec3d)  # reference point o of a tree, at its root body [m, world]
        p: wp.array(dtype=pose.vec3)  # body origin relative to o [m, world axes]
        r: wp.array(dtype=pose.quat)  # body orientation R_WB
        # by dof, solver order
        Sw: wp.array(dtype=vec3)  # motion column, angular part
        Sv: wp.array(dtype=vec3)  # motion column, velocity at o
        v0: wp.array(dtype=wp.float64)  # incoming velocity, sap order
        v_star: wp.array(dtype=scalar)  # unconstrained velocity
        # packed rows
        A: wp.array(dtype=scalar)
        A_factor: wp.array(dtype=scalar)
        # scratch by body
        Vw: wp.array(dtype=vec3)
        Vv: wp.array(dtype=vec3)
        aw: wp.array(dtype=vec3)
        av: wp.array(dtype=vec3)
        fw: wp.array(dtype=vec3)
        fv: wp.array(dtype=vec3)
        m: wp.array(dtype=scalar)
        mc: wp.array(dtype=vec3)
        inertia: wp.array(dtype=mat33)
        # scratch by dof
        rhs: wp.array(dtype=scalar)

    return FreeMotionData


@functools.cache
def make_free_motion_kernel(pose: Types, types: Types):
    """The kernel of the stage: one block per world."""
    Data = make_free_motion_data(pose, types)
    K, K64 = make_kinematics(pose), make_kinematics(FP64)
    to_vec3, to_quat, to_transform, unit_axis = K.to_vec3, K.to_quat, K.to_transform, K.unit_axis
    is_floating, joint_transform = K.is_floating, K.joint_transform
    to_vec3_64, to_transform_64, joint_transform_64 = K64.to_vec3, K64.to_transform, K64.joint_transform
    cholesky = make_cholesky(types)
    factor, solve = cholesky.factor, cholesky.solve
    scalar, vec3, mat33, quat = types.scalar, types.vec3, types.mat33, types.quat
    pose_vec3 = pose.vec3

    @wp.func
    def cast(v: pose_vec3) -> vec3:
        return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))

    @wp.func
    def basis(i: int) -> pose_vec3:
        e = pose_vec3()
        e[i] = pose.scalar(1.0)
        return e

    @wp.func
    def root_origin(p: wp.ref[JointParameters], joint: int, q: wp.array(dtype=wp.float64)) -> wp.vec3d:
        """World position of a root body's origin, in fp64 whatever the stage's precision."""
        X = to_transform_64(p.joint_X_p[joint]) * joint_transform_64(p, joint, q)
        X = X * wp.transform_inverse(to_transform_64(p.joint_X_c[joint]))
        return wp.transform_get_translation(X)

    @wp.func
    def place_body(
        layout: wp.ref[Layout], p: wp.ref[JointParameters], d: wp.ref[Data], b: int, gravity: wp.vec3f, q: wp.array(dtype=wp.float64)
    ):
        """Pose, motion columns, velocity and bias acceleration of one body, from those of its parent."""
        joint = layout.body_joint[b]
        parent = layout.body_parent[b]
        kind = p.joint_type[joint]
        X_PF = to_transform(p.joint_X_p[joint])
        X_BM = to_transform(p.joint_X_c[joint])
        X_FM = joint_transform(p, joint, q)
        r_WF = wp.transform_get_rotation(X_PF)
        Vw = vec3()
        Vv = vec3()
        aw = vec3()
        av = -vec3(scalar(gravity[0]), scalar(gravity[1]), scalar(gravity[2]))
        p_F = pose_vec3()
        if parent >= 0:
            r_WF = d.r[parent] * r_WF
            p_F = d.p[parent] + wp.quat_rotate(d.r[parent], wp.transform_get_translation(X_PF))
            Vw = d.Vw[parent]
            Vv = d.Vv[parent]
            aw = d.aw[parent]
            av = d.av[parent]
        r_WB = wp.normalize(r_WF * wp.transform_get_rotation(X_FM) * wp.quat_inverse(wp.transform_get_rotation(X_BM)))
        arm = wp.quat_rotate(r_WB, wp.transform_get_translation(X_BM))  # from the body origin to M
        p_M = p_F + wp.quat_rotate(r_WF, wp.transform_get_translation(X_FM))
        if parent < 0:  # o is this body's origin
            p_F = p_F - p_M + arm
            p_M = arm
            d.origin[b] = root_origin(p, joint, q)
        p_B = p_M - arm

        e = layout.body_dof[b]
        if is_floating(kind):
            Vw_parent = Vw
            Vv_parent = Vv
            w_rel = vec3()
            u_rel = vec3()
            c = cast(p_B)
            for i in range(3):
                a = cast(wp.quat_rotate(r_WF, basis(i)))
                d.Sw[e + i] = a
                d.Sv[e + i] = wp.cross(c, a)
                d.Sw[e + 3 + i] = vec3()
                d.Sv[e + 3 + i] = a
                w_rel += a * scalar(d.v0[e + i])
                u_rel += a * scalar(d.v0[e + 3 + i])
            # angular columns pass through the child origin, which moves with the child
            Vw += w_rel
            Vv += u_rel + wp.cross(c, w_rel)
            origin_velocity = Vv + wp.cross(Vw, c)
            dw = wp.cross(Vw_parent, w_rel)
            aw += dw
            av += wp.cross(Vw_parent, u_rel) + wp.cross(origin_velocity, w_rel) + wp.cross(c, dw)
        elif kind == BALL:
            c = cast(p_M)
            w_rel = vec3()
            for i in range(3):
                a = cast(wp.quat_rotate(r_WF, basis(i)))
                d.Sw[e + i] = a
                d.Sv[e + i] = wp.cross(c, a)
                w_rel += a * scalar(d.v0[e + i])
            u_rel = wp.cross(c, w_rel)  # the three columns are fixed in the parent
            aw += wp.cross(Vw, w_rel)
            av += wp.cross(Vw, u_rel) + wp.cross(Vv, w_rel)
            Vw += w_rel
            Vv += u_rel
        elif kind != FIXED:
            iq = p.joint_q_start[joint]
            iv = p.joint_qd_start[joint]
            linear = p.joint_dof_dim[joint, 0]
            c = cast(p_M)
            turned = r_WF
            for i in range(layout.body_dof_count[b]):
                axis = unit_axis(p, iv + i)
                a = cast(wp.quat_rotate(turned, axis))
                sw = vec3()
                sv = a
                if i >= linear:  # each angular axis is carried by the rotations before it
                    sw = a
                    sv = wp.cross(c, a)
                    turned = turned * wp.quat_from_axis_angle(axis, pose.scalar(q[iq + i]))
                d.Sw[e + i] = sw
                d.Sv[e + i] = sv
                rate = scalar(d.v0[e + i])
                aw += wp.cross(Vw, sw) * rate
                av += (wp.cross(Vw, sv) + wp.cross(Vv, sw)) * rate
                Vw += sw * rate
                Vv += sv * rate
        d.p[b] = p_B
        d.r[b] = r_WB
        d.Vw[b] = Vw
        d.Vv[b] = Vv
        d.aw[b] = aw
        d.av[b] = av

    @wp.func
    def body_dynamics(
        layout: wp.ref[Layout], p: wp.ref[JointParameters], d: wp.ref[Data], b: int, body_f: wp.array(dtype=wp.spatial_vectord)
    ):
        """Spatial inertia of one body about o, and the force its motion and external wrench ask for."""
        body = layout.body_newton[b]
        r = d.r[b]
        R = wp.quat_to_matrix(quat(scalar(r[0]), scalar(r[1]), scalar(r[2]), scalar(r[3])))
        c_B = p.body_com[body]
        p_B = cast(d.p[b])
        c = p_B + R * vec3(scalar(c_B[0]), scalar(c_B[1]), scalar(c_B[2]))
        m = scalar(p.body_mass[body])
        I_B = p.body_inertia[body]
        I_C = mat33(
            scalar(I_B[0, 0]),
            scalar(I_B[0, 1]),
            scalar(I_B[0, 2]),
            scalar(I_B[1, 0]),
            scalar(I_B[1, 1]),
            scalar(I_B[1, 2]),
            scalar(I_B[2, 0]),
            scalar(I_B[2, 1]),
            scalar(I_B[2, 2]),
        )
        mc = m * c
        inertia = R * I_C * wp.transpose(R) + (wp.dot(mc, c) * wp.identity(n=3, dtype=scalar) - wp.outer(mc, c))
        Vw = d.Vw[b]
        Vv = d.Vv[b]
        aw = d.aw[b]
        av = d.av[b]
        hw = inertia * Vw + wp.cross(mc, Vv)
        hv = m * Vv - wp.cross(mc, Vw)
        residual = body_f[body]
        moment = vec3(scalar(residual[0]), scalar(residual[1]), scalar(residual[2]))
        force = vec3(scalar(residual[3]), scalar(residual[4]), scalar(residual[5]))
        d.m[b] = m
        d.mc[b] = mc
        d.inertia[b] = inertia
        d.fw[b] = inertia * aw + wp.cross(mc, av) + wp.cross(Vw, hw) + wp.cross(Vv, hv) + moment + wp.cross(p_B, force)
        d.fv[b] = m * av - wp.cross(mc, aw) + wp.cross(Vw, hv) + force

    @wp.kernel(module="unique", enable_backward=False)
    def free_motion(
        layout: Layout,
        p: JointParameters,
        gravity_in: wp.array(dtype=wp.vec3f),
        armature_in: wp.array(dtype=wp.float32),
        damping_in: wp.array(dtype=wp.float32),
        q_in: wp.array(dtype=wp.float64),
        v_in: wp.array(dtype=wp.float64),
        force_in: wp.array(dtype=wp.float64),
        body_f_in: wp.array(dtype=wp.spatial_vectord),
        dt: wp.float64,
        d: Data,
        status_out: wp.array(dtype=wp.int32),
    ):
        world = wp.tid() // wp.block_dim()
        h = scalar(dt)
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        gravity = gravity_in[layout.world_gravity[world]]
        for e in range(start + lane(), end, wp.block_dim()):
            d.v0[e] = v_in[layout.dof_newton[e]]
        barrier()
        first_level = layout.world_level[world]
        last_level = layout.world_level[world + 1]
        for level in range(first_level, last_level):
            for i in range(layout.level_start[level] + lane(), layout.level_start[level + 1], wp.block_dim()):
                b = layout.level_body[i]
                place_body(layout, p, d, b, gravity, q_in)
                body_dynamics(layout, p, d, b, body_f_in)
            barrier()
        for up in range(last_level - first_level):
            level = last_level - 1 - up
            for i in range(layout.level_start[level] + lane(), layout.level_start[level + 1], wp.block_dim()):
                b = layout.level_body[i]
                child = layout.body_child[b]
                while child >= 0:
                    d.m[b] = d.m[b] + d.m[child]
                    d.mc[b] = d.mc[b] + d.mc[child]
                    d.inertia[b] = d.inertia[b] + d.inertia[child]
                    d.fw[b] = d.fw[b] + d.fw[child]
                    d.fv[b] = d.fv[b] + d.fv[child]
                    child = layout.body_sibling[child]
            barrier()
        for e in range(start + lane(), end, wp.block_dim()):
            b = layout.dof_body[e]
            dof = layout.dof_newton[e]
            sw = d.Sw[e]
            sv = d.Sv[e]
            mc = d.mc[b]
            Fw = d.inertia[b] * sw + wp.cross(mc, sv)
            Fv = d.m[b] * sv - wp.cross(mc, sw)
            parameter = layout.dof_parameter[e]
            damping = scalar(damping_in[parameter])
            j = e
            while j >= 0:
                entry = wp.dot(d.Sw[j], Fw) + wp.dot(d.Sv[j], Fv)
                if j == e:
                    entry += scalar(armature_in[parameter]) + h * damping
                address = layout.dof_entry[j] + e - layout.dof_first[j]
                d.A[address] = entry
                d.A_factor[address] = entry
                j = layout.dof_parent[j]
            bias = wp.dot(sw, d.fw[b]) + wp.dot(sv, d.fv[b])
            d.rhs[e] = h * (scalar(force_in[dof]) - bias - damping * scalar(d.v0[e]))
        barrier()
        ok = factor(d.A_factor, layout.dof_first, layout.dof_entry, layout.dof_parent, start, end - start, 0)
        if ok != 0:
            solve(d.A_factor, layout.dof_first, layout.dof_entry, layout.dof_parent, start, end - start, 0, d.rhs)
        for e in range(start + lane(), end, wp.block_dim()):
            d.v_star[e] = scalar(d.v0[e])
            if ok != 0:
                d.v_star[e] = d.v_star[e] + d.rhs[e]
        if lane() == 0:
            status_out[world] = wp.where(ok != 0, 0, FREE_MOTION_FAILED)

    return free_motion


class SapFreeMotion:
    """Owns the buffers of the stage; `data` can be read after a step."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes, parameters: Any, options: Any):
        """Allocate everything once."""
        self.model, self.layout, self.sizes, self.parameters = model, layout, sizes, parameters
        self.types = TYPES[options.free_motion_solve_precision]
        # One forward kinematics serves dynamics and contacts, in the better of the two precisions asked for.
        self.pose_types = FP64 if options.use_f64_boundary_pose or self.types is FP64 else self.types
        self.data: Any = make_free_motion_data(self.pose_types, self.types)()
        counts = {"A": sizes.entry_count, "A_factor": sizes.entry_count}
        counts |= dict.fromkeys(("Sw", "Sv", "v0", "v_star", "rhs"), sizes.dof_count)
        for name, variable in self.data._cls.vars.items():
            count = counts.get(name, sizes.body_count)
            setattr(self.data, name, wp.zeros(count, dtype=variable.type.dtype, device=model.device))
        self._kernel = make_free_motion_kernel(self.pose_types, self.types)

    def compute(self, boundary: Any, dt: float, status: wp.array, block_dim: int) -> None:
        """Fill `data` for the state held by ``boundary``; a world whose A is not positive definite is marked."""
        model = self.model
        wp.launch(
            self._kernel,
            dim=self.sizes.world_count * block_dim,
            inputs=[
                self.layout,
                self.parameters,
                model.gravity,
                model.joint_armature,
                model.joint_damping,
                boundary.joint_q,
                boundary.joint_qd,
                boundary.joint_f,
                boundary.body_f,
                dt,
            ],
            outputs=[self.data, status],
            block_dim=block_dim,
            device=model.device,
        )

    def dynamics_matrix(self, world: int = 0) -> Any:
        """Dense A of one world as a NumPy array, rows and columns in Newton's dof order of that world."""
        return self._dense(self.data.A, world)

    def v_star(self) -> Any:
        """Unconstrained velocities of all worlds as a NumPy array in sap order, Newton's dof numbering."""
        return self.to_newton_order(self.data.v_star)

    def to_newton_order(self, values: wp.array) -> Any:
        """Values by dof in Newton's numbering, as a NumPy array."""
        import numpy as np

        source = values.numpy()
        result = np.empty_like(source)
        result[self.layout.dof_newton.numpy()] = source
        return result

    def _dense(self, packed: wp.array, world: int) -> Any:
        import numpy as np

        start, end = self.layout.world_dof.numpy()[world : world + 2]
        first, entry = self.layout.dof_first.numpy(), self.layout.dof_entry.numpy()
        order = np.argsort(self.layout.dof_newton.numpy()[start:end])
        values = packed.numpy()
        dense = np.zeros((end - start, end - start), values.dtype)
        for e in range(start, end):
            row = values[entry[e] : entry[e] + e - first[e] + 1]
            dense[e - start, first[e] - start : e - start + 1] = row
            dense[first[e] - start : e - start + 1, e - start] = row
        return dense[np.ix_(order, order)]
