"""What acts on each degree of freedom in the last step, on request: drive, actuator, spring, damper, limit, friction.

All of these follow from the velocity at the end of the solve and from what the step was prepared with, so nothing needs
to be recorded during the step; asking for them costs one launch. With contacts and constraints they add up to what the
dynamics matrix makes of the change of velocity: A (v - v*) = h (sum of all but damping, which A contains).
"""

import functools
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import WorldRange, solver_kernel
from ...core.kernels.spatial import make_spatial
from ...core.kernels.structs import StructCache, array_struct
from ...core.kernels.types import FP64
from ..contact.input import DofInput
from ..joints.terms import make_efforts, rotation_to
from ..model.layout import moves
from ..model.links import BALL, DISTANCE, FREE
from ..objective.contacts import make_row_projections
from ..objective.equations import make_constraint_terms
from ..objective.problem import Precisions, make_problem
from ..settings.options import POSITION_INTEGRATIONS
from ..state.integrate import MIDPOINT, make_turn
from ..terms.dof import DRIVE, FAR_LOWER, FAR_UPPER, FRICTION, LOWER, MOTOR, PARABOLA, SPEED, UPPER, make_dof_terms
from ..terms.drive import make_drive_term


@dataclass(frozen=True)
class JointForces:
    """Generalized forces of the last step by degree of freedom [N or N m], in Newton's order.

    Entries of free and distance joints are zero: they have none of these, and contacts on floating bodies are in
    `ContactForces`.
    """

    drive: wp.array
    """Of the joint's drive: gains, targets and feed-forward, within its effort limit."""
    actuator: wp.array
    """Of MuJoCo's actuator on the joint, within its force range."""
    spring: wp.array
    """Of the passive spring."""
    damping: wp.array
    """Of viscous damping, -d v."""
    limit: wp.array
    """Of limits of position and speed."""
    friction: wp.array
    """Of dry friction in the joint."""
    constraint: wp.array
    """Of loop closures, welds and couplings."""
    contact: wp.array
    """Of contacts, and of the bounds of distance joints."""
    applied: wp.array
    """What the control applies, joint_f."""


NAMES = tuple(field.name for field in fields(JointForces))
ForceBuffers = array_struct("ForceBuffers", dict.fromkeys(NAMES, wp.float32))
"""The buffers of `JointForces`."""


@wp.struct
class JointForceArrays:
    """What the kernel reads beside the problem, and what it writes."""

    mode: int  # of integration
    joint_type: wp.array(dtype=wp.int32)
    joint_q_start: wp.array(dtype=wp.int32)
    dof_damping: wp.array(dtype=wp.float32)
    joint_f: wp.array(dtype=wp.float32)
    q: wp.array(dtype=wp.float64)  # coordinates after the step
    forces: ForceBuffers


@functools.cache
def make_row_forces(precisions: Precisions) -> SimpleNamespace:
    """What contact rows and constraint rows do to a dof."""
    dynamics, types = precisions.dynamics, precisions.types
    Problem, Data = make_problem(precisions)
    project_row, row_term = make_row_projections(precisions).project_row, make_constraint_terms(precisions).row_term
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def to_vec(a: dynamics.vec3) -> vec3:
        return vec3(scalar(a[0]), scalar(a[1]), scalar(a[2]))

    @wp.func
    def contact_force(problem: wp.ref[Problem], data: wp.ref[Data], world: int, e: int) -> scalar:
        total = scalar(0.0)
        sw = to_vec(problem.motion.Sw[e])
        sv = to_vec(problem.motion.Sv[e])
        base = world * problem.contacts.capacity
        for row in range(base, base + problem.contacts.count[world]):
            on_a = moves(problem.layout, e, problem.contacts.body_a[row])
            on_b = moves(problem.layout, e, problem.contacts.body_b[row])
            if on_a or on_b:
                gamma = project_row(problem, row, data.vc[row]).gamma
                column = vec3()
                if on_b:
                    column += sv + wp.cross(sw, problem.contacts.r_b[row])
                if on_a:
                    column -= sv + wp.cross(sw, problem.contacts.r_a[row])
                total += wp.dot(column, gamma)
        return total / problem.h

    @wp.func
    def constraint_force(problem: wp.ref[Problem], data: wp.ref[Data], world: int, e: int) -> scalar:
        total = scalar(0.0)
        for row in range(problem.bilateral.world_row[world], problem.bilateral.world_row[world + 1]):
            if problem.bilateral.R[row] > scalar(0.0):
                for i in range(problem.bilateral.row_entry[row], problem.bilateral.row_entry[row + 1]):
                    if problem.bilateral.entry_dof[i] == e:
                        total += problem.bilateral.J[i] * row_term(problem.bilateral, row, data.slack[row])[1]
        return total / problem.h

    return SimpleNamespace(contact_force=contact_force, constraint_force=constraint_force)


