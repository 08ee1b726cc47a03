"""Stage 2: free motion. The dynamics matrix A and the unconstrained velocity v*.

    A       = M + diag(joint_armature) + h diag(joint_damping)
    impulse = h (tau - c(q, v0) - diag(joint_damping) v0)
    v*      = v0 + A^-1 impulse

The minimum of the objective does not depend on knowing v*: A (v - v*) follows from the impulse, and a constant in the
cost moves no minimum. So v* is left to the solve, which finds it for the worlds that need it (`momentum_cost`), unless
the options let every world need it.

Prescribed dofs (kinematic bodies) move with v0, unaccelerated, and have no row in A: what they do to the bodies that
they carry is part of c.

All spatial quantities of a tree are taken about one point o, the origin of the tree's root body at the start of the
step: composite inertias and forces are then plain sums over subtrees, and fp32 keeps its digits however far from
the world origin a replicated world lies. A spatial velocity is (w, u) with u the velocity of the body-fixed point
at o; a column S_k of the motion subspace is the spatial velocity for v_k = 1.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.lanes import barrier, is_native, lane, lane_count, native_twin
from ...core.kernels.launch import WorldRange, solver_kernel
from ...core.kernels.packed_rows import make_add_rows, make_cholesky
from ...core.kernels.scratch import Scratch, make_window, world_starts
from ...core.kernels.spatial import make_spatial
from ...core.kernels.structs import StructArgument, StructCache, allocate_arrays, make_flat, struct_parameter
from ...core.kernels.types import FP64, TYPES, Types
from ..model.layout import Layout, LayoutSizes
from ..model.links import Links, make_link
from ..model.motion_data import NOT_FINITE, NOT_POSITIVE, SCRATCH, entry_counts, make_motion_data
from ..settings.options import SapOptions
from ..settings.status import DIVERGED, FREE_MOTION_FAILED
from .fluid import Fluid
from .gravity_compensation import GravityCompensation


@wp.struct
class MotionInput:
    """What drives the free motion, by reference."""

    gravity: wp.array(dtype=wp.vec3f)  # by world [m/s^2]
    armature: wp.array(dtype=wp.float32)  # [kg or kg m^2], Newton's dofs
    damping: wp.array(dtype=wp.float32)  # [N s/m or N m s/rad]
    joint_f: wp.array(dtype=wp.float64)  # generalized forces, sap order [N or N m]
    body_f: wp.array(dtype=wp.spatial_vectord)  # residual -[tau_O, f] of the external wrenches [N m, N]


def is_needed_by_all(options: SapOptions, distance_rows: int) -> bool:
    """Whether every world needs v* and the factorization of A in every step.

    - The exact contact weight is made from the factorization.
    - A distance joint takes part or not by the speed of its anchors in free motion.
    - armijo_decay compares differences of the cost with its size at every trial.
    - The solve can factorize A where it factorizes the Hessian only if both have the same precision.
    """
    return (
        options.contact_weight_mode == "delassus"
        or distance_rows > 0
        or options.line_search_variant == "armijo_decay"
        or options.free_motion_solve_precision != options.contact_linear_solve_precision
    )


@functools.cache
def make_motion_stage(pose: Types, types: Types):
    """Struct of what the kernels of the stage work with."""
    Data, Link = make_motion_data(pose, types), make_link(pose)

    @wp.struct
    class MotionStage:
        layout: Layout
        links: wp.array(dtype=Link)
        d: Data

    return MotionStage


@functools.cache
def make_inertia(types: Types) -> SimpleNamespace:
    """Device functions for symmetric tensors of inertia, which are their moments xx, yy, zz and products yz, xz, xy."""
    vec3, mat33 = types.vec3, types.mat33

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

    return SimpleNamespace(turned=turned, apply=apply)


@functools.cache
def make_body_dynamics(pose: Types, types: Types):
    """``body_dynamics(link, d, b, gravity, body_f)``: a body's row of `composite`, before those below are added."""
    Data, Link, inertia, S = make_motion_data(pose, types), make_link(pose), make_inertia(types), make_spatial(types)
    turned, apply = inertia.turned, inertia.apply
    rotation_matrix, to_vec3, to_quat = S.rotation_matrix, S.to_vec3, S.to_quat
    scalar, vec3, mat33 = types.scalar, types.vec3, types.mat33
    Row = wp.types.vector(length=16, dtype=scalar)

    @wp.func
    def body_dynamics(link: wp.ref[Link], d: wp.ref[Data], b: int, gravity: vec3, body_f: wp.array[wp.spatial_vectord]):
        """Spatial inertia of one body about o, and the force its motion and external wrench ask for."""
        R = rotation_matrix(to_quat(d.r[b]))
        p_B = to_vec3(d.p[b])
        c = p_B + R * to_vec3(link.com)
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

    return body_dynamics


