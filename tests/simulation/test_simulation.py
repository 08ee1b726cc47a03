"""`Simulation`: graphs, views, reset, callbacks, threads."""

import gc
import math
import re

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp import HeterogeneousWorldsError, SapModel, Simulation, SolveStatus, ThreadsError
from sap_warp.scene.shipped.scene_files import UnknownSceneError
from sap_warp.scene.shipped.scenes import build_scene
from sap_warp.simulation.run.profile import STAGES, profile_stages
from sap_warp.simulation.run.run import BUNDLES, Run
from sap_warp.simulation.run.split import WorldShare
from tests.support.simulations import STATE_ARRAYS, WORLDS, make_sim, new_builder


def add_boxes(builder, count, height=0.3):
    """A row of free boxes."""
    for i in range(count):
        body = builder.add_body(xform=((0.5 * i, 0.0, height), (0.0, 0.0, 0.0, 1.0)))
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)


def mixed_model(counts=(1, 3, 2)):
    """Worlds with different numbers of boxes on one ground."""
    builder = new_builder()
    for count in counts:
        world = new_builder()
        add_boxes(world, count)
        builder.add_world(world)
    builder.add_ground_plane()
    return builder.finalize("cpu")


def assert_same_state(one, other):
    """All arrays that a step writes are bitwise equal."""
    for name in STATE_ARRAYS:
        np.testing.assert_array_equal(getattr(one, name).flat(), getattr(other, name).flat(), err_msg=name)


@pytest.fixture(scope="module")
def reference():
    """The cube scene after 120 steps, of which no graph was made."""
    sim = make_sim()
    sim.shards[0].dt = sim.dt
    run = Run(sim.shards[0], sim.dt, together=True)
    for _ in range(120):
        run.launch(1)
    return sim


# Steps.


@pytest.mark.parametrize("chunks", [[120], [1] * 120, [7, 50, 1, 2, 60]])
def test_replayed_steps_equal_launched_ones_bit_by_bit(reference, chunks):
    """However the steps are grouped, the result is that of plain stepping and lies in the same memory."""
    sim = make_sim()
    q = sim.joint_q.numpy()
    for chunk in chunks:
        sim.step(chunk)
    assert_same_state(sim, reference)
    np.testing.assert_array_equal(q, sim.joint_q.numpy())
    assert sim.step_count == sim.solver.frame_id == 120
    assert sim.time == pytest.approx(0.6)
    assert sim.statistics.world_steps == 120 * WORLDS
    assert sim.statistics.iterations == reference.statistics.iterations


def test_one_world_alone_replays_bundles_and_single_steps():
    """The number of steps of each graph is that of the steps it stands for."""
    sim, launched = make_sim(worlds=1), make_sim(worlds=1)
    sim.step(2 * BUNDLES[0] + 7)
    launched.shards[0].dt = launched.dt
    Run(launched.shards[0], launched.dt).launch(2 * BUNDLES[0] + 7)
    assert sim.solver.frame_id == sim.step_count == launched.solver.frame_id == 2 * BUNDLES[0] + 7
    np.testing.assert_array_equal(sim.joint_q.flat(), launched.joint_q.flat())


def test_preparing_changes_nothing():
    """Compiling and capturing runs steps, of which nothing may be left."""
    sim = make_sim()
    sim.step(3)
    sim.body_f.numpy()[:, 0, 2] = 5.0
    before = [getattr(sim, name).flat().copy() for name in (*STATE_ARRAYS, "body_f")]
    sim.dt = sim.dt  # graphs are gone
    sim.prepare()
    for name, values in zip((*STATE_ARRAYS, "body_f"), before, strict=True):
        np.testing.assert_array_equal(getattr(sim, name).flat(), values)
    assert sim.solver.frame_id == 3
    assert sim.statistics.world_steps == 3 * WORLDS


def test_time_step_can_be_changed_between_steps():
    """A new dt acts in the next step, and time goes on from where it was."""
    sim = make_sim(worlds=1)
    sim.joint_qd.assign(np.zeros(6))
    sim.step(4)
    speed = sim.joint_qd.numpy()[0, 2]
    sim.dt = 0.001
    sim.step(3)
    assert sim.time == pytest.approx(4 * 0.005 + 3 * 0.001)
    assert sim.joint_qd.numpy()[0, 2] - speed == pytest.approx(-9.81 * 0.003, rel=1e-5)


