"""The free-motion velocity v*, found only where a solve needs it.

Gradient and Hessian need A (v - v*), which follows from the impulse of free motion, but not v* itself, and finding it
takes a tenth of a step. Two things depend on it:

    size of the cost     by the momentum's share 1/2 p^T A^-1 p with p = A (v - v*), for which there is a lower bound.
                         A cost criterion that is met with the bound is met in truth; `lower_bound` gives the cost with
                         it, `resolve` replaces it by the true one where a criterion or a line search asks.
    far limits           Limits that only v* might reach take no part at first. If the solution violates one, v* is
                         found, the limits that it reaches become active, and the solve begins again
                         (`activate_violated_limits`).

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, block_sum, lane, lane_count
from ...core.kernels.packed_rows import shifted, solve_packed
from ...core.kernels.template import device, device_struct
from ..objective.families import add_cost
from ..objective.problem import Data, Line, Problem, cost_scratch
from ..settings.precisions import cost, linear, solve
from ..terms.dof import INACTIVE_LOWER, INACTIVE_UPPER, LOWER, UPPER, DofTerms
from .active_terms import list_terms

scalar, vec3, energy, energy3, linear_scalar = solve.scalar, solve.vec3, cost.scalar, cost.vec3, linear.scalar
sum_vectors, sum_costs = block_sum.on(dtype=vec3), block_sum.on(dtype=energy3)
solve_rows, shifted_rows = solve_packed.on(matrix=linear), shifted.on(matrix=linear)


@device
def find_v_star(problem: wp.ref[Problem], data: wp.ref[Data]) -> energy:
    """Solve A x = impulse for data.direction = v* - v0; returns 1/2 x^T A x, or -1 if A is not positive definite.

    A takes the room of the Hessian, in its own rows: they are not widened by contacts.
    """
    shift = problem.layout.world_hessian[problem.world] - problem.layout.world_entry[problem.world]
    i_end = problem.layout.world_entry[problem.world + 1]
    i = int(problem.layout.world_entry[problem.world] + lane())
    while i < i_end:
        data.H[i + shift] = linear_scalar(problem.motion.A[i])
        i += lane_count()
    e = int(problem.first + lane())
    while e < problem.last:
        data.direction[e] = linear_scalar(problem.motion.impulse[e])
        e += lane_count()
    barrier()
    A = shifted_rows(data.H, shift)
    if solve_rows(A, problem.layout.rows, problem.first, problem.last - problem.first, 0, data.direction) == 0:
        return energy(-1.0)
    total = energy3()
    e = int(problem.first + lane())
    while e < problem.last:
        total[0] += energy(scalar(0.5) * scalar(problem.motion.impulse[e]) * scalar(data.direction[e]))
        e += lane_count()
    return sum_costs(total, cost_scratch(data), problem.world)[0]


@device_struct
class CostBound:
    """What a solve knows of the momentum's cost since costs are counted."""

    is_counted: int
    is_exact: int  # 0 while ``momentum`` is a lower bound
    momentum: energy  # [J]
    moved: energy  # how much more it is than at v0, by warm-start steps


@device
def momentum_cost(problem: wp.ref[Problem], data: wp.ref[Data], is_exact: int) -> energy:
    """The momentum's cost at data.v if v* is known, else a lower bound.

    Two lower bounds of 1/2 p^T A^-1 p follow from x = p^2/A_ee. Half the largest x is one, and the mean of all x, each
    weighted with itself, is not larger. Half the sum of all x over the number of dofs of a tree is another: scaled to a
    diagonal of ones, A has no larger eigenvalue than that.
    """
    total = energy3()
    e = int(problem.first + lane())
    while e < problem.last:
        if is_exact != 0:
            total[2] += energy(scalar(0.5) * data.momentum[e] * (data.v[e] - scalar(problem.motion.v_star[e])))
        else:
            x = data.momentum[e] * data.momentum[e] * scalar(problem.motion.inverse_diagonal[e])
            total += energy3(energy(x), energy(x) * energy(x), energy(0.0))
        e += lane_count()
    total = sum_costs(total, cost_scratch(data), problem.world)
    if is_exact == 0 and total[0] > energy(0.0):
        return energy(0.5) * wp.max(total[0] / energy(problem.options.widest), total[1] / total[0])
    return total[2]


