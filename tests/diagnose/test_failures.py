"""Staged failures: the right cause is named, and what is advised does what was predicted."""

import numpy as np
import pytest

from sap_warp.judge.diagnose.collect import Collector
from sap_warp.judge.diagnose.detectors.slip import measure_slip
from sap_warp.judge.diagnose.grasps import find_grasps
from sap_warp.judge.diagnose.pairs import sum_by_pair
from sap_warp.judge.diagnose.run import make_report
from tests.support.staged import ARM, arm, boxes, chain, gripper, loaded_box, pushed_box, shaken_gripper, thrown_box

JOINED = {"contact_weight_mode": "diag_delassus"}
"""Weights that know the joints of the fingers."""


def observe(sim, seconds):
    """Samples of a run, as `diagnose` takes them."""
    steps = round(seconds / sim.dt)
    sim.prepare()
    collector = Collector(sim, steps, 1, np.arange(sim.world_count))
    for _ in range(steps):
        sim.step(1)
        collector.take(sim)
    return collector.finish(sim)


def findings(run, kind):
    return [finding for finding in make_report(run, "").findings if finding.kind == kind]


def the(run, kind):
    """The worst finding of a kind."""
    found = findings(run, kind)
    assert found, f"no {kind}: {[f.title for f in make_report(run, '').findings]}"
    return found[0]


def slip_speed(run):
    """Slip of the gripped cube [m/s]."""
    pairs = sum_by_pair(run)
    (grasp,) = find_grasps(pairs)
    return max(measure_slip(pairs, pair, grasp.chosen & pairs.active[pair]).speed for pair in grasp.pairs)