@pytest.mark.parametrize("n", [-1, 1.5, True, "2"])
def test_number_of_steps_is_checked(n):
    """Only whole numbers that are not negative; zero does nothing."""
    sim = make_sim(worlds=1)
    with pytest.raises(ValueError, match=r"n is .*whole number of at least 0"):
        sim.step(n)
    sim.step(0)
    assert sim.step_count == 0


# Changes through views reach a captured graph.


def test_captured_graph_follows_state_control_and_gravity():
    """What is written into views takes part in the next step without a new capture, only in the world it was for."""
    sim = make_sim()
    sim.step(2)
    run = sim.shards[0].run
    mass = sim.model.body_mass.numpy()[0]
    sim.gravity.numpy()[:] = 0.0
    sim.joint_qd.numpy()[:] = 0.0
    sim.joint_f.numpy()[1, 0] = 3.0  # generalized force along x
    sim.body_f.numpy()[2, 0, 1] = 4.0  # wrench along y
    sim.joint_qd.numpy()[3, 2] = 0.5
    sim.gravity.numpy()[4, 0] = (0.0, 0.0, -1.0)
    sim.step(10)
    v, t = sim.joint_qd.numpy(), 10 * sim.dt
    assert sim.shards[0].run is run
    expected = np.zeros((WORLDS, 3))
    expected[1, 0], expected[2, 1], expected[3, 2], expected[4, 2] = 3.0 * t / mass, 4.0 * t / mass, 0.5, -t
    np.testing.assert_allclose(v[:, :3], expected, rtol=1e-5, atol=1e-6)
    sim.clear_forces()
    sim.joint_f.numpy()[:] = 0.0
    sim.gravity.numpy()[:] = 0.0
    sim.step(10)
    np.testing.assert_allclose(sim.joint_qd.numpy()[:, :3], expected, rtol=1e-5, atol=1e-6)  # nothing acts any more


def test_drive_targets_reach_a_captured_graph():
    """A target written into the view moves the elbow of one world's pendulum and not the other's."""
    sim = make_sim("pendulum", worlds=2, seed=1)
    sim.reset(joint_q=np.zeros(2))
    sim.step(2)
    sim.joint_target_q.numpy()[1, 1] = 1.0
    sim.step(100)
    assert abs(sim.joint_q.numpy()[0, 1]) < 1e-4
    assert sim.joint_q.numpy()[1, 1] > 0.05


def test_model_changes_reach_the_next_step():
    """A mass that is doubled in the model halves the acceleration after `notify_model_changed`, with any threads."""
    for threads in (1, 2):
        sim = make_sim(threads=threads)
        sim.gravity.numpy()[:] = 0.0
        sim.joint_qd.numpy()[:] = 0.0
        sim.joint_f.numpy()[:, 0] = 8.0
        sim.step(2)
        mass = sim.model.body_mass.numpy().copy()
        first = sim.joint_qd.numpy()[:, 0].copy()
        np.testing.assert_allclose(first, 8.0 * 0.01 / mass, rtol=1e-5)
        sim.model.body_mass.assign(2.0 * mass)
        sim.notify_model_changed()
        sim.step(2)
        np.testing.assert_allclose(sim.joint_qd.numpy()[:, 0] - first, 4.0 * 0.01 / mass, rtol=1e-4)


# Views.


def test_views_have_one_row_per_world():
    """Shapes of state and control by world, and the same memory in NumPy, DLPack and Warp."""
    sim = make_sim("humanoid", worlds=3)
    shapes = {
        "joint_q": (3, 28),
        "joint_qd": (3, 27),
        "body_q": (3, 13, 7),
        "body_qd": (3, 13, 6),
        "body_f": (3, 13, 6),
        "joint_f": (3, 27),
        "joint_target_q": (3, 28),
        "joint_target_qd": (3, 27),
        "joint_act": (3, 27),
        "gravity": (3, 1, 3),
    }
    for name, shape in shapes.items():
        view = getattr(sim, name)
        values = view.numpy()
        assert values.shape == shape, name
        assert view.warp().shape == shape[:2]
        assert np.shares_memory(np.from_dlpack(view), values)
        assert np.shares_memory(view.world(1), values[1])
        assert np.shares_memory(np.asarray(view), values)
        assert name in repr(view)
    assert sim.joint_q.numpy().ctypes.data == sim.state.joint_q.ptr
    assert sim.joint_f.numpy().ctypes.data == sim.control.joint_f.ptr
    np.testing.assert_array_equal(sim.base_heights(), sim.body_q.numpy()[:, 0, 2])
    with pytest.raises(IndexError, match="no world 3"):
        sim.joint_q.world(3)


