"""When the iteration ends: the criterion of optimality, and that of the cost.

    |D g| <= abs_tol + rel_tol max(|D A v|, |D j|), D = diag(A)^(-1/2), j all impulses of the terms
    |l_new - l_old| <= cost_abs_tol + cost_rel_tol (l_new + l_old)/2

Called by all lanes of a block.
"""

import functools

import warp as wp

from ..objective.objective import make_gradient
from ..objective.problem import Precisions, make_problem
from ..settings.status import DIVERGED
from .line_search import make_line
from .momentum_cost import make_momentum_cost
from .outcome import make_outcome

LONG_STEP = 0.5
"""Only a longer step may end the iteration by its gain: a short one changes the cost little however far the minimum."""


@functools.cache
def make_is_optimal(precisions: Precisions):
    """``is_optimal(p, s, r)``."""
    Problem, Data = make_problem(precisions)
    scalar, gradient, Outcome = precisions.types.scalar, make_gradient(precisions), make_outcome(precisions).Outcome

    @wp.func
    def is_optimal(problem: wp.ref[Problem], data: wp.ref[Data], r: wp.ref[Outcome]) -> bool:
        """The optimality criterion at s.v; DIVERGED if the gradient is not finite."""
        norms = gradient(problem, data)
        size = wp.sqrt(norms[0])
        scale = wp.sqrt(wp.max(norms[1], norms[2]))
        r.residual = size / wp.max(scale, scalar(1e-30))
        if not wp.isfinite(size):  # whatever is not finite of the state or of a force gets here by the impulse
            r.status = DIVERGED
        return size <= scalar(problem.options.abs_tol) + scalar(problem.options.rel_tol) * scale

    return is_optimal


@functools.cache
def make_is_settled(precisions: Precisions):
    """``is_settled(p, s, line, known, alpha, gain)``."""
    Problem, Data = make_problem(precisions)
    energy, Line, momentum = precisions.cost.scalar, make_line(precisions).Line, make_momentum_cost(precisions)
    Cost, know_cost = momentum.Cost, momentum.know_cost

    @wp.func
    def is_enough(problem: wp.ref[Problem], gain: energy, cost: energy) -> bool:
        """The cost criterion, after a step that lowered the cost by ``gain`` to ``cost``."""
        mean = energy(0.5) * (wp.abs(cost) + wp.abs(cost + gain))
        return wp.abs(gain) < energy(problem.options.cost_abs_tol) + energy(problem.options.cost_rel_tol) * mean

    @wp.func
    def is_settled(
        problem: wp.ref[Problem],
        data: wp.ref[Data],
        line: wp.ref[Line],
        known: wp.ref[Cost],
        alpha: energy,
        gain: energy,
    ) -> bool:
        """Whether a step that lowered the cost by ``gain`` to line.cost is the last one."""
        if alpha <= energy(wp.static(LONG_STEP)):
            return False
        if not is_enough(problem, gain, line.cost) and problem.options.cost_rel_tol > wp.float64(0.0):
            know_cost(problem, data, line, known)
        return is_enough(problem, gain, line.cost)

    return is_settled