@functools.cache
def make_dynamics(pose: Types, types: Types):
    """``dynamics(stage, inputs, world, gravity, h)``: all of a world's A but its sums, and its impulse.

    Composite inertias, column forces, diagonal and impulse.
    """
    Stage, body_dynamics = make_motion_stage(pose, types), make_body_dynamics(pose, types)
    apply, store_force = make_inertia(types).apply, make_add_rows(types, types).store_force
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def add_children(stage: wp.ref[Stage], b: int):
        """Let a body have the inertia and force of its subtree."""
        child = stage.layout.body_child[b]
        while child >= 0:
            stage.d.composite[b] = stage.d.composite[b] + stage.d.composite[child]
            child = stage.layout.body_sibling[child]

    @wp.func
    def dynamics(stage: wp.ref[Stage], inputs: wp.ref[MotionInput], world: int, gravity: vec3, h: scalar) -> int:
        """By all lanes of a block; returns 1 if native code has done it."""
        if is_native():
            if dynamics_native(stage, inputs, world, gravity, h) != 0:
                return 1
        start = stage.layout.world_dof[world]
        end = stage.layout.world_dof[world + 1]
        b_end = stage.layout.world_body[world + 1]
        b = int(stage.layout.world_body[world] + lane())
        while b < b_end:
            body_dynamics(stage.links[b], stage.d, b, gravity, inputs.body_f)
            b += lane_count()
        barrier()
        last_level = stage.layout.world_level[world]
        level = int(stage.layout.world_level[world + 1])
        while level > last_level:  # from the leaves up
            level -= 1
            i_end = stage.layout.level_start[level + 1]
            i = int(stage.layout.level_start[level] + lane())
            while i < i_end:
                add_children(stage, stage.layout.level_body[i])
                i += lane_count()
            barrier()
        e = int(start + lane())
        while e < end:
            b = stage.layout.dof_body[e]
            dof = stage.layout.dof_newton[e]
            sw = stage.d.Sw[e]
            sv = stage.d.Sv[e]
            row = stage.d.composite[b]
            mc = vec3(row[1], row[2], row[3])
            moments = vec3(row[4], row[5], row[6])
            products = vec3(row[7], row[8], row[9])
            Fw = apply(moments, products, sw) + wp.cross(mc, sv)
            Fv = row[0] * sv - wp.cross(mc, sw)
            parameter = stage.layout.dof_parameter[e]
            damping = scalar(inputs.damping[parameter])
            stage.d.diagonal[e] = scalar(inputs.armature[parameter]) + h * damping
            store_force(stage.d.column_force, start, end - start, e, Fw, Fv)
            bias = wp.dot(sw, vec3(row[10], row[11], row[12])) + wp.dot(sv, vec3(row[13], row[14], row[15]))
            impulse = h * (scalar(inputs.joint_f[dof]) - bias - damping * scalar(stage.d.v0[e]))
            stage.d.impulse[e] = impulse
            e += lane_count()
        barrier()
        return 0

    arguments = "stage.layout, stage.links, stage.d, inputs, world, gravity, h"
    call = f"return sap::dynamics<{pose.c_name}, {types.c_name}>({arguments});"
    dynamics_native = native_twin(dynamics, call, "return 0;")
    return dynamics