def test_torch_view_shares_memory_or_says_what_is_missing():
    """With torch the tensor is a view; without it the error names the package."""
    sim = make_sim(worlds=2)
    try:
        import torch
    except ImportError:
        with pytest.raises(ImportError, match="torch"):
            sim.joint_q.torch()
    else:
        tensor = sim.joint_q.torch()
        tensor[1, 2] = 7.0
        assert isinstance(tensor, torch.Tensor)
        assert sim.joint_q.numpy()[1, 2] == 7.0


def test_view_assigns_by_world_or_flat():
    """`assign` takes one world's values, all worlds' or the flat array, and refuses other shapes."""
    sim = make_sim(worlds=2)
    row = np.arange(6.0)
    sim.joint_f.assign(row)
    np.testing.assert_array_equal(sim.joint_f.numpy(), [row, row])
    sim.joint_f.assign(np.stack([row, 2.0 * row]))
    np.testing.assert_array_equal(sim.joint_f.world(1), 2.0 * row)
    sim.joint_f.assign(wp.array(np.ones(12), dtype=wp.float32, device="cpu"))
    assert (sim.joint_f.flat() == 1.0).all()
    with pytest.raises(ValueError, match=r"joint_f takes an array of shape \(12,\) or \(2, 6\) or \(6,\); got \(5,\)"):
        sim.joint_f.assign(np.zeros(5))


@pytest.mark.parametrize("threads", [1, 2])
def test_worlds_of_different_size_have_flat_views_with_offsets(threads):
    """There is no (worlds, dofs) array then; the error says what to use, and that works."""
    sim = Simulation(mixed_model(), dt=0.005, threads=threads)
    sim.step(100)
    with pytest.raises(HeterogeneousWorldsError, match=r"joint_qd has between 6 and 18 entries.*flat\(\)"):
        sim.joint_qd.numpy()
    with pytest.raises(HeterogeneousWorldsError):
        np.from_dlpack(sim.joint_qd)
    assert sim.joint_qd.offsets.tolist() == [0, 6, 24, 36]
    assert sim.joint_q.flat().shape == (42,)
    assert sim.joint_q.world(1).shape == (21,)
    assert "6 to 18 dofs" in repr(sim)
    heights = sim.body_q.flat()[:, 2]
    np.testing.assert_allclose(heights, 0.1, atol=2e-3)  # every box lies on the ground
    sim.reset(world_mask=[False, True, False], joint_q=sim.joint_q.flat() + 1.0)
    np.testing.assert_array_equal(sim.joint_q.world(0), sim.joint_q.flat()[:7])
    np.testing.assert_allclose(sim.body_q.world(1)[:, 2], 1.1, atol=2e-3)
    np.testing.assert_allclose(sim.body_q.world(2)[:, 2], 0.1, atol=2e-3)


def test_model_without_worlds_is_one_world():
    """A plain builder's model has views with one row."""
    builder = new_builder()
    add_boxes(builder, 2)
    builder.add_ground_plane()
    sim = Simulation(builder.finalize("cpu"), dt=0.005)
    sim.gravity.numpy()[0, 0] = (0.0, 0.0, -1.0)
    sim.step(10)
    assert sim.world_count == 1
    assert sim.joint_q.numpy().shape == (1, 14)
    np.testing.assert_allclose(sim.body_qd.numpy()[0, :, 2], -0.05, rtol=1e-4)
    sim.reset(joint_qd=np.ones(12))
    assert (sim.joint_qd.numpy() == 1.0).all()


