"""Stage 4: the Newton solve of the convex objective, one world per block, from guess to velocity in one kernel.

l(v) = 1/2 (v - v*)^T A (v - v*) + sum of all terms (`objective/families.py`)

start      v0, and up to three whole steps in which contacts stick or slide as before      `warm_start`
iterate    H d = -g,  v <- v + alpha d      `objective/gradient.py`, `objective/hessian.py`, `objective/line.py`
search     alpha                                                                           `line_search`
stop       by optimality, or by the gain of a step                                         `stopping`

The size of the cost depends on v*, which is found only where that matters (`lazy_free_velocity`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.packed_rows import multiply
from ...core.kernels.scratch import Scratch, rebase_scratch_of, world_starts
from ...core.kernels.structs import StructArgument, allocate_arrays, argument, assume_contiguous
from ...core.kernels.template import Parameter, device
from ...core.kernels.template import sizes as sizes_of_fields
from ...core.kernels.warps import assume_fits_a_warp, in_a_warp
from ..model.layout import LayoutSizes
from ..objective.families import advance
from ..objective.hessian import hessian, newton_direction
from ..objective.line import prepare_line
from ..objective.problem import MONOTONE_DECAY, Data, Line, NewtonOptions, Problem
from ..objective.stiffness import SIZE as STIFFNESS_SIZE
from ..settings.options import LINE_SEARCHES, OPTION_NAMES, SapOptions
from ..settings.precisions import cost, dynamics, solve, solver_variant
from ..settings.status import (
    DIVERGED,
    FACTORIZATION_FAILED,
    FREE_MOTION_FAILED,
    ITERATION_LIMIT,
    LINE_SEARCH_FAILED,
)
from ..state.integrate import integration_mode
from .active_terms import choose_terms, has_no_terms
from .lazy_free_velocity import CostBound, activate_violated_limits, find_v_star, lower_bound, resolve
from .line_search import longest_step, search
from .outcome import Outcome, store_outcome
from .stopping import is_optimal, is_settled
from .warm_start import WARM_START_STEPS, overshoots, start_at_v0, warm_start_step

if TYPE_CHECKING:
    from ...model.model import SapModel

scalar, energy = solve.scalar, cost.scalar
multiply_A = multiply.on(matrix=dynamics, vector=solve)
problem_argument, read_problem = argument(Problem)
data_argument, read_data = argument(Data)
assume_contiguous_problem, assume_contiguous_data, rebase_scratch = (
    assume_contiguous(Problem),
    assume_contiguous(Data),
    rebase_scratch_of(Data),
)

all_fit = Parameter("all_fit")
"""Whether the kernel is for small worlds only, as `warps.fits_a_warp` means it."""
line_search = Parameter("line_search")
"""The only line search of the kernel, by its number in `LINE_SEARCHES`; None is all of them."""

MAX_REGISTERS = 128
"""Most registers of a lane on CUDA: twice as many worlds run at a time as without, see docs/cuda.md."""


@device
def choose_world(problem: wp.ref[Problem], data: wp.ref[Data], world: int, dt: wp.float64):
    """Point everything to one world."""
    problem.world = world
    problem.first = problem.layout.world_dof[world]
    problem.last = problem.layout.world_dof[world + 1]
    problem.row = world * problem.contacts.capacity
    problem.row_end = problem.row + problem.contacts.count[world]
    problem.h = scalar(dt)
    starts = world_starts(
        data.share,
        problem.layout.world_body[world],
        problem.first,
        problem.row,
        problem.layout.world_hessian[world],
    )
    rebase_scratch(data, starts)


@device
def keep_velocity(problem: wp.ref[Problem], data: wp.ref[Data]):
    """Keep the velocity of a world that free motion cannot make sense of."""
    e = int(problem.first + lane())
    while e < problem.last:
        data.v[e] = scalar(problem.motion.v0[e])
        e += lane_count()
    barrier()


@device
def move_freely(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
    """Let v* be the answer of a world without any term; returns its status."""
    status = int(0)
    keep_velocity(problem, data)
    multiply_A(
        problem.motion.A, problem.layout.rows, problem.first, problem.last - problem.first, data.v, data.A_v_star
    )
    if problem.motion.solved == 0:
        if find_v_star(problem, data) < energy(0.0):
            status = FREE_MOTION_FAILED
    e = int(problem.first + lane())
    while e < problem.last:
        data.A_v_star[e] = data.A_v_star[e] + scalar(problem.motion.impulse[e])
        data.momentum[e] = scalar(0.0)
        v = scalar(problem.motion.v0[e])
        if problem.motion.solved != 0:
            v = scalar(problem.motion.v_star[e])
        elif status == 0:
            v = scalar(problem.motion.v0[e] + wp.float64(data.direction[e]))
        data.v[e] = v
        e += lane_count()
    barrier()
    return status


@device
def must_end(problem: wp.ref[Problem], result: wp.ref[Outcome]) -> bool:
    """Return True if the iteration cannot go on, although it has not converged."""
    if result.status == DIVERGED:
        return True
    if result.iterations >= problem.options.max_iterations:
        result.status = ITERATION_LIMIT
        return True
    return False


@device(inline=True)  # a call would need the structs in memory
def take_step(
    problem: wp.ref[Problem],
    data: wp.ref[Data],
    line: wp.ref[Line],
    bound: wp.ref[CostBound],
    result: wp.ref[Outcome],
) -> bool:
    """Search along data.dv and go there; returns True if that was the last step."""
    if problem.options.line_search != MONOTONE_DECAY and problem.options.cost_rel_tol > wp.float64(0.0):
        resolve(problem, data, line, bound)  # these compare with the size of the cost
    step = search(problem, data, line)
    result.trials += step.iterations
    if not (step.alpha > energy(0.0)) or not wp.isfinite(step.cost):
        result.status = LINE_SEARCH_FAILED
        return True
    gain = line.cost - step.cost
    line.cost = step.cost
    settled = is_settled(problem, data, line, bound, step.alpha, gain)
    barrier()  # trial steps read v of others
    advance(problem, data, scalar(step.alpha), not settled)
    barrier()
    line.m0 = line.m0 + step.alpha * (line.m1 + energy(0.5) * step.alpha * line.m2)
    result.iterations += 1
    return settled


@device(inline=True)  # a call would need the structs in memory
def minimize(problem: wp.ref[Problem], data: wp.ref[Data], result: wp.ref[Outcome]):
    """Newton's method from v0 on."""
    line = Line()
    bound = CostBound()
    bound.is_exact = problem.motion.solved
    warm_steps = wp.min(wp.static(WARM_START_STEPS), problem.options.max_iterations - 1)
    # while contacts are warm, gradient and Hessian are not those of the cost
    is_warm = start_at_v0(problem, data, result.iterations < warm_steps)
    while not is_optimal(problem, data, result) or is_warm:
        if must_end(problem, result):
            break
        hessian(problem, data)
        if newton_direction(problem, data) == 0:
            if is_warm:  # see whether it is for that
                is_warm = start_at_v0(problem, data, False)
                bound.moved = energy(0.0)
                continue
            result.status = FACTORIZATION_FAILED
            break
        prepare_line(problem, data, line)
        if bound.is_counted == 0:
            if is_warm or (result.iterations < warm_steps and overshoots(problem, data, line)):
                result.iterations += 1
                is_warm = warm_start_step(problem, data, bound, result.iterations < warm_steps)
                continue
            lower_bound(problem, data, line, bound)
        if take_step(problem, data, line, bound, result):
            break
    if result.status == FACTORIZATION_FAILED and bound.is_exact == 0:  # it may be A's fault
        if find_v_star(problem, data) < energy(0.0):
            result.status = FREE_MOTION_FAILED


