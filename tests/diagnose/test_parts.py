"""What samples hold, against the solver's own numbers and closed forms."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sap_warp import SolveStatus
from sap_warp.judge.diagnose.collect import Collector
from sap_warp.judge.diagnose.detectors.solve import find_slow, find_unsolved
from sap_warp.judge.diagnose.dynamics import Dynamics
from sap_warp.judge.diagnose.facts import unique_names
from sap_warp.judge.diagnose.grasps import find_grasps
from sap_warp.judge.diagnose.pairs import sum_by_pair
from sap_warp.judge.diagnose.rows import read_rows
from tests.support.staged import CUBE_MASS, gripper


@pytest.fixture(scope="module", params=[10.0, 0.5], ids=["sticking", "sliding"])
def grip(request):
    """A grip that holds, and one that slides."""
    sim = gripper(worlds=2, squeeze=request.param)
    sim.step(60)
    return sim


def test_impulses_are_those_of_the_solver(grip):
    """The law is restated in NumPy; its norm is not softened by 1e-7 N s there."""
    rows = read_rows(grip.solver, np.array([0, 1]))
    impulse = grip.solver.contact_forces().impulse.numpy()[rows["source"]]
    found = rows["push"][:, None] * rows["normal"] + rows["friction"]
    assert len(found) == 16
    np.testing.assert_allclose(found, impulse, rtol=1e-5, atol=2e-7)


def test_joined_weights_are_those_of_the_solver(grip):
    """The same model with contact_weight_mode diag_delassus."""
    other = gripper(worlds=2, options={"contact_weight_mode": "diag_delassus"})
    other.state.assign(grip.state)
    other.step(1)
    rows = read_rows(other.solver, np.array([0, 1]))
    dynamics = Dynamics(other.solver, np.array([0, 1]), np.zeros(other.model.body_count, bool))
    assert len(rows["weight"]) > 0
    np.testing.assert_allclose(dynamics.joined_weights(rows), rows["weight"], rtol=1e-4)


def test_the_solve_owes_nothing_at_its_solution_and_what_was_taken_away(grip):
    """A velocity that is changed by hand is found again."""
    solver = grip.solver
    alone = np.zeros(grip.model.body_count, bool)
    alone[3::4] = True  # hand, two fingers and the cube
    dynamics = Dynamics(solver, np.array([0, 1]), alone)
    rows = read_rows(solver, np.array([0, 1]))
    assert dynamics.imbalance(rows).max() < 1e-4
    v = solver.contact_solve.data.v.numpy()
    first = int(solver.layout.body_dof.numpy()[dynamics.bodies[1]])
    kept = v[first : first + 6].copy()
    v[first : first + 6] += [0.0, 0.0, 0.0, 0.0, 0.0, 1e-3]
    for name in rows:
        rows[name] = rows[name][rows["world"] == 0] if name != "world" else rows[name]
    rows["world"] = rows["world"][rows["world"] == 0]
    owed = dynamics.imbalance(rows)  # without its contacts the cube of world 1 is free
    v[first : first + 6] = kept
    assert owed[0] < 1e-4
    assert owed[1] == pytest.approx(1e-3 + 9.81 * 0.005, rel=0.05)


def test_a_grasp_knows_its_squeeze_and_its_load():
    """10 N of two drives, less what the pads give way, and the weight of the cube."""
    sim = gripper(options={"contact_weight_mode": "diag_delassus"})
    sim.prepare()
    collector = Collector(sim, 60, 1, np.array([0]))
    for _ in range(60):
        sim.step(1)
        collector.take(sim)
    run = collector.finish(sim)
    (grasp,) = find_grasps(sum_by_pair(run))
    effort = -run.joints.asked[-1, 1]
    assert grasp.squeeze == pytest.approx(abs(effort), rel=0.01)
    assert grasp.load == pytest.approx(CUBE_MASS * 9.81, rel=0.02)
    assert grasp.cone == pytest.approx(2.0 * 0.8 * grasp.squeeze, rel=1e-3)
    assert grasp.angle < 1e-3
    assert [run.facts.dof_name[dof] for dof in grasp.dofs] == ["slide_left", "slide_right"]


@pytest.fixture(scope="module")
def four_worlds():
    """A short run whose outcome tests replace."""
    sim = gripper(worlds=4)
    sim.prepare()
    collector = Collector(sim, 10, 1, np.arange(4))
    for _ in range(10):
        sim.step(1)
        collector.take(sim)
    return collector.finish(sim)


def test_worlds_that_need_many_iterations_are_named(four_worlds):
    """World 2 needs ten times as many as the others."""
    iterations = np.full((10, 4), 2)
    iterations[:, 2] = 20
    run = replace(four_worlds, outcome=replace(four_worlds.outcome, iterations=iterations))
    (slow,) = find_slow(run)
    assert (slow.worlds, slow.measure.value, slow.severity) == ((2,), 20.0, "info")
    assert not list(find_slow(replace(run, outcome=replace(run.outcome, iterations=np.full((10, 4), 20)))))


def test_solves_that_meet_no_criterion_are_counted(four_worlds):
    """One step in forty of one world: 2.5 % of the world-steps."""
    status = np.full((10, 4), int(SolveStatus.CONVERGED))
    assert not list(find_unsolved(replace(four_worlds, outcome=replace(four_worlds.outcome, status=status))))
    status[3, 1] = int(SolveStatus.LINE_SEARCH_FAILED)
    (found,) = find_unsolved(replace(four_worlds, outcome=replace(four_worlds.outcome, status=status)))
    assert (found.cause, found.worlds) == ("line-search-failed", (1,))
    assert found.measure.value == pytest.approx(2.5)


@pytest.mark.filterwarnings("ignore:Worlds could not take a step:RuntimeWarning")
def test_a_world_that_diverges_does_not_hide_the_others():
    """World 1 gets a force that is no number; world 0 slips as before."""
    sim = gripper(worlds=2)
    sim.body_f.numpy()[1, 3, 0] = np.nan
    report = sim.diagnose(0.3)
    assert [(f.kind, f.worlds) for f in report.findings[:1]] == [("diverged", (1,))]
    assert [f.worlds for f in report.of("slip")] == [(0,)]
    json.dumps(report.as_dict(), allow_nan=False)


def test_threads_change_nothing():
    """Numbers of bodies, shapes and dofs are those of the whole simulation."""
    reports = [gripper(worlds=3, threads=threads).diagnose(0.3) for threads in (1, 3)]
    assert reports[0].findings
    assert reports[0].as_dict() == reports[1].as_dict()


def test_names_are_short_where_they_tell_apart():
    """Ends of labels, whole labels, numbers."""
    labels = ["a/foot", "b/foot", "a/head", "c", "c", "a/foot"]
    assert unique_names(labels, [0, 0, 0, 0, 0, 1]) == ["a/foot", "b/foot", "head", "c", "c#2", "foot"]
