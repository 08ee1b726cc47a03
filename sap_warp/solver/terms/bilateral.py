"""A bilateral constraint row: a coupling of joints, a weld, a pin or a closed loop (Drake's holonomic constraint).

With g the violation at the start of the step and vc = J v its rate, the row asks for the rate that makes g decay,

    slack = vhat - vc,   vhat = -g / (h + tau),   impulse gamma = slack / R,   l = 1/2 slack^2 / R

near-rigid, R = NEAR_RIGID w (`near_rigid`) with w the mobility of the row, and tau = h: half of g is gone after a step.
"""

import functools

import warp as wp

from ...kernels.types import Types


@functools.cache
def make_bilateral_term(types: Types):
    """``bilateral(slack, R)``: cost, impulse (minus the derivative by vc) and second derivative."""
    scalar, vec3 = types.scalar, types.vec3

    @wp.func
    def bilateral(slack: scalar, R: scalar) -> vec3:
        impulse = slack / R
        return vec3(scalar(0.5) * slack * impulse, impulse, scalar(1.0) / R)

    return bilateral
