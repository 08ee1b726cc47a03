"""A few worlds take many steps before the next few begin, and nothing shows it.

Every comparison is bit by bit, with steps of all worlds that are launched one by one.
"""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SolverSAP
from sap_warp.collision.ranges import Ranges
from sap_warp.simulation.run import run
from sap_warp.solver import step
from tests.support.simulations import STATE_ARRAYS, make_sim, new_builder

SCENES = {"cube": 33, "humanoid": 5, "stack": 5}
"""Worlds: so many that there are no long graphs, and so few that there are."""
CHUNKS = [3, 40, 1, 2, 29]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """Ranges of a few cubes, or of two humanoids, or of a stack."""
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
        ("stack", {}),
        ("stack", {"precision": "fp64"}),
        ("stack", {"contact_preset_variant": "approx32"}),
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
    monkeypatch.setattr(Ranges, "passes", 4)
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
        ("cube", {"rigid_contact_max": 4 * 33 - 1}, True),
        ("cube", {"precision": "fp64", "contact_preset_variant": "approx32"}, True),
        ("cube", {"pipeline_options": {"broad_phase": "sap"}}, False),
        ("spheres", {}, True),
    ],
)
def test_ranges_are_taken_one_by_one_where_pairs_are_listed(name, options, split):
    """Also with a buffer that could be too small, but is not; the results never differ."""
    worlds = 33 if name == "cube" else 5
    sim, plain = (make_sim(name, worlds, **options) for _ in range(2))
    sim.step(30)
    launch(plain, 30)
    assert (sim.shards[0].run.ranges > 1) == split
    assert_equal(state_arrays(sim), state_arrays(plain))


def heap(meshes=False):
    """Worlds in which a box, hulls, a capsule, a ball and a barrel fall on each other, on a ramp and on the ground.

    Each world has a wall; the ramp is one for all. ``meshes`` lets a hull be a mesh.
    """
    world = new_builder()
    block = newton.Mesh.create_box(0.05, 0.03, 0.04, compute_inertia=False)
    add = [
        lambda body: world.add_shape_box(body, hx=0.05, hy=0.04, hz=0.03),
        lambda body: (world.add_shape_mesh if meshes else world.add_shape_convex_hull)(body, mesh=block),
        lambda body: world.add_shape_capsule(body, radius=0.03, half_height=0.05),
        lambda body: world.add_shape_sphere(body, radius=0.04),
        lambda body: world.add_shape_cylinder(body, radius=0.03, half_height=0.04),
        lambda body: world.add_shape_convex_hull(body, mesh=block),
    ]
    for i, shape in enumerate(add):
        shape(world.add_body(xform=((0.01 * i, 0.005 * i, 0.12 + 0.11 * i), (0.0, 0.0, 0.0, 1.0))))
    world.add_shape_box(-1, xform=((0.15, 0.0, 0.1), (0.0, 0.0, 0.0, 1.0)), hx=0.02, hy=0.5, hz=0.2)
    builder = newton.ModelBuilder()
    SolverSAP.register_custom_attributes(builder)
    builder.replicate(world, 5)
    builder.add_ground_plane()
    builder.add_shape_box(-1, xform=((0.0, 0.0, 0.01), (0.0, 0.1, 0.0, 0.995)), hx=0.2, hy=0.2, hz=0.02)
    model = builder.finalize("cpu")
    rng = np.random.default_rng(8)
    q = model.joint_q.numpy().reshape(-1, 7)
    q[:, :2] += rng.uniform(-0.02, 0.02, (len(q), 2))
    model.joint_q.assign(q.ravel())
    return model


def make_heaps(**options):
    """Two simulations of heaps; the first one takes its worlds range by range."""
    pair = [Simulation(heap(**options), dt=0.004, contact_preset_variant="approx64") for _ in range(2)]
    pair[0].prepare()
    return pair


def test_shapes_of_all_kinds_meet_the_same_in_ranges():
    """Contacts of our own, of Newton's narrow phase, with the ground, with a wall by world and with one for all."""
    sim, plain = make_heaps()
    assert sim.shards[0].run.ranges > 1
    for chunk in (60, 1, 40):
        sim.step(chunk)
        launch(plain, chunk)
        assert (sim.contact_counts > 8).all()
        assert_equal(outcome(sim), outcome(plain))


def test_shapes_that_change_between_runs_are_seen_by_all_ranges():
    """A wall and the ramp are moved into the heaps, a hull grows."""
    sim, plain = make_heaps()
    models = [each.shards[0].model.newton_model for each in (sim, plain)]
    fixtures = np.flatnonzero((models[0].shape_body.numpy() < 0) & (models[0].shape_type.numpy() == newton.GeoType.BOX))
    hulls = np.flatnonzero(models[0].shape_type.numpy() == newton.GeoType.CONVEX_MESH)

    def move(model):
        poses = model.shape_transform.numpy()
        poses[fixtures[-1], 2] += 0.02
        poses[fixtures[:-1], 0] -= 0.04
        model.shape_transform.assign(poses)

    def grow(model):
        sizes = model.shape_scale.numpy()
        sizes[hulls[::2]] *= 1.1
        model.shape_scale.assign(sizes)

    sim.step(60)
    launch(plain, 60)
    for change in (move, grow):
        for model in models:
            change(model)
        before = sim.joint_q.numpy().copy()
        sim.step(20)
        launch(plain, 20)
        assert np.abs(sim.joint_q.numpy() - before).max() > 0.01
        assert_equal(outcome(sim), outcome(plain))


def test_meshes_are_looked_at_together():
    """Their triangles share room."""
    sim, _ = make_heaps(meshes=True)
    assert sim.shards[0].run.ranges == 1


def test_a_range_keeps_what_a_buffer_for_all_worlds_would_drop():
    """Room for a fourth of the contacts: single steps sink, a run does not, and both tell."""
    sim, plain = (
        make_sim("stack", 5, seed=4, rigid_contact_max=20, contact_preset_variant="approx64") for _ in range(2)
    )
    sim.prepare()
    assert sim.shards[0].run.ranges == 5
    sim.step(100)
    launch(plain, 100)
    heights = [each.state.body_q.numpy()[:, 2].reshape(5, -1).max(axis=1) for each in (sim, plain)]
    assert (heights[0] > heights[1]).all()
    for each in (sim, plain):
        with pytest.warns(RuntimeWarning, match=r"too small: a collision pass found \d+ contacts and dropped"):
            assert each.pipeline.peak_contact_count > 20


def test_many_ranges_share_a_detection(monkeypatch):
    """At most so many groups, of ranges that follow one another; the results are the same."""
    monkeypatch.setattr(run, "GROUPS", 2)
    sim, plain = make_pair("stack")
    assert sim.shards[0].run.ranges == 2
    sim.step(30)
    launch(plain, 30)
    assert_equal(outcome(sim), outcome(plain))
