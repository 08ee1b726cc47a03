"""A world that was reset is a new one, to the bit, and the others do not notice."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SapModel, Simulation
from tests.support.simulations import STATE_ARRAYS, WORLDS, make_sim, new_builder

try:
    import torch
except ImportError:  # what is given as a tensor is an array then
    torch = None
tensor = torch.tensor if torch else np.array

OUTCOME = ("status", "iterations", "contact_counts")


def values(sim):
    """Copies of the state and of what is known of the last step."""
    found = {name: getattr(sim, name).flat().copy() for name in STATE_ARRAYS}
    return found | {name: getattr(sim, name).copy() for name in OUTCOME}


def assert_equal(one, other, **message):
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=f"{name} {message}")


@pytest.mark.parametrize("name, precision", [("humanoid", "fp32"), ("humanoid", "fp64"), ("unitree_g1", "fp32")])
def test_the_second_episode_is_the_first_one(name, precision):
    """At its beginning and after steps, for the scene as it is shipped."""
    sim = Simulation.from_scene(name, num_worlds=2, device="cpu", precision=precision)
    episodes = []
    for _ in range(2):
        start = values(sim)
        sim.step(40)
        episodes.append((start, values(sim)))
        sim.reset()
    for moment, (first, second) in enumerate(zip(*episodes, strict=True)):
        assert_equal(first, second, moment=moment)


@pytest.mark.parametrize("threads", [1, 2])
def test_reset_worlds_are_new_and_others_go_on(threads):
    """Chosen worlds have state and outcome of new ones, also if put to coordinates of one's own; others no bit less."""
    sim, fresh, other = make_sim("humanoid", threads=threads), make_sim("humanoid"), make_sim("humanoid")
    sim.step(30)
    other.step(30)
    chosen = np.array([False, True, False, True, False])
    q = fresh.joint_q.numpy().copy()
    sim.reset(chosen)
    start = values(sim)
    new, old = values(fresh), values(other)
    for name in start:
        rows = start[name].reshape(WORLDS, -1)
        np.testing.assert_array_equal(rows[chosen], new[name].reshape(WORLDS, -1)[chosen], err_msg=name)
        np.testing.assert_array_equal(rows[~chosen], old[name].reshape(WORLDS, -1)[~chosen], err_msg=name)
    sim.reset(chosen, joint_q=q, joint_qd=np.full(27, np.nan))
    sim.reset(chosen, joint_q=q)
    sim.step(30)
    other.step(30)
    for name in STATE_ARRAYS:
        after, expected = (getattr(s, name).numpy()[~chosen] for s in (sim, other))
        np.testing.assert_array_equal(after, expected, err_msg=name)


@pytest.mark.parametrize("threads", [1, 2])
def test_update_bodies_of_worlds_that_were_not_touched_changes_no_bit(threads):
    """Bodies that follow their joints already stay where they are, and so does all that comes after."""
    sim, other = make_sim("humanoid", threads=threads), make_sim("humanoid")
    sim.step(30)
    other.step(30)
    before = values(sim)
    sim.update_bodies()
    assert_equal(before, values(sim))
    sim.step(60)
    other.step(60)
    assert_equal(values(sim), values(other))


ACTUATED = """<mujoco><worldbody>
  <body pos="0 0 1"><joint name="j" type="hinge" axis="0 1 0"/><geom size="0.1" mass="1" pos="0.3 0 0"/></body>
  <body pos="0 1 1"><freejoint/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor joint="j" gear="2"/></actuator></mujoco>"""


@pytest.mark.parametrize("threads", [1, 2])
def test_reset_heals_every_input(threads):
    """Entries that are not finite return to the model's; finite ones, and those of other worlds, are the user's."""
    world, builder = newton.ModelBuilder(), newton.ModelBuilder()
    world.add_mjcf(ACTUATED)
    builder.replicate(world, 4)
    model = builder.finalize("cpu")
    model.joint_target_q.fill_(0.25)
    sim = Simulation(model, dt=0.005, threads=threads, max_rigid_contact=8)
    inputs = [sim.joint_f, sim.joint_target_q, sim.joint_target_qd, sim.joint_act, sim.body_f]
    for view in inputs:
        view.numpy()[:] = 0.5
        view.numpy()[2].flat[0] = np.nan
        view.numpy()[2].flat[1] = np.inf
    ctrl = model.mujoco.ctrl.numpy()
    ctrl[:] = [0.1, 0.2, np.nan, 0.4]
    with pytest.warns(RuntimeWarning, match="in world 2"):
        sim.step(2)
    sim.reset(sim.diverged)
    np.testing.assert_array_equal(ctrl, np.float32([0.1, 0.2, 0.0, 0.4]))
    for view in inputs:
        rows = view.numpy().reshape(4, -1)
        if view is sim.body_f:  # wrenches end with the episode
            assert not rows[2].any()
        else:
            np.testing.assert_array_equal(rows[2, :2], 0.25 if view is sim.joint_target_q else 0.0)
            np.testing.assert_array_equal(rows[2, 2:], 0.5)
        np.testing.assert_array_equal(rows[[0, 1, 3]], 0.5)
    sim.step(5)
    assert not sim.diverged.any()


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize("given", [False, True])
def test_bodies_are_placed_before_the_first_step(precision, given):
    """A box one metre up its rail, whose builder did no forward kinematics, does not touch the ground below."""
    one, scene = new_builder(), new_builder()
    link = one.add_link(mass=1.0, inertia=wp.mat33(np.eye(3)))
    one.add_shape_box(link, hx=0.1, hy=0.1, hz=0.1)
    one.add_articulation([one.add_joint_prismatic(-1, link, axis=(0.0, 0.0, 1.0))])
    scene.replicate(one, 2)
    scene.add_ground_plane()
    model = scene.finalize(device="cpu")
    model.joint_q.fill_(1.0)
    assert not model.body_q.numpy()[:, 2].any()
    state = None
    if given:
        state = SapModel(model).state()
        state.joint_q.fill_(2.0)
    sim = Simulation(model, dt=0.005, precision=precision, state=state)
    height = 2.0 if given else 1.0
    np.testing.assert_array_equal(sim.body_q.numpy()[:, 0, 2], height)
    sim.step()
    assert sim.contact_counts.tolist() == [0, 0] and sim.statistics.mean_contacts == 0.0
    np.testing.assert_allclose(sim.joint_qd.flat(), -9.81 * 0.005, rtol=1e-5)
    sim.reset()
    np.testing.assert_array_equal(sim.body_q.numpy()[:, 0, 2], 1.0)


