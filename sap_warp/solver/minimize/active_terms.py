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
    def list_terms_in_warp(p: wp.ref[Problem], s: wp.ref[Data]):
        """`list_terms` where each dof has a lane."""
        e = p.first + lane()
        kind = int(0)
        if e < p.last:
            kind = s.kind[e]
        is_bounded = kind != 0 and kind != PARABOLA
        s.term_count = count_lanes(kind != 0)
        s.bounded_count = count_lanes(is_bounded)
        place = p.first + lanes_before(is_bounded)
        if is_bounded:
            s.bounded[place] = e
        barrier()

    @wp.func
    def list_terms(p: wp.ref[Problem], s: wp.ref[Data]):
        """Pack the dofs that have terms with bounds, and count those that have any."""
        if fits_a_warp(p.last - p.first):
            list_terms_in_warp(p, s)
            return
        barrier()
        s.term_count = 0
        s.bounded_count = 0
        e = int(p.first)
        while e < p.last:  # every lane counts, one writes
            kind = s.kind[e]
            if kind != 0:
                s.term_count += 1
                if kind != PARABOLA:
                    if lane() == 0:
                        s.bounded[p.first + s.bounded_count] = e
                    s.bounded_count += 1
            e += 1
        barrier()

    @wp.func
    def choose_terms(p: wp.ref[Problem], s: wp.ref[Data]):
        """The terms that take part; bounds that only v* might reach are left out."""
        e = int(p.first + lane())
        while e < p.last:
            s.kind[e] = p.terms.kind[e] & TERMS
            e += lane_count()
        list_terms(p, s)

    @wp.func
    def is_free(p: wp.ref[Problem], s: wp.ref[Data]) -> bool:
        """Whether a world has no term at all."""
        return p.row == p.row_end and s.term_count == 0 and row_count(p) == 0

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
    def admit_limits(p: wp.ref[Problem], s: wp.ref[Data]) -> bool:
        """If the result crosses a far bound: let those take part that v* reaches; whether there are any."""
        crossed = vec3()
        e = int(p.first + lane())
        while e < p.last:
            if is_crossed(p.terms, p.terms.kind[e], s.kind[e], e, s.v[e]):
                crossed[0] += scalar(1.0)
            e += lane_count()
        crossed = block_sum(crossed, s.scratch, p.world)
        if crossed[0] == scalar(0.0):
            return False
        admitted = vec3()
        if find_v_star(p, s) >= energy(0.0):
            e = int(p.first + lane())
            while e < p.last:
                kind = p.terms.kind[e]
                speed = p.terms.limit_reach[e] * wp.abs(scalar(p.motion.v0[e] + wp.float64(s.direction[e])))
                near = wp.where((kind & FAR_LOWER) != 0 and -p.terms.limit_lower[e] <= speed, LOWER, 0)
                near = near | wp.where((kind & FAR_UPPER) != 0 and -p.terms.limit_upper[e] <= speed, UPPER, 0)
                if (near & ~s.kind[e]) != 0:
                    s.kind[e] = s.kind[e] | near
                    admitted[0] += scalar(1.0)
                e += lane_count()
            list_terms(p, s)
        return block_sum(admitted, s.scratch, p.world)[0] > scalar(0.0)

    return admit_limits
