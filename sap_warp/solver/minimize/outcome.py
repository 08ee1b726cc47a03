"""What the solve of a world leaves: its velocity, and how it ended.

Called by all lanes of a block.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import lane, lane_count, make_block_sum
from ..objective.problem import Precisions, make_problem
from ..settings.status import DIVERGED, FREE_MOTION_FAILED, UNSTABLE
from .stability import STILL, make_stability

LARGEST_SPEED = 1e15
"""A world that moves faster has diverged [m/s or rad/s]; products of such numbers would overflow an fp32 state."""


@functools.cache
def make_outcome(precisions: Precisions) -> SimpleNamespace:
    """`Outcome` and ``store_outcome(p, s, r)``."""
    types = precisions.types
    Problem, Data = make_problem(precisions)
    scalar, vec3, block_sum = types.scalar, types.vec3, make_block_sum(types.vec3)
    has_excess_energy = make_stability(precisions)

    @wp.struct
    class Outcome:
        status: int
        iterations: int
        trials: int
        residual: scalar

    @wp.func
    def write_velocity(problem: wp.ref[Problem], data: wp.ref[Data]) -> vec3:
        """The result in Newton's order; returns the sum of all speeds first."""
        e = int(problem.layout.world_prescribed[problem.world] + lane())
        e_end = problem.layout.world_prescribed[problem.world + 1]
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
        return block_sum(vec3(speed, scalar(0.0), scalar(0.0)), data.scratch, problem.world)

    @wp.func
    def store_outcome(problem: wp.ref[Problem], data: wp.ref[Data], r: wp.ref[Outcome]):
        speed = write_velocity(problem, data)[0]
        if not (speed <= scalar(wp.static(LARGEST_SPEED))) and r.status < FREE_MOTION_FAILED:
            r.status = DIVERGED
        if speed > scalar(wp.static(STILL)) and r.status < FREE_MOTION_FAILED:
            if has_excess_energy(problem, data) and r.status == 0:
                r.status = UNSTABLE
        elif lane() == 0:
            problem.motion.energy_watch[problem.world] = 0
        if lane() == 0:
            data.status[problem.world] = r.status
            data.iterations[problem.world] = r.iterations
            data.line_iterations[problem.world] = r.trials
            data.residual[problem.world] = wp.float64(r.residual)

    return SimpleNamespace(Outcome=Outcome, store_outcome=store_outcome)