@functools.cache
def make_free_motion_kernel(pose: Types, types: Types, by_value: bool):
    """The kernel of the stage: one block per world; ``by_value`` is that of `struct_parameter`."""
    Stage, Data = make_motion_stage(pose, types), make_motion_data(pose, types)
    dynamics = make_dynamics(pose, types)
    add_rows = make_add_rows(types, types).add_rows
    scalar = types.scalar
    to_vec3 = make_spatial(types).to_vec3
    flat_stage, flat_input = make_flat(Stage), make_flat(MotionInput)
    window = make_window(Stage, tuple((f"d.{name}", at) for name, at in SCRATCH))
    stage_type, read_stage = struct_parameter(Stage, by_value)

    @wp.func
    def note_fall(layout: wp.ref[Layout], d: wp.ref[Data], world: int, gravity: types.vec3):
        """How far the mass of a world has come down since the last step."""
        moment = wp.vec4d()
        top = layout.world_level[world]  # the roots; a world without bodies has no level
        i = int(layout.level_start[top])
        i_end = layout.level_start[wp.min(top + 1, layout.world_level[world + 1])]
        while i < i_end:
            b = layout.level_body[i]
            m = wp.float64(d.composite[b][0])
            for k in range(3):
                moment[k] += wp.float64(d.composite[b][1 + k]) + m * d.origin[b][k]
            moment[3] += m
            i += 1
        change = moment - d.energy_moment[world]
        d.energy_moment[world] = moment
        fall = wp.float64(0.0)
        for k in range(3):
            fall += wp.float64(gravity[k]) * change[k]
        d.energy_fall[world] = fall

    @solver_kernel
    def free_motion(first_world: int, stage_in: stage_type, inputs_in: wp.array[MotionInput], dt: wp.float64):
        world = first_world + wp.tid() // lane_count()
        stage = read_stage(stage_in)
        inputs = inputs_in[0]
        flat_input(inputs)
        start = stage.layout.world_dof[world]
        end = stage.layout.world_dof[world + 1]
        starts = world_starts(stage.d.slot, stage.layout.world_body[world], start, 0, 0)
        window(stage, starts)
        flat_stage(stage)
        h = scalar(dt)
        gravity = to_vec3(inputs.gravity[stage.layout.world_gravity[world]])
        dynamics(stage, inputs, world, gravity, h)
        if lane() == 0 and stage.d.energy_watch[world] != 0:
            note_fall(stage.layout, stage.d, world, gravity)
        rows = stage.layout.rows
        Sw = stage.d.Sw
        Sv = stage.d.Sv
        add_rows(stage.d.A, rows, stage.d.A, rows, start, end - start, Sw, Sv, stage.d.column_force, 0)
        e = int(start + lane())
        while e < end:
            address = rows.entry[e] + e - rows.first[e]
            A_ee = stage.d.A[address] + stage.d.diagonal[e]
            stage.d.A[address] = A_ee
            if not (A_ee > scalar(0.0)):
                wp.atomic_or(stage.d.mark, world, NOT_POSITIVE)
            stage.d.inverse_diagonal[e] = scalar(1.0) / A_ee
            e += lane_count()
        barrier()
        if lane() == 0:
            mark = stage.d.mark[world]
            failed = wp.where((mark & NOT_POSITIVE) != 0, FREE_MOTION_FAILED, 0)
            stage.d.status[world] = wp.where((mark & NOT_FINITE) != 0, DIVERGED, failed)

    return free_motion


@functools.cache
def make_free_velocity_kernel(pose: Types, types: Types):
    """The kernel that factorizes A and finds v*: one block per world."""
    Stage = make_motion_stage(pose, types)
    solve = make_cholesky(types)
    scalar = types.scalar
    flat_stage = make_flat(Stage)

    @solver_kernel
    def free_velocity(first_world: int, stage_in: wp.array[Stage]):
        world = first_world + wp.tid() // lane_count()
        stage = stage_in[0]
        flat_stage(stage)
        start = stage.layout.world_dof[world]
        end = stage.layout.world_dof[world + 1]
        i_end = stage.layout.world_entry[world + 1]
        i = int(stage.layout.world_entry[world] + lane())
        while i < i_end:
            stage.d.A_factor[i] = stage.d.A[i]
            i += lane_count()
        e = int(start + lane())
        while e < end:
            stage.d.v_star[e] = stage.d.impulse[e]
            e += lane_count()
        barrier()
        coupled = 1 - stage.layout.has_chains  # that way needs no tables
        ok = solve(stage.d.A_factor, stage.layout.rows, start, end - start, coupled, stage.d.v_star)
        e = int(start + lane())
        while e < end:
            v = scalar(stage.d.v0[e])
            if ok != 0:
                v += stage.d.v_star[e]
            stage.d.v_star[e] = v
            e += lane_count()
        e_end = stage.layout.world_prescribed[world + 1]
        e = int(stage.layout.world_prescribed[world] + lane())
        while e < e_end:
            stage.d.v_star[e] = scalar(stage.d.v0[e])
            e += lane_count()
        if lane() == 0 and ok == 0 and stage.d.status[world] == 0:
            stage.d.status[world] = FREE_MOTION_FAILED

    return free_velocity


def motion_types(options: Any) -> tuple[Types, Types]:
    """Precision of motions, and of poses: one forward kinematics serves dynamics and contacts, in the better one."""
    types = TYPES[options.free_motion_solve_precision]
    return types, FP64 if options.use_f64_boundary_pose else types