def test_bodies_that_are_in_place_are_left_alone(rng):
    """To the bit: rounding is no reason to place them anew, nor is the sign of a rotation."""
    sim = make_sim("humanoid", 2)
    poses = sim.model.body_q.numpy()
    poses[:, 3:] *= -1.0
    poses[:, :3] += rng.uniform(-1e-6, 1e-6, poses[:, :3].shape)
    sim.model.body_q.assign(poses)
    again = Simulation(sim.model, dt=0.005)
    np.testing.assert_array_equal(again.body_q.flat(), poses)


@pytest.mark.parametrize("threads", [1, 2])
def test_replayed_resets_are_launched_ones(threads, rng):
    """From the second time on a graph is replayed: the bits of a new simulation, from any kind of array."""
    sim, other = make_sim("humanoid", threads=threads), make_sim("humanoid")
    q = sim.joint_q.numpy() + rng.uniform(-0.01, 0.01, (WORLDS, 28)).astype(np.float32)
    qd = rng.uniform(-1, 1, (WORLDS, 27))  # fp64, which is rounded
    mask = np.array([True, False, True, False, True])
    q[~mask] = np.nan  # rows that nobody reads
    given = [
        (mask, q, qd),
        (mask.tolist(), q.ravel(), qd.tolist()),
        (tensor(mask), tensor(q), tensor(qd)),
        (wp.array(mask, dtype=wp.bool, device="cpu"), wp.array(q, device="cpu"), wp.array(qd, device="cpu")),
    ]
    other.reset(mask, joint_q=q, joint_qd=qd)
    expected = values(other)
    np.testing.assert_array_equal(other.joint_q.numpy()[mask], q[mask])
    np.testing.assert_array_equal(other.joint_qd.numpy()[mask], qd[mask].astype(np.float32))
    for arguments in given:
        sim.step(3)
        sim.reset(~mask)
        sim.reset(arguments[0], joint_q=arguments[1], joint_qd=arguments[2])
        assert_equal(expected, values(sim))
    assert len(sim._resets._graphs) == 2
    sim.reset(mask)  # without coordinates again
    np.testing.assert_array_equal(sim.joint_q.flat(), sim.model.joint_q.numpy())


def test_graphs_of_resets_follow_the_model():
    """The initial state is read afresh, also from an array that was replaced."""
    sim = make_sim("cube", 2)
    for _ in range(3):
        sim.reset([True, True])
    start = sim.model.joint_q.numpy()
    start[2] = 3.0
    sim.reset([True, False])
    assert sim.joint_q[0, 2] == 3.0
    sim.model.joint_q = wp.clone(sim.model.joint_q)
    sim.model.joint_q.fill_(0.5)
    sim.notify_model_changed()
    sim.reset([False, True])
    np.testing.assert_array_equal(sim.joint_q[1], 0.5)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_bodies_follow_what_is_assigned(precision):
    """Through the view; what is written into NumPy's arrays they follow after `update_bodies`."""
    sim = make_sim("humanoid", 3, precision=precision)
    feet = sim.body_q["right_foot"].numpy()
    before = feet.copy()
    sim.joint_q[1, "right_knee"] = -1.0
    moved = np.abs(feet - before).max(axis=1) > 0.1
    assert moved.tolist() == [False, True, False]
    sim.joint_qd[2, "right_knee"] = 2.0
    assert sim.body_qd[2, "right_foot"].numpy()[3:].any() and not sim.body_qd[0].numpy().any()
    reference = make_sim("humanoid", 3, precision=precision)
    reference.joint_q.numpy()[1, reference.find_coords("right_knee").indices] = -1.0
    reference.joint_qd.numpy()[2, reference.find_dofs("right_knee").indices] = 2.0
    reference.update_bodies([False, True, True])
    assert_equal(values(reference), values(sim))


@pytest.mark.parametrize(
    "arguments, kind, text",
    [
        (([True],), ValueError, r"world_mask has shape \(1,\); expected \(2,\)"),
        (([1, 0],), TypeError, "booleans"),
        ((tensor([1, 0]),), TypeError, "booleans"),
        (([True, False], np.zeros(3)), ValueError, r"joint_q takes .* got \(3,\)"),
        (([True, False], None, tensor([[0.0] * 7] * 2)), ValueError, r"joint_qd takes .* got \(2, 7\)"),
        (([True, False], "home"), TypeError, "joint_q takes an array of numbers"),
    ],
)
def test_wrong_masks_and_coordinates_are_told(arguments, kind, text):
    """And nothing has been reset."""
    sim = make_sim("cube", 2)
    sim.joint_q.numpy()[:] += 1.0
    before = sim.joint_q.numpy().copy()
    with pytest.raises(kind, match=text):
        sim.reset(*arguments)
    np.testing.assert_array_equal(sim.joint_q.numpy(), before)