# Reset.


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("as_mask", [np.asarray, list, lambda m: wp.array(m, dtype=wp.bool, device="cpu")])
def test_reset_of_some_worlds_leaves_the_others(threads, as_mask):
    """Chosen worlds start again, the rest goes on as if nothing had happened."""
    sim, other = make_sim(threads=threads), make_sim()
    initial = sim.joint_q.numpy().copy()
    sim.step(31)
    other.step(31)
    chosen = np.array([True, False, False, True, True])
    sim.reset(world_mask=as_mask(chosen))
    np.testing.assert_array_equal(sim.joint_q.numpy()[chosen], initial[chosen])
    assert sim.time == pytest.approx(31 * sim.dt)
    sim.step(20)
    other.step(20)
    np.testing.assert_array_equal(sim.joint_q.numpy()[~chosen], other.joint_q.numpy()[~chosen])
    other.reset()
    other.step(20)
    np.testing.assert_array_equal(sim.joint_q.numpy()[chosen], other.joint_q.numpy()[chosen])
    assert other.time == pytest.approx(20 * sim.dt)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_reset_to_given_coordinates_moves_the_bodies(precision):
    """Poses and twists follow Newton's forward kinematics of the given coordinates, in chosen worlds only."""
    sim = make_sim("pendulum", worlds=2, precision=precision)
    sim.step(1)
    q, v = np.array([[0.3, -0.4], [0.5, 0.6]]), np.array([1.0, -2.0])
    poses = sim.body_q.numpy().copy()
    sim.reset(world_mask=[False, True], joint_q=q, joint_qd=v)
    np.testing.assert_array_equal(sim.body_q.numpy()[0], poses[0])
    np.testing.assert_allclose(sim.joint_q.numpy()[1], q[1], rtol=1e-6)
    np.testing.assert_allclose(sim.joint_qd.numpy()[1], v, rtol=1e-6)
    # by hand: links of 0.5 m hang from (0, 0, 1.5), positive angles about y move them towards -x
    angles = np.cumsum(q[1])
    ends = np.cumsum([[-math.sin(a) * 0.5, -math.cos(a) * 0.5] for a in angles], axis=0) + [0.0, 1.5]
    middles = 0.5 * (np.vstack([[0.0, 1.5], ends[:1]]) + ends)
    np.testing.assert_allclose(sim.body_q.numpy()[1][:, [0, 2]], middles, atol=1e-6)
    np.testing.assert_allclose(sim.body_qd.numpy()[1][:, 4], np.cumsum(v), atol=1e-6)
    sim.step(1)  # the solver's own poses continue from there
    assert np.abs(sim.body_q.numpy()[1][:, [0, 2]] - middles).max() < 0.02


def test_update_bodies_follows_coordinates_set_through_the_view():
    """Coordinates written into the view move the bodies of chosen worlds."""
    sim = make_sim(worlds=2)
    sim.joint_q.numpy()[:, 2] = 5.0
    sim.update_bodies([True, False])
    assert sim.body_q.numpy()[0, 0, 2] == 5.0
    assert sim.body_q.numpy()[1, 0, 2] < 1.0
    sim.update_bodies()
    assert sim.body_q.numpy()[1, 0, 2] == 5.0


@pytest.mark.parametrize(
    "mask, error", [([True], ValueError), ([1, 0, 1, 0, 1], TypeError), (np.ones((5, 1), bool), ValueError)]
)
def test_world_mask_is_checked(mask, error):
    """A mask has one boolean per world."""
    with pytest.raises(error, match="world_mask"):
        make_sim().reset(world_mask=mask)


# Callbacks and control sequences.


def test_callbacks_come_between_steps():
    """Each is called at the multiples of its period, whatever the chunks, until it is removed."""
    sim = make_sim(worlds=1)
    seen = {2: [], 5: []}
    remove = sim.add_callback(lambda s: seen[2].append(s.step_count), every=2)
    sim.add_callback(lambda s: seen[5].append(round(s.time / s.dt)), every=5)
    sim.step(3)
    sim.step(8)
    remove()
    remove()
    sim.step(4)
    assert seen == {2: [2, 4, 6, 8, 10], 5: [5, 10, 15]}
    with pytest.raises(ValueError, match="every"):
        sim.add_callback(print, every=0)


def test_callback_may_steer():
    """What a callback writes acts from the next step on, with two threads too."""
    results = []
    for threads in (1, 2):
        sim = make_sim("pendulum", worlds=4, threads=threads)
        sim.add_callback(lambda s: s.joint_f.numpy().__setitem__((slice(None), 1), -s.joint_qd.numpy()[:, 1]), every=3)
        sim.step(60)
        results.append(sim.joint_q.numpy().copy())
    np.testing.assert_array_equal(*results)
    free = make_sim("pendulum", worlds=4)
    free.step(60)
    assert (results[0] != free.joint_q.numpy()).any()


