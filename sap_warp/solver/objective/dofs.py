"""What belongs to single dofs as terms of the objective: drives, motors, limits, friction, passive springs.

The functions of this file are those of every family of terms, see `families`. Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.spatial import to_vec3
from ...core.kernels.template import device
from ..settings.precisions import cost, linear, solve
from ..terms.dof import PARABOLA, evaluate, evaluate_bounded, evaluate_parabola, segment
from .problem import Data, Line, Problem, folds

scalar, vec3, energy, energy3, linear_scalar = solve.scalar, solve.vec3, cost.scalar, cost.vec3, linear.scalar
to_cost = to_vec3.on(number=cost)


@device
def has_terms(problem: wp.ref[Problem], data: wp.ref[Data], found: int) -> int:
    """Return 1 if any dof of the world has terms, else ``found``."""
    return wp.where(data.term_count > 0, 1, found)


@device
def add_cost(problem: wp.ref[Problem], data: wp.ref[Data], total: energy3) -> energy3:
    """Add a lane's share of the cost: first that of the terms without bounds, second that of those with bounds."""
    e = int(problem.first + lane())
    while e < problem.last:
        active = data.active_terms[e]
        if (active & PARABOLA) != 0:
            total[0] += energy(evaluate_parabola(problem.terms, e, data.v[e], problem.h)[0])
        if (active & ~PARABOLA) != 0:
            total[1] += energy(evaluate_bounded(problem.terms, active, e, data.v[e], problem.h)[0])
        e += lane_count()
    return total


@device
def add_impulse(problem: wp.ref[Problem], data: wp.ref[Data], e: int, impulse: scalar) -> scalar:
    """Add the generalized impulse of the terms of dof e, and keep their value for the Hessian."""
    total = impulse
    if data.active_terms[e] != 0:
        value = evaluate(problem.terms, data.active_terms[e], e, data.v[e], problem.h)
        data.term[e] = value
        total -= value[1]
    return total


@device
def add_to_diagonal(problem: wp.ref[Problem], data: wp.ref[Data], H: wp.array(dtype=linear_scalar), e: int, entry: int):
    """Add the curvature of the terms of dof e to an entry of the Hessian."""
    if data.active_terms[e] != 0:
        H[entry] = H[entry] + linear_scalar(data.term[e][2])


@device
def prepare_direction(problem: wp.ref[Problem], data: wp.ref[Data], slopes: energy3) -> energy3:
    """Add a lane's share of momentum and terms without bounds: slope, curvature, and the slope of the whole cost."""
    e = int(problem.first + lane())
    while e < problem.last:
        de = data.dv[e]
        share = vec3(data.momentum[e], data.A_dv[e], data.gradient[e]) * de
        if wp.static(cost is solve):
            slopes += to_cost(share)
        if (data.active_terms[e] & PARABOLA) != 0:
            value = evaluate_parabola(problem.terms, e, data.v[e], problem.h)
            more = vec3(value[1], value[2] * de, scalar(0.0)) * de
            if wp.static(cost is solve):
                slopes += to_cost(more)
            else:
                share += more
        if wp.static(cost is not solve):  # one conversion for both
            slopes += to_cost(share)
        e += lane_count()
    return slopes


@device
def fold_bounded(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]):
    """Split the dofs with bounds: those on one parabola as far as a search may go, and a list of the others."""
    total = energy3()
    longest = scalar(problem.options.longest)
    data.nonquadratic_count = 0
    i_end = problem.first + data.bounded_count
    i = int(problem.first)
    while i < i_end:
        e = data.bounded[i]
        active = data.active_terms[e]
        v = data.v[e]
        de = data.dv[e]
        if segment(problem.terms, active, e, v) == segment(problem.terms, active, e, v + longest * de):
            value = data.term[e]
            if (active & PARABOLA) != 0:
                value -= evaluate_parabola(problem.terms, e, v, problem.h)
            total += to_cost(vec3(value[0], value[1] * de, value[2] * de * de))
        else:
            data.nonquadratic[problem.first + data.nonquadratic_count] = e
            data.nonquadratic_count += 1
        i += 1
    line.b0 = total[0]
    line.b1 = total[1]
    line.b2 = total[2]


@device
def tried_count(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
    """How many dofs every trial step has to evaluate."""
    if folds(problem):
        return data.nonquadratic_count
    return data.bounded_count


@device
def tried_dof(problem: wp.ref[Problem], data: wp.ref[Data], i: int) -> int:
    """Dof i of those, counted from the first dof of the world."""
    if folds(problem):
        return data.nonquadratic[i]
    return data.bounded[i]


@device
def add_along(problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, total: energy3) -> energy3:
    """Add a lane's share of cost, slope and curvature at a trial step of the dofs that have to be evaluated."""
    i_end = problem.first + tried_count(problem, data)
    i = int(problem.first + lane())
    while i < i_end:
        e = tried_dof(problem, data, i)
        de = data.dv[e]
        v = data.v[e] + scalar(alpha) * de
        value = evaluate_bounded(problem.terms, data.active_terms[e], e, v, problem.h)
        value[1] = value[1] * de
        value[2] = value[2] * de * de
        total += to_cost(value)
        i += lane_count()
    return total


@device
def add_cost_along(
    problem: wp.ref[Problem], data: wp.ref[Data], alpha: energy, first: int, lanes: int, total: energy
) -> energy:
    """Add the cost at a trial step of the dofs of one of ``lanes`` lanes, that with number ``first``."""
    i_end = problem.first + tried_count(problem, data)
    i = int(problem.first + first)
    while i < i_end:
        e = tried_dof(problem, data, i)
        v = data.v[e] + scalar(alpha) * data.dv[e]
        total += energy(evaluate_bounded(problem.terms, data.active_terms[e], e, v, problem.h)[0])
        i += lanes
    return total


@device
def advance(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, renew: bool):
    """Move v and the momentum by alpha along the direction."""
    e = int(problem.first + lane())
    while e < problem.last:
        data.v[e] = data.v[e] + alpha * data.dv[e]
        data.momentum[e] = data.momentum[e] + alpha * data.A_dv[e]
        e += lane_count()
