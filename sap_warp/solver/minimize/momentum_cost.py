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
    def find_v_star(p: wp.ref[Problem], s: wp.ref[Data]) -> energy:
        """Solve A x = impulse for s.direction = v* - v0; returns 1/2 x^T A x, or -1 if A is not positive definite.

        A takes the room of the Hessian, in its own rows: they are not widened by contacts.
        """
        shift = p.layout.world_hessian[p.world] - p.layout.world_entry[p.world]
        i_end = p.layout.world_entry[p.world + 1]
        i = int(p.layout.world_entry[p.world] + lane())
        while i < i_end:
            s.H[i + shift] = lscalar(p.motion.A[i])
            i += lane_count()
        e = int(p.first + lane())
        while e < p.last:
            s.direction[e] = lscalar(p.motion.impulse[e])
            e += lane_count()
        barrier()
        A = shifted(s.H, shift)
        if solve(A, p.layout.rows, p.first, p.last - p.first, 0, s.direction) == 0:
            return energy(-1.0)
        total = costs()
        e = int(p.first + lane())
        while e < p.last:
            total[0] += energy(scalar(0.5) * scalar(p.motion.impulse[e]) * scalar(s.direction[e]))
            e += lane_count()
        return sum_costs(total, scratch(s), p.world)[0]

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
    def know_cost(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost]):
        """Replace the lower bound in the cost by the truth."""
        if known.is_known == 0:
            true_cost = find_v_star(p, s)
            if true_cost >= energy(0.0):  # else the Hessian will show what is wrong with A
                true_cost += known.moved
                line.m0 = line.m0 + (true_cost - known.momentum)
                line.cost = line.cost + (true_cost - known.momentum)
            known.is_known = 1

    @wp.func
    def momentum_gain(p: wp.ref[Problem], s: wp.ref[Data]) -> energy:
        """Change of the momentum's cost along the whole of s.dv."""
        total = costs()
        e = int(p.first + lane())
        while e < p.last:
            total[0] += energy(s.dv[e] * (s.p[e] + scalar(0.5) * s.A_dv[e]))
            e += lane_count()
        return sum_costs(total, scratch(s), p.world)[0]

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
    def cost_at_start(p: wp.ref[Problem], s: wp.ref[Data], line: wp.ref[Line], known: wp.ref[Cost]):
        """The cost where it is first counted: what is a parabola along any direction, and the rest.

        Of the momentum's cost 1/2 p^T A^-1 p two lower bounds follow from x = p^2/A_ee. Half the largest x is one, and
        the mean of all x, each weighted with itself, is not larger. Half the sum of all x over the number of dofs of a
        tree is another: scaled to a diagonal of ones, A has no larger eigenvalue than that.
        """
        known.is_counted = 1
        total = costs()
        size = costs()
        e = int(p.first + lane())
        while e < p.last:
            if known.is_known != 0:
                total[2] += energy(scalar(0.5) * s.p[e] * (s.v[e] - scalar(p.motion.v_star[e])))
            else:
                x = s.p[e] * s.p[e] * scalar(p.motion.inverse_diagonal[e])
                size += costs(energy(x), energy(x) * energy(x), energy(0.0))
            kind = s.kind[e]
            if (kind & PARABOLA) != 0:
                total[0] += energy(evaluate_parabola(p.terms, e, s.v[e], p.h)[0])
            if (kind & ~PARABOLA) != 0:
                total[1] += energy(evaluate_bounded(p.terms, kind, e, s.v[e], p.h)[0])
            e += lane_count()
        row = int(p.row + lane())
        while row < p.row_end:
            total[1] += energy(s.projection[row].cost)
            row += lane_count()
        if row_count(p) > 0:
            total += to_cost(rows_cost(p, s))
        total = sum_costs(total, scratch(s), p.world)
        known.momentum = total[2]
        if known.is_known == 0:
            size = sum_costs(size, scratch(s), p.world)
            if size[0] > energy(0.0):
                known.momentum = energy(0.5) * wp.max(size[0] / energy(p.options.widest), size[1] / size[0])
        line.m0 = total[0] + known.momentum
        line.cost = line.m0 + total[1]

    return cost_at_start
