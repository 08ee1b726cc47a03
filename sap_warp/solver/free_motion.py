"""Stage 2: free motion. The dynamics matrix A and the unconstrained velocity v*.

    A       = M + diag(joint_armature) + h diag(joint_damping)
    impulse = h (tau - c(q, v0) - diag(joint_damping) v0)
    v*      = v0 + A^-1 impulse                                  `free_velocity`, where it is needed

Prescribed dofs (kinematic bodies) move with v0, unaccelerated, and have no row in A: what they do to the bodies that
they carry is part of c.

All spatial quantities of a tree are taken about one point o, the origin of the tree's root body at the start of the
step: composite inertias and forces are then plain sums over subtrees, and fp32 keeps its digits however far from
the world origin a replicated world lies. A spatial velocity is (w, u) with u the velocity of the body-fixed point
at o; a column S_k of the motion subspace is the spatial velocity for v_k = 1.
"""

import functools
from typing import Any

import numpy as np
import warp as wp

from ..kernels.lanes import barrier, lane
from ..kernels.launch import solver_kernel
from ..kernels.structs import Scratch, StructArgument, make_flat, make_window, padded_zeros
from ..kernels.types import FP64, TYPES, Types
from .block import make_add_rows
from .free_velocity import is_needed_by_all, make_free_velocity_kernel
from .kinematics import Links, make_kinematics, make_link
from .layout import Layout, LayoutSizes
from .parts import Part
from .status import DIVERGED, FREE_MOTION_FAILED
from .wide import make_wide_dynamics

NOT_FINITE = wp.constant(1)
"""Mark of a world with a coordinate that is not finite."""
NOT_POSITIVE = wp.constant(8)
"""Mark of a world with a diagonal entry of A that is not positive."""


@functools.cache
def make_free_motion_data(pose: Types, types: Types):
    """Struct of the stage's results: poses in ``pose`` precision, dynamics in ``types`` precision."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.struct
    class FreeMotionData:
        # by body, solver order
        origin: wp.array(dtype=wp.vec3d)  # reference point o of a tree, at its root body [m, world]
        p: wp.array(dtype=pose.vec3)  # body origin relative to o [m, world axes]
        r: wp.array(dtype=pose.quat)  # body orientation R_WB
        # by dof, solver order
        Sw: wp.array(dtype=vec3)  # motion column, angular part
        Sv: wp.array(dtype=vec3)  # motion column, velocity at o
        turn: wp.array(dtype=pose.vec2)  # sine and cosine of half the angle of a scalar joint's angular dof
        v0: wp.array(dtype=wp.float64)  # incoming velocity, sap order
        v_star: wp.array(dtype=scalar)  # unconstrained velocity
        impulse: wp.array(dtype=scalar)  # A (v* - v0) [N s or N m s]
        solved: int  # whether all worlds have v_star and A_factor before the solve
        # packed rows
        A: wp.array(dtype=scalar)
        inverse_diagonal: wp.array(dtype=scalar)  # 1/A_ee, by dof
        A_factor: wp.array(dtype=scalar)
        Vw: wp.array(dtype=vec3)  # spatial velocities, by body
        Vv: wp.array(dtype=vec3)
        aw: wp.array(dtype=vec3)  # spatial accelerations of unaccelerated dofs without gravity, by body
        av: wp.array(dtype=vec3)
        mark: wp.array(dtype=wp.int32)  # what reading the state found, by world
        # scratch by body
        shared: int  # whether all worlds use the same scratch
        # sixteen numbers: mass, first moments, moments of inertia xx, yy, zz, products yz, zx, xy, moment, force
        composite: wp.array(dtype=wp.types.vector(length=16, dtype=scalar))
        # scratch by dof
        diagonal: wp.array(dtype=scalar)  # armature and damping
        column_force: wp.array(dtype=scalar)  # composite inertia times motion column, six runs for each world

    return FreeMotionData


SCRATCH = (
    ("composite", "body"),
    ("diagonal", "dof"),
    ("column_force", "6 * dof"),
)
"""Fields that nothing reads after the stage, and where a world's entries begin."""


