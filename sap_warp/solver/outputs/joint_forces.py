"""What acts on each degree of freedom in the last step, on request: drive, actuator, spring, damper, limit, friction.

All of these follow from the velocity at the end of the solve and from what the step was prepared with, so nothing needs
to be recorded during the step; asking for them costs one launch. With contacts and constraints they add up to what the
dynamics matrix makes of the change of velocity: A (v - v*) = h (sum of all but damping, which A contains).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.spatial import load_quat
from ...core.kernels.structs import StructCache, array_struct
from ...core.kernels.template import Constant, device
from ...core.kernels.types import FP64
from ...model.joint_types import BALL, DISTANCE, FREE
from ...model.model import SapControl
from ..contact.data import DofInput
from ..joints.efforts import motor_effort, rotation_to
from ..model.layout import moves
from ..objective.bodies import column_v, column_w
from ..objective.contacts import project_contact
from ..objective.equations import term_of
from ..objective.problem import Data, Problem
from ..settings.options import POSITION_INTEGRATIONS
from ..settings.precisions import solve
from ..state.integrate import MIDPOINT, turn
from ..terms.dof import (
    DRIVE,
    FRICTION,
    INACTIVE_LOWER,
    INACTIVE_UPPER,
    LOWER,
    MOTOR,
    PARABOLA,
    SPEED,
    UPPER,
    evaluate_bounded,
)
from ..terms.drive import is_limited

if TYPE_CHECKING:
    from ..solver import SolverSAP

scalar, vec3 = solve.scalar, solve.vec3
load_quatd = load_quat.on(number=Constant(FP64))


@dataclass(frozen=True)
class JointForces:
    """Generalized forces of the last step by degree of freedom [N or N m], in Newton's order.

    Entries of free and distance joints are zero: they have none of these, and contacts on floating bodies are in
    `ContactForces`.
    """

    drive: wp.array
    """Force of the joint's drive: gains, targets and feed-forward, within its effort limit."""
    actuator: wp.array
    """Force of MuJoCo's actuator on the joint, within its force range."""
    spring: wp.array
    """Force of the passive spring."""
    damping: wp.array
    """Viscous damping, -d v."""
    limit: wp.array
    """Force of the limits of position and speed."""
    friction: wp.array
    """Dry friction in the joint."""
    constraint: wp.array
    """Force of loop closures, welds and couplings."""
    contact: wp.array
    """Force of contacts, and of the bounds of distance joints."""
    applied: wp.array
    """Force that the control applies, joint_f."""


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


@device
def contact_force(problem: wp.ref[Problem], data: wp.ref[Data], world: int, e: int) -> scalar:
    """Return the generalized force of all contacts on dof e."""
    total = scalar(0.0)
    sw = column_w(problem, e)
    sv = column_v(problem, e)
    base = world * problem.contacts.capacity
    for row in range(base, base + problem.contacts.count[world]):
        on_a = moves(problem.layout, e, problem.contacts.body_a[row])
        on_b = moves(problem.layout, e, problem.contacts.body_b[row])
        if on_a or on_b:
            gamma = project_contact(problem, row, data.vc[row]).gamma
            column = vec3()
            if on_b:
                column += sv + wp.cross(sw, problem.contacts.r_b[row])
            if on_a:
                column -= sv + wp.cross(sw, problem.contacts.r_a[row])
            total += wp.dot(column, gamma)
    return total / problem.h


@device
def constraint_force(problem: wp.ref[Problem], data: wp.ref[Data], world: int, e: int) -> scalar:
    """Return the generalized force of all equations on dof e."""
    total = scalar(0.0)
    for row in range(problem.bilateral.world_row[world], problem.bilateral.world_row[world + 1]):
        if problem.bilateral.R[row] > scalar(0.0):
            for i in range(problem.bilateral.row_entry[row], problem.bilateral.row_entry[row + 1]):
                if problem.bilateral.entry_dof[i] == e:
                    total += problem.bilateral.J[i] * term_of(problem.bilateral, row, data.slack[row])[1]
    return total / problem.h


@device
def ball_error(problem: wp.ref[Problem], data: wp.ref[Data], out: wp.ref[JointForceArrays], e: int) -> wp.float64:
    """Return the rotation that a ball joint lacked to its zero at the start of the step; 0 for other joints.

    It is the component of dof e, found by going back from the coordinates after the step.
    """
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
    q = turn(load_quatd(out.q, out.joint_q_start[joint]), w, wp.float64(problem.h), out.mode)
    return rotation_to(wp.quat_identity(wp.float64), q)[e - first]


@device
def term_force(problem: wp.ref[Problem], terms: int, e: int, v: scalar) -> scalar:
    """Return the force of some of the bounded terms of dof e at velocity v."""
    if terms == 0:
        return scalar(0.0)
    return -evaluate_bounded(problem.terms, terms, e, v, problem.h)[1] / problem.h


