"""One-sided joint limits on position and speed, one dof.

    position   gamma = max(0, (vhat - s v) / R), s = +1 at the lower and -1 at the upper bound,   l = 1/2 R gamma^2
               vhat = -gap/(h + tau),   R = max(near-rigid, 1/(h ke (h + tau))),   tau = kd/ke
    speed      the same with |v| beyond the limit and a near-rigid R

A bound takes part where its gap is at most 2 h max(|v0|, |v*|), as in Drake: one with a long dissipation time would
brake from afar. Beyond 2 h |v0| that depends on v*, and only matters if the result crosses the bound, v < vhat: the
term of a bound that is not crossed is zero. So such bounds are *far* until a result has crossed one (`active_terms`).
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.types import Types
from .near_rigid import NEAR_RIGID

NO_LIMIT = -1.0e30
"""vhat of a bound that is none [m/s]: no velocity reaches it."""
UNLIMITED = 1e9
"""Joint limits at or beyond this are none; Newton writes 1e10 for "no limit" [m, rad]."""
UNLIMITED_SPEED = 1e6
"""Velocity limits at or beyond this are none: it is Newton's default [m/s, rad/s]."""


@functools.cache
def make_limit_term(types: Types) -> SimpleNamespace:
    """Device functions of the term for one precision. ``mobility`` is 1/A_kk."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def limit_R(ke: scalar, kd: scalar, h: scalar, mobility: scalar) -> scalar:
        """Regularization of a bound with stiffness ke [N/m] and damping kd [N s/m]; ke (h + tau) = h ke + kd."""
        return wp.max(scalar(wp.static(NEAR_RIGID)) * mobility, scalar(1.0) / (h * (h * ke + kd)))

    @wp.func
    def limit_vhat(gap: scalar, bound: wp.float32, ke: scalar, kd: scalar, h: scalar) -> scalar:
        """Velocity at which a bound begins to push; ``bound`` itself says whether it is one."""
        vhat = scalar(wp.static(NO_LIMIT))
        if wp.abs(bound) < wp.static(UNLIMITED):
            vhat = -gap * ke / (h * ke + kd)
        return vhat

    @wp.func
    def limit_reach(ke: scalar, kd: scalar, h: scalar) -> scalar:
        """2 h / (h + tau): a bound is near where -vhat is at most this times the speed."""
        return scalar(2.0) * h * ke / (h * ke + kd)

    @wp.func
    def position_limit(v: scalar, vhat_lower: scalar, vhat_upper: scalar, R: scalar) -> vec3:
        """Cost [J], its derivative [N s] and second derivative."""
        if v >= vhat_lower and -v >= vhat_upper:
            return vec3()
        lower = wp.max(scalar(0.0), (vhat_lower - v) / R)
        upper = wp.max(scalar(0.0), (vhat_upper + v) / R)
        curvature = scalar(0.0)
        if lower > scalar(0.0):
            curvature += scalar(1.0) / R
        if upper > scalar(0.0):
            curvature += scalar(1.0) / R
        return vec3(scalar(0.5) * R * (lower * lower + upper * upper), upper - lower, curvature)

    @wp.func
    def position_piece(v: scalar, vhat_lower: scalar, vhat_upper: scalar) -> int:
        """On which of four parabolas `position_limit` is at v."""
        return wp.where(v < vhat_lower, 1, 0) + wp.where(-v < vhat_upper, 2, 0)

    @wp.func
    def speed_R(mobility: scalar) -> scalar:
        return scalar(wp.static(NEAR_RIGID)) * mobility

    @wp.func
    def speed_limit(v: scalar, limit: scalar, R: scalar) -> vec3:
        """Cost [J], its derivative [N s] and second derivative."""
        excess = wp.abs(v) - limit
        if excess <= scalar(0.0):
            return vec3()
        gamma = excess / R
        return vec3(scalar(0.5) * R * gamma * gamma, wp.sign(v) * gamma, scalar(1.0) / R)

    @wp.func
    def speed_piece(v: scalar, limit: scalar) -> int:
        """On which of three parabolas `speed_limit` is at v."""
        return wp.where(v > limit, 1, wp.where(-v > limit, 2, 0))

    return SimpleNamespace(
        limit_R=limit_R,
        limit_vhat=limit_vhat,
        limit_reach=limit_reach,
        position_limit=position_limit,
        position_piece=position_piece,
        speed_R=speed_R,
        speed_limit=speed_limit,
        speed_piece=speed_piece,
    )