@functools.cache
def make_free_motion_kernel(pose: Types, types: Types, native: bool = True):
    """The kernel of the stage: one block per world. ``native=False`` is for one lane without `wide`."""
    Data = make_free_motion_data(pose, types)
    Link = make_link(pose)
    rotation_matrix = make_kinematics(types).rotation_matrix
    rows = make_add_rows(types, types)
    dynamics = make_wide_dynamics(pose, types, Layout, Link, Data, native)
    store_force, add_rows = rows.store_force, rows.add_rows
    scalar, vec3, mat33, quat = types.scalar, types.vec3, types.mat33, types.quat
    pose_vec3, Row = pose.vec3, wp.types.vector(length=16, dtype=scalar)
    flat_layout, flat_data, window = make_flat(Layout), make_flat(Data), make_window(Data, SCRATCH)

    @wp.func
    def cast(v: pose_vec3) -> vec3:
        return vec3(scalar(v[0]), scalar(v[1]), scalar(v[2]))

    @wp.func
    def turned(R: mat33, I: mat33):
        """R I R^T of a symmetric I, which is symmetric: its moments and products."""
        T = R * I
        a = vec3(T[0, 0], T[0, 1], T[0, 2])
        b = vec3(T[1, 0], T[1, 1], T[1, 2])
        x = vec3(R[0, 0], R[0, 1], R[0, 2])
        y = vec3(R[1, 0], R[1, 1], R[1, 2])
        z = vec3(R[2, 0], R[2, 1], R[2, 2])
        moments = vec3(wp.dot(a, x), wp.dot(b, y), wp.dot(vec3(T[2, 0], T[2, 1], T[2, 2]), z))
        return moments, vec3(wp.dot(b, z), wp.dot(a, z), wp.dot(a, y))

    @wp.func
    def apply(moments: vec3, products: vec3, v: vec3) -> vec3:
        """Inertia times a vector."""
        return vec3(
            moments[0] * v[0] + products[2] * v[1] + products[1] * v[2],
            products[2] * v[0] + moments[1] * v[1] + products[0] * v[2],
            products[1] * v[0] + products[0] * v[1] + moments[2] * v[2],
        )

    @wp.func
    def body_dynamics(
        link: wp.ref[Link], d: wp.ref[Data], b: int, gravity: vec3, body_f: wp.array(dtype=wp.spatial_vectord)
    ):
        """Spatial inertia of one body about o, and the force its motion and external wrench ask for."""
        r = d.r[b]
        R = rotation_matrix(quat(scalar(r[0]), scalar(r[1]), scalar(r[2]), scalar(r[3])))
        p_B = cast(d.p[b])
        c = p_B + R * cast(link.com)
        m = scalar(link.mass)
        mc = m * c
        moments, products = turned(R, mat33(link.inertia))
        x2 = mc[0] * c[0]
        y2 = mc[1] * c[1]
        z2 = mc[2] * c[2]
        moments += vec3(y2 + z2, z2 + x2, x2 + y2)
        products -= vec3(mc[1] * c[2], mc[2] * c[0], mc[0] * c[1])
        Vw = d.Vw[b]
        Vv = d.Vv[b]
        aw = d.aw[b]
        av = d.av[b] - gravity  # as if the ground accelerated upwards
        hw = apply(moments, products, Vw) + wp.cross(mc, Vv)
        hv = m * Vv - wp.cross(mc, Vw)
        residual = body_f[link.body]
        moment = vec3(scalar(residual[0]), scalar(residual[1]), scalar(residual[2]))
        force = vec3(scalar(residual[3]), scalar(residual[4]), scalar(residual[5]))
        fw = apply(moments, products, aw) + wp.cross(mc, av) + wp.cross(Vw, hw) + wp.cross(Vv, hv)
        fw += moment + wp.cross(p_B, force)
        fv = m * av - wp.cross(mc, aw) + wp.cross(Vw, hv) + force
        row = Row()
        row[0] = m
        for k in range(3):
            row[1 + k] = mc[k]
            row[4 + k] = moments[k]
            row[7 + k] = products[k]
            row[10 + k] = fw[k]
            row[13 + k] = fv[k]
        d.composite[b] = row

    @wp.func
    def dynamics_by_lanes(
        layout: wp.ref[Layout],
        links: wp.array(dtype=Link),
        d: wp.ref[Data],
        world: int,
        gravity: vec3,
        armature_in: wp.array(dtype=wp.float32),
        damping_in: wp.array(dtype=wp.float32),
        force_in: wp.array(dtype=wp.float64),
        body_f_in: wp.array(dtype=wp.spatial_vectord),
        h: scalar,
    ):
        """Composite inertias, column forces, diagonal and impulse of one world, by all lanes of its block."""
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        b_end = layout.world_body[world + 1]
        b = int(layout.world_body[world] + lane())
        while b < b_end:
            body_dynamics(links[b], d, b, gravity, body_f_in)
            b += wp.block_dim()
        barrier()
        first_level = layout.world_level[world]
        last_level = layout.world_level[world + 1]
        up_end = last_level - first_level
        up = int(0)
        while up < up_end:
            level = last_level - 1 - up
            i_end = layout.level_start[level + 1]
            i = int(layout.level_start[level] + lane())
            while i < i_end:
                b = layout.level_body[i]
                child = layout.body_child[b]
                while child >= 0:
                    d.composite[b] = d.composite[b] + d.composite[child]
                    child = layout.body_sibling[child]
                i += wp.block_dim()
            barrier()
            up += 1
        e = int(start + lane())
        while e < end:
            b = layout.dof_body[e]
            dof = layout.dof_newton[e]
            sw = d.Sw[e]
            sv = d.Sv[e]
            row = d.composite[b]
            mc = vec3(row[1], row[2], row[3])
            moments = vec3(row[4], row[5], row[6])
            products = vec3(row[7], row[8], row[9])
            Fw = apply(moments, products, sw) + wp.cross(mc, sv)
            Fv = row[0] * sv - wp.cross(mc, sw)
            parameter = layout.dof_parameter[e]
            damping = scalar(damping_in[parameter])
            d.diagonal[e] = scalar(armature_in[parameter]) + h * damping
            store_force(d.column_force, start, end - start, e, Fw, Fv)
            bias = wp.dot(sw, vec3(row[10], row[11], row[12])) + wp.dot(sv, vec3(row[13], row[14], row[15]))
            impulse = h * (scalar(force_in[dof]) - bias - damping * scalar(d.v0[e]))
            d.impulse[e] = impulse
            e += wp.block_dim()
        barrier()

    @wp.func
    def move_freely(
        world: int,
        layout_in: wp.array(dtype=Layout),
        links: wp.array(dtype=Link),
        gravity_in: wp.array(dtype=wp.vec3f),
        armature_in: wp.array(dtype=wp.float32),
        damping_in: wp.array(dtype=wp.float32),
        force_in: wp.array(dtype=wp.float64),
        body_f_in: wp.array(dtype=wp.spatial_vectord),
        dt: wp.float64,
        data_in: wp.array(dtype=Data),
        status_out: wp.array(dtype=wp.int32),
    ):
        layout = layout_in[0]
        d = data_in[0]
        flat_layout(layout)
        window(d, d.shared * layout.world_body[world], d.shared * layout.world_dof[world])
        flat_data(d)
        h = scalar(dt)
        start = layout.world_dof[world]
        end = layout.world_dof[world + 1]
        g = gravity_in[layout.world_gravity[world]]
        gravity = vec3(scalar(g[0]), scalar(g[1]), scalar(g[2]))
        e_end = layout.world_prescribed[world + 1]
        e = int(layout.world_prescribed[world] + lane())
        while e < e_end:
            d.v_star[e] = scalar(d.v0[e])
            e += wp.block_dim()
        if (
            dynamics(
                layout,
                links,
                d,
                layout.world_body[world],
                layout.world_body[world + 1],
                start,
                end,
                gravity,
                armature_in,
                damping_in,
                force_in,
                body_f_in,
                h,
            )
            == 0
        ):
            dynamics_by_lanes(layout, links, d, world, gravity, armature_in, damping_in, force_in, body_f_in, h)
        add_rows(
            d.A,
            layout.dof_first,
            layout.dof_entry,
            d.A,
            layout.dof_first,
            layout.dof_entry,
            start,
            end - start,
            d.Sw,
            d.Sv,
            d.column_force,
            0,
        )
        e = int(start + lane())
        while e < end:
            address = layout.dof_entry[e] + e - layout.dof_first[e]
            A_ee = d.A[address] + d.diagonal[e]
            d.A[address] = A_ee
            if not (A_ee > scalar(0.0)):
                wp.atomic_or(d.mark, world, NOT_POSITIVE)
            d.inverse_diagonal[e] = scalar(1.0) / A_ee
            e += wp.block_dim()
        barrier()
        if lane() == 0:
            mark = d.mark[world]
            failed = wp.where((mark & NOT_POSITIVE) != 0, FREE_MOTION_FAILED, 0)
            status_out[world] = wp.where((mark & NOT_FINITE) != 0, DIVERGED, failed)

    @solver_kernel
    def free_motion(
        first_world: int,
        layout: wp.array(dtype=Layout),
        links: wp.array(dtype=Link),
        gravity_in: wp.array(dtype=wp.vec3f),
        armature_in: wp.array(dtype=wp.float32),
        damping_in: wp.array(dtype=wp.float32),
        force_in: wp.array(dtype=wp.float64),
        body_f_in: wp.array(dtype=wp.spatial_vectord),
        dt: wp.float64,
        d: wp.array(dtype=Data),
        status_out: wp.array(dtype=wp.int32),
    ):
        move_freely(
            first_world + wp.tid() // wp.block_dim(),
            layout,
            links,
            gravity_in,
            armature_in,
            damping_in,
            force_in,
            body_f_in,
            dt,
            d,
            status_out,
        )

    return free_motion