class SapFreeMotion:
    """Owns the buffers of the stage; `data` can be read after a step."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes, links: Links, options: Any):
        """Allocate everything once."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.types, self.pose_types = motion_types(options)
        scratch = Scratch(layout, sizes, model.device)
        solved = is_needed_by_all(options, sizes.distance_rows_max)
        counts = {"composite": scratch.body_count, "diagonal": scratch.dof_count}
        counts |= {"column_force": 6 * scratch.dof_count, **({} if solved else {"v_star": 0, "A_factor": 0})}
        counts["applied"] = model.joint_dof_count
        self.data: Any = make_motion_data(self.pose_types, self.types)()
        allocate_arrays(self.data, entry_counts(sizes) | counts, sizes.body_count, model.device)
        self.data.slot, self.data.solved = scratch.slot, int(solved)
        self._max_blocks = scratch.max_blocks
        stage: Any = make_motion_stage(self.pose_types, self.types)()
        stage.layout, stage.links, stage.d = layout, links.get(self.pose_types)[0], self.data
        self._stage = StructArgument(stage, model.device)
        self.stage: wp.array = self._stage.array
        """Layout, links and `data` as one argument of kernels."""
        self._inputs = StructCache(model.device)
        self.kernel = make_free_motion_kernel(self.pose_types, self.types, not model.device.is_cpu)
        self.extra_forces = (GravityCompensation(model, self.types), Fluid(model, sizes.body_count, self.types))

    def compute(self, boundary: Any, dt: float, worlds: WorldRange) -> None:
        """Fill the rest of `data` for the state that ``boundary`` has read; v* only if every world needs it."""
        model = self.model
        arrays = {"gravity": model.gravity, "armature": model.joint_armature, "damping": model.joint_damping}
        inputs = self._inputs.get(arrays | {"joint_f": boundary.joint_f, "body_f": boundary.body_f}, MotionInput)
        blocks = self._max_blocks
        worlds.launch(self.kernel, self._stage.best, inputs, dt, device=model.device, max_blocks=blocks)
        for forces in self.extra_forces:
            forces.add(self._stage, dt, worlds)
        if self.data.solved:
            kernel = make_free_velocity_kernel(self.pose_types, self.types)
            worlds.launch(kernel, self._stage.array, device=model.device)

    def dynamics_matrix(self, world: int = 0) -> Any:
        """Dense A of one world as a NumPy array, rows and columns in Newton's dof order of that world."""
        return self._dense(self.data.A, world)

    def v_star(self) -> Any:
        """Unconstrained velocities of all worlds as a NumPy array in sap order, Newton's dof numbering."""
        if self.data.solved:
            return self.to_newton_order(self.data.v_star)
        types, sizes, device = (self.pose_types, self.types), self.sizes, self.model.device
        found: Any = make_motion_stage(*types)()
        found.layout, found.links, found.d = self.layout, self._stage.struct.links, self.data
        made = {
            "v_star": self.types.scalar,
            "A_factor": self.types.scalar,
            "status": wp.int32,
        }  # what the kernel writes
        for name, dtype in made.items():
            setattr(found.d, name, wp.zeros(entry_counts(sizes)[name], dtype=dtype, device=device))
        stage = StructArgument(found, device)
        WorldRange(0, sizes.world_count, 1).launch(make_free_velocity_kernel(*types), stage.array, device=device)
        return self.to_newton_order(found.d.v_star)

    def to_newton_order(self, values: wp.array) -> Any:
        """Values by dof in Newton's numbering, as a NumPy array; 0 for dofs of joints that close loops."""
        source = values.numpy()
        result = np.zeros(self.model.joint_dof_count, source.dtype)
        result[self.layout.dof_newton.numpy()] = source
        return result

    def _dense(self, packed: wp.array, world: int) -> Any:
        start, end = self.layout.world_dof.numpy()[world : world + 2]
        first, entry = self.layout.rows.first.numpy(), self.layout.rows.entry.numpy()
        order = np.argsort(self.layout.dof_newton.numpy()[start:end])
        values = packed.numpy()
        dense = np.zeros((end - start, end - start), values.dtype)
        for e in range(start, end):
            row = values[entry[e] : entry[e] + e - first[e] + 1]
            dense[e - start, first[e] - start : e - start + 1] = row
            dense[first[e] - start : e - start + 1, e - start] = row
        return dense[np.ix_(order, order)]
