"""All terms of one dof together: drive, motor, passive spring, position limit, speed limit, friction.

A term without a bound, a spring or a drive whose effort has no limit, is a parabola in v. All parabolas of a dof are
added up beforehand. With efforts u_i = a_i - g_i v:

    l = sum h/2 u_i^2/g_i = h/2 (c - 2 a v + g v^2),   a = sum a_i,   g = sum g_i,   c = sum a_i^2/g_i

The terms with bounds are parabolas in segments, which end where a bound begins or ends to act. Which terms a dof has is
a mask of the bits below.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device, device_struct
from ..settings.precisions import solve
from .drive import drive, drive_segment
from .friction import friction, friction_segment
from .limit import NO_LIMIT, position_limit, position_segment, speed_limit, speed_segment

scalar, vec3 = solve.scalar, solve.vec3

DRIVE = wp.constant(1)
LOWER = wp.constant(2)
UPPER = wp.constant(4)
SPEED = wp.constant(8)
FRICTION = wp.constant(16)
PARABOLA = wp.constant(32)
MOTOR = wp.constant(64)
TERMS = wp.constant(127)
"""The bits of all terms that act."""
INACTIVE_LOWER = wp.constant(128)
INACTIVE_UPPER = wp.constant(256)
"""Bits of the bounds that do not act as long as no result crosses them, see `terms/limit.py`."""


@device_struct
class Efforts:
    """Efforts u0 - g v with limits, by dof in solver order."""

    u0: wp.array(dtype=scalar)  # effort at v = 0 [N or N m]
    g: wp.array(dtype=scalar)  # h kp + kd
    limit: wp.array(dtype=scalar)


@device_struct
class DofTerms:
    """Numbers of the terms, by dof in solver order. Those of a term that a dof does not have mean nothing."""

    term_mask: wp.array(dtype=wp.int32)  # which terms the dof has, bits above
    drive: Efforts
    motor: Efforts  # of MuJoCo's actuator on the dof
    parabola: wp.array(dtype=vec3)  # c, a and g of the terms without a bound
    limit_lower: wp.array(dtype=scalar)  # vhat of the lower bound [m/s or rad/s]
    limit_upper: wp.array(dtype=scalar)
    limit_R: wp.array(dtype=scalar)
    limit_reach: wp.array(dtype=scalar)
    speed: wp.array(dtype=scalar)  # speed limit [m/s or rad/s]
    speed_R: wp.array(dtype=scalar)
    friction: wp.array(dtype=scalar)  # h times friction [N s or N m s]
    friction_R: wp.array(dtype=scalar)


@device
def evaluate_parabola(terms: wp.ref[DofTerms], e: int, v: scalar, h: scalar) -> vec3:
    """Return cost, derivative and second derivative of the terms of dof e that have no bound."""
    f = terms.parabola[e]
    slope = f[2] * v - f[1]
    return vec3(scalar(0.5) * (f[0] + v * (slope - f[1])), slope, f[2]) * h


@device
def evaluate_bounded(terms: wp.ref[DofTerms], active: int, e: int, v: scalar, h: scalar) -> vec3:
    """Return cost, derivative and second derivative of the terms with bounds of dof e, of those in ``active``."""
    total = vec3()
    if (active & DRIVE) != 0:
        total += drive(v, terms.drive.u0[e], terms.drive.g[e], terms.drive.limit[e], h)
    if (active & MOTOR) != 0:
        total += drive(v, terms.motor.u0[e], terms.motor.g[e], terms.motor.limit[e], h)
    if (active & (LOWER | UPPER)) != 0:
        none = scalar(wp.static(NO_LIMIT))
        lower = wp.where((active & LOWER) != 0, terms.limit_lower[e], none)
        upper = wp.where((active & UPPER) != 0, terms.limit_upper[e], none)
        total += position_limit(v, lower, upper, terms.limit_R[e])
    if (active & SPEED) != 0:
        total += speed_limit(v, terms.speed[e], terms.speed_R[e])
    if (active & FRICTION) != 0:
        total += friction(v, terms.friction[e], terms.friction_R[e])
    return total


@device
def segment(terms: wp.ref[DofTerms], active: int, e: int, v: scalar) -> int:
    """Return a number for the segment of all terms with bounds of dof e together that v is on.

    A segment of a term is an interval of velocities, so where two velocities have the same number, all between them do,
    and the cost is one parabola there.
    """
    at = int(0)
    if (active & DRIVE) != 0:
        at = drive_segment(v, terms.drive.u0[e], terms.drive.g[e], terms.drive.limit[e])
    if (active & MOTOR) != 0:
        at = 3 * at + drive_segment(v, terms.motor.u0[e], terms.motor.g[e], terms.motor.limit[e])
    if (active & (LOWER | UPPER)) != 0:
        none = scalar(wp.static(NO_LIMIT))
        lower = wp.where((active & LOWER) != 0, terms.limit_lower[e], none)
        upper = wp.where((active & UPPER) != 0, terms.limit_upper[e], none)
        at = 4 * at + position_segment(v, lower, upper)
    if (active & SPEED) != 0:
        at = 3 * at + speed_segment(v, terms.speed[e])
    if (active & FRICTION) != 0:
        at = 3 * at + friction_segment(v, terms.friction[e], terms.friction_R[e])
    return at


@device
def evaluate(terms: wp.ref[DofTerms], active: int, e: int, v: scalar, h: scalar) -> vec3:
    """Return cost, derivative and second derivative of the terms in ``active`` of dof e at velocity v."""
    total = vec3()
    if (active & PARABOLA) != 0:
        total = evaluate_parabola(terms, e, v, h)
    if (active & ~PARABOLA) != 0:
        total += evaluate_bounded(terms, active, e, v, h)
    return total
