"""Every family of terms of the objective against its own cost, without the momentum."""

from __future__ import annotations

import numpy as np
import warp as wp

from sap_warp.core.kernels.launch import WorldRange, kernel
from sap_warp.solver.minimize.active_terms import choose_terms
from sap_warp.solver.minimize.solve import choose_world, data_argument, problem_argument, read_data, read_problem
from sap_warp.solver.objective.families import add_cost, advance, start
from sap_warp.solver.objective.gradient import gradient
from sap_warp.solver.objective.line import line_value, prepare_line
from sap_warp.solver.objective.problem import Line
from sap_warp.solver.settings.precisions import cost, solve
from tests.support.solver_cases import DT

scalar, energy, energy3 = solve.scalar, cost.scalar, cost.vec3
STEP = 1e-6
"""Of central differences [m/s or rad/s]."""
ROUND_OFF = 1e-10
"""Relative to the cost, with room: its terms are larger than their sum."""


@kernel
def probe(
    world: int,
    problem_in: problem_argument,
    data_in: data_argument,
    dt: wp.float64,
    v_in: wp.array[wp.float64],
    dv_in: wp.array[wp.float64],
    alpha: wp.float64,
    gradient_out: wp.array[wp.float64],
    numbers_out: wp.array[wp.float64],
):
    """Write the gradient of all terms at v, their cost there, and cost, slope and curvature at v + alpha dv."""
    problem = read_problem(problem_in)
    data = read_data(data_in)
    choose_world(problem, data, world, dt)
    choose_terms(problem, data)
    e = int(problem.first)
    while e < problem.last:
        data.v[e] = scalar(problem.motion.v0[e])  # `start` may use that bodies have the velocities of v0
        data.dv[e] = scalar(v_in[e] - problem.motion.v0[e])
        data.momentum[e] = scalar(0.0)
        data.A_dv[e] = scalar(0.0)
        data.A_v_star[e] = scalar(0.0)
        e += 1
    start(problem, data)
    line = Line()
    gradient(problem, data)
    prepare_line(problem, data, line)
    advance(problem, data, scalar(1.0), True)
    gradient(problem, data)
    e = int(problem.first)
    while e < problem.last:
        gradient_out[e] = wp.float64(data.gradient[e])
        data.dv[e] = scalar(dv_in[e])
        e += 1
    costs = add_cost(problem, data, energy3())
    line.m0 = costs[0]
    prepare_line(problem, data, line)
    value = line_value(problem, data, line, energy(alpha))
    numbers_out[0] = wp.float64(costs[0] + costs[1])
    for i in range(3):
        numbers_out[1 + i] = wp.float64(value[i])
    numbers_out[4] = wp.float64(line.slope)


def evaluate(case, world, v, dv, alpha):
    """Gradient of the terms of a world at v by dof; cost there, cost, slope, curvature at v + alpha dv, slope at v."""
    stage = case.solver.contact_solve
    arguments = [argument.kernel_argument for argument in stage._kept]
    out, numbers = wp.zeros(len(v), dtype=wp.float64), wp.zeros(5, dtype=wp.float64)
    given = [wp.array(x, dtype=wp.float64) for x in (v, dv)]
    inputs = [*arguments, DT, *given, alpha, out, numbers]
    WorldRange(world, 1, 1).launch(probe.of(stage.variant), *inputs, device=stage.model.device)
    return out.numpy(), numbers.numpy()


def check_families(case, seed=0):
    """Compare gradient, cost and the cost along a direction of all families in the worlds of a case."""
    case.step()
    rng = np.random.default_rng(seed)
    ends = case.solver.layout.world_dof.numpy()
    count = case.solver.sizes.dof_count
    for world in range(len(ends) - 1):
        v, dv = rng.normal(size=(2, count))
        g, (at_v, value, slope, curvature, slope_at_v) = evaluate(case, world, v, dv, 0.7)
        own = slice(*ends[world : world + 2])
        for e in range(*ends[world : world + 2]):
            step = STEP * np.eye(count)[e]
            above, below = (evaluate(case, world, at, dv, 0.0)[1][0] for at in (v + step, v - step))
            allowed = 1e-6 * np.abs(g[own]).max() + ROUND_OFF * abs(at_v) / STEP
            assert abs((above - below) / (2 * STEP) - g[e]) <= allowed, (world, e)
        np.testing.assert_allclose(slope_at_v, g[own] @ dv[own], rtol=1e-10)
        there = evaluate(case, world, v + 0.7 * dv, dv, 0.0)
        np.testing.assert_allclose(value, there[1][0], rtol=1e-10)
        np.testing.assert_allclose(slope, there[0][own] @ dv[own], rtol=1e-9)
        np.testing.assert_allclose(curvature, there[1][3], rtol=1e-9)
