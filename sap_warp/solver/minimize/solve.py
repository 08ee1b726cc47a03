"""Stage 4: the Newton solve of the convex objective, one world per block, from guess to velocity in one kernel.

l(v) = 1/2 (v - v*)^T A (v - v*) + sum over contact rows l_c(vc(v)) + sum over dofs l_k(v_k)
       + sum over bilateral rows l_b(J_b v)

start      v0, and up to three whole steps in which contacts stick or slide as before        `warm_start`
iterate    H d = -g,  v <- v + alpha d                  `objective`, `packed_rows`, `line_search`, `step`
stop       by optimality, or by the gain of a step      `stopping`

The size of the cost depends on v*, which is found only where that matters (`momentum_cost`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.lanes import barrier, lane, lane_count
from ...core.kernels.launch import WorldRange, solver_kernel
from ...core.kernels.packed_rows import make_multiply
from ...core.kernels.scratch import Scratch, make_window, world_starts
from ...core.kernels.structs import StructArgument, allocate_arrays, make_flat, struct_parameter
from ...core.kernels.types import TYPES
from ...core.kernels.warps import assume_fits_a_warp, in_a_warp
from ..dynamics.free_motion import motion_types
from ..model.layout import LayoutSizes
from ..objective.objective import make_hessian, make_newton_direction
from ..objective.problem import SCRATCH, NewtonOptions, Precisions, make_problem
from ..objective.stiffness import SIZE as STIFFNESS_SIZE
from ..settings.options import LINE_SEARCHES
from ..settings.status import DIVERGED, FACTORIZATION_FAILED, FREE_MOTION_FAILED, ITERATION_LIMIT, LINE_SEARCH_FAILED
from ..state.integrate import integration_mode
from .active_terms import make_admit_limits, make_choose_terms
from .line_search import ARMIJO_DECAY, EXACT_MAX_STEP, EXACT_ROOT, MONOTONE_DECAY, make_line, make_line_search
from .momentum_cost import make_cost_at_start, make_find_v_star, make_momentum_cost
from .outcome import make_outcome
from .step import make_free_step, make_start_at_v0, make_step
from .stopping import make_is_optimal, make_is_settled

MAX_REGISTERS = 128
"""Of a lane on CUDA: twice as many worlds run at a time as with all that ptxas likes to take, see docs/cuda.md."""
FREE_STEPS = 3
"""Iterations of a solve that may be free, see `warm_start`."""


@functools.cache
def make_choose_world(precisions: Precisions):
    """``choose_world(p, s, world, dt)``."""
    Problem, Data = make_problem(precisions)
    scalar, window = precisions.types.scalar, make_window(Data, SCRATCH)

    @wp.func
    def choose_world(problem: wp.ref[Problem], data: wp.ref[Data], world: int, dt: wp.float64):
        """Point everything to one world."""
        problem.world = world
        problem.first = problem.layout.world_dof[world]
        problem.last = problem.layout.world_dof[world + 1]
        problem.row = world * problem.contacts.capacity
        problem.row_end = problem.row + problem.contacts.count[world]
        problem.h = scalar(dt)
        starts = world_starts(
            data.slot, problem.layout.world_body[world], problem.first, problem.row, problem.layout.world_hessian[world]
        )
        window(data, starts)

    return choose_world


@functools.cache
def make_free_world(precisions: Precisions) -> SimpleNamespace:
    """Worlds that need no iteration."""
    dynamics, types, cost = precisions.dynamics, precisions.types, precisions.cost
    Problem, Data = make_problem(precisions)
    scalar, energy = types.scalar, cost.scalar
    multiply, find_v_star = make_multiply(dynamics, types), make_find_v_star(precisions)

    @wp.func
    def keep_velocity(problem: wp.ref[Problem], data: wp.ref[Data]):
        """What free motion cannot make sense of keeps its state."""
        e = int(problem.first + lane())
        while e < problem.last:
            data.v[e] = scalar(problem.motion.v0[e])
            e += lane_count()
        barrier()

    @wp.func
    def move_freely(problem: wp.ref[Problem], data: wp.ref[Data]) -> int:
        """v* is the answer of a world without any term; returns its status."""
        status = int(0)
        keep_velocity(problem, data)
        multiply(
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

    return SimpleNamespace(keep_velocity=keep_velocity, move_freely=move_freely)


@functools.cache
def make_solve_kernel(precisions: Precisions, by_value: bool, all_fit: bool = False, line_search: int | None = None):
    """The kernel of the stage; functions are called by all lanes of a block.

    ``by_value`` is that of `struct_parameter`. With ``all_fit`` the kernel is for small worlds only, as
    `warps.fits_a_warp` means it, with ``line_search`` for one of `LINE_SEARCHES`, by its number: on CUDA each leaves a
    third of the code and of the spilled registers out.
    """
    (Problem, Data), energy = make_problem(precisions), precisions.cost.scalar
    choose_world, admit_limits = make_choose_world(precisions), make_admit_limits(precisions)
    free_world, chosen = make_free_world(precisions), make_choose_terms(precisions)
    keep_velocity, move_freely = free_world.keep_velocity, free_world.move_freely
    choose_terms, is_free = chosen.choose_terms, chosen.is_free
    start_at_v0, is_optimal = make_start_at_v0(precisions, by_value), make_is_optimal(precisions)
    hessian, newton_direction = make_hessian(precisions, by_value), make_newton_direction(precisions, by_value)
    Line, search, steps = make_line(precisions).Line, make_line_search(precisions), make_step(precisions)
    aim, advance, is_settled = steps.aim, steps.advance, make_is_settled(precisions)
    free_step, momentum = make_free_step(precisions), make_momentum_cost(precisions)
    overshoots, advance_freely = free_step.overshoots, free_step.advance_freely
    Cost, know_cost, momentum_gain = momentum.Cost, momentum.know_cost, momentum.momentum_gain
    cost_at_start, find_v_star = make_cost_at_start(precisions), make_find_v_star(precisions)
    outcome = make_outcome(precisions)
    Outcome, store_outcome = outcome.Outcome, outcome.store_outcome
    flat_problem, flat_data = make_flat(Problem), make_flat(Data)
    problem_type, read_problem = struct_parameter(Problem, by_value)
    data_type, read_data = struct_parameter(Data, by_value)

    @wp.func
    def solve_world(world: int, problem: problem_type, data: data_type, dt: wp.float64):
        """Newton's method. Problem and data are local: functions that are inlined find them in registers."""
        p = read_problem(problem)
        s = read_data(data)
        choose_world(p, s, world, dt)
        if wp.static(all_fit):
            assume_fits_a_warp(p.last - p.first)
        if wp.static(line_search is not None):
            p.options.line_search = wp.static(line_search)
        flat_problem(p)
        flat_data(s)
        r = Outcome()
        r.status = p.motion.status[world]
        going = r.status == 0
        if going:
            choose_terms(p, s)
        else:
            keep_velocity(p, s)
        while going:
            if is_free(p, s):
                r.status = move_freely(p, s)
            else:
                line = Line()
                known = Cost()
                known.is_known = p.motion.solved
                free_steps = wp.min(wp.static(FREE_STEPS), p.options.max_iterations - 1)
                # while contacts are held, gradient and Hessian are not those of the cost
                holds = start_at_v0(p, s, r.iterations < free_steps)
                while not is_optimal(p, s, r) or holds:
                    if r.status == DIVERGED:
                        break
                    if r.iterations >= p.options.max_iterations:
                        r.status = ITERATION_LIMIT
                        break
                    hessian(p, s)
                    if newton_direction(p, s) == 0:
                        if holds:  # see whether it is for that
                            holds = start_at_v0(p, s, False)
                            known.moved = energy(0.0)
                            continue
                        r.status = FACTORIZATION_FAILED
                        break
                    aim(p, s, line)
                    if known.is_counted == 0:
                        if holds or (r.iterations < free_steps and overshoots(p, s, line)):
                            known.moved += momentum_gain(p, s)
                            r.iterations += 1
                            holds = advance_freely(p, s, r.iterations < free_steps)
                            continue
                        cost_at_start(p, s, line, known)
                    if p.options.line_search != MONOTONE_DECAY and p.options.cost_rel_tol > wp.float64(0.0):
                        know_cost(p, s, line, known)  # these compare with the size of the cost
                    step = search(p, s, line)
                    r.trials += step.iterations
                    if not (step.alpha > energy(0.0)) or not wp.isfinite(step.cost):
                        r.status = LINE_SEARCH_FAILED
                        break
                    gain = line.cost - step.cost
                    line.cost = step.cost
                    settled = is_settled(p, s, line, known, step.alpha, gain)
                    advance(p, s, line, step.alpha, not settled)
                    r.iterations += 1
                    if settled:
                        break
                if r.status == FACTORIZATION_FAILED and known.is_known == 0:  # it may be A's fault
                    if find_v_star(p, s) < energy(0.0):
                        r.status = FREE_MOTION_FAILED
            going = r.status == 0 and p.motion.solved == 0
            if going:
                going = admit_limits(p, s)
        store_outcome(p, s, r)

    def newton_solve(first_world: int, problem: problem_type, data: data_type, dt: wp.float64):
        solve_world(first_world + wp.tid() // lane_count(), problem, data, dt)

    return solver_kernel(newton_solve, MAX_REGISTERS if by_value else None)


def solve_precisions(options: Any) -> Precisions:
    """The precisions of a solve with these options."""
    motion, pose = motion_types(options)
    names = (options.contact_solve_precision, options.contact_linear_solve_precision, options.cost_precision)
    types, linear, cost = (TYPES[name] for name in names)
    return Precisions(motion, types, linear, pose, cost)


class SapContactSolve:
    """Owns the buffers of the solve and the per-world statistics of the last step."""

    def __init__(
        self,
        model: Any,
        layout: Any,
        sizes: LayoutSizes,
        options: Any,
        contact_jacobian: Any,
        constraints: Any,
    ):
        """Allocate everything once."""
        self.model = model
        self.precisions = solve_precisions(options)
        self.types = self.precisions.types
        self.integration = integration_mode(options)
        motion = contact_jacobian.free_motion
        Problem, Data = make_problem(self.precisions)
        self.problem: Any = Problem()
        self.problem.layout, self.problem.motion, self.problem.options = layout, motion.data, _options(options, layout)
        self.problem.contacts, self.problem.terms = contact_jacobian.data, contact_jacobian.terms
        self.problem.bilateral = constraints.data
        self.data: Any = Data()
        scratch = Scratch(layout, sizes, model.device, contact_jacobian.capacity)
        allocate_arrays(self.data, self._counts(scratch, sizes, constraints), 0, model.device)
        self.data.slot, self._max_blocks = scratch.slot, scratch.max_blocks
        self.status, self.residual = self.data.status, self.data.residual
        self.iterations, self.line_search_iterations = self.data.iterations, self.data.line_iterations
        self.velocity = self.data.velocity
        """The minimizer, sap order, Newton's dof numbering."""
        self._kept = [StructArgument(struct, model.device) for struct in (self.problem, self.data)]
        self.arguments = [argument.array for argument in self._kept]
        """Problem and data, for kernels."""
        on_cuda = not model.device.is_cpu
        all_fit = on_cuda and layout.has_chains == 0
        search = self.problem.options.line_search if on_cuda else None
        self.kernel = make_solve_kernel(self.precisions, on_cuda, all_fit, search)

    def _counts(self, scratch: Scratch, sizes: LayoutSizes, constraints: Any) -> Any:
        """Entries of all arrays of `data`."""
        entries = {
            "body": scratch.body_count,
            "48 * body": STIFFNESS_SIZE * scratch.body_count,
            "dof": scratch.dof_count,
            "6 * dof": 6 * scratch.dof_count,
            "row": scratch.row_count,
            "hessian": scratch.hessian_count,
        }
        counts = {name: entries[first] for name, first in SCRATCH}
        counts |= dict.fromkeys(("v", "gradient", "dv"), sizes.dof_count)
        counts |= {"vc": scratch.slot.row * sizes.world_count, "slack": constraints.count, "dslack": constraints.count}
        counts |= dict.fromkeys(
            ("status", "iterations", "line_iterations", "residual", "energy", "widened"), sizes.world_count
        )
        # lanes of one warp add by shuffles, and one lane has nothing to add
        lanes = sizes.lanes
        sums = 0 if lanes == 1 or in_a_warp(lanes, self.model.device) else sizes.world_count * lanes
        return counts | {"scratch": sums, "cost_scratch": sums, "velocity": self.model.joint_dof_count}

    def solve(self, dt: float, worlds: WorldRange) -> None:
        """Minimize the objective of ``worlds``. What was prepared does not change: a second time gives the same."""
        problem, data = (kept.best for kept in self._kept)
        worlds.launch(self.kernel, problem, data, dt, device=self.model.device, max_blocks=self._max_blocks)


def _options(options: Any, layout: Any) -> Any:
    result: Any = NewtonOptions()
    result.max_iterations = options.max_iterations
    result.abs_tol, result.rel_tol = options.optimality_abs_tol, options.optimality_rel_tol
    result.cost_abs_tol, result.cost_rel_tol = options.cost_tolerances
    result.line_search = LINE_SEARCHES.index(options.line_search_variant)
    result.line_iterations = options.line_search_iterations
    result.armijo_c, result.rho, result.slop = options.armijo_c, options.rho, options.line_search_slop
    reach = EXACT_MAX_STEP if result.line_search in (ARMIJO_DECAY, EXACT_ROOT) else 1.0
    result.longest = max(reach, 1.0 / options.rho) if result.line_search == ARMIJO_DECAY else reach
    result.is_tight = int(result.cost_rel_tol <= result.rel_tol)
    result.is_predicted = int(options.stiction_mode == "displacement" and result.is_tight)
    first = layout.rows.first.numpy()
    result.widest = float((np.arange(len(first)) - first).max(initial=0) + 1)
    return result
