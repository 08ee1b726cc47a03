"""The cost along a Newton direction: phi(alpha) = l(v + alpha d) and its derivatives at a trial step.

phi comes from the contacts, bounded equations and bounded terms of dofs alone (`families.add_along`); all the rest is a
parabola known in advance:

    m(alpha) = m0 + alpha m1 + alpha^2/2 m2

One lane on the CPU also counts those bounded dofs to it that keep clear of their bounds on the whole way
(`dofs.fold_bounded`): nearly all do.

All lanes of a block hold the same values and take the same branches.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import block_sum, is_native
from ...core.kernels.template import device
from ..settings.precisions import cost
from .dofs import fold_bounded
from .families import add_along, add_cost_along, prepare_direction
from .problem import Data, Line, Problem, cost_scratch, folds

scalar, vec3 = cost.scalar, cost.vec3
sum_costs = block_sum.on(dtype=vec3)


@device
def prepare_line(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]):
    """Find what the line search needs to know of the direction data.dv."""
    slopes = prepare_direction(problem, data, vec3())
    if folds(problem):
        fold_bounded(problem, data, line)
    slopes = sum_costs(slopes, cost_scratch(data), problem.world)
    line.m1 = slopes[0]
    line.m2 = slopes[1]
    line.slope = slopes[2]


@device
def change_of_parabola(line: wp.ref[Line], alpha: scalar) -> scalar:
    """Change of the quadratic part of the cost from 0 to alpha."""
    if is_native():
        return line.b0 + alpha * (line.m1 + line.b1 + scalar(0.5) * alpha * (line.m2 + line.b2))
    return alpha * (line.m1 + scalar(0.5) * alpha * line.m2)


@device
def line_value(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], alpha: scalar) -> vec3:
    """phi, phi' and phi'' at one trial step."""
    total = add_along(problem, data, alpha, vec3())
    total = sum_costs(total, cost_scratch(data), problem.world)
    if is_native():
        total += vec3(scalar(0.0), line.b1 + alpha * line.b2, line.b2)
    return total + vec3(line.m0 + change_of_parabola(line, alpha), line.m1 + alpha * line.m2, line.m2)


@device
def share_of_cost(problem: wp.ref[Problem], data: wp.ref[Data], alpha: scalar, first: int, lanes: int) -> scalar:
    """What is no parabola of phi at a trial step: the share of one of ``lanes`` lanes, that with number ``first``."""
    return add_cost_along(problem, data, alpha, first, lanes, scalar(0.0))