def test_control_sequence_is_held_for_its_own_time():
    """It writes before the first step and then at its own pace."""
    times = []

    class Sequence:
        dt = 0.02

        def write(self, control, time):
            times.append(time)
            control.joint_target_pos.fill_(time)

    sim = make_sim(worlds=1, control_sequence=Sequence())
    sim.step(6)
    sim.step(4)
    np.testing.assert_allclose(times, [0.0, 0.02, 0.04])
    assert sim.joint_target_q.numpy()[0, 0] == pytest.approx(0.04)


def test_a_sample_begins_with_the_first_step_at_or_after_its_time():
    """Samples of 0.02 s and steps of 0.003 s: each step uses the sample of its own start time."""
    used = []

    class Sequence:
        dt = 0.02

        def write(self, control, time):
            control.joint_target_pos.fill_(math.floor(time / 0.02 + 1e-6))

    sim = make_sim(worlds=1, dt=0.003, control_sequence=Sequence())
    sim.add_callback(lambda s: used.append(int(s.joint_target_q.numpy()[0, 0])), every=1)
    sim.step(40)
    assert used == [math.floor(0.003 * k / 0.02 + 1e-6) for k in range(40)]


# Divergence.


@pytest.mark.parametrize("threads", [1, 2])
def test_a_diverged_world_is_contained_and_can_be_reset(threads):
    """It keeps its state and says so; the others go on as without it, and a reset brings it back."""
    sim, other = make_sim(threads=threads), make_sim()
    sim.step(10)
    other.step(10)
    before = sim.joint_q.world(3).copy()
    sim.joint_f.numpy()[3, 0] = np.nan
    sim.step(10)
    other.step(10)
    assert sim.diverged.tolist() == [False, False, False, True, False]
    assert sim.status[3] in (SolveStatus.DIVERGED, SolveStatus.FREE_MOTION_FAILED)
    np.testing.assert_array_equal(sim.joint_q.world(3), before)
    healthy = ~sim.diverged
    np.testing.assert_array_equal(sim.joint_q.numpy()[healthy], other.joint_q.numpy()[healthy])
    sim.joint_f.numpy()[:] = 0.0
    sim.reset(sim.diverged)
    sim.step(1)
    assert not sim.diverged.any()


# Threads.


@pytest.mark.parametrize("name, threads", [("cube", 3), ("humanoid", 2), ("spheres", 2)])
def test_threads_do_not_change_results(name, threads):
    """Worlds come out bitwise equal and in order, whatever thread they ran in."""
    one, several = make_sim(name), make_sim(name, threads=threads)
    one.step(101)
    several.step(60)
    several.step(41)
    assert_same_state(one, several)
    np.testing.assert_array_equal(one.status, several.status)
    np.testing.assert_array_equal(one.iterations, several.iterations)
    np.testing.assert_array_equal(one.contact_counts, several.contact_counts)
    assert one.statistics.iterations == several.statistics.iterations
    assert one.statistics.mean_contacts == several.statistics.mean_contacts > 0.0
    assert one.rigid_contact_max == several.rigid_contact_max


def test_a_callback_sees_all_worlds_at_the_same_step(reference):
    """However the worlds are shared out."""
    sim = make_sim(threads=2)
    steps = []
    sim.add_callback(lambda s: steps.append([shard.solver.frame_id for shard in s.shards]), every=40)
    sim.step(120)
    assert_same_state(sim, reference)
    assert steps == [[40] * 2, [80] * 2, [120] * 2]


@pytest.mark.parametrize("broad_phase", ["sap", "nxn", "explicit"])
def test_threads_do_not_change_results_of_other_broad_phases(broad_phase):
    """Pairs, filters and world starts of a share are those of the whole model."""
    options = {"pipeline_options": {"broad_phase": broad_phase}, "dt": 0.005}
    one, two = (Simulation(mixed_model((2, 3, 1)), threads=n, **options) for n in (1, 2))
    one.step(80)
    two.step(80)
    assert_same_state(one, two)
    assert one.statistics.mean_contacts == two.statistics.mean_contacts > 0.0


