"""One-sided joint limits on position and speed, one dof.

Position: gamma = max(0, (vhat - s v) / R) with s = +1 at the lower and -1 at the upper bound, vhat = -gap/(h + tau),
l = 1/2 R gamma^2. A bound that takes no part has vhat = NO_LIMIT.
Speed: the same with |v| beyond the limit and a near-rigid R.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...kernels.types import Types

NO_LIMIT = -1.0e30
"""vhat of an inactive bound [m/s]: no velocity reaches it."""


@functools.cache
def make_limit_term(types: Types) -> SimpleNamespace:
    """Device functions of the term for one precision."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def position_limit(v: scalar, vhat_lower: scalar, vhat_upper: scalar, R: scalar) -> vec3:
        """Cost [J], its derivative [N s] and second derivative."""
        lower = wp.max(scalar(0.0), (vhat_lower - v) / R)
        upper = wp.max(scalar(0.0), (vhat_upper + v) / R)
        curvature = scalar(0.0)
        if lower > scalar(0.0):
            curvature += scalar(1.0) / R
        if upper > scalar(0.0):
            curvature += scalar(1.0) / R
        return vec3(scalar(0.5) * R * (lower * lower + upper * upper), upper - lower, curvature)

    @wp.func
    def speed_limit(v: scalar, limit: scalar, R: scalar) -> vec3:
        """Cost [J], its derivative [N s] and second derivative."""
        excess = wp.abs(v) - limit
        if excess <= scalar(0.0):
            return vec3()
        gamma = excess / R
        return vec3(scalar(0.5) * R * gamma * gamma, wp.sign(v) * gamma, scalar(1.0) / R)

    return SimpleNamespace(position_limit=position_limit, speed_limit=speed_limit)
