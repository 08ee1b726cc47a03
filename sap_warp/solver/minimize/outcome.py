"""What the solve of a world leaves: its velocity, and how it ended.

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import block_sum, lane, lane_count
from ...core.kernels.template import device, device_struct
from ..objective.problem import Data, Problem
from ..settings.precisions import solve
from ..settings.status import DIVERGED, FREE_MOTION_FAILED, UNSTABLE
from .stability import STILL, has_excess_energy

scalar, vec3 = solve.scalar, solve.vec3
sum_vectors = block_sum.on(dtype=vec3)

LARGEST_SPEED = 1e15
"""A world that moves faster has diverged [m/s or rad/s]; products of such numbers would overflow an fp32 state."""


@device_struct
class Outcome:
    """How the solve of a world ended."""

    status: int
    iterations: int
    trials: int
    residual: scalar


@device
def write_velocity(problem: wp.ref[Problem], data: wp.ref[Data]) -> vec3:
    """Write the velocity in Newton's order; returns the sum of all speeds first."""
    e = int(problem.layout.world_kinematic[problem.world] + lane())
    e_end = problem.layout.world_kinematic[problem.world + 1]
    while e < e_end:
        data.velocity[problem.layout.dof_newton[e]] = problem.motion.v0[e]
        e += lane_count()
    speed = scalar(0.0)
    e = int(problem.first + lane())
    while e < problem.last:
        v = data.v[e]
        data.velocity[problem.layout.dof_newton[e]] = wp.float64(v)
        speed += wp.abs(v)
        e += lane_count()
    return sum_vectors(vec3(speed, scalar(0.0), scalar(0.0)), data.scratch, problem.world)


@device
def store_outcome(problem: wp.ref[Problem], data: wp.ref[Data], result: wp.ref[Outcome]):
    """Write the velocity and the statistics of a world, and judge whether it diverged or gained energy."""
    speed = write_velocity(problem, data)[0]
    if not (speed <= scalar(wp.static(LARGEST_SPEED))) and result.status < FREE_MOTION_FAILED:
        result.status = DIVERGED
    if speed > scalar(wp.static(STILL)) and result.status < FREE_MOTION_FAILED:
        if has_excess_energy(problem, data) and result.status == 0:
            result.status = UNSTABLE
    elif lane() == 0:
        problem.motion.energy_watch[problem.world] = 0
    if lane() == 0:
        data.status[problem.world] = result.status
        data.iterations[problem.world] = result.iterations
        data.line_iterations[problem.world] = result.trials
        data.residual[problem.world] = wp.float64(result.residual)
