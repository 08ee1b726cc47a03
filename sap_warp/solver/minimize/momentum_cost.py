"""What is known of the momentum's cost 1/2 (v - v*)^T A (v - v*), and v*.

Gradient and Hessian need A (v - v*), which follows from the impulse of free motion, but not v* itself, and finding it
is a tenth of a step. Only the size of the cost depends on it, by the momentum's share at the start, for which there is
a lower bound. A cost criterion that is met with the bound is met in truth; only where it is not, v* is found.

Called by all lanes of a block.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count, make_block_sum
from ...core.kernels.packed_rows import make_shifted, make_solve
from ...core.kernels.spatial import make_spatial
from ..objective.equations import make_constraint_terms
from ..objective.problem import Precisions, make_problem
from ..terms.dof import PARABOLA, make_dof_terms
from .line_search import make_line


@functools.cache
def make_find_v_star(precisions: Precisions):
    """``find_v_star(p, s)``: v* and the momentum's cost at v0."""
    types, linear, cost = precisions.types, precisions.linear, precisions.cost
    Problem, Data = make_problem(precisions)
    energy, costs, scratch = cost.scalar, cost.vec3, make_line(precisions).scratch
    sum_costs, solve, shifted = make_block_sum(costs), make_solve(linear), make_shifted(linear)
    scalar, lscalar = types.scalar, linear.scalar

    @wp.func
    def find_v_star(problem: wp.ref[Problem], data: wp.ref[Data]) -> energy:
        """Solve A x = impulse for s.direction = v* - v0; returns 1/2 x^T A x, or -1 if A is not positive definite.

        A takes the room of the Hessian, in its own rows: they are not widened by contacts.
        """
        shift = problem.layout.world_hessian[problem.world] - problem.layout.world_entry[problem.world]
        i_end = problem.layout.world_entry[problem.world + 1]
        i = int(problem.layout.world_entry[problem.world] + lane())
        while i < i_end:
            data.H[i + shift] = lscalar(problem.motion.A[i])
            i += lane_count()
        e = int(problem.first + lane())
        while e < problem.last:
            data.direction[e] = lscalar(problem.motion.impulse[e])
            e += lane_count()
        barrier()
        A = shifted(data.H, shift)
        if solve(A, problem.layout.rows, problem.first, problem.last - problem.first, 0, data.direction) == 0:
            return energy(-1.0)
        total = costs()
        e = int(problem.first + lane())
        while e < problem.last:
            total[0] += energy(scalar(0.5) * scalar(problem.motion.impulse[e]) * scalar(data.direction[e]))
            e += lane_count()
        return sum_costs(total, scratch(data), problem.world)[0]

    return find_v_star


@functools.cache
def make_momentum_cost(precisions: Precisions) -> SimpleNamespace:
    """`Cost` and the device functions that keep it right."""
    types, cost = precisions.types, precisions.cost
    Problem, Data = make_problem(precisions)
    energy, costs, along = cost.scalar, cost.vec3, make_line(precisions)
    Line, scratch, sum_costs = along.Line, along.scratch, make_block_sum(costs)
    scalar, find_v_star = types.scalar, make_find_v_star(precisions)

    @wp.struct
    class Cost:
        """What is known of the momentum's cost 1/2 p^T A^-1 p where costs are first counted."""

        is_counted: int
        is_known: int
        momentum: energy  # or, as long as it is not known, a lower bound
        moved: energy  # how much more it is than at v0

    @wp.func
    def know_cost(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost]):
        """Replace the lower bound in the cost by the truth."""
        if known.is_known == 0:
            true_cost = find_v_star(problem, data)
            if true_cost >= energy(0.0):  # else the Hessian will show what is wrong with A
                true_cost += known.moved
                line.m0 = line.m0 + (true_cost - known.momentum)
                line.cost = line.cost + (true_cost - known.momentum)
            known.is_known = 1

    @wp.func
    def momentum_gain(problem: wp.ref[Problem], data: wp.ref[Data]) -> energy:
        """Change of the momentum's cost along the whole of s.dv."""
        total = costs()
        e = int(problem.first + lane())
        while e < problem.last:
            total[0] += energy(data.dv[e] * (data.momentum[e] + scalar(0.5) * data.A_dv[e]))
            e += lane_count()
        return sum_costs(total, scratch(data), problem.world)[0]

    return SimpleNamespace(Cost=Cost, know_cost=know_cost, momentum_gain=momentum_gain)


@functools.cache
def make_cost_at_start(precisions: Precisions):
    """``cost_at_start(p, s, line, known)``."""
    types, cost = precisions.types, precisions.cost
    Problem, Data = make_problem(precisions)
    energy, costs, to_cost = cost.scalar, cost.vec3, make_spatial(cost).to_vec3
    along, sum_costs = make_line(precisions), make_block_sum(costs)
    Line, scratch, Cost = along.Line, along.scratch, make_momentum_cost(precisions).Cost
    scalar, terms = types.scalar, make_dof_terms(types)
    evaluate_parabola, evaluate_bounded = terms.evaluate_parabola, terms.evaluate_bounded
    rows = make_constraint_terms(precisions)
    row_count, rows_cost = rows.row_count, rows.rows_cost

    @wp.func
    def cost_at_start(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost]):
        """The cost where it is first counted: what is a parabola along any direction, and the rest.

        Of the momentum's cost 1/2 p^T A^-1 p two lower bounds follow from x = p^2/A_ee. Half the largest x is one, and
        the mean of all x, each weighted with itself, is not larger. Half the sum of all x over the number of dofs of a
        tree is another: scaled to a diagonal of ones, A has no larger eigenvalue than that.
        """
        known.is_counted = 1
        total = costs()
        size = costs()
        e = int(problem.first + lane())
        while e < problem.last:
            if known.is_known != 0:
                total[2] += energy(scalar(0.5) * data.momentum[e] * (data.v[e] - scalar(problem.motion.v_star[e])))
            else:
                x = data.momentum[e] * data.momentum[e] * scalar(problem.motion.inverse_diagonal[e])
                size += costs(energy(x), energy(x) * energy(x), energy(0.0))
            kind = data.active_terms[e]
            if (kind & PARABOLA) != 0:
                total[0] += energy(evaluate_parabola(problem.terms, e, data.v[e], problem.h)[0])
            if (kind & ~PARABOLA) != 0:
                total[1] += energy(evaluate_bounded(problem.terms, kind, e, data.v[e], problem.h)[0])
            e += lane_count()
        row = int(problem.row + lane())
        while row < problem.row_end:
            total[1] += energy(data.projection[row].cost)
            row += lane_count()
        if row_count(problem) > 0:
            total += to_cost(rows_cost(problem, data))
        total = sum_costs(total, scratch(data), problem.world)
        known.momentum = total[2]
        if known.is_known == 0:
            size = sum_costs(size, scratch(data), problem.world)
            if size[0] > energy(0.0):
                known.momentum = energy(0.5) * wp.max(size[0] / energy(problem.options.widest), size[1] / size[0])
        line.m0 = total[0] + known.momentum
        line.cost = line.m0 + total[1]

    return cost_at_start