@functools.cache
def make_ball_error(precisions: Precisions):
    """``ball_error(p, s, out, e)``: where a ball joint was."""
    Problem, Data = make_problem(precisions)
    turn, load_quat = make_turn(), make_spatial(FP64).load_quat

    @wp.func
    def ball_error(problem: wp.ref[Problem], data: wp.ref[Data], out: wp.ref[JointForceArrays], e: int) -> wp.float64:
        """Rotation that a ball joint lacked to its zero at the start of the step; 0 for other joints."""
        b = problem.layout.dof_body[e]
        joint = problem.layout.body_joint[b]
        if out.joint_type[joint] != BALL:
            return wp.float64(0.0)
        first = problem.layout.body_dof[b]
        w = wp.vec3d()
        for i in range(3):
            w[i] = -wp.float64(data.v[first + i])
            if out.mode == MIDPOINT:
                w[i] = wp.float64(0.5) * (w[i] - problem.motion.v0[first + i])
        q = turn(load_quat(out.q, out.joint_q_start[joint]), w, wp.float64(problem.h), out.mode)
        return rotation_to(wp.quat_identity(wp.float64), q)[e - first]

    return ball_error


@functools.cache
def make_store_terms(precisions: Precisions):
    """``store(p, s, input, out, e)``: what the terms of a dof do to it."""
    types = precisions.types
    Problem, Data = make_problem(precisions)
    evaluate_bounded, motor_effort = make_dof_terms(types).evaluate_bounded, make_efforts(types).motor_effort
    is_limited, ball_error = make_drive_term(types).is_limited, make_ball_error(precisions)
    scalar = types.scalar

    @wp.func
    def term_force(problem: wp.ref[Problem], kind: int, e: int, v: scalar) -> scalar:
        """Of the bounded terms in ``kind``; a far bound that is not crossed has none."""
        if kind == 0:
            return scalar(0.0)
        return -evaluate_bounded(problem.terms, kind, e, v, problem.h)[1] / problem.h

    @wp.func
    def near(kind: int) -> int:
        """Bounds of position and speed, far ones included."""
        found = kind & (LOWER | UPPER | SPEED)
        if (kind & FAR_LOWER) != 0:
            found = found | LOWER
        if (kind & FAR_UPPER) != 0:
            found = found | UPPER
        return found

    @wp.func
    def store(
        problem: wp.ref[Problem], data: wp.ref[Data], input: wp.ref[DofInput], out: wp.ref[JointForceArrays], e: int
    ):
        dof = problem.layout.dof_newton[e]
        v = data.v[e]
        kind = problem.terms.term_mask[e]
        coordinate = problem.layout.dof_coord[e]
        position = wp.float64(0.0)
        if coordinate >= 0:  # at the start of the step
            old = wp.float64(0.0)
            new = wp.float64(problem.h)
            if out.mode == MIDPOINT:
                old = wp.float64(0.5) * new
                new = old
            position = out.q[coordinate] - (old * problem.motion.v0[e] + new * wp.float64(v))
        drive = term_force(problem, kind & DRIVE, e, v)
        actuator = term_force(problem, kind & MOTOR, e, v)
        spring = scalar(0.0)
        if (kind & PARABOLA) != 0:
            # what has no bound was added up: the drive is what the others leave
            rest = problem.terms.parabola[e][1] - problem.terms.parabola[e][2] * v
            if input.has_springs != 0:
                stiffness = scalar(input.spring_stiffness[dof])
                if stiffness > scalar(0.0):
                    away = ball_error(problem, data, out, e)
                    if coordinate >= 0:
                        at = wp.float64(input.spring_reference[dof]) - wp.float64(input.coordinate_reference[dof])
                        away = at - position
                    spring = stiffness * (scalar(away) - problem.h * v)
                    rest -= spring
            if input.has_motors != 0:
                motor = motor_effort(
                    input, dof, scalar(position), problem.h, scalar(problem.motion.inverse_diagonal[e])
                )
                if motor.acts != 0:
                    if not is_limited(motor.limit):
                        actuator = motor.u0 - motor.g * v
                        rest -= actuator
            if (kind & DRIVE) == 0 and input.target_mode[dof] != 0:
                drive = rest
        out.forces.drive[dof] = wp.float32(drive)
        out.forces.actuator[dof] = wp.float32(actuator)
        out.forces.spring[dof] = wp.float32(spring)
        out.forces.damping[dof] = -out.dof_damping[problem.layout.dof_parameter[e]] * wp.float32(v)
        out.forces.limit[dof] = wp.float32(term_force(problem, near(kind), e, v))
        out.forces.friction[dof] = wp.float32(term_force(problem, kind & FRICTION, e, v))
        out.forces.applied[dof] = out.joint_f[dof]

    return store


