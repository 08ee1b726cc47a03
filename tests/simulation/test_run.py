"""A few worlds take many steps before the next few begin, and nothing shows it.

Every comparison is bit by bit, with steps of all worlds that are launched one by one.
"""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SolverSAP
from sap_warp.collision.ground_ranges import GroundRanges
from sap_warp.solver import step
from tests.support.simulations import STATE_ARRAYS, make_sim, new_builder

SCENES = {"cube": 33, "humanoid": 5}
"""Worlds: so many that there are no long graphs, and so few that there are."""
CHUNKS = [3, 40, 1, 2, 29]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """Ranges of a few cubes, or of two humanoids."""
    monkeypatch.setattr(step, "CACHE_BYTES", 80_000)


def make_pair(name, **options):
    """Two simulations of the same worlds; the first one takes them range by range."""
    options = {"contact_preset_variant": "approx64", **options}
    pair = [make_sim(name, SCENES[name], seed=4, **options) for _ in range(2)]
    pair[0].prepare()
    assert all(shard.run.ranges > 1 for shard in pair[0].shards)
    return pair


def launch(sim, steps):
    """Plain steps of all worlds without a graph."""
    shard = sim.shards[0]
    for _ in range(steps):
        shard.pipeline.collide(shard.state, shard.contacts)
        shard.solver.step(shard.state, shard.state, shard.control, shard.contacts, sim.dt)
        for worlds in shard.solver.ranges:
            shard.count(shard.contacts, worlds)


def state_arrays(sim):
    return {name: getattr(sim.state, name).numpy() for name in STATE_ARRAYS}


def contact_arrays(sim):
    buffer = sim.contacts.newton_contacts
    count = int(buffer.rigid_contact_count.numpy()[0])
    names = ("shape0", "shape1", "point0", "point1", "offset0", "offset1", "normal", "margin0", "margin1")
    return {"count": count} | {name: getattr(buffer, f"rigid_contact_{name}").numpy()[:count] for name in names}


def outcome(sim):
    """All that can be asked of a simulation after a step."""
    statistics, pipeline = sim.statistics, sim.pipeline
    solver = sim.solver
    return {
        **state_arrays(sim),
        **contact_arrays(sim),
        "status": sim.status,
        "iterations": sim.iterations,
        "contacts": sim.contact_counts,
        "forces": solver.contact_forces().force.numpy()[: pipeline.last_contact_count],
        "sums": (statistics.world_steps, statistics.mean_contacts, statistics.truncated_contacts),
        "not converged": statistics.not_converged,
        "solves": (statistics.iterations, statistics.line_search_trials),
        "pipeline": (pipeline.last_contact_count, pipeline.peak_contact_count, pipeline.last_overflow),
        "solver": (solver.last_contact_count, solver.last_truncated_contact_count, solver.last_converged),
        "clock": (solver.frame_id, solver.sim_time),
    }


def assert_equal(one, other):
    for name, value in other.items():
        np.testing.assert_equal(one[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cube", {}),
        ("cube", {"precision": "fp64"}),
        ("cube", {"contact_preset_variant": "approx32"}),
        ("humanoid", {}),
        ("humanoid", {"precision": "fp64"}),
        ("humanoid", {"contact_preset_variant": "approx32"}),
    ],
)
@pytest.mark.parametrize("forced", [False, True])
def test_many_steps_equal_single_ones(name, options, forced):
    """Random poses, with and without external wrenches and joint forces: states, contacts and all counts are equal."""
    sim, plain = make_pair(name, **options)
    if forced:
        rng = np.random.default_rng(5)
        for view in ("body_f", "joint_f"):
            values = rng.normal(size=getattr(sim, view).flat().shape)
            for each in (sim, plain):
                getattr(each, view).flat()[:] = values
    for chunk in CHUNKS:
        sim.step(chunk)
    launch(plain, sum(CHUNKS))
    assert sim.contact_counts.sum() > 0
    assert_equal(outcome(sim), outcome(plain))


def test_a_world_that_is_too_full_drops_the_same_contacts():
    """Two places for the four corners of a cube."""
    sim, plain = make_pair("cube", max_rigid_contact=2, rigid_contact_max=4 * SCENES["cube"])
    for each in (sim, plain):
        each.reset(joint_q=[0.0, 0.0, 0.0999, 0.0, 0.0, 0.0, 1.0])
    sim.step(20)
    launch(plain, 20)
    assert sim.statistics.truncated_contacts > 0
    with pytest.warns(UserWarning, match="contacts were dropped"):
        assert_equal(outcome(sim), outcome(plain))


def test_each_thread_has_its_ranges():
    """Each shard on its own, with a callback between."""
    sim = make_sim("humanoid", 8, seed=4, threads=2, contact_preset_variant="approx64")
    plain = make_sim("humanoid", 8, seed=4, contact_preset_variant="approx64")
    seen = []
    sim.add_callback(lambda s: seen.append(s.joint_q.numpy().copy()), every=25)
    sim.step(50)
    launch(plain, 25)
    np.testing.assert_array_equal(seen[0], plain.joint_q.numpy())
    launch(plain, 25)
    assert all(shard.run.ranges > 1 for shard in sim.shards)
    assert_equal(state_arrays(sim), state_arrays(plain))


