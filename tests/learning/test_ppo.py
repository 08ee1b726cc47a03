"""PPO: what it computes, and that it learns."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PPO needs torch, which is not part of the extra dev")

from sap_warp.envs import Runner  # noqa: E402
from sap_warp.envs.training.ppo import PPO, Normalizer, PPOSettings  # noqa: E402
from sap_warp.envs.training.progress import Episodes  # noqa: E402
from sap_warp.envs.training.run_folder import read_checkpoint  # noqa: E402
from sap_warp.envs.training.training import Plan, Player, Training  # noqa: E402
from tests.learning.test_ars import Balance  # noqa: E402


def test_advantages_are_those_of_the_definition(rng):
    """Sums of discounted temporal differences up to the end of each episode, written out."""
    learner = PPO(Runner(Balance(3)), PPOSettings(discount=0.9, trace=0.8))
    steps, worlds = 6, 3
    reward, value = rng.normal(size=(2, steps, worlds)).astype(np.float32)
    done = rng.random((steps, worlds)) < 0.3
    last = rng.normal(size=worlds).astype(np.float32)
    data = {"reward": reward, "value": value, "done": done}
    found = learner._advantages(
        {name: torch.from_numpy(values) for name, values in data.items()}, torch.from_numpy(last)
    )
    following = np.vstack([value[1:], last])
    expected = np.zeros((steps, worlds))
    for world in range(worlds):
        for first in range(steps):
            factor = 1.0
            for step in range(first, steps):
                alive = 0.0 if done[step, world] else 1.0
                delta = reward[step, world] + 0.9 * alive * following[step, world] - value[step, world]
                expected[first, world] += factor * delta
                if not alive:
                    break
                factor *= 0.9 * 0.8
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_worlds_that_run_out_of_time_are_paid_for_what_they_could_have_earned():
    """The value of the last observation, discounted; a world that fell gets nothing more."""
    runner = Runner(Balance(2), seed=0)
    learner = PPO(runner, PPOSettings(rollout=1, discount=0.9))
    with torch.no_grad():
        learner.agent.value[-1].weight.zero_()
        learner.agent.value[-1].bias.fill_(5.0)
    learner.begin()
    runner.set_steps(np.array([runner.task.step_limit - 1, 0]))
    runner.task.joint_q[1, 1] = 2.0  # far from upright
    with torch.inference_mode():
        data = learner._collect(Episodes())
    cosine = np.cos(2.0)
    assert data["done"].all()
    np.testing.assert_allclose(data["reward"][0], [0.04 * 1.0 + 0.9 * 5.0, 0.02 * (1.0 + cosine)], atol=0.01)


def test_running_statistics_are_those_of_all_rows(rng):
    """In parts or at once."""
    rows = torch.from_numpy(rng.normal(2.0, 3.0, (60, 4)).astype(np.float32))
    normalizer = Normalizer(4)
    for part in rows.split(25):
        normalizer.learn(part)
    torch.testing.assert_close(normalizer.mean, rows.mean(0), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(normalizer.variance, rows.var(0, unbiased=False), rtol=1e-3, atol=1e-3)


def test_it_learns_to_balance(report):
    """The pole stays up for most of the time after some updates; it falls within a second before."""
    torch.set_num_threads(1)
    runner = Runner(Balance(64), seed=0)
    learner = PPO(runner, PPOSettings(hidden=(32, 32)), seed=0)
    first, last = Episodes(last=64), Episodes(last=64)
    learner.update(first)
    for _ in range(25):
        learner.update(last)
    report(before=first.means()["length"], after=last.means()["length"])
    assert first.means()["length"] < 40.0 and last.means()["length"] > 70.0


def test_a_seed_decides_and_checkpoints_hold_the_policy(tmp_path):
    """Equal to the last bit; a policy that is read again acts as the one that was written."""
    torch.set_num_threads(1)
    task = f"{Balance.__module__}:Balance"
    for name in ("a", "b"):
        plan = Plan(task, tmp_path / name, num_worlds=8, iterations=2, settings={"hidden": [16], "rollout": 8})
        training = Training(plan)
        training.run()
    first, second = (read_checkpoint(tmp_path / name)[1] for name in ("a", "b"))
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)
    player = Player(tmp_path / "a", 8)
    seen = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    np.testing.assert_array_equal(player.learner.policy(seen), training.learner.policy(seen))
