"""One-sided joint limits on position and speed, for one dof.

    position   gamma = max(0, (vhat - s v) / R), s = +1 at the lower and -1 at the upper bound,   l = 1/2 R gamma^2
               vhat = -gap/(h + tau),   R = max(near-rigid, 1/(h ke (h + tau))),   tau = kd/ke
    speed      gamma = max(0, (|v| - limit) / R), against v,   R = near-rigid,   l = 1/2 R gamma^2

Near-rigid is NEAR_RIGID/A_kk (`terms/near_rigid.py`).

A bound of the position takes part where its gap is at most 2 h max(|v0|, |v*|), as in Drake; otherwise one with a long
dissipation time would brake from afar. Whether a bound with a gap above 2 h |v0| takes part depends on v*, which may
not be known yet. But it only matters if the result crosses the bound, v < vhat, since the term of a bound that is not
crossed is zero. So such a bound is *inactive* until a result has crossed one (`minimize/lazy_free_velocity.py`).
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ..settings.precisions import solve
from .near_rigid import NEAR_RIGID

scalar, vec3 = solve.scalar, solve.vec3

NO_LIMIT = -1.0e30
"""vhat that stands for a missing bound [m/s]: no velocity reaches it."""
UNLIMITED = 1e9
"""A joint limit of this size or more means that there is none; Newton writes 1e10 for "no limit" [m, rad]."""
UNLIMITED_SPEED = 1e6
"""A velocity limit of this size or more means that there is none; this is Newton's default [m/s, rad/s]."""


@device
def limit_R(ke: scalar, kd: scalar, h: scalar, mobility: scalar) -> scalar:
    """Return R of a bound with stiffness ke [N/m] and damping kd [N s/m]; h (h ke + kd) is h ke (h + tau).

    ``mobility`` is 1/A_kk.
    """
    return wp.max(scalar(wp.static(NEAR_RIGID)) * mobility, scalar(1.0) / (h * (h * ke + kd)))


@device
def limit_vhat(gap: scalar, bound: wp.float32, ke: scalar, kd: scalar, h: scalar) -> scalar:
    """Return the velocity at which a bound begins to push, or `NO_LIMIT` if the size of ``bound`` says it is none."""
    vhat = scalar(wp.static(NO_LIMIT))
    if wp.abs(bound) < wp.static(UNLIMITED):
        vhat = -gap * ke / (h * ke + kd)
    return vhat


@device
def limit_reach(ke: scalar, kd: scalar, h: scalar) -> scalar:
    """Return 2 h / (h + tau): a bound takes part if -vhat is at most this times the speed."""
    return scalar(2.0) * h * ke / (h * ke + kd)


@device
def position_limit(v: scalar, vhat_lower: scalar, vhat_upper: scalar, R: scalar) -> vec3:
    """Return the cost [J] of both bounds, its derivative [N s or N m s] and its second derivative."""
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


@device
def position_segment(v: scalar, vhat_lower: scalar, vhat_upper: scalar) -> int:
    """Return which of the four segments of `position_limit` v is on."""
    return wp.where(v < vhat_lower, 1, 0) + wp.where(-v < vhat_upper, 2, 0)


@device
def speed_R(mobility: scalar) -> scalar:
    """Return R of a speed limit; ``mobility`` is 1/A_kk."""
    return scalar(wp.static(NEAR_RIGID)) * mobility


@device
def speed_limit(v: scalar, limit: scalar, R: scalar) -> vec3:
    """Return the cost [J], its derivative [N s or N m s] and its second derivative."""
    excess = wp.abs(v) - limit
    if excess <= scalar(0.0):
        return vec3()
    gamma = excess / R
    return vec3(scalar(0.5) * R * gamma * gamma, wp.sign(v) * gamma, scalar(1.0) / R)


@device
def speed_segment(v: scalar, limit: scalar) -> int:
    """Return which of the three segments of `speed_limit` v is on."""
    return wp.where(v > limit, 1, wp.where(-v > limit, 2, 0))