@device
def lower_bound(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], bound: wp.ref[CostBound]):
    """Begin to count costs: the cost at data.v, with a lower bound for the momentum's share if v* is not known."""
    bound.is_counted = 1
    total = sum_costs(add_cost(problem, data, energy3()), cost_scratch(data), problem.world)
    bound.momentum = momentum_cost(problem, data, bound.is_exact)
    line.m0 = total[0] + bound.momentum
    line.cost = line.m0 + total[1]


@device
def resolve(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], bound: wp.ref[CostBound]):
    """Replace the lower bound in the cost by the truth."""
    if bound.is_exact == 0:
        true_cost = find_v_star(problem, data)
        if true_cost >= energy(0.0):  # else the Hessian will show what is wrong with A
            true_cost += bound.moved
            line.m0 = line.m0 + (true_cost - bound.momentum)
            line.cost = line.cost + (true_cost - bound.momentum)
        bound.is_exact = 1


@device
def momentum_gain(problem: wp.ref[Problem], data: wp.ref[Data]) -> energy:
    """Change of the momentum's cost along the whole of s.dv."""
    total = energy3()
    e = int(problem.first + lane())
    while e < problem.last:
        total[0] += energy(data.dv[e] * (data.momentum[e] + scalar(0.5) * data.A_dv[e]))
        e += lane_count()
    return sum_costs(total, cost_scratch(data), problem.world)[0]


@device
def violates_inactive_limit(terms: wp.ref[DofTerms], mask: int, active: int, e: int, v: scalar) -> bool:
    """Return True if v violates a limit of dof e that takes no part yet."""
    if (mask & (INACTIVE_LOWER | INACTIVE_UPPER)) == 0:
        return False
    lower = (mask & INACTIVE_LOWER) != 0 and (active & LOWER) == 0 and v < terms.limit_lower[e]
    return lower or ((mask & INACTIVE_UPPER) != 0 and (active & UPPER) == 0 and -v < terms.limit_upper[e])


@device
def activate_violated_limits(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
    """If the solution violates an inactive limit, activate all limits that v* reaches.

    Returns True if the solve must run again.
    """
    if problem.motion.solved != 0:  # v* was known when the terms were prepared
        return False
    violated = vec3()
    e = int(problem.first + lane())
    while e < problem.last:
        if violates_inactive_limit(problem.terms, problem.terms.term_mask[e], data.active_terms[e], e, data.v[e]):
            violated[0] += scalar(1.0)
        e += lane_count()
    violated = sum_vectors(violated, data.scratch, problem.world)
    if violated[0] == scalar(0.0):
        return False
    activated = vec3()
    if find_v_star(problem, data) >= energy(0.0):
        e = int(problem.first + lane())
        while e < problem.last:
            mask = problem.terms.term_mask[e]
            speed = problem.terms.limit_reach[e] * wp.abs(scalar(problem.motion.v0[e] + wp.float64(data.direction[e])))
            near = wp.where((mask & INACTIVE_LOWER) != 0 and -problem.terms.limit_lower[e] <= speed, LOWER, 0)
            near = near | wp.where((mask & INACTIVE_UPPER) != 0 and -problem.terms.limit_upper[e] <= speed, UPPER, 0)
            if (near & ~data.active_terms[e]) != 0:
                data.active_terms[e] = data.active_terms[e] | near
                activated[0] += scalar(1.0)
            e += lane_count()
        list_terms(problem, data)
    return sum_vectors(activated, data.scratch, problem.world)[0] > scalar(0.0)
