"""Efforts u0 - g v that act on one dof: joint drive, MuJoCo's actuator, passive spring.

    drive      u0 = kp (target - q0) + kd target_rate + feed-forward,  g = h kp + kd      `terms/drive.py`
    actuator   u0 and g of an implicit drive that an input moves                          `model/motors.py`
    spring     u0 = k (rest - q0),  g = h k

q is a coordinate; for a dof of a ball joint, target - q and rest - q are components of the rotation vector that leads
to the target or to the joint's zero.

Newton's drive modes: NONE has no drive at all; EFFORT is feed-forward only; POSITION damps towards rest; VELOCITY has
no stiffness; POSITION_VELOCITY follows both targets.
"""

from __future__ import annotations

import newton
import warp as wp

from ...core.kernels.spatial import load_quat
from ...core.kernels.template import Constant, device, device_struct
from ...core.kernels.types import FP64
from ..contact.data import ContactStage, DofInput
from ..settings.precisions import solve
from ..terms.dof import PARABOLA, Efforts
from ..terms.drive import gain_scale, is_limited

scalar = solve.scalar
load_quat_64 = load_quat.on(number=Constant(FP64))

MODE_POSITION = wp.constant(int(newton.JointTargetMode.POSITION))
MODE_VELOCITY = wp.constant(int(newton.JointTargetMode.VELOCITY))
MODE_POSITION_VELOCITY = wp.constant(int(newton.JointTargetMode.POSITION_VELOCITY))
MODE_NONE = wp.constant(int(newton.JointTargetMode.NONE))


@device_struct
class Effort:
    """An effort u0 - g v with a limit [N or N m]."""

    acts: int  # 1 if there is one
    u0: scalar
    g: scalar
    limit: wp.float32


@wp.func
def rotation_to(target: wp.quatd, at: wp.quatd) -> wp.vec3d:
    """Return the rotation vector [rad] that leads from the rotation ``at`` to ``target`` on the shorter way.

    It is in the axes that both rotations map to.
    """
    turn = target * wp.quat_inverse(at)
    if turn[3] < wp.float64(0.0):
        turn = -turn
    axis = wp.vec3d(turn[0], turn[1], turn[2])
    sine = wp.length(axis)
    scale = wp.float64(2.0)
    if sine > wp.float64(1e-12):
        scale = wp.float64(2.0) * wp.atan2(sine, turn[3]) / sine
    return axis * scale


@device
def motor_effort(dofs: wp.ref[DofInput], dof: int, position: scalar, h: scalar, mobility: scalar) -> Effort:
    """Return the effort of MuJoCo's actuator on one of Newton's dofs; ``mobility`` is 1/A_kk."""
    result = Effort()
    actuator = dofs.motor_index[dof]
    works = int(0)
    if actuator >= 0:
        works = wp.where(dofs.motor_idle[dof] == 0 or dofs.ctrl[actuator] != 0.0, 1, 0)
    if works != 0:
        ctrl = wp.clamp(dofs.ctrl[actuator], dofs.motor_low[dof], dofs.motor_high[dof])
        kp = scalar(dofs.motor_kp[dof])
        kd = scalar(dofs.motor_kd[dof])
        push = scalar(dofs.motor_u0[dof]) + scalar(dofs.motor_gain[dof]) * scalar(ctrl) - kp * position
        if kp > scalar(0.0) or kd > scalar(0.0) or push != scalar(0.0):
            scale = gain_scale(kp, kd, h, mobility)
            result.acts = 1
            result.u0 = push * scale
            result.g = (h * kp + kd) * scale
            result.limit = wp.min(dofs.motor_limit[dof], dofs.effort_limit[dof])
    return result


@device
def position_error(stage: wp.ref[ContactStage], dofs: wp.ref[DofInput], e: int) -> wp.float64:
    """Return target minus position of dof e [m or rad]; of a ball joint the rotation vector's component, in F."""
    coordinate = stage.layout.dof_coord[e]
    if coordinate >= 0:
        return wp.float64(dofs.target_q[coordinate]) - stage.q[coordinate]
    b = stage.layout.dof_body[e]
    iq = stage.joints.joint_q_start[stage.layout.body_joint[b]]
    target = wp.quatd(
        wp.float64(dofs.target_q[iq]),
        wp.float64(dofs.target_q[iq + 1]),
        wp.float64(dofs.target_q[iq + 2]),
        wp.float64(dofs.target_q[iq + 3]),
    )
    if wp.dot(target, target) <= wp.float64(0.0):  # cleared targets
        target = wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    return rotation_to(wp.normalize(target), load_quat_64(stage.q, iq))[e - stage.layout.body_dof[b]]


@device
def drive_effort(stage: wp.ref[ContactStage], dofs: wp.ref[DofInput], e: int, h: scalar, mobility: scalar) -> Effort:
    """Return the effort of the joint drive on dof e; ``mobility`` is 1/A_kk."""
    result = Effort()
    dof = stage.layout.dof_newton[e]
    mode = dofs.target_mode[dof]
    if mode != MODE_NONE:
        kp = scalar(0.0)
        kd = scalar(0.0)
        error = scalar(0.0)
        rate = scalar(0.0)
        if mode == MODE_POSITION or mode == MODE_POSITION_VELOCITY:
            kp = scalar(dofs.target_ke[dof])
            kd = scalar(dofs.target_kd[dof])
            error = scalar(position_error(stage, dofs, e))
        if mode == MODE_VELOCITY:
            kd = scalar(dofs.target_kd[dof])
        if mode == MODE_VELOCITY or mode == MODE_POSITION_VELOCITY:
            rate = scalar(dofs.target_qd[dof])
        scale = gain_scale(kp, kd, h, mobility)
        kp = kp * scale
        kd = kd * scale
        feed_forward = scalar(dofs.act[dof])
        if kp > scalar(0.0) or kd > scalar(0.0) or feed_forward != scalar(0.0):
            result.acts = 1
            result.u0 = kp * error + kd * rate + feed_forward
            result.g = h * kp + kd
            result.limit = dofs.effort_limit[dof]
    return result


@device
def spring_error(
    stage: wp.ref[ContactStage], dofs: wp.ref[DofInput], e: int, dof: int, position: wp.float64
) -> wp.float64:
    """Return rest minus position of a spring [m or rad]; that of a ball joint rests at the joint's zero."""
    if stage.layout.dof_coord[e] >= 0:
        return wp.float64(dofs.spring_reference[dof]) - wp.float64(dofs.coordinate_reference[dof]) - position
    b = stage.layout.dof_body[e]
    q = load_quat_64(stage.q, stage.joints.joint_q_start[stage.layout.body_joint[b]])
    return rotation_to(wp.quat_identity(wp.float64), q)[e - stage.layout.body_dof[b]]


@device
def store_effort(efforts: wp.ref[Efforts], e: int, effort: Effort, bit: int) -> int:
    """Store an effort that has a limit and return ``bit``; return PARABOLA for one without, and 0 for none."""
    if effort.acts == 0:
        return 0
    if not is_limited(effort.limit):
        return PARABOLA
    efforts.u0[e] = effort.u0
    efforts.g[e] = effort.g
    efforts.limit[e] = scalar(effort.limit)
    return bit
