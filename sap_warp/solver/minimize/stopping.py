"""When the iteration ends: the criterion of optimality, and that of the cost.

    |D g| <= abs_tol + rel_tol max(|D A v|, |D j|), D = diag(A)^(-1/2), j all impulses of the terms
    |l_new - l_old| <= cost_abs_tol + cost_rel_tol (l_new + l_old)/2

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.template import device
from ..objective.gradient import gradient
from ..objective.problem import Data, Line, Problem
from ..settings.precisions import cost, solve
from ..settings.status import DIVERGED
from .lazy_free_velocity import CostBound, resolve
from .outcome import Outcome

scalar, energy = solve.scalar, cost.scalar

LONG_STEP = 0.5
"""Only a longer step may end the iteration by its gain: a short one changes the cost little however far the minimum."""


@device
def is_optimal(problem: wp.ref[Problem], data: wp.ref[Data], result: wp.ref[Outcome]) -> bool:
    """Return True if data.v meets the optimality criterion; the status is DIVERGED if the gradient is not finite."""
    norms = gradient(problem, data)
    size = wp.sqrt(norms[0])
    scale = wp.sqrt(wp.max(norms[1], norms[2]))
    result.residual = size / wp.max(scale, scalar(1e-30))
    if not wp.isfinite(size):  # whatever is not finite of the state or of a force gets here by the impulse
        result.status = DIVERGED
    return size <= scalar(problem.options.abs_tol) + scalar(problem.options.rel_tol) * scale


@device
def meets_cost_tolerance(problem: wp.ref[Problem], gain: energy, cost: energy) -> bool:
    """Return True if a step that lowered the cost by ``gain`` to ``cost`` gained too little to go on."""
    mean = energy(0.5) * (wp.abs(cost) + wp.abs(cost + gain))
    return wp.abs(gain) < energy(problem.options.cost_abs_tol) + energy(problem.options.cost_rel_tol) * mean


@device
def is_settled(
    problem: wp.ref[Problem],
    data: wp.ref[Data],
    line: wp.ref[Line],
    bound: wp.ref[CostBound],
    alpha: energy,
    gain: energy,
) -> bool:
    """Return True if a step that lowered the cost by ``gain`` to line.cost is the last one."""
    if alpha <= energy(wp.static(LONG_STEP)):
        return False
    if not meets_cost_tolerance(problem, gain, line.cost) and problem.options.cost_rel_tol > wp.float64(0.0):
        resolve(problem, data, line, bound)
    return meets_cost_tolerance(problem, gain, line.cost)
