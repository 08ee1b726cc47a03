"""The line searches: how far to go along a Newton direction d.

phi(alpha) = l(v + alpha d) is convex, phi'(0) < 0; `objective/line.py` evaluates it. All lanes of a block hold the same
values and take the same branches.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import lane, lane_count, scalar_sum
from ...core.kernels.template import Constant, Template, device, device_struct
from ...core.kernels.types import FP32
from ...core.kernels.warps import first_lane, from_lane, is_warp, quarter_bits, quarter_sum
from ..objective.line import change_of_parabola, line_value, share_of_cost
from ..objective.problem import MONOTONE_DECAY, Data, Line, Problem, cost_scratch
from ..settings.options import LINE_SEARCHES, SapOptions
from ..settings.precisions import cost as cost_types

scalar, vec3 = cost_types.scalar, cost_types.vec3
sum_cost, sum_quarter, cost_from = (
    scalar_sum.on(number=cost_types),
    quarter_sum.on(dtype=scalar),
    from_lane.on(dtype=scalar),
)
step_from = from_lane.on(dtype=Constant(wp.float32))

ARMIJO_DECAY, EXACT_ROOT, LOOSE_ROOT = (
    wp.constant(LINE_SEARCHES.index(name)) for name in ("armijo_decay", "exact_root", "loose_root")
)

MONOTONE_ABS_SLACK = 1e-14
MONOTONE_REL_SLACK = 1e-12
SINGLE_REL_SLACK = 2.0**-20
"""Relative slack where the terms are in fp32: eight roundings. Less would ask costs for what they cannot tell, and
steps are halved until chance lets one pass."""
REL_SLACK = Template(lambda variant: SINGLE_REL_SLACK if variant["solve"] is FP32 else MONOTONE_REL_SLACK)
MONOTONE_MIN_STEP = 1e-8
EXACT_MAX_STEP = 1.5
EXACT_TOLERANCE = 1e-8
"""exact_root stops where |phi'| is this fraction of |phi'(0)| ..."""
LOOSE_TOLERANCE = 0.05
"""... and loose_root here: the next direction is a better use of the work than more digits of this step."""


def longest_step(options: SapOptions) -> float:
    """Return the longest step that the chosen line search may try."""
    if options.line_search_variant == "armijo_decay":
        return max(EXACT_MAX_STEP, 1.0 / options.rho)
    return EXACT_MAX_STEP if options.line_search_variant == "exact_root" else 1.0


@device_struct
class Step:
    """What a line search found."""

    alpha: scalar  # negative if the search failed
    cost: scalar  # phi(alpha)
    iterations: int


@device
def decay_in_quarters(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], bound: scalar) -> Step:
    """`monotone_decay` by one warp, of which each quarter of the lanes tries another step at the same time.

    Where there are more rows than a quarter has lanes, all lanes try the whole step first: it is most often the
    last one.
    """
    step = Step()
    step.alpha = scalar(-1.0)
    alpha = wp.float32(1.0)  # powers of two: exact, and fp32 is faster
    has_quarters = problem.bilateral.bounded == 0
    bits = int(quarter_bits() + 2)  # of the number of a lane among those that try the same step
    if has_quarters and wp.max(problem.row_end - problem.row, data.bounded_count) <= 1 << quarter_bits():
        bits = quarter_bits()
    while step.iterations < problem.options.line_iterations and alpha >= wp.float32(wp.static(MONOTONE_MIN_STEP)):
        quarter = lane() >> bits
        mine = alpha * wp.float32(wp.where((quarter & 1) != 0, 0.5, 1.0) * wp.where((quarter & 2) != 0, 0.25, 1.0))
        lanes = 1 << bits
        share = share_of_cost(problem, data, scalar(mine), lane() & (lanes - 1), lanes)
        cost = sum_quarter(share, bits > quarter_bits()) + line.m0 + change_of_parabola(line, scalar(mine))
        is_tried = step.iterations + quarter < problem.options.line_iterations
        is_tried = is_tried and mine >= wp.float32(wp.static(MONOTONE_MIN_STEP))
        winner = first_lane(is_tried and cost <= bound)
        if winner >= 0:
            step.iterations += (winner >> bits) + 1
            step.alpha = scalar(step_from(mine, winner))
            step.cost = cost_from(cost, winner)
            break
        untried = first_lane(not is_tried)
        step.iterations += wp.where(untried >= 0, untried, lane_count()) >> bits
        alpha *= wp.where(bits > quarter_bits(), wp.float32(0.5), wp.float32(0.0625))
        if has_quarters:
            bits = quarter_bits()
    return step


@device
def monotone_decay(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
    """Halve until the cost does not grow."""
    step = Step()
    step.alpha = scalar(-1.0)
    alpha = scalar(1.0)
    bound = line.cost + scalar(wp.static(MONOTONE_ABS_SLACK)) + scalar(wp.static(REL_SLACK)) * wp.abs(line.cost)
    if is_warp():
        return decay_in_quarters(problem, data, line, bound)
    while step.iterations < problem.options.line_iterations and alpha >= scalar(wp.static(MONOTONE_MIN_STEP)):
        step.iterations += 1
        share = share_of_cost(problem, data, alpha, lane(), lane_count())
        cost = sum_cost(share, cost_scratch(data), problem.world) + line.m0 + change_of_parabola(line, alpha)
        if cost <= bound:
            step.alpha = alpha
            step.cost = cost
            break
        alpha *= scalar(0.5)
    return step


@device
def armijo_decay(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
    """Scan 1/rho, 1, rho, ... for the first turn of the cost that satisfies Armijo's condition."""
    step = Step()
    step.alpha = scalar(-1.0)
    if -line.slope <= scalar(problem.options.slop) * wp.abs(line.cost):
        # What is left to gain is below the slop: no cost can tell steps apart, and the over-relaxed step would
        # overshoot by the same fraction again and again. Slopes still can: leave it to exact_root.
        return step
    rho = scalar(problem.options.rho)
    alpha = scalar(1.0) / rho
    value = line_value(problem, data, line, alpha)
    step.iterations = 1
    slop = scalar(problem.options.slop) * wp.max(scalar(1e-30), scalar(0.5) * (wp.abs(value[0]) + wp.abs(line.cost)))
    if value[1] <= slop:
        step.alpha = alpha
        step.cost = value[0]
        return step
    previous = value[0]
    previous_ok = previous <= line.cost + scalar(problem.options.armijo_c) * alpha * line.slope
    while step.iterations < problem.options.line_iterations:
        alpha *= rho
        step.iterations += 1
        cost = line_value(problem, data, line, alpha)[0]
        # near the minimum the decrease asked for drowns in round-off: allow for it
        ok = cost <= line.cost + scalar(problem.options.armijo_c) * alpha * line.slope + slop
        # A smaller step no longer helps: the minimum lies between this candidate and the one before.
        if previous - cost <= slop:
            if previous_ok and previous <= cost:
                step.alpha = alpha / rho
                step.cost = previous
                return step
            if ok:
                step.alpha = alpha
                step.cost = cost
                return step
        previous = cost
        previous_ok = ok
    if previous_ok:
        step.alpha = alpha
        step.cost = previous
    return step


