"""Mistakes put into the kernels on purpose: what the other tests of this folder would see of them."""

from __future__ import annotations

import functools
import re
import types

import pytest
import warp as wp

from sap_warp.core.kernels.launch import kernel
from sap_warp.core.kernels.template import device
from sap_warp.solver.minimize import solve as newton_stage
from sap_warp.solver.minimize.lazy_free_velocity import CostBound, momentum_cost, sum_costs
from sap_warp.solver.objective.contacts import add_cost as add_cost_of_contacts
from sap_warp.solver.objective.dofs import add_cost as add_cost_of_dofs
from sap_warp.solver.objective.equations import add_cost as add_cost_of_equations
from sap_warp.solver.objective.problem import Data, Line, Problem, cost_scratch, energy3
from tests.cuda.emulator.device import Device, EmulationError
from tests.cuda.emulator.driver import pretended
from tests.cuda.scenes import SCENES
from tests.cuda.twins import Twins

STEPS = 6
STATE = ("joint_q", "joint_qd", "body_q", "body_qd")


# --- the cost of equations ---------------------------------------------------------------------------------------


@device
def add_cost_alone(problem: wp.ref[Problem], data: wp.ref[Data], total: energy3) -> energy3:
    """Add a lane's share of what is no equation."""
    return add_cost_of_contacts(problem, data, add_cost_of_dofs(problem, data, total))


@device
def wrong_lower_bound(problem: wp.ref[Problem], data: wp.ref[Data], line: wp.ref[Line], bound: wp.ref[CostBound]):
    """Find the cost as `lower_bound` does, but add the share of the equations after the sum over the lanes."""
    bound.is_counted = 1
    total = sum_costs(add_cost_alone(problem, data, energy3()), cost_scratch(data), problem.world)
    total = add_cost_of_equations(problem, data, total)
    bound.momentum = momentum_cost(problem, data, bound.is_exact)
    line.m0 = total[0] + bound.momentum
    line.cost = line.m0 + total[1]


def with_names(template, **names):
    """A copy of the function of a template in which some names of its module mean something else."""
    function = template.function
    copy = types.FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)
    copy.__annotations__, copy.__qualname__ = function.__annotations__, f"wrong_{function.__name__}"
    copy.__module__ = function.__module__
    return copy


@pytest.fixture
def one_lanes_share():
    """The solve kernel in which each lane adds its own share of the cost of the equations after the sum."""
    minimize = device(with_names(newton_stage.minimize, lower_bound=wrong_lower_bound), inline=True)
    solve_world = device(with_names(newton_stage.solve_world, minimize=minimize))
    return kernel(with_names(newton_stage.newton_solve, solve_world=solve_world), max_registers=128)


@pytest.mark.long_cuda
def test_lanes_agree_about_the_cost_of_bilateral_rows(gpu):
    """Coupled joints that start off their couplings, beside boxes that slide: every lane takes every decision alike.

    A lane that knew only its own share of the cost of the rows would choose another step, leave the loop alone and
    wait at a barrier to which the others never come.
    """
    twins = Twins(SCENES["couplings"], preset="approx64")
    for _ in range(STEPS):
        found = twins.step()
        assert found["status"] == found["iterations"] == 0 and found["velocity"] < 1e-12
        assert abs(twins.cpu.velocity).max() < 3.0


@pytest.mark.long_cuda  # two warps for a world: a kernel that no short test has
@pytest.mark.parametrize("preset", ["approx32", "approx64"])
def test_lanes_that_know_only_their_own_rows_are_noticed(one_lanes_share, preset):
    """The test before this one fails when each lane adds its share of the cost after the sum.

    Two warps come apart at a barrier. In one warp lanes stay together, and only the velocities would be wrong, by up to
    0.06 of the largest.
    """
    with pretended(Device()):
        twins = Twins(SCENES["couplings"], preset=preset, lanes=64)
        solve = twins.gpu.solver.contact_solve
        chosen = {"all_fit": False, "line_search": solve.problem.options.line_search}
        solve.kernel = one_lanes_share.of(solve.variant | chosen)
        solve.kernel.module.load("cuda:0", 64)  # first: another worker may be at the kernels that all tests share
        with pytest.raises(EmulationError, match=r"newton_solve: lanes .* wait at different barriers"):
            [twins.step() for _ in range(STEPS)]