def test_shares_see_materials_of_the_whole_model_after_notification():
    """Friction changed in the whole model acts in every share."""
    sims = [make_sim(worlds=4, threads=n) for n in (1, 2)]
    for sim in sims:
        sim.reset(joint_q=[0.0, 0.0, 0.0999, 0.0, 0.0, 0.0, 1.0], joint_qd=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        sim.step(2)
        sim.model.shape_material_mu.fill_(0.0)
        sim.notify_model_changed()
        speed = sim.joint_qd.numpy()[:, 0].copy()
        sim.step(20)
        np.testing.assert_allclose(sim.joint_qd.numpy()[:, 0], speed, atol=1e-5)  # it slides freely
        assert (sim.contact_counts == 4).all()


def test_share_of_worlds_is_the_model_that_would_have_been_built():
    """Worlds 1 and 2 of four are equal to a model of two worlds, array by array."""
    four, _ = build_scene("humanoid", 4, "cpu")
    two, _ = build_scene("humanoid", 2, "cpu")
    part = WorldShare(four, 1, 3).model
    compared = 0
    for name, spec in two.attribute_specs.items():
        namespace, _, attribute = name.rpartition(":")
        if spec.deprecated or namespace == "mujoco":  # another solver's data
            continue
        expected = getattr(getattr(two, namespace) if namespace else two, attribute, None)
        found = getattr(getattr(part, namespace) if namespace else part, attribute, None)
        if isinstance(expected, wp.array) and isinstance(spec.frequency, newton.Model.AttributeFrequency):
            np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=name)
            compared += 1
    assert compared > 80
    assert part.shape_collision_filter_pairs == two.shape_collision_filter_pairs
    assert part.body_shapes == two.body_shapes
    assert part.shape_label == two.shape_label
    np.testing.assert_array_equal(part.shape_contact_pairs.numpy(), two.shape_contact_pairs.numpy())
    assert four.joint_armature.ptr < part.joint_armature.ptr < four.joint_armature.ptr + four.joint_armature.capacity


def test_threads_are_checked_and_can_be_closed():
    """More threads than worlds are an error; a closed simulation can be read but not stepped."""
    with pytest.raises(ThreadsError, match="only 5 worlds"):
        make_sim(threads=6)
    with pytest.raises(ValueError, match="threads is 0"):
        make_sim(threads=0)
    with make_sim(threads=2) as sim:
        sim.step(2)
        with pytest.raises(AttributeError, match=r"no single solver.*sim\.shards"):
            _ = sim.solver
    assert sim.joint_q.numpy().shape == (5, 7)
    sim.close()
    with pytest.raises(RuntimeError, match="closed"):
        sim.step()


def test_an_exception_in_a_thread_is_raised(monkeypatch):
    """It does not get lost, and the other threads are waited for."""
    sim = make_sim(threads=2)
    sim.prepare()

    def fail(steps):
        raise RuntimeError("replay failed")

    monkeypatch.setattr(sim.shards[1].run, "replay", fail)
    with pytest.raises(RuntimeError, match="replay failed"):
        sim.step()


COUPLED = """<mujoco><worldbody>
  <body name="a" pos="0 0 1"><joint name="j" type="hinge" axis="0 1 0"/><geom size="0.1" mass="1" pos="0.3 0 0"/></body>
  <body name="b" pos="0 1 1"><joint name="k" type="hinge" axis="0 1 0"/><geom size="0.1" mass="2" pos="0.2 0 0"/></body>
  <body name="c" pos="0 2 1"><freejoint/><geom size="0.1" mass="1"/></body></worldbody>
  <equality><joint joint1="j" joint2="k" polycoef="0 0.5 0 0 0"/><connect body1="c" anchor="0 0 0.2"/></equality>
  <actuator><motor joint="k" gear="2"/></actuator></mujoco>"""


def test_threads_cut_constraints_and_actuators_by_world():
    """Equality constraints, mimic constraints and motors of a world go to the thread that has the world."""
    world, builder = newton.ModelBuilder(), newton.ModelBuilder()
    world.add_mjcf(COUPLED)
    builder.replicate(world, WORLDS)
    model = builder.finalize("cpu")
    model.mujoco.ctrl.assign(np.linspace(-1.0, 1.0, WORLDS))
    one, two = (Simulation(model, dt=0.005, threads=threads, max_rigid_contact=8) for threads in (1, 2))
    one.step(60)
    two.step(60)
    assert_same_state(one, two)
    q = one.joint_q.numpy()
    assert np.ptp(q[:, 0]) > 0.01  # worlds differ by their motors
    np.testing.assert_allclose(q[:, 0], 0.5 * q[:, 1], atol=1e-3)