@device
def is_flat(problem: wp.ref[Problem], line: wp.ref[Line]) -> bool:
    """Return True if what the slope promises is below the cost tolerance."""
    return -line.slope <= scalar(problem.options.cost_abs_tol) + scalar(problem.options.cost_rel_tol) * wp.abs(
        line.cost
    )


@device
def loose_root(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
    """The full step, unless it overshoots; else a root of phi' to a digit or two."""
    step = Step()
    step.alpha = scalar(-1.0)
    lower = scalar(0.0)
    upper = scalar(1.0)
    alpha = scalar(1.0)
    width = scalar(2.0)
    enough = scalar(wp.static(LOOSE_TOLERANCE)) * wp.abs(line.slope)
    while step.iterations < problem.options.line_iterations:
        step.iterations += 1
        value = line_value(problem, data, line, alpha)
        if wp.abs(value[1]) <= enough or (value[1] < scalar(0.0) and alpha >= upper):
            step.alpha = alpha
            step.cost = value[0]
            return step
        lower = wp.where(value[1] < scalar(0.0), alpha, lower)
        upper = wp.where(value[1] < scalar(0.0), upper, alpha)
        trial = alpha - value[1] / value[2]
        if not (trial > lower and trial < upper) or wp.abs(trial - alpha) > scalar(0.5) * width:
            trial = scalar(0.5) * (lower + upper)
        width = wp.abs(trial - alpha)
        alpha = trial
    return step


@device
def exact_root(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
    """Root of phi' on [0, 1.5] by Newton's method, safeguarded by bisection."""
    step = Step()
    step.alpha = scalar(1.0)
    if is_flat(problem, line):
        step.iterations = 1
        step.cost = line_value(problem, data, line, scalar(1.0))[0]
        return step
    upper = scalar(wp.static(EXACT_MAX_STEP))
    value = line_value(problem, data, line, upper)
    step.iterations = 1
    if value[1] <= scalar(0.0):
        step.alpha = upper
        step.cost = value[0]
        return step
    lower = scalar(0.0)
    alpha = wp.clamp(-line.slope / value[2], lower, upper)
    width = upper - lower
    step.alpha = scalar(-1.0)
    while step.iterations < problem.options.line_iterations:
        step.iterations += 1
        value = line_value(problem, data, line, alpha)
        if wp.abs(value[1]) <= scalar(wp.static(EXACT_TOLERANCE)) * wp.abs(line.slope):
            step.alpha = alpha
            step.cost = value[0]
            return step
        lower = wp.where(value[1] < scalar(0.0), alpha, lower)
        upper = wp.where(value[1] < scalar(0.0), upper, alpha)
        move = -value[1] / value[2]
        trial = alpha + move
        # bisect where Newton's method leaves the bracket, is not finite, or gains less than bisection would
        if not (trial > lower and trial < upper) or wp.abs(scalar(2.0) * move) > width:
            trial = scalar(0.5) * (lower + upper)
        width = wp.abs(trial - alpha)
        if trial == alpha or upper - lower <= scalar(wp.static(EXACT_TOLERANCE)) * upper:
            step.alpha = trial
            step.cost = line_value(problem, data, line, trial)[0]
            return step
        alpha = trial
    return step


@device
def search(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line]) -> Step:
    """Step length by the chosen variant."""
    if problem.options.line_search == MONOTONE_DECAY:
        return monotone_decay(problem, data, line)
    if problem.options.line_search == LOOSE_ROOT:
        return loose_root(problem, data, line)
    trials = int(0)
    if problem.options.line_search == ARMIJO_DECAY:
        step = armijo_decay(problem, data, line)
        if step.alpha > scalar(0.0):
            return step
        trials = step.iterations  # near the minimum, or a slip-stick transition below the end of the scan
    root = exact_root(problem, data, line)
    root.iterations = root.iterations + trials
    return root