@device
def limit_terms(mask: int) -> int:
    """Return the limits of position and speed in a mask of terms; a bound that is inactive there acts if crossed."""
    found = mask & (LOWER | UPPER | SPEED)
    if (mask & INACTIVE_LOWER) != 0:
        found = found | LOWER
    if (mask & INACTIVE_UPPER) != 0:
        found = found | UPPER
    return found


@device
def store_terms(
    problem: wp.ref[Problem], data: wp.ref[Data], inputs: wp.ref[DofInput], out: wp.ref[JointForceArrays], e: int
):
    """Write what the terms of dof e do to it."""
    dof = problem.layout.dof_newton[e]
    v = data.v[e]
    mask = problem.terms.term_mask[e]
    coordinate = problem.layout.dof_coord[e]
    position = wp.float64(0.0)
    if coordinate >= 0:  # at the start of the step
        old = wp.float64(0.0)
        new = wp.float64(problem.h)
        if out.mode == MIDPOINT:
            old = wp.float64(0.5) * new
            new = old
        position = out.q[coordinate] - (old * problem.motion.v0[e] + new * wp.float64(v))
    drive = term_force(problem, mask & DRIVE, e, v)
    actuator = term_force(problem, mask & MOTOR, e, v)
    spring = scalar(0.0)
    if (mask & PARABOLA) != 0:
        # what has no bound was added up: the drive is what the others leave
        rest = problem.terms.parabola[e][1] - problem.terms.parabola[e][2] * v
        if inputs.has_springs != 0:
            stiffness = scalar(inputs.spring_stiffness[dof])
            if stiffness > scalar(0.0):
                away = ball_error(problem, data, out, e)
                if coordinate >= 0:
                    at = wp.float64(inputs.spring_reference[dof]) - wp.float64(inputs.coordinate_reference[dof])
                    away = at - position
                spring = stiffness * (scalar(away) - problem.h * v)
                rest -= spring
        if inputs.has_motors != 0:
            mobility = scalar(problem.motion.inverse_diagonal[e])
            motor = motor_effort(inputs, dof, scalar(position), problem.h, mobility)
            if motor.acts != 0:
                if not is_limited(motor.limit):
                    actuator = motor.u0 - motor.g * v
                    rest -= actuator
        if (mask & DRIVE) == 0 and inputs.target_mode[dof] != 0:
            drive = rest
    out.forces.drive[dof] = wp.float32(drive)
    out.forces.actuator[dof] = wp.float32(actuator)
    out.forces.spring[dof] = wp.float32(spring)
    out.forces.damping[dof] = -out.dof_damping[problem.layout.dof_parameter[e]] * wp.float32(v)
    out.forces.limit[dof] = wp.float32(term_force(problem, limit_terms(mask), e, v))
    out.forces.friction[dof] = wp.float32(term_force(problem, mask & FRICTION, e, v))
    out.forces.applied[dof] = out.joint_f[dof]


@kernel
def joint_forces(
    first_world: int,
    problem_in: wp.array[Problem],
    data_in: wp.array[Data],
    inputs_in: wp.array[DofInput],
    arrays: wp.array[JointForceArrays],
    dt: wp.float64,
):
    """Write all forces on the dofs but those of floating bodies, one block per world."""
    world = first_world + wp.tid() // lane_count()
    problem = problem_in[0]
    data = data_in[0]
    inputs = inputs_in[0]
    out = arrays[0]
    problem.h = scalar(dt)
    for e in range(problem.layout.world_dof[world] + lane(), problem.layout.world_dof[world + 1], lane_count()):
        joint = problem.layout.body_joint[problem.layout.dof_body[e]]
        kind = out.joint_type[joint]
        if kind != FREE and kind != DISTANCE:
            store_terms(problem, data, inputs, out, e)
            dof = problem.layout.dof_newton[e]
            out.forces.constraint[dof] = wp.float32(constraint_force(problem, data, world, e))
            out.forces.contact[dof] = wp.float32(contact_force(problem, data, world, e))


class SapJointForces:
    """Computes `JointForces`; the buffers are made when they are first asked for."""

    def __init__(self, solver: SolverSAP):
        """Nothing is allocated yet."""
        self._solver = solver
        self._forces: JointForces | None = None
        self._arrays = StructCache(solver.model.device)

    def compute(self, control: SapControl, ctrl: wp.array | None, dt: float, worlds: WorldRange) -> JointForces:
        """Return the forces of the last step, which used ``control`` and ``dt``."""
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
        launched = joint_forces.of(solver.contact_solve.variant)
        inputs = solver.contact_stage.dof_input(control, ctrl).array
        worlds.launch(launched, *solver.contact_solve.arguments, inputs, argument, dt, device=device)
        return self._forces
