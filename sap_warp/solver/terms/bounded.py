"""One equation, with or without bounds on its impulse.

It is a coupling of joints, a weld, a pin or a closed loop (Drake's holonomic constraint). With bounds it is also a
spring, a limit, dry friction or an actuator along a transmission, the length of a tendon for example. With vc = J v the
rate of the equation and slack = vhat - vc,

    impulse gamma = clamp(slack / R, low, high),   l = gamma slack - 1/2 R gamma^2,   dl/dvc = -gamma

| what | vhat | R | low, high |
| --- | --- | --- | --- |
| bilateral constraint with the violation g | -g / (h + tau), tau = h | near-rigid | -inf, inf |
| effort u0 - g vc with a force range | u0 / g | 1 / (h g) | h range |
| spring that only pushes, or only pulls | u0 / g | 1 / (h g) | 0, inf or -inf, 0 |
| limit of a transmission | -gap / h | near-rigid | 0, inf or -inf, 0 |
| dry friction f | 0 | sigma w | -h f, h f |
| constant force F | 0 | any | h F, h F |

Near-rigid is NEAR_RIGID w (`terms/near_rigid.py`) with w the mobility that the equation sees. Without bounds the cost
is a parabola. A bilateral constraint loses half of its violation g in one step.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ..settings.precisions import solve

scalar, vec3 = solve.scalar, solve.vec3

UNBOUNDED = 1.0e30
"""A bound of this size means that the impulse has none [N s or N m s]."""


@device
def bounded(slack: scalar, R: scalar, low: scalar, high: scalar) -> vec3:
    """Return the cost [J], the impulse (minus the derivative of the cost by vc) and the second derivative."""
    free = slack / R
    impulse = wp.clamp(free, low, high)
    curvature = scalar(0.0)
    if free > low and free < high:
        curvature = scalar(1.0) / R
    return vec3(impulse * (slack - scalar(0.5) * R * impulse), impulse, curvature)