# --- any kernel -------------------------------------------------------------------------------------------------------


def is_noticed(twins, device):
    """Whether a step with the mistake has a fault or another result; the state stays as it was."""
    before = {name: getattr(twins.cpu.state, name).numpy().copy() for name in STATE}
    device.clear()
    try:
        found = twins.step()
    except (EmulationError, AssertionError):  # it stops, or a result is not finite
        return True
    finally:
        for name, values in before.items():
            getattr(twins.cpu.state, name).assign(values)
    return bool(device.faults) or found["status"] > 0 or found["velocity"] > 1e-3


@pytest.mark.long_cuda
def test_a_forgotten_barrier_is_noticed(driver, faults, report):
    """Of the barriers that four scenes pass, leaving out any one is seen as a race, but for those near another one."""
    device = driver.device

    def started(name):
        device.skipped = ("", 0)
        twins = Twins(SCENES[name])
        for _ in range(2):
            twins.step()
        return twins

    scenes = {name: started(name) for name in ("gripper", "stack", "humanoid", "arm")}
    passed = {(k, line) for k, c in device.counts.items() for line, text in c.lines.items() if text.startswith("bar.")}
    assert not device.faults and len(passed) > 20
    unseen = []
    for barrier in sorted(passed):
        device.skipped = barrier
        name = next((name for name, twins in scenes.items() if is_noticed(twins, device)), None)
        if name is None:
            unseen.append(barrier)
        else:  # what the mistake has left behind would be noticed in the place of the next one
            scenes[name] = started(name)
    report(barriers=len(passed), unseen=len(unseen))
    # a sum over the lanes is a barrier too, whether or not what comes next needs one
    assert len(unseen) <= 0.5 * len(passed), unseen
    kernels = {kernel for kernel, _ in passed - set(unseen)}
    assert kernels >= {"boundary", "free_motion", "contact_data", "newton_solve"}


def test_a_forgotten_barrier_of_the_humanoid_is_noticed(driver, faults):
    """The short form of the test before: the barriers of free motion alone, of which two in five are noticed."""
    twins = Twins(SCENES["humanoid"])
    twins.step()
    lines = driver.device.counts["free_motion"].lines.items()
    passed = [line for line, text in sorted(lines) if text.startswith("bar.")]
    assert not driver.device.faults and len(passed) >= 3

    def is_seen(line):
        driver.device.skipped = ("free_motion", line)
        return is_noticed(twins, driver.device)

    assert sum(map(is_seen, passed)) >= 2


@pytest.mark.long_cuda
def test_a_shifted_index_is_noticed(gpu):
    """Stores of free motion, one at a time, go to the next entry: most are seen, others are written over or tiny."""
    Twins(SCENES["humanoid"]).step()
    store = re.compile(r"st\.(?:global\.)?f(32|64)\s+\[(%rd\d+)(?:\+(\d+))?\]")
    stores = [line for line, text in sorted(gpu.device.counts["free_motion"].lines.items()) if store.match(text)]

    def shift(chosen, name, text):
        if "free_motion" not in name:
            return text
        lines = text.split("\n")
        size, base, offset = store.search(lines[chosen]).groups()
        lines[chosen] = re.sub(r"\[.*\]", f"[{base}+{int(offset or 0) + int(size) // 8}]", lines[chosen])
        return "\n".join(lines)

    seen = []
    for part in (0.1, 0.3, 0.5, 0.7, 0.9):
        with pretended(Device()) as driver:
            driver.edit = functools.partial(shift, stores[int(part * len(stores))] - 1)
            seen.append(is_noticed(Twins(SCENES["humanoid"]), driver.device))
    assert sum(seen) >= 3, seen