def test_long_runs_are_cut(monkeypatch):
    """Only so many passes are counted before the next range; what is left over is one step, or two."""
    monkeypatch.setattr(GroundRanges, "passes", 4)
    sim, plain = make_pair("cube")
    for chunk in (5, 6, 7, 13):
        sim.step(chunk)
        launch(plain, chunk)
        assert_equal(outcome(sim), outcome(plain))


def test_changes_between_runs_act():
    """Forces, targets, gravity and coordinates set through the views, and a reset of some worlds."""
    sim, plain = make_pair("humanoid")
    rng = np.random.default_rng(6)

    def change_forces(each, values):
        each.body_f.numpy()[:, 0, :3] = 5.0 * values[:, :3]
        each.joint_f.numpy()[:, 6:] = values[:, :21]

    def change_targets(each, values):
        each.body_f.numpy()[:] = 0.0
        each.joint_target_q.numpy()[:, 7:] = 0.3 * values[:, :21]

    def change_gravity(each, values):
        each.gravity.numpy()[:, 0] = values[:, :3]

    def change_pose(each, values):
        each.joint_q.numpy()[:, 7:] += 0.1 * values[:, :21]
        each.update_bodies()

    def reset(each, values):
        each.reset(world_mask=values[:, 0] > 0.0)

    for change in (change_forces, change_targets, change_gravity, reset, change_pose):
        values = rng.normal(size=(SCENES["humanoid"], 21))
        for each in (sim, plain):
            change(each, values)
        before = sim.joint_q.numpy().copy()
        sim.step(9)
        launch(plain, 9)
        assert not np.array_equal(before, sim.joint_q.numpy())
        assert_equal(outcome(sim), outcome(plain))


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_a_world_that_diverges_within_a_run_is_contained(precision):
    """A world spins up until its numbers are no longer finite; it is marked and kept as in plain steps."""
    sim, plain = make_pair("humanoid", precision=precision)
    for each in (sim, plain):
        each.joint_qd.numpy()[2] = 1e3 * np.random.default_rng(7).normal(size=27)
        each.update_bodies()
    failed = []
    for _ in range(60):
        launch(plain, 1)
        failed.append(plain.diverged[2])
    first = failed.index(True)
    assert 2 < first < 50
    sim.step(60)
    assert sim.diverged.tolist() == [False, False, True, False, False]
    assert_equal(outcome(sim), outcome(plain))


def rolling_model():
    """A ball on a kinematic platform's arm, and a free ball below it: a plane, and bodies that meet nothing else."""
    builder = newton.ModelBuilder()
    world = new_builder()
    inertia = wp.mat33(0.01 * np.eye(3))
    base, arm = (world.add_link(mass=1.0, inertia=inertia, is_kinematic=kinematic) for kinematic in (True, False))
    joints = [world.add_joint_free(base), world.add_joint_ball(base, arm, child_xform=((0.3, 0.0, 0.0), (0, 0, 0, 1)))]
    world.add_articulation(joints)
    world.add_shape_sphere(arm, radius=0.1)
    world.joint_q[:3] = (0.0, 0.0, 0.3)
    world.joint_qd[:6] = (0.1, 0.0, 0.0, 0.0, 0.0, 1.0)
    SolverSAP.register_custom_attributes(builder)
    builder.replicate(world, 3)
    builder.add_ground_plane()
    return builder.finalize("cpu")


def test_kinematic_bodies_carry_others_through_a_run():
    """What is prescribed stays as it is, what hangs on it falls to the ground."""
    sim, plain = (Simulation(rolling_model(), dt=0.005, contact_preset_variant="approx64") for _ in range(2))
    sim.step(100)
    launch(plain, 100)
    assert (sim.contact_counts == 1).all()
    assert_equal(outcome(sim), outcome(plain))


def test_preparing_leaves_nothing_behind():
    """States, external forces, counts and clock are as before."""
    sim, _ = make_pair("humanoid")
    sim.step(7)
    sim.body_f.numpy()[:, 0, 2] = 5.0
    before = {name: values.copy() for name, values in (state_arrays(sim) | {"body_f": sim.body_f.numpy()}).items()}
    sim.dt = sim.dt  # graphs are gone
    sim.prepare()
    assert_equal(state_arrays(sim) | {"body_f": sim.body_f.numpy()}, before)
    assert sim.statistics.world_steps == 7 * SCENES["humanoid"]
    assert sim.solver.frame_id == 7


@pytest.mark.parametrize(
    ("name", "options", "split"),
    [
        ("cube", {"rigid_contact_max": 4 * 33}, True),
        ("cube", {"rigid_contact_max": 4 * 33 - 1}, False),
        ("cube", {"precision": "fp64", "contact_preset_variant": "approx32"}, True),
        ("cube", {"pipeline_options": {"broad_phase": "sap"}}, False),
        ("spheres", {}, False),
    ],
)
def test_ranges_are_taken_one_by_one_only_if_nothing_can_differ(name, options, split):
    """Not with a buffer that all worlds together could fill, or pairs besides the ground; the results never differ."""
    worlds = 33 if name == "cube" else 5
    sim, plain = (make_sim(name, worlds, **options) for _ in range(2))
    sim.step(30)
    launch(plain, 30)
    assert (sim.shards[0].run.ranges > 1) == split
    assert_equal(state_arrays(sim), state_arrays(plain))