@device
def solve_world(world: int, problem_in: problem_argument, data_in: data_argument, dt: wp.float64):
    """Solve one world. Problem and data are local: functions that are inlined find them in registers."""
    problem = read_problem(problem_in)
    data = read_data(data_in)
    choose_world(problem, data, world, dt)
    if wp.static(all_fit):
        assume_fits_a_warp(problem.last - problem.first)
    if wp.static(line_search is not None):
        problem.options.line_search = wp.static(line_search)
    assume_contiguous_problem(problem)
    assume_contiguous_data(data)
    result = Outcome()
    result.status = problem.motion.status[world]
    must_solve = result.status == 0
    if must_solve:
        choose_terms(problem, data)
    else:
        keep_velocity(problem, data)
    while must_solve:
        if has_no_terms(problem, data):
            result.status = move_freely(problem, data)
        else:
            minimize(problem, data, result)
        must_solve = result.status == 0
        if must_solve:
            must_solve = activate_violated_limits(problem, data)
    store_outcome(problem, data, result)


@kernel(max_registers=MAX_REGISTERS)
def newton_solve(first_world: int, problem: problem_argument, data: data_argument, dt: wp.float64):
    """Solve a range of worlds; functions are called by all lanes of a block."""
    solve_world(first_world + wp.tid() // lane_count(), problem, data, dt)


def solve_kernel(options: SapOptions, device: Any, has_chains: bool = True) -> Any:
    """The kernel of the stage for these options.

    On CUDA it has one line search, and with ``has_chains`` False it is for small worlds only: each leaves a third of
    the code and of the spilled registers out.
    """
    on_cuda = not device.is_cpu
    search = LINE_SEARCHES.index(options.line_search_variant) if on_cuda else None
    chosen = {"all_fit": on_cuda and not has_chains, "line_search": search}
    return newton_solve.of(solver_variant(options, device) | chosen)


class SapContactSolve:
    """Owns the buffers of the solve and the per-world statistics of the last step."""

    def __init__(
        self,
        model: SapModel,
        layout: Any,
        sizes: LayoutSizes,
        options: SapOptions,
        contacts: Any,
        equations: Any,
    ):
        """Allocate everything once."""
        self.model = model
        self.variant = solver_variant(options, model.device)
        self.types = self.variant["solve"]
        self.integration = integration_mode(options)
        motion = contacts.free_motion
        self.problem: Any = Problem.of(self.variant)()
        self.problem.layout, self.problem.motion, self.problem.options = layout, motion.data, _options(options, layout)
        self.problem.contacts, self.problem.terms = contacts.data, contacts.terms
        self.problem.bilateral = equations.data
        self.data: Any = Data.of(self.variant)()
        scratch = Scratch(layout, sizes, model.device, contacts.capacity)
        allocate_arrays(self.data, self._counts(scratch, sizes, equations.count), 0, model.device)
        self.data.share, self._max_blocks = scratch.share, scratch.max_blocks
        self.status, self.residual = self.data.status, self.data.residual
        self.iterations, self.line_search_iterations = self.data.iterations, self.data.line_iterations
        self.velocity = self.data.velocity
        """The minimizer, sap order, Newton's dof numbering."""
        self._kept = [StructArgument(struct, model.device) for struct in (self.problem, self.data)]
        self.arguments = [argument.array for argument in self._kept]
        """Problem and data, for kernels."""
        self.kernel = solve_kernel(options, model.device, layout.has_chains != 0)

    def _counts(self, scratch: Scratch, sizes: LayoutSizes, equation_count: int) -> dict[str, int]:
        """Entries of all arrays of `data`."""
        shared = {
            "body": scratch.body_count,
            "48 * body": STIFFNESS_SIZE * scratch.body_count,
            "dof": scratch.dof_count,
            "6 * dof": 6 * scratch.dof_count,
            "row": scratch.row_count,
            "hessian": scratch.hessian_count,
        }
        # lanes of one warp add by shuffles, and one lane has nothing to add
        adds_in_registers = sizes.lanes == 1 or in_a_warp(sizes.lanes, self.model.device)
        own = {
            "dof": sizes.dof_count,
            "contact": scratch.share.row * sizes.world_count,
            "equation": equation_count,
            "world": sizes.world_count,
            "lane": 0 if adds_in_registers else sizes.world_count * sizes.lanes,
            "newton_dof": self.model.joint_dof_count,
        }
        fields = sizes_of_fields(Data, self.variant)
        return {name: (shared if field.is_scratch else own)[field.count] for name, field in fields.items()}

    def solve(self, dt: float, worlds: WorldRange) -> None:
        """Minimize the objective of ``worlds``. What was prepared does not change: a second time gives the same."""
        problem, data = (kept.kernel_argument for kept in self._kept)
        worlds.launch(self.kernel, problem, data, dt, device=self.model.device, max_blocks=self._max_blocks)


def _options(options: SapOptions, layout: Any) -> Any:
    """The numbers of the iteration: fields named as in `SapOptions`, and those that follow from them."""
    result: Any = NewtonOptions()
    for name in OPTION_NAMES:
        if name in NewtonOptions.vars and getattr(options, name) is not None:
            setattr(result, name, getattr(options, name))
    result.abs_tol, result.rel_tol = options.optimality_abs_tol, options.optimality_rel_tol
    result.cost_abs_tol, result.cost_rel_tol = options.cost_tolerances
    result.line_search = LINE_SEARCHES.index(options.line_search_variant)
    result.line_iterations = options.line_search_iterations
    result.slop, result.longest = options.line_search_slop, longest_step(options)
    result.is_tight = int(result.cost_rel_tol <= result.rel_tol)
    result.is_predicted = int(options.stiction_mode == "displacement" and result.is_tight)
    first = layout.rows.first.numpy()
    result.widest = float((np.arange(len(first)) - first).max(initial=0) + 1)
    return result
