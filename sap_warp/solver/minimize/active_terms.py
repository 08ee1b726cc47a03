"""Which terms of the dofs take part in a solve.

Bounds that only v* might reach are left out at first. If the result crosses one, v* is found, those that it reaches are
admitted, and the solve begins again.

Called by all lanes of a block.
"""

import functools
from types import SimpleNamespace

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count, make_block_sum
from ...core.kernels.warps import count_lanes, fits_a_warp, lanes_before
from ..objective.equations import make_constraint_terms
from ..objective.problem import Precisions, make_problem
from ..terms.dof import FAR_LOWER, FAR_UPPER, LOWER, PARABOLA, TERMS, UPPER, make_dof_terms
from .momentum_cost import make_find_v_star


@functools.cache
def make_choose_terms(precisions: Precisions) -> SimpleNamespace:
    """Device functions about the terms at hand."""
    Problem, Data = make_problem(precisions)
    row_count = make_constraint_terms(precisions).row_count

    @wp.func
    def list_terms_in_warp(problem: wp.ref[Problem], data: wp.ref[Data]):
        """`list_terms` where each dof has a lane."""
        e = problem.first + lane()
        kind = int(0)
        if e < problem.last:
            kind = data.active_terms[e]
        is_bounded = kind != 0 and kind != PARABOLA
        data.term_count = count_lanes(kind != 0)
        data.bounded_count = count_lanes(is_bounded)
        place = problem.first + lanes_before(is_bounded)
        if is_bounded:
            data.bounded[place] = e
        barrier()

    @wp.func
    def list_terms(problem: wp.ref[Problem], data: wp.ref[Data]):
        """Pack the dofs that have terms with bounds, and count those that have any."""
        if fits_a_warp(problem.last - problem.first):
            list_terms_in_warp(problem, data)
            return
        barrier()
        data.term_count = 0
        data.bounded_count = 0
        e = int(problem.first)
        while e < problem.last:  # every lane counts, one writes
            kind = data.active_terms[e]
            if kind != 0:
                data.term_count += 1
                if kind != PARABOLA:
                    if lane() == 0:
                        data.bounded[problem.first + data.bounded_count] = e
                    data.bounded_count += 1
            e += 1
        barrier()

    @wp.func
    def choose_terms(problem: wp.ref[Problem], data: wp.ref[Data]):
        """The terms that take part; bounds that only v* might reach are left out."""
        e = int(problem.first + lane())
        while e < problem.last:
            data.active_terms[e] = problem.terms.term_mask[e] & TERMS
            e += lane_count()
        list_terms(problem, data)

    @wp.func
    def is_free(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
        """Whether a world has no term at all."""
        return problem.row == problem.row_end and data.term_count == 0 and row_count(problem) == 0

    return SimpleNamespace(list_terms=list_terms, choose_terms=choose_terms, is_free=is_free)


@functools.cache
def make_admit_limits(precisions: Precisions):
    """``admit_limits(p, s)``."""
    types, cost = precisions.types, precisions.cost
    (Problem, Data), Terms = make_problem(precisions), make_dof_terms(types).DofTerms
    scalar, vec3, energy, block_sum = types.scalar, types.vec3, cost.scalar, make_block_sum(types.vec3)
    list_terms, find_v_star = make_choose_terms(precisions).list_terms, make_find_v_star(precisions)

    @wp.func
    def is_crossed(t: wp.ref[Terms], kind: int, active: int, e: int, v: scalar) -> bool:
        """Whether v crosses a far bound of dof e that takes no part yet."""
        if (kind & (FAR_LOWER | FAR_UPPER)) == 0:
            return False
        lower = (kind & FAR_LOWER) != 0 and (active & LOWER) == 0 and v < t.limit_lower[e]
        return lower or ((kind & FAR_UPPER) != 0 and (active & UPPER) == 0 and -v < t.limit_upper[e])

    @wp.func
    def admit_limits(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
        """If the result crosses a far bound: let those take part that v* reaches; whether there are any."""
        crossed = vec3()
        e = int(problem.first + lane())
        while e < problem.last:
            if is_crossed(problem.terms, problem.terms.term_mask[e], data.active_terms[e], e, data.v[e]):
                crossed[0] += scalar(1.0)
            e += lane_count()
        crossed = block_sum(crossed, data.scratch, problem.world)
        if crossed[0] == scalar(0.0):
            return False
        admitted = vec3()
        if find_v_star(problem, data) >= energy(0.0):
            e = int(problem.first + lane())
            while e < problem.last:
                kind = problem.terms.term_mask[e]
                speed = problem.terms.limit_reach[e] * wp.abs(
                    scalar(problem.motion.v0[e] + wp.float64(data.direction[e]))
                )
                near = wp.where((kind & FAR_LOWER) != 0 and -problem.terms.limit_lower[e] <= speed, LOWER, 0)
                near = near | wp.where((kind & FAR_UPPER) != 0 and -problem.terms.limit_upper[e] <= speed, UPPER, 0)
                if (near & ~data.active_terms[e]) != 0:
                    data.active_terms[e] = data.active_terms[e] | near
                    admitted[0] += scalar(1.0)
                e += lane_count()
            list_terms(problem, data)
        return block_sum(admitted, data.scratch, problem.world)[0] > scalar(0.0)

    return admit_limits
