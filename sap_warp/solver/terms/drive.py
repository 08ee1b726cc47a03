"""Implicit PD drive with an effort limit, for one dof: joint drives and linear actuators.

    u(v) = u0 - g v,   u0 = kp (target_q - q0) + kd target_qd + feed-forward,   g = h kp + kd
    force = clamp(u, -limit, limit),   impulse = h force,   dl/dv = -impulse

The cost l is a parabola where the force is below its limit and linear where it is not. A drive that is stiffer than the
time step can resolve is softened to the near-rigid regularization (`terms/near_rigid.py`): kp and kd are scaled alike.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ..settings.precisions import solve
from .near_rigid import NEAR_RIGID

scalar, vec3 = solve.scalar, solve.vec3

UNLIMITED_EFFORT = 1e9
"""An effort limit of this size or more means that there is none [N, N m]."""


@device
def gain_scale(kp: scalar, kd: scalar, h: scalar, mobility: scalar) -> scalar:
    """Return the factor, at most 1, on both gains that keeps 1/(h g) from falling below the near-rigid regularization.

    ``mobility`` is 1/A_kk.
    """
    admittance = h * (h * kp + kd) * scalar(wp.static(NEAR_RIGID)) * mobility
    if admittance > scalar(1.0):
        return scalar(1.0) / admittance
    return scalar(1.0)


@wp.func
def is_limited(limit: wp.float32) -> bool:
    """Return True if this effort limit is one."""
    return limit < wp.static(UNLIMITED_EFFORT)


@device
def rest_cost(u0: scalar, g: scalar) -> scalar:
    """Return u0^2/g, the c of an effort u0 - g v without a limit (`terms/dof.py`)."""
    if g > scalar(0.0):
        return u0 * u0 / g
    return scalar(0.0)


@device
def drive(v: scalar, u0: scalar, g: scalar, limit: scalar, h: scalar) -> vec3:
    """Return the cost [J], its derivative [N s or N m s] and its second derivative."""
    u = u0 - g * v
    if g <= scalar(0.0):
        force = wp.clamp(u0, -limit, limit)
        return vec3(-h * force * v, -h * force, scalar(0.0))
    if u > limit:
        return vec3(h * limit * (u - scalar(0.5) * limit) / g, -h * limit, scalar(0.0))
    if u < -limit:
        return vec3(h * limit * (-u - scalar(0.5) * limit) / g, h * limit, scalar(0.0))
    return vec3(scalar(0.5) * h * u * u / g, -h * u, h * g)


@device
def drive_segment(v: scalar, u0: scalar, g: scalar, limit: scalar) -> int:
    """Return which of the three segments of `drive` v is on."""
    u = u0 - g * v
    if g <= scalar(0.0):
        return 0
    return wp.where(u > limit, 1, wp.where(u < -limit, 2, 0))
