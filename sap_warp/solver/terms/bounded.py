"""A constraint row: a coupling of joints, a weld, a pin or a closed loop (Drake's holonomic constraint), and with
bounds on its impulse a spring, limit, dry friction or actuator along a length.

With vc = J v the rate of the row and slack = vhat - vc,

    impulse gamma = clamp(slack / R, low, high),   l = gamma slack - 1/2 R gamma^2,   dl/dvc = -gamma

| what | vhat | R | low, high |
| --- | --- | --- | --- |
| bilateral constraint with the violation g | -g / (h + tau), tau = h | near-rigid | -inf, inf |
| effort u0 - g vc with a force range | u0 / g | 1 / (h g) | h range |
| spring that only pushes, or only pulls | the same | the same | 0, inf or -inf, 0 |
| limit of a length | -gap / h | near-rigid | 0, inf or -inf, 0 |
| dry friction f | 0 | sigma w | -h f, h f |
| constant force F | 0 | any | h F, h F |

Near-rigid is NEAR_RIGID w (`near_rigid`) with w the mobility of the row. Without bounds the cost is a parabola, and of
a bilateral constraint half of g is gone after a step.
"""

import functools

import warp as wp

from ...core.kernels.types import Types

UNBOUNDED = 1.0e30
"""An impulse of this size is no bound [N s or N m s]."""


@functools.cache
def make_bounded_term(types: Types):
    """``bounded(slack, R, low, high)``: cost, impulse (minus the derivative by vc) and second derivative."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def bounded(slack: scalar, R: scalar, low: scalar, high: scalar) -> vec3:
        free = slack / R
        impulse = wp.clamp(free, low, high)
        curvature = scalar(0.0)
        if free > low and free < high:
            curvature = scalar(1.0) / R
        return vec3(impulse * (slack - scalar(0.5) * R * impulse), impulse, curvature)

    return bounded
