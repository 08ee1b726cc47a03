"""Energy that grows without work, the sign of a time step that is too large.

A, gravity and Coriolis forces are those of the start of a step, so a step changes the energy by an error of its own: in
swings of angular frequency w it adds about (w h)^2 / 2 of it with midpoint integration. What a step finds at its start,

    gain = T - T_last - W - W_g,   W = 1/2 (v_0 + v_1) . (impulses of all terms + h applied forces) of the last step

with W_g the work of gravity, is that error and nothing else: contacts, drives, limits and constraints enter with the
work of the impulses that were found. Its sum, less the share that vanishes with kinetic energy, is the excess. A world
whose kinetic energy is mostly excess, and that moves, is unstable: what it does is not physics. It goes on.

Not judged: the first two steps of a state that was set, steps under external wrenches, worlds with kinematic
bodies or gravity compensation.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, block_sum, lane, lane_count
from ...core.kernels.template import device
from ...core.kernels.types import Bools, Ints
from ..model.motion_data import FORCED
from ..objective.problem import Data, Problem
from ..settings.precisions import solve

scalar, vec3 = solve.scalar, solve.vec3
sum_vectors = block_sum.on(dtype=vec3)

MOST = 0.5
"""Share of the kinetic energy."""
SLOW = 0.5
"""Below this speed, as root mean square over the mass [m/s], round-off may be most of what moves."""
STILL = 0.05
"""A world whose speeds add up to less is not watched [m/s and rad/s]: at rest this costs nothing."""


@wp.kernel(module="unique", enable_backward=False)
def forget_energy(mask: Bools, watched_out: Ints) -> None:
    """Begin to watch the chosen worlds anew: something changed that a comparison with the last step would not know."""
    if mask[wp.tid()]:
        watched_out[wp.tid()] = 0


@device
def has_excess_energy(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
    """Return True if most of the kinetic energy came from nowhere; once in each step of a world that was solved."""
    energy = scalar(0.0)
    work = scalar(0.0)
    e = int(problem.first + lane())
    while e < problem.last:
        v0 = scalar(problem.motion.v0[e])
        energy += v0 * (data.A_v_star[e] - scalar(problem.motion.impulse[e]))
        work += (v0 + data.v[e]) * (
            data.momentum[e] + problem.h * scalar(problem.motion.applied[problem.layout.dof_newton[e]])
        )
        e += lane_count()
    sums = sum_vectors(vec3(energy, work, scalar(0.0)), data.scratch, problem.world)
    kinetic = wp.float64(0.5) * wp.float64(sums[0])
    last = data.energy[problem.world]
    seen = problem.motion.energy_watch[problem.world]
    excess = wp.float64(0.0)
    if seen == 2 and last[0] > wp.float64(0.0):
        gain = kinetic - last[0] - last[1] - problem.motion.energy_fall[problem.world]
        excess = wp.clamp(last[2] * wp.min(wp.float64(1.0), kinetic / last[0]) + gain, -kinetic, kinetic)
    barrier()
    if lane() == 0:
        data.energy[problem.world] = wp.vec3d(kinetic, wp.float64(0.5) * wp.float64(sums[1]), excess)
        is_pushed = (problem.motion.mark[problem.world] & FORCED) != 0
        is_kinematic = problem.layout.world_kinematic[problem.world] < problem.layout.world_kinematic[problem.world + 1]
        problem.motion.energy_watch[problem.world] = wp.where(is_pushed or is_kinematic, 0, wp.min(seen + 1, 2))
    slow = wp.float64(wp.static(0.5 * SLOW * SLOW)) * problem.motion.energy_moment[problem.world][3]
    return excess > wp.float64(wp.static(MOST)) * kinetic and kinetic > slow
