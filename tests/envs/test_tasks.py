"""The shipped tasks, and what their terms compute."""

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sap_warp.envs import Draws, Runner, find_task, shipped_tasks
from sap_warp.envs.draws import world_keys
from sap_warp.envs.rotations import down_in_body, product, rotate, rotate_inverse, up_axis
from sap_warp.scene.shipped.scene_files import find_scene_file


@pytest.fixture(scope="module")
def runners():
    """One runner for each task, made when it is needed."""
    found = {}

    def get(name):
        if name not in found:
            found[name] = Runner(find_task(name)(2), seed=0)
        return found[name]

    return get


@pytest.mark.parametrize("name", sorted(shipped_tasks()))
def test_a_shipped_task_runs(name, runners, rng):
    """Finite numbers; a start of its own for every world and episode; ends start the next episode."""
    runner = runners(name)
    first = runner.reset()
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, runner.reset())
    for _ in range(3):
        step = runner.step(rng.uniform(-1.0, 1.0, (2, runner.task.action_size)))
        assert np.isfinite(step.observation).all() and np.isfinite(step.reward).all()
        assert not step.terminated.any(), "an episode should not end at once"
    runner.set_steps(runner.task.step_limit - 1)
    step = runner.step(np.zeros((2, runner.task.action_size)))
    assert (step.truncated | step.terminated).all() and (runner.task.steps == 0).all()
    assert (step.ended.lengths == 4).all()  # steps that were set do not count
    assert set(step.ended.terms) == {*runner.task.weights, *runner.task.terms["metric"]}


def test_names_are_found_in_any_spelling():
    """And wrong ones are told what is near."""
    assert find_task("go2_walk") is find_task("sap_warp/Go2Walk-v0") is find_task("Go2Walk")
    with pytest.raises(ValueError, match="Did you mean PandaReach"):
        find_task("panda_reech")


@pytest.mark.parametrize("name", ["Go2Walk", "Go2WalkRough"])
def test_the_go2_knows_where_its_feet_are(name, runners):
    """When it stands they are on the ground, wherever the ground is; nothing else says how high it is there."""
    runner = runners(name)
    task = runner.task
    runner.reset()
    task.command[:] = 0.0
    task.derive()
    for _ in range(40):
        step = runner.step(np.zeros((2, 12)))
    assert not step.terminated.any()
    assert abs(task.foot_height).mean() < 0.008  # a foot may hang over a hollow
    task.command[:, 0] = 0.5
    heights = [task.foot_height.copy() for _ in range(25) if runner.step(np.zeros((2, 12)))]
    assert (np.max(heights, axis=0) > 0.02).all()  # a period of the trot lifts them all


def test_the_go2_is_paid_for_following_its_command(runners):
    """Most for the velocity that it has, in its own frame; less for any other."""
    task = runners("Go2Walk").task
    runners("Go2Walk").reset()
    task.joint_qd[:, :6] = [0.5, 0.2, 0.0, 0.0, 0.0, 0.3]
    task.derive()
    turn = Rotation.from_quat(task.joint_q[:, 3:7])
    own = turn.inv().apply([0.5, 0.2, 0.0])
    np.testing.assert_allclose(task.velocity, own, atol=1e-5)
    task.command[:] = np.column_stack([own[:, :2], [0.3, 0.3]])
    np.testing.assert_allclose(task.follow_velocity(), 1.0, atol=1e-5)
    np.testing.assert_allclose(task.follow_turning(), 1.0, atol=1e-5)
    task.command[:, 0] += 0.3
    np.testing.assert_allclose(task.velocity_error(), 0.3, atol=1e-5)
    assert (task.follow_velocity() < 0.5).all()


def test_a_scripted_hand_lifts_the_cube():
    """The recorded motion of the shipped scene earns what doing nothing does not."""
    control = json.loads(
        (find_scene_file("franka_pick_cube").parent.parent / "control/franka_pick_cube.json").read_text()
    )
    runner = Runner(type("Still", (find_task("PandaLiftCube"),), {"start": lambda self, worlds, draw: (None, None)})(2))
    task, target = runner.task, runner.task.sim.joint_target_q.numpy()
    every = round(task.control_dt / control["dt"])
    runner.reset()
    task.apply = lambda actions: None
    targets = control["joint_target_pos"][::every]
    for values in targets[: task.step_limit - 1]:
        target[0, :9] = values
        target[1, :9] = control["joint_q"]
        step = runner.step(np.zeros((2, 9)))
    assert step.ended is None
    assert task.cube_height()[0] > 0.2 and task.cube_height()[1] < 0.01
    assert runner._sums[:, 0] @ np.append(runner._weights, 0.0) > 3.0 * (
        runner._sums[:, 1] @ np.append(runner._weights, 0.0)
    )


def test_rotations_agree_with_scipy(rng):
    """For many random ones."""
    a, b = Rotation.random(20, random_state=1), Rotation.random(20, random_state=2)
    v = rng.normal(size=(20, 3))
    np.testing.assert_allclose(rotate(np, a.as_quat(), v), a.apply(v), atol=1e-12)
    np.testing.assert_allclose(rotate(np, a.as_quat(), v[0]), a.apply(v[0]), atol=1e-12)
    np.testing.assert_allclose(rotate_inverse(np, a.as_quat(), v), a.inv().apply(v), atol=1e-12)
    np.testing.assert_allclose(down_in_body(np, a.as_quat()), a.inv().apply([0.0, 0.0, -1.0]), atol=1e-12)
    np.testing.assert_allclose(up_axis(a.as_quat()), a.apply([0.0, 0.0, 1.0])[:, 2], atol=1e-12)
    both = Rotation.from_quat(product(np, a.as_quat(), b.as_quat()))
    np.testing.assert_allclose(both.apply(v), (a * b).apply(v), atol=1e-12)


def test_draws_are_even_and_independent():
    """Means, deviations and correlations of many worlds, episodes and draws, within four standard errors."""
    keys = world_keys(np.arange(2000), 7)
    draw = Draws(keys)
    other = Draws(world_keys(np.arange(2000), 8)).uniform(-1.0, 1.0)
    values = np.column_stack([draw.uniform(-1.0, 1.0, 3), draw.uniform(-1.0, 1.0), other])
    error = 4.0 / np.sqrt(2000.0)
    assert (abs(values.mean(axis=0)) < error * 3**-0.5).all() and values.min() >= -1.0 and values.max() < 1.0
    correlation = np.corrcoef(values.T)
    assert (abs(correlation - np.eye(5)) < error).all()
    assert abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]) < error  # neighbouring seeds
    normal = draw.normal(2.0, 3.0, 2)
    np.testing.assert_allclose(normal.mean(axis=0), 2.0, atol=3.0 * error)
    np.testing.assert_allclose(normal.std(axis=0), 3.0, rtol=error)
    assert set(draw.integers(2, 5)) == {2, 3, 4}


def test_noise_is_seen_but_not_in_quiet_environments():
    """Within the bounds that the term names, and other noise at every step."""
    noisy, quiet = (Runner(find_task("Go2Walk")(2), seed=0, quiet=quiet) for quiet in (False, True))
    difference = noisy.reset() - quiet.reset()
    columns = {"velocity": slice(0, 3), "command": slice(9, 12)}
    assert 0.0 < abs(difference[:, columns["velocity"]]).max() <= 0.05
    assert not difference[:, columns["command"]].any()
    assert len(np.unique(difference[:, columns["velocity"]])) == 6
