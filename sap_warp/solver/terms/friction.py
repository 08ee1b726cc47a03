"""Dry joint friction of constant magnitude, for one dof.

    gamma = -clamp(v / R, -bound, bound),   bound = h f,   dl/dv = -gamma

with f the friction [N or N m]. The cost l is a parabola near v = 0 and linear beyond it (a Huber function).
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ..settings.precisions import solve

scalar, vec3 = solve.scalar, solve.vec3


@device
def friction(v: scalar, bound: scalar, R: scalar) -> vec3:
    """Return the cost [J], its derivative [N s or N m s] and its second derivative."""
    if wp.abs(v) <= R * bound:
        return vec3(scalar(0.5) * v * v / R, v / R, scalar(1.0) / R)
    return vec3(bound * (wp.abs(v) - scalar(0.5) * R * bound), wp.sign(v) * bound, scalar(0.0))


@device
def friction_segment(v: scalar, bound: scalar, R: scalar) -> int:
    """Return which of the three segments of `friction` v is on."""
    return wp.where(v > R * bound, 1, wp.where(-v > R * bound, 2, 0))
