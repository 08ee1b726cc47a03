"""Stage 2: free motion. The dynamics matrix A and the unconstrained velocity v*.

    A       = M + diag(joint_armature) + h diag(joint_damping)
    impulse = h (tau - c(q, v0) - diag(joint_damping) v0)
    v*      = v0 + A^-1 impulse

The minimum of the objective does not depend on knowing v*: A (v - v*) follows from the impulse, and a constant in the
cost moves no minimum. So v* is left to the solve, which finds it for the worlds that need it
(`minimize/lazy_free_velocity.py`), unless the options let every world need it.

Prescribed dofs (kinematic bodies) move with v0, unaccelerated, and have no row in A: what they do to the bodies
below them is part of c.

All spatial quantities of a tree are taken about one point o, the origin of the tree's root body at the start of the
step: composite inertias and forces are then plain sums over subtrees, and fp32 keeps its digits however far from
the world origin a replicated world lies. A spatial velocity is (w, u) with u the velocity of the body-fixed point
at o; a column S_k of the motion subspace is the spatial velocity for v_k = 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count, native_twin, uses
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.packed_rows import add_rows, factor_and_solve, store_force
from ...core.kernels.scratch import Scratch, rebase_scratch_of, world_starts
from ...core.kernels.spatial import rotation_matrix, to_quat, to_vec3
from ...core.kernels.structs import StructArgument, StructCache, allocate_arrays, argument, assume_contiguous
from ...core.kernels.template import device
from ..model.layout import Layout, LayoutSizes
from ..model.links import Links, PoseLink
from ..model.motion_data import (
    NOT_FINITE,
    NOT_POSITIVE,
    SCRATCH,
    CompositeRow,
    MotionData,
    MotionStage,
    entry_counts,
)
from ..settings.options import SapOptions
from ..settings.precisions import dynamics, solver_variant
from ..settings.status import DIVERGED, FREE_MOTION_FAILED
from .fluid import Fluid
from .gravity_compensation import GravityCompensation

if TYPE_CHECKING:
    from ...model.model import SapModel
    from ..state.stage import SapBoundary

uses_tree8 = uses("tree8")
scalar, vec3, mat33 = dynamics.scalar, dynamics.vec3, dynamics.mat33
to_motion, to_rotation, to_matrix = (f.on(number=dynamics) for f in (to_vec3, to_quat, rotation_matrix))
store_column_force = store_force.on(matrix=dynamics)
add_columns = add_rows.on(matrix=dynamics, vector=dynamics)
factor_and_solve_A = factor_and_solve.on(matrix=dynamics)


@wp.struct
class MotionInput:
    """What drives the free motion, by reference."""

    gravity: wp.array(dtype=wp.vec3f)  # by world [m/s^2]
    armature: wp.array(dtype=wp.float32)  # [kg or kg m^2], Newton's dofs
    damping: wp.array(dtype=wp.float32)  # [N s/m or N m s/rad]
    joint_f: wp.array(dtype=wp.float64)  # generalized forces, sap order [N or N m]
    body_f: wp.array(dtype=wp.spatial_vectord)  # residual -[tau_O, f] of the external wrenches [N m, N]


# Symmetric tensors of inertia are their moments xx, yy, zz and products yz, xz, xy.
@device
def rotate_inertia(R: mat33, I: mat33):
    """Return moments and products of R I R^T, for a symmetric I."""
    T = R * I
    a = vec3(T[0, 0], T[0, 1], T[0, 2])
    b = vec3(T[1, 0], T[1, 1], T[1, 2])
    x = vec3(R[0, 0], R[0, 1], R[0, 2])
    y = vec3(R[1, 0], R[1, 1], R[1, 2])
    z = vec3(R[2, 0], R[2, 1], R[2, 2])
    moments = vec3(wp.dot(a, x), wp.dot(b, y), wp.dot(vec3(T[2, 0], T[2, 1], T[2, 2]), z))
    return moments, vec3(wp.dot(b, z), wp.dot(a, z), wp.dot(a, y))


@device
def apply_inertia(moments: vec3, products: vec3, v: vec3) -> vec3:
    """Return an inertia tensor times a vector."""
    return vec3(
        moments[0] * v[0] + products[2] * v[1] + products[1] * v[2],
        products[2] * v[0] + moments[1] * v[1] + products[0] * v[2],
        products[1] * v[0] + products[0] * v[1] + moments[2] * v[2],
    )


@device
def body_dynamics(
    link: wp.ref[PoseLink], motion: wp.ref[MotionData], b: int, gravity: vec3, body_f: wp.array[wp.spatial_vectord]
):
    """Set a body's row of `composite`, before those below are added.

    It is the spatial inertia about o, and the force that motion and external wrench ask for.
    """
    R = to_matrix(to_rotation(motion.r[b]))
    p_B = to_motion(motion.p[b])
    c = p_B + R * to_motion(link.com)
    m = scalar(link.mass)
    mc = m * c
    moments, products = rotate_inertia(R, mat33(link.inertia))
    x2 = mc[0] * c[0]
    y2 = mc[1] * c[1]
    z2 = mc[2] * c[2]
    moments += vec3(y2 + z2, z2 + x2, x2 + y2)
    products -= vec3(mc[1] * c[2], mc[2] * c[0], mc[0] * c[1])
    Vw = motion.Vw[b]
    Vv = motion.Vv[b]
    aw = motion.aw[b]
    av = motion.av[b] - gravity  # as if the ground accelerated upwards
    hw = apply_inertia(moments, products, Vw) + wp.cross(mc, Vv)
    hv = m * Vv - wp.cross(mc, Vw)
    residual = body_f[link.body]
    moment = vec3(scalar(residual[0]), scalar(residual[1]), scalar(residual[2]))
    force = vec3(scalar(residual[3]), scalar(residual[4]), scalar(residual[5]))
    fw = apply_inertia(moments, products, aw) + wp.cross(mc, av) + wp.cross(Vw, hw) + wp.cross(Vv, hv)
    fw += moment + wp.cross(p_B, force)
    fv = m * av - wp.cross(mc, aw) + wp.cross(Vw, hv) + force
    row = CompositeRow()
    row[0] = m
    for k in range(3):
        row[1 + k] = mc[k]
        row[4 + k] = moments[k]
        row[7 + k] = products[k]
        row[10 + k] = fw[k]
        row[13 + k] = fv[k]
    motion.composite[b] = row


@device
def add_children(stage: wp.ref[MotionStage], b: int):
    """Add the inertia and force of its children to those of a body."""
    child = stage.layout.body_child[b]
    while child >= 0:
        stage.motion.composite[b] = stage.motion.composite[b] + stage.motion.composite[child]
        child = stage.layout.body_sibling[child]


@device
def world_dynamics(
    stage: wp.ref[MotionStage], inputs: wp.ref[MotionInput], world: int, gravity: vec3, h: scalar
) -> int:
    """Find all of a world's A but its sums, and its impulse, by all lanes; return 1 if native code has done it.

    That is composite inertias, column forces, diagonal and impulse.
    """
    if uses_tree8():
        if world_dynamics_native(stage, inputs, world, gravity, h) != 0:
            return 1
    start = stage.layout.world_dof[world]
    end = stage.layout.world_dof[world + 1]
    b_end = stage.layout.world_body[world + 1]
    b = int(stage.layout.world_body[world] + lane())
    while b < b_end:
        body_dynamics(stage.links[b], stage.motion, b, gravity, inputs.body_f)
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
        sw = stage.motion.Sw[e]
        sv = stage.motion.Sv[e]
        row = stage.motion.composite[b]
        mc = vec3(row[1], row[2], row[3])
        moments = vec3(row[4], row[5], row[6])
        products = vec3(row[7], row[8], row[9])
        Fw = apply_inertia(moments, products, sw) + wp.cross(mc, sv)
        Fv = row[0] * sv - wp.cross(mc, sw)
        parameter = stage.layout.dof_parameter[e]
        damping = scalar(inputs.damping[parameter])
        stage.motion.diagonal[e] = scalar(inputs.armature[parameter]) + h * damping
        store_column_force(stage.motion.column_force, start, end - start, e, Fw, Fv)
        bias = wp.dot(sw, vec3(row[10], row[11], row[12])) + wp.dot(sv, vec3(row[13], row[14], row[15]))
        impulse = h * (scalar(inputs.joint_f[dof]) - bias - damping * scalar(stage.motion.v0[e]))
        stage.motion.impulse[e] = impulse
        e += lane_count()
    barrier()
    return 0


world_dynamics_native = native_twin(
    world_dynamics,
    "return sap::dynamics<$pose, $dynamics>(stage.layout, stage.links, stage.motion, inputs, world, gravity, h);",
    "return 0;",
)


Argument, read_argument = argument(MotionStage)
assume_flat_stage, assume_flat_input = assume_contiguous(MotionStage), assume_contiguous(MotionInput)
rebase_scratch = rebase_scratch_of(MotionStage, SCRATCH, prefix="motion.")


@device
def measure_fall(layout: wp.ref[Layout], motion: wp.ref[MotionData], world: int, gravity: vec3):
    """Set the work of gravity since the last step [J]: how far the mass of a world has come down."""
    moment = wp.vec4d()
    top = layout.world_level[world]  # the roots; a world without bodies has no level
    i = int(layout.level_start[top])
    i_end = layout.level_start[wp.min(top + 1, layout.world_level[world + 1])]
    while i < i_end:
        b = layout.level_body[i]
        m = wp.float64(motion.composite[b][0])
        for k in range(3):
            moment[k] += wp.float64(motion.composite[b][1 + k]) + m * motion.origin[b][k]
        moment[3] += m
        i += 1
    change = moment - motion.energy_moment[world]
    motion.energy_moment[world] = moment
    fall = wp.float64(0.0)
    for k in range(3):
        fall += wp.float64(gravity[k]) * change[k]
    motion.energy_fall[world] = fall


@kernel
def free_motion(first_world: int, stage_in: Argument, inputs_in: wp.array[MotionInput], dt: wp.float64):
    """Find A, its inverse diagonal, the impulse and the status: one block per world."""
    world = first_world + wp.tid() // lane_count()
    stage = read_argument(stage_in)
    inputs = inputs_in[0]
    assume_flat_input(inputs)
    start = stage.layout.world_dof[world]
    end = stage.layout.world_dof[world + 1]
    starts = world_starts(stage.motion.share, stage.layout.world_body[world], start, 0, 0)
    rebase_scratch(stage, starts)
    assume_flat_stage(stage)
    h = scalar(dt)
    gravity = to_motion(inputs.gravity[stage.layout.world_gravity[world]])
    world_dynamics(stage, inputs, world, gravity, h)
    if lane() == 0 and stage.motion.energy_watch[world] != 0:
        measure_fall(stage.layout, stage.motion, world, gravity)
    rows = stage.layout.rows
    Sw = stage.motion.Sw
    Sv = stage.motion.Sv
    add_columns(stage.motion.A, rows, stage.motion.A, rows, start, end - start, Sw, Sv, stage.motion.column_force, 0)
    e = int(start + lane())
    while e < end:
        address = rows.entry[e] + e - rows.first[e]
        A_ee = stage.motion.A[address] + stage.motion.diagonal[e]
        stage.motion.A[address] = A_ee
        if not (A_ee > scalar(0.0)):
            wp.atomic_or(stage.motion.mark, world, NOT_POSITIVE)
        stage.motion.inverse_diagonal[e] = scalar(1.0) / A_ee
        e += lane_count()
    barrier()
    if lane() == 0:
        mark = stage.motion.mark[world]
        failed = wp.where((mark & NOT_POSITIVE) != 0, FREE_MOTION_FAILED, 0)
        stage.motion.status[world] = wp.where((mark & NOT_FINITE) != 0, DIVERGED, failed)


@kernel
def free_velocity(first_world: int, stage_in: wp.array[MotionStage]):
    """Factorize A and find v*: one block per world."""
    world = first_world + wp.tid() // lane_count()
    stage = stage_in[0]
    assume_flat_stage(stage)
    start = stage.layout.world_dof[world]
    end = stage.layout.world_dof[world + 1]
    i_end = stage.layout.world_entry[world + 1]
    i = int(stage.layout.world_entry[world] + lane())
    while i < i_end:
        stage.motion.A_factor[i] = stage.motion.A[i]
        i += lane_count()
    e = int(start + lane())
    while e < end:
        stage.motion.v_star[e] = stage.motion.impulse[e]
        e += lane_count()
    barrier()
    coupled = 1 - stage.layout.has_chains  # that way needs no tables
    ok = factor_and_solve_A(stage.motion.A_factor, stage.layout.rows, start, end - start, coupled, stage.motion.v_star)
    e = int(start + lane())
    while e < end:
        v = scalar(stage.motion.v0[e])
        if ok != 0:
            v += stage.motion.v_star[e]
        stage.motion.v_star[e] = v
        e += lane_count()
    e_end = stage.layout.world_kinematic[world + 1]
    e = int(stage.layout.world_kinematic[world] + lane())
    while e < e_end:
        stage.motion.v_star[e] = scalar(stage.motion.v0[e])
        e += lane_count()
    if lane() == 0 and ok == 0 and stage.motion.status[world] == 0:
        stage.motion.status[world] = FREE_MOTION_FAILED


class SapFreeMotion:
    """Owns the buffers of the stage; `data` can be read after a step."""

    def __init__(self, model: SapModel, layout: Layout, sizes: LayoutSizes, links: Links, options: SapOptions):
        """Allocate everything once."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.variant = variant = solver_variant(options, model.device)
        scratch = Scratch(layout, sizes, model.device)
        # a distance joint takes part or not by the speed of its anchors in free motion
        solved = options.needs_free_velocity or sizes.distance_rows_max > 0
        counts = {"composite": scratch.body_count, "diagonal": scratch.dof_count}
        counts |= {"column_force": 6 * scratch.dof_count, **({} if solved else {"v_star": 0, "A_factor": 0})}
        counts["applied"] = model.joint_dof_count
        self.data: Any = MotionData.of(variant)()
        allocate_arrays(self.data, entry_counts(sizes) | counts, sizes.body_count, model.device)
        self.data.share, self.data.solved = scratch.share, int(solved)
        self._max_blocks = scratch.max_blocks
        stage: Any = MotionStage.of(variant)()
        stage.layout, stage.links, stage.motion = layout, links.get(variant["pose"])[0], self.data
        self._stage = StructArgument(stage, model.device)
        self.stage: wp.array = self._stage.array
        """Layout, links and `data` as one argument of kernels."""
        self._inputs = StructCache(model.device)
        self.kernel = free_motion.of(variant)
        self.extra_forces = (GravityCompensation(model, variant), Fluid(model, sizes.body_count, variant))

    def compute(self, boundary: SapBoundary, dt: float, worlds: WorldRange) -> None:
        """Fill the rest of `data` for the state that ``boundary`` has read; v* only if every world needs it."""
        model = self.model
        arrays = {"gravity": model.gravity, "armature": model.joint_armature, "damping": model.joint_damping}
        inputs = self._inputs.get(arrays | {"joint_f": boundary.joint_f, "body_f": boundary.body_f}, MotionInput)
        blocks = self._max_blocks
        worlds.launch(self.kernel, self._stage.kernel_argument, inputs, dt, device=model.device, max_blocks=blocks)
        for forces in self.extra_forces:
            forces.add(self._stage, dt, worlds)
        if self.data.solved:
            worlds.launch(free_velocity.of(self.variant), self._stage.array, device=model.device)

    def dynamics_matrix(self, world: int = 0) -> np.ndarray:
        """Return the dense A of one world, rows and columns in Newton's dof order of that world."""
        return self._dense(self.data.A, world)

    def v_star(self) -> np.ndarray:
        """Return the unconstrained velocities of all worlds in sap order, Newton's dof numbering."""
        if self.data.solved:
            return self.to_newton_order(self.data.v_star)
        sizes, device = self.sizes, self.model.device
        found: Any = MotionStage.of(self.variant)()
        found.layout, found.links, found.motion = self.layout, self._stage.struct.links, self.data
        number = self.variant["dynamics"].scalar
        made = {"v_star": number, "A_factor": number, "status": wp.int32}  # what the kernel writes
        for name, dtype in made.items():
            setattr(found.motion, name, wp.zeros(entry_counts(sizes)[name], dtype=dtype, device=device))
        stage = StructArgument(found, device)
        WorldRange(0, sizes.world_count, 1).launch(free_velocity.of(self.variant), stage.array, device=device)
        return self.to_newton_order(found.motion.v_star)

    def to_newton_order(self, values: wp.array) -> np.ndarray:
        """Return values by dof in Newton's numbering; 0 for dofs of joints that close loops."""
        source = values.numpy()
        result = np.zeros(self.model.joint_dof_count, source.dtype)
        result[self.layout.dof_newton.numpy()] = source
        return result

    def _dense(self, packed: wp.array, world: int) -> np.ndarray:
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