# Construction.


def test_from_scene_takes_the_scene_s_settings_unless_told():
    """Time step and capacity come from the scene; arguments win."""
    sim = Simulation.from_scene("cube", num_worlds=3, device="cpu")
    assert (sim.world_count, sim.dt, sim.max_rigid_contact, sim.rigid_contact_max) == (3, 0.005, 8, 24)
    assert repr(sim) == "<Simulation free_cube: 3 worlds of 6 dofs on cpu, 1 thread, dt 5 ms, at 0 s>"
    other = Simulation.from_scene(
        "cube", device="cpu", dt=0.002, max_rigid_contact=16, line_search_variant="exact_root"
    )
    assert (other.world_count, other.dt, other.rigid_contact_max) == (1, 0.002, 16)
    assert other.solver.options.line_search_variant == "exact_root"
    with pytest.raises(UnknownSceneError, match="Did you mean 'cube'"):
        Simulation.from_scene("cubes")


def test_from_loaded_takes_over_what_the_loader_returns():
    """State, control, time step, capacity and solver options of a loaded scene are taken over; arguments win."""
    _, scene = build_scene("cube", 2, "cpu")
    scene.sap_state.joint_q.assign(np.tile([0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0], 2))
    scene.sap_control.joint_f.fill_(0.5)
    scene.solver_options.update(contact_preset_variant="approx64", max_iterations=50)
    sim = Simulation.from_loaded(scene, max_iterations=60)
    assert (sim.name, sim.dt, sim.max_rigid_contact, sim.preset) == ("free_cube", 0.005, 8, "approx64")
    assert sim.solver.options.max_iterations == 60
    assert sim.joint_q.numpy()[1, 2] == 2.0
    assert (sim.joint_f.numpy() == 0.5).all()


def test_arguments_are_checked_at_construction():
    """Wrong values fail where they are given, not in the first step."""
    with pytest.raises(ValueError, match="dt is -1"):
        make_sim(dt=-1.0)
    with pytest.raises(TypeError, match="dt is"):
        make_sim(dt="fast")
    with pytest.raises(ValueError, match="precision"):
        make_sim(precision="fp16")
    with pytest.raises(TypeError, match="no_such_option"):
        make_sim(no_such_option=1)
    state = SapModel(build_scene("cube", WORLDS, "cpu")[0]).state()
    state.joint_qd_order = "sap"
    with pytest.raises(ValueError, match="sap order"):
        make_sim(state=state)


def test_memory_counts_every_array_once():
    """The bytes are those of all arrays that came into being, views not counted twice."""

    def alive():
        gc.collect()
        return [a for a in gc.get_objects() if type(a) is wp.array and a.ptr and a.capacity]

    before = {a.ptr for a in alive()}
    sim = Simulation.from_scene("cube", num_worlds=16, device="cpu")
    ranges = sorted((a.ptr, a.ptr + a.capacity) for a in alive() if a.ptr not in before)
    total = end = 0
    for first, last in ranges:
        total += max(0, last - max(first, end))
        end = max(end, last)
    assert sim.byte_count == pytest.approx(total, rel=0.02)
    assert sim.byte_count > 16 * (7 + 6) * 4


def test_profile_takes_the_same_steps():
    """Stages measured apart end in the state that whole steps end in, and every stage takes some time."""
    whole, apart = make_sim(), make_sim(threads=2)
    whole.step(40)
    stages = profile_stages(apart, 40)
    assert_same_state(whole, apart)
    assert apart.step_count == 40
    assert list(stages) == list(STAGES)
    assert all(value > 0.0 for value in stages.values())
    apart.step(5)
    whole.step(5)
    assert_same_state(whole, apart)


def test_simulation_is_a_public_name():
    """It is found where users look for it."""
    assert sap_warp.Simulation is Simulation


def test_statistics_show_themselves():
    """What a console prints has the numbers."""
    sim = make_sim(worlds=3)
    sim.step(4)
    assert re.search(r"12 world-steps.*Newton iterations.*not converged 0, failed 0", repr(sim.statistics))