class SapFreeMotion:
    """Owns the buffers of the stage; `data` can be read after a step."""

    def __init__(self, model: Any, layout: StructArgument, sizes: LayoutSizes, links: Links, options: Any):
        """Allocate everything once."""
        self.model, self.layout, self.sizes = model, layout.struct, sizes
        self.layout_argument = layout.array
        self.types = TYPES[options.free_motion_solve_precision]
        # One forward kinematics serves dynamics and contacts, in the better of the two precisions asked for.
        self.pose_types = FP64 if options.use_f64_boundary_pose or self.types is FP64 else self.types
        self.data: Any = make_free_motion_data(self.pose_types, self.types)()
        solved = is_needed_by_all(options, sizes.distance_rows_max)
        counts = {"A": sizes.entry_count, "A_factor": sizes.entry_count if solved else 0}
        counts |= dict.fromkeys(("Sw", "Sv", "turn", "v0", "v_star", "impulse", "inverse_diagonal"), sizes.dof_count)
        counts["mark"] = sizes.world_count
        scratch = Scratch(self.layout, sizes, model.device)
        room = {"body": scratch.body_count, "dof": scratch.dof_count, "6 * dof": 6 * scratch.dof_count}
        counts |= {name: room[first] for name, first in SCRATCH}
        for name, variable in self.data._cls.vars.items():
            if isinstance(variable.type, wp.array):
                count = counts.get(name, sizes.body_count)
                setattr(self.data, name, padded_zeros(count, variable.type.dtype, model.device))
        self.data.shared = scratch.shared
        self.data.solved = int(solved)
        self._solve_buffers: list[wp.array] = []
        if solved:
            self._solve_buffers = [
                self.data.A_factor,
                wp.zeros(sizes.dof_count, self.types.scalar, device=model.device),
            ]
        self.argument = StructArgument(self.data, model.device).array
        self._links = links.get(self.pose_types)[0]
        self._kernel = make_free_motion_kernel(self.pose_types, self.types)

    def compute(self, boundary: Any, dt: float, status: wp.array, part: Part) -> None:
        """Fill the rest of `data` for the state that ``boundary`` has read; v* only if every world needs it."""
        model = self.model
        wp.launch(
            self._kernel,
            dim=part.threads,
            inputs=[
                part.first,
                self.layout_argument,
                self._links,
                model.gravity,
                model.joint_armature,
                model.joint_damping,
                boundary.joint_f,
                boundary.body_f,
                dt,
            ],
            outputs=[self.argument, status],
            block_dim=part.lanes,
            device=model.device,
        )
        if self.data.solved:
            self.solve(status, part)

    def solve(self, status: wp.array, part: Part) -> None:
        """Fill ``data.v_star`` from the rest of `data`; a world whose A is not positive definite is marked."""
        device, scalar = self.model.device, self.types.scalar
        if not self._solve_buffers:
            counts = (self.sizes.entry_count, self.sizes.dof_count)
            self._solve_buffers = [wp.zeros(count, dtype=scalar, device=device) for count in counts]
        wp.launch(
            make_free_velocity_kernel(self.types, make_free_motion_data(self.pose_types, self.types)),
            dim=part.threads,
            inputs=[part.first, self.layout_argument, self.argument],
            outputs=[*self._solve_buffers, status],
            block_dim=part.lanes,
            device=device,
        )

    def dynamics_matrix(self, world: int = 0) -> Any:
        """Dense A of one world as a NumPy array, rows and columns in Newton's dof order of that world."""
        return self._dense(self.data.A, world)

    def v_star(self) -> Any:
        """Unconstrained velocities of all worlds as a NumPy array in sap order, Newton's dof numbering."""
        if not self.data.solved:
            ignored = wp.zeros(self.sizes.world_count, dtype=wp.int32, device=self.model.device)
            self.solve(ignored, Part(0, self.sizes.world_count, 1))
        return self.to_newton_order(self.data.v_star)

    def to_newton_order(self, values: wp.array) -> Any:
        """Values by dof in Newton's numbering, as a NumPy array."""
        source = values.numpy()
        result = np.empty_like(source)
        result[self.layout.dof_newton.numpy()] = source
        return result

    def _dense(self, packed: wp.array, world: int) -> Any:
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
