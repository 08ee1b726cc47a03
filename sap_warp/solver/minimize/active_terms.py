"""Which terms of the dofs take part in a solve.

Limits that only v* might reach are left out at first (`lazy_free_velocity`).

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.template import device
from ...core.kernels.warps import count_lanes, fits_a_warp, lanes_before
from ..objective.families import has_terms
from ..objective.problem import Data, Problem
from ..terms.dof import PARABOLA, TERMS


@device
def list_terms_in_warp(problem: wp.ref[Problem], data: wp.ref[Data]):
    """List the terms as `list_terms` does, where each dof has a lane."""
    e = problem.first + lane()
    active = int(0)
    if e < problem.last:
        active = data.active_terms[e]
    is_bounded = active != 0 and active != PARABOLA
    data.term_count = count_lanes(active != 0)
    data.bounded_count = count_lanes(is_bounded)
    at = problem.first + lanes_before(is_bounded)
    if is_bounded:
        data.bounded[at] = e
    barrier()


@device
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
        active = data.active_terms[e]
        if active != 0:
            data.term_count += 1
            if active != PARABOLA:
                if lane() == 0:
                    data.bounded[problem.first + data.bounded_count] = e
                data.bounded_count += 1
        e += 1
    barrier()


@device
def choose_terms(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Let all terms take part but the limits that only v* might reach."""
    e = int(problem.first + lane())
    while e < problem.last:
        data.active_terms[e] = problem.terms.term_mask[e] & TERMS
        e += lane_count()
    list_terms(problem, data)


@device
def has_no_terms(problem: wp.ref[Problem], data: wp.ref[Data]) -> bool:
    """Return True if a world has no term at all."""
    return has_terms(problem, data, 0) == 0
