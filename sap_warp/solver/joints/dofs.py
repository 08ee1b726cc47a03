"""The terms of one dof at the start of a step: efforts, friction, limits of position and speed.

efforts    parabolas where they have no limit, see `terms/dof.py`     `joints/efforts.py`
friction   R = sigma/A_kk                                             `terms/friction.py`
limits     position and speed                                         `terms/limit.py`
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ...model.joint_types import BALL, DISTANCE, FREE, REVOLUTE
from ..contact.data import ContactStage, DofInput
from ..settings.precisions import solve
from ..terms.dof import DRIVE, FRICTION, INACTIVE_LOWER, INACTIVE_UPPER, LOWER, MOTOR, PARABOLA, SPEED, UPPER
from ..terms.drive import rest_cost
from ..terms.limit import UNLIMITED, UNLIMITED_SPEED, limit_R, limit_reach, limit_vhat, speed_R
from .efforts import drive_effort, motor_effort, spring_error, store_effort

scalar, vec3 = solve.scalar, solve.vec3


@device
def prepare_limits(
    stage: wp.ref[ContactStage], dofs: wp.ref[DofInput], e: int, dof: int, position: wp.float64, h: scalar
) -> int:
    """Store the limits of position and speed of dof e, which is Newton's ``dof``; return which there are.

    While v* is not known, a bound that is not reached at v0 is there, but inactive (`terms/limit.py`).
    """
    active = int(0)
    mobility = scalar(stage.motion.inverse_diagonal[e])
    ke = scalar(dofs.limit_ke[dof])
    lower = dofs.limit_lower[dof]
    upper = dofs.limit_upper[dof]
    bounded = wp.abs(lower) < wp.static(UNLIMITED) or wp.abs(upper) < wp.static(UNLIMITED)
    if ke > scalar(0.0) and bounded:
        kd = scalar(dofs.limit_kd[dof])
        vhat_lower = limit_vhat(scalar(position - wp.float64(lower)), lower, ke, kd, h)
        vhat_upper = limit_vhat(scalar(wp.float64(upper) - position), upper, ke, kd, h)
        reach = limit_reach(ke, kd, h)
        stage.terms.limit_lower[e] = vhat_lower
        stage.terms.limit_upper[e] = vhat_upper
        stage.terms.limit_R[e] = limit_R(ke, kd, h, mobility)
        stage.terms.limit_reach[e] = reach
        speed = wp.abs(scalar(stage.motion.v0[e]))
        inactive = int(INACTIVE_LOWER | INACTIVE_UPPER)
        if stage.motion.solved != 0:
            speed = wp.max(speed, wp.abs(scalar(stage.motion.v_star[e])))
            inactive = 0
        active = wp.where(-vhat_lower <= reach * speed, LOWER, inactive & INACTIVE_LOWER)
        active = active | wp.where(-vhat_upper <= reach * speed, UPPER, inactive & INACTIVE_UPPER)
    if stage.law.enforce_speed != 0 and dofs.velocity_limit[dof] < wp.static(UNLIMITED_SPEED):
        active = active | SPEED
        stage.terms.speed[e] = scalar(dofs.velocity_limit[dof])
        stage.terms.speed_R[e] = speed_R(mobility)
    return active


@device
def prepare_dof(stage: wp.ref[ContactStage], dofs: wp.ref[DofInput], e: int, h64: wp.float64):
    """Store the terms of dof e, in solver order, and which there are."""
    coordinate = stage.layout.dof_coord[e]
    kind = REVOLUTE  # or any other joint with scalar coordinates: they are all alike here
    if coordinate < 0:
        kind = stage.joints.joint_type[stage.layout.body_joint[stage.layout.dof_body[e]]]
    if kind == FREE or kind == DISTANCE:
        stage.terms.term_mask[e] = 0
        return
    dof = stage.layout.dof_newton[e]
    h = scalar(h64)
    mobility = scalar(stage.motion.inverse_diagonal[e])
    position = wp.float64(0.0)
    if coordinate >= 0:
        position = stage.q[coordinate]
    # three numbers, not a vector: a vector that branches change goes through memory at each of them
    c = scalar(0.0)
    a = scalar(0.0)
    g = scalar(0.0)
    drive = drive_effort(stage, dofs, e, h, mobility)
    active = store_effort(stage.terms.drive, e, drive, DRIVE)
    if active == PARABOLA:
        c += rest_cost(drive.u0, drive.g)
        a += drive.u0
        g += drive.g
    if dofs.has_motors != 0:
        motor = motor_effort(dofs, dof, scalar(position), h, mobility)
        term = store_effort(stage.terms.motor, e, motor, MOTOR)
        active = active | term
        if term == PARABOLA:
            c += rest_cost(motor.u0, motor.g)
            a += motor.u0
            g += motor.g
    if dofs.has_springs != 0:
        stiffness = scalar(dofs.spring_stiffness[dof])
        if stiffness > scalar(0.0):
            active = active | PARABOLA
            away = scalar(spring_error(stage, dofs, e, dof, position))
            c += stiffness * away * away / h
            a += stiffness * away
            g += h * stiffness
    if (active & PARABOLA) != 0:
        stage.terms.parabola[e] = vec3(c, a, g)
    if dofs.friction[dof] > 0.0:
        active = active | FRICTION
        stage.terms.friction[e] = h * scalar(dofs.friction[dof])
        stage.terms.friction_R[e] = scalar(stage.law.sigma) * mobility
    if kind != BALL:
        active = active | prepare_limits(stage, dofs, e, dof, position, h)
    stage.terms.term_mask[e] = active
