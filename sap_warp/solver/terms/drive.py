"""Implicit PD drive with an effort limit, one dof: joint drives and linear actuators.

    u(v) = u0 - g v,   u0 = kp (target_q - q0) + kd target_qd + feed-forward,   g = h kp + kd
    force = clamp(u, -limit, limit),   impulse = h force,   dl/dv = -impulse

l is quadratic where the force is below its limit and linear where it is not. A drive that is stiffer than the time
step can resolve is softened to the near-rigid regularization by scaling kp and kd alike.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.types import Types
from .near_rigid import NEAR_RIGID

UNLIMITED_EFFORT = 1e9
"""Effort limits at or beyond this are none [N, N m]."""


@functools.cache
def make_drive_term(types: Types) -> SimpleNamespace:
    """Device functions of the term for one precision."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def gain_scale(kp: scalar, kd: scalar, h: scalar, mobility: scalar) -> scalar:
        """Factor at most 1 on both gains, so that 1/(h g) is not below the near-rigid regularization.

        ``mobility`` is 1/A_kk.
        """
        admittance = h * (h * kp + kd) * scalar(wp.static(NEAR_RIGID)) * mobility
        if admittance > scalar(1.0):
            return scalar(1.0) / admittance
        return scalar(1.0)

    @wp.func
    def is_limited(limit: wp.float32) -> bool:
        """Whether the effort has a bound."""
        return limit < wp.static(UNLIMITED_EFFORT)

    @wp.func
    def rest_cost(u0: scalar, g: scalar) -> scalar:
        """The c of an effort u0 - g v without a bound, see `dof`."""
        if g > scalar(0.0):
            return u0 * u0 / g
        return scalar(0.0)

    @wp.func
    def drive(v: scalar, u0: scalar, g: scalar, limit: scalar, h: scalar) -> vec3:
        """Cost [J], its derivative [N s] and second derivative."""
        u = u0 - g * v
        if g <= scalar(0.0):
            force = wp.clamp(u0, -limit, limit)
            return vec3(-h * force * v, -h * force, scalar(0.0))
        if u > limit:
            return vec3(h * limit * (u - scalar(0.5) * limit) / g, -h * limit, scalar(0.0))
        if u < -limit:
            return vec3(h * limit * (-u - scalar(0.5) * limit) / g, h * limit, scalar(0.0))
        return vec3(scalar(0.5) * h * u * u / g, -h * u, h * g)

    @wp.func
    def drive_piece(v: scalar, u0: scalar, g: scalar, limit: scalar) -> int:
        """On which of three parabolas `drive` is at v."""
        u = u0 - g * v
        if g <= scalar(0.0):
            return 0
        return wp.where(u > limit, 1, wp.where(u < -limit, 2, 0))

    return SimpleNamespace(
        gain_scale=gain_scale, is_limited=is_limited, rest_cost=rest_cost, drive=drive, drive_piece=drive_piece
    )