@functools.cache
def make_joint_force_kernel(precisions: Precisions):
    """The kernel: one block per world."""
    (Problem, Data), scalar = make_problem(precisions), precisions.types.scalar
    store, rows = make_store_terms(precisions), make_row_forces(precisions)
    contact_force, constraint_force = rows.contact_force, rows.constraint_force

    @solver_kernel
    def joint_forces(
        first_world: int,
        problem: wp.array[Problem],
        data: wp.array[Data],
        inputs: wp.array[DofInput],
        arrays: wp.array[JointForceArrays],
        dt: wp.float64,
    ):
        world = first_world + wp.tid() // lane_count()
        p = problem[0]
        s = data[0]
        input = inputs[0]
        out = arrays[0]
        p.h = scalar(dt)
        for e in range(p.layout.world_dof[world] + lane(), p.layout.world_dof[world + 1], lane_count()):
            joint = p.layout.body_joint[p.layout.dof_body[e]]
            kind = out.joint_type[joint]
            if kind != FREE and kind != DISTANCE:
                store(p, s, input, out, e)
                dof = p.layout.dof_newton[e]
                out.forces.constraint[dof] = wp.float32(constraint_force(p, s, world, e))
                out.forces.contact[dof] = wp.float32(contact_force(p, s, world, e))

    return joint_forces


class SapJointForces:
    """Computes `JointForces`; the buffers are made when they are first asked for."""

    def __init__(self, solver: Any):
        """Nothing is allocated yet."""
        self._solver = solver
        self._forces: JointForces | None = None
        self._arrays = StructCache(solver.model.device)

    def compute(self, control: Any, ctrl: Any, dt: float, worlds: WorldRange) -> JointForces:
        """Forces of the last step, which used ``control`` and ``dt``."""
        solver, model = self._solver, self._solver.sap_model
        device = model.device
        if self._forces is None:
            made = {name: wp.zeros(model.joint_dof_count, dtype=wp.float32, device=device) for name in NAMES}
            self._forces = JointForces(**made)
        arrays = {f"forces.{name}": getattr(self._forces, name) for name in NAMES}
        arrays |= {"dof_damping": model.joint_damping, "joint_f": control.joint_f, "q": solver.boundary.joint_q}
        arrays |= {"joint_type": model.joint_type, "joint_q_start": model.joint_q_start}

        def make() -> Any:
            found: Any = JointForceArrays()
            found.mode = POSITION_INTEGRATIONS.index(solver.options.position_integration)
            return found

        argument = self._arrays.get(arrays, make)
        rows = solver.contact_jacobian
        kernel = make_joint_force_kernel(solver.contact_solve.precisions)
        inputs = rows.dof_input(control, ctrl).array
        worlds.launch(kernel, *solver.contact_solve.arguments, inputs, argument, dt, device=device)
        return self._forces