def resting_depth(run):
    pairs = sum_by_pair(run)
    return float(np.median(pairs.depth[0][run.count // 2 :]))


@pytest.fixture(scope="module")
def thin_fingers():
    """The published complaint: fingers of 15 g with the default preset."""
    return observe(gripper(), 0.8)


@pytest.fixture(scope="module")
def good_grip():
    """The same with weights that know the joints."""
    return observe(gripper(options=JOINED), 0.8)


def test_thin_fingers_slip_by_the_weights_of_free_bodies(thin_fingers, good_grip):
    """The advice makes slip fall as predicted, twentyfold; within a factor of 1.5, fingers settle meanwhile."""
    slip = the(thin_fingers, "slip")
    assert slip.cause == "body-inertia-weight"
    assert slip.where.endswith("cube")
    assert slip.settings == JOINED
    assert slip.predicted < 0.1 * slip.measure.value
    assert 1.0 / 1.5 < slip_speed(good_grip) / slip.predicted < 1.5


def test_thin_fingers_sink_by_the_weights_of_free_bodies(thin_fingers, good_grip):
    """A stiffness of 5e4 N/m is cut to 1e3 N/m; factor 1.3, fingers that give way less press harder."""
    depth = the(thin_fingers, "deep-contact")
    assert depth.cause == "body-inertia-weight"
    assert depth.settings == JOINED
    assert resting_depth(good_grip) == pytest.approx(depth.predicted, rel=0.3)


def test_creep_by_the_regularization_falls_with_sigma(good_grip):
    """Twenty times the usual sigma; slip follows it, within a factor of 1.5."""
    slip = the(observe(gripper(options=JOINED | {"contact_sigma": 0.02}), 0.5), "slip")
    assert slip.cause == "regularization"
    assert slip.measure.value == pytest.approx(20.0 * slip_speed(good_grip), rel=0.5)
    after = slip_speed(observe(gripper(options=JOINED | slip.settings), 0.5))
    assert 1.0 / 1.5 < after / slip.predicted < 1.5


def test_too_little_squeeze_is_named_with_the_force_that_holds():
    """The cube slides; with the advised squeeze it creeps as predicted, within a factor of 1.5."""
    slip = the(observe(gripper(squeeze=0.5, options=JOINED), 0.6), "slip")
    assert slip.severity == "problem"
    assert slip.cause == "too-little-squeeze"
    needed = 0.1 * 9.81 / (2.0 * 0.8)  # m g over two pads of mu 0.8
    assert needed < slip.settings["squeeze"] < 1.3 * needed
    after = slip_speed(observe(gripper(squeeze=slip.settings["squeeze"], options=JOINED), 0.6))
    assert after < 0.01 * slip.measure.value
    assert after == pytest.approx(slip.predicted, rel=0.5)


def test_a_weak_finger_drive_is_named_as_what_limits_the_squeeze():
    """The drives would press with 10 N, but may not."""
    slip = the(observe(gripper(squeeze=10.0, effort_limit=0.4, options=JOINED), 0.3), "slip")
    assert slip.cause == "too-little-squeeze"
    assert "slide_left is at its effort limit of 0.4 N" in slip.change


def test_a_turning_grip_drifts_as_the_closed_form_says():
    """Slip is h w^2 d / 2: friction stops velocities, and the cube moves on along the tangent of its circle.

    Stiction over the whole step leaves the next order, h w times as much, or less.
    """
    how = {"spin": 2.0, "options": JOINED | {"position_integration": "sap_euler"}}
    slip = the(observe(gripper(dt=0.01, **how), 1.0), "slip")
    assert slip.cause == "turning-grip"
    assert slip.measure.value == pytest.approx(0.5 * 0.01 * 2.0**2 * ARM, rel=0.05)
    how["options"] |= slip.settings
    after = slip_speed(observe(gripper(dt=0.01, **how), 0.6))
    assert after < slip.predicted < 0.05 * slip.measure.value


def test_points_that_are_an_overlap_apart_slip_when_the_grip_turns():
    """Soft pads on a hand that turns across the squeeze; one common point leaves what was predicted, factor 2."""
    how = {"spin": 0.3, "axis": "z", "ke": 2e3}
    slip = the(observe(gripper(options=JOINED, **how), 0.6), "slip")
    assert slip.cause == "witness-points"
    after = slip_speed(observe(gripper(options=JOINED | slip.settings, **how), 0.6))
    assert after < 0.3 * slip.measure.value
    assert 0.5 < after / slip.predicted < 2.0


def test_tilted_pads_are_not_taken_for_too_little_squeeze():
    """Pads that lean by 0.3 rad push the cube out: more squeeze would not help, more friction does."""
    how = {"tilt": 0.3, "squeeze": 20.0, "options": JOINED}
    slip = the(observe(gripper(mu=0.2, **how), 0.3), "slip")
    assert slip.cause == "tilted-pads"
    angle = next(number for number in slip.numbers if number.name == "tilt of the pads")
    assert angle.value == pytest.approx(np.degrees(0.3), rel=0.05)
    assert slip.settings["mu"] > np.tan(0.3)
    assert slip_speed(observe(gripper(mu=slip.settings["mu"], **how), 0.3)) < 1e-3 * slip.measure.value


def test_a_light_body_that_a_loose_tolerance_leaves_behind():
    """Beside 200 kg the cost does not notice the cube; `exact_root` with its own tolerances does."""
    run = observe(shaken_gripper(dt=0.02, cost_rel_tol=0.2), 0.6)
    hop = the(run, "hop")
    slip = next(finding for finding in findings(run, "slip") if finding.cause == "cost-tolerance")
    assert (hop.where, hop.cause) == ("cube", "cost-tolerance")
    exact = observe(shaken_gripper(dt=0.02, **hop.settings), 0.6)
    assert not findings(exact, "hop")
    assert np.nanmax(exact.bodies.imbalance) < 1e-3 * hop.measure.value
    assert slip_speed(exact) < 0.6 * slip.measure.value  # the rest is the drift of a grip that turns


def test_a_drive_at_its_effort_limit_gets_the_limit_that_holds_the_arm():
    """4.9 N m are needed, m g l; the arm then rests at load / stiffness from its target."""
    saturated = the(observe(arm(effort_limit=3.0), 0.5), "drive-saturated")
    assert (saturated.where, saturated.cause) == ("shoulder", "effort-limit")
    assert saturated.settings["effort_limit"] == pytest.approx(1.25 * 2.0 * 9.81 * 0.25, rel=0.01)
    after = observe(arm(effort_limit=saturated.settings["effort_limit"]), 0.5)
    assert not findings(after, "drive-saturated")
    assert abs(after.joints.position[-1, 0]) == pytest.approx(saturated.predicted, rel=0.05)


def test_a_target_behind_a_joint_limit():
    """The drive pushes against the limit until its target lies inside."""
    against = the(observe(arm(target=0.8, limits=(-0.5, 0.5)), 0.5), "joint-limit")
    assert (against.where, against.cause) == ("shoulder", "target-beyond-limit")
    assert against.measure.value == pytest.approx(0.3, rel=1e-3)
    after = observe(arm(target=against.settings["target"] - 0.01, limits=(-0.5, 0.5)), 0.5)
    assert not any(f.severity != "info" for f in findings(after, "joint-limit"))


def test_soft_materials_sink_by_the_weight_over_their_stiffness():
    """Four springs of 100 N/m under 1 kg: m g / (4 k); with the advised stiffness as deep as predicted."""
    deep = the(observe(boxes(material={"ke": 200.0}), 1.0), "deep-contact")
    assert deep.cause == "soft-material"
    assert deep.measure.value == pytest.approx(9.81 / (4.0 * 100.0), rel=0.05)
    after = resting_depth(observe(boxes(material={"ke": deep.settings["ke"]}), 1.0))
    assert after == pytest.approx(deep.predicted, rel=0.05)


def test_a_step_that_cannot_resolve_the_stiffness_under_a_light_body():
    """1,000 kg on 1 kg rest as deep as the near-rigid bound says; half the step leaves what was predicted."""
    deep = the(observe(loaded_box(), 1.0), "deep-contact")
    assert deep.cause == "near-rigid-bound"
    after = sum_by_pair(observe(loaded_box(deep.settings["dt"]), 1.0))
    pair = next(i for i in range(len(after.world)) if after.name(i) == deep.where)
    assert float(after.depth[pair][-1]) == pytest.approx(deep.predicted, rel=0.2)


def test_a_drive_that_presses_with_its_effort_limit_is_no_problem():
    """Fingers that may push with 5 N and are told to push with 10 N: a grip by force."""
    run = observe(gripper(effort_limit=5.0, options=JOINED), 0.3)
    assert make_report(run, "").ok
    assert {f.cause for f in findings(run, "drive-saturated")} == {"presses"}


def test_an_impact_that_is_found_too_late():
    """A box at 6 m/s flies 6 cm in a step of 10 ms; with the advised step it is never found deeper than predicted."""
    impact = the(observe(thrown_box(), 0.2), "deep-impact")
    speed = next(number for number in impact.numbers if number.name == "speed")
    assert speed.value == pytest.approx(6.0, rel=0.1)
    after = sum_by_pair(observe(thrown_box(impact.settings["dt"]), 0.1))
    first = np.argmax(after.active[0])
    assert after.depth[0][first] <= 1.05 * impact.predicted < 0.5 * impact.measure.value


@pytest.mark.filterwarnings("ignore:.*found no place:RuntimeWarning")
def test_a_world_that_is_full_of_contacts():
    """Four boxes touch in 16 points; jitter is put down to the missing ones."""
    run = observe(boxes(4, options={"max_rigid_contact": 8}), 0.5)
    dropped = the(run, "dropped-contacts")
    assert dropped.settings == {"max_rigid_contact": 16}
    assert the(run, "jitter").cause == "dropped-contacts"
    assert not findings(observe(boxes(4, options=dropped.settings), 0.5), "dropped-contacts")


def test_jitter_by_a_controller_that_is_not_implicit():
    """A stiff spring that is computed between steps; one below mass / dt^2 does not rattle."""
    jitter = the(observe(pushed_box(1e5), 0.8), "jitter")
    assert jitter.cause == "explicit-controller"
    assert not findings(observe(pushed_box(1e3), 0.8), "jitter")


@pytest.mark.filterwarnings("ignore:The energy of worlds grows:RuntimeWarning")
def test_energy_from_nowhere_and_a_step_that_makes_less_of_it():
    """An undamped chain; error per time falls with the step at least in proportion."""
    growth = the(observe(chain(), 0.5), "energy-growth")
    assert growth.cause == "time-step"
    after = observe(chain(growth.settings["dt"]), 0.5)
    assert not findings(after, "energy-growth")
    kinetic, excess = after.outcome.energy[..., 0], after.outcome.energy[..., 2]
    moving = kinetic > 0.1  # J
    assert 100.0 * (excess[moving] / kinetic[moving]).max() < growth.predicted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_diverged_worlds_come_first():
    """The same chain a moment later."""
    worst = make_report(observe(chain(), 0.7), "").findings[0]
    assert (worst.kind, worst.worlds) == ("diverged", (0,))
