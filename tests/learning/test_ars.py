"""Random search learns to balance, and the opposite when it is paid for the opposite."""

import numpy as np
import pytest

from sap_warp.envs import Runner, reward, termination
from sap_warp.envs.tasks.cartpole import CartPoleSwingUp
from sap_warp.envs.training.ars import ARS, ARSSettings
from sap_warp.envs.training.progress import Episodes


class Balance(CartPoleSwingUp):
    """The pole stands nearly upright at first."""

    time_limit = 4.0
    away_from_the_middle = balanced = None

    @reward(0.5)
    def upright(self):
        return 1.0 + self.cosine

    @termination
    def fallen(self):
        return (self.cosine < 0.8) | (abs(self.joint_q[:, 0]) > 1.5)

    def start(self, worlds, draw):
        values = draw.uniform(-0.1, 0.1, 4)
        return values[:, :2], values[:, 2:]


def learn(sign, updates=14):
    """Mean length of episodes [steps of 100] of the policy before and after learning."""
    runner = Runner(Balance(64, weights={"upright": 0.5 * sign}), seed=1)
    learner = ARS(runner, ARSSettings(rate=0.3, noise=0.3), seed=1)
    assert runner.task.step_limit == 100

    def try_out():
        episodes = Episodes()
        learner._try(np.repeat(learner.weights[None], 64, axis=0), episodes)
        return episodes.means()["length"]

    before = try_out()
    for _ in range(updates):
        learner.update(Episodes())
    return before, try_out()


def test_it_learns_to_balance_and_the_sign_of_the_reward_decides(report):
    """Of two learners that differ in the sign of the reward alone, one keeps the pole up and the other lets it fall."""
    before, after = learn(+1.0)
    _, flipped = learn(-1.0)
    report(before=before, after=after, flipped=flipped)
    assert before < 40.0 and flipped < 40.0  # a pole that nobody holds falls within a second
    assert after > 90.0


def test_one_world_is_enough_to_play():
    """As a film does with a policy that was learned."""
    runner = Runner(Balance(1))
    assert ARS(runner).policy(runner.reset()).shape == (1, 1)


def test_directions_need_pairs_of_worlds():
    """And the message says which numbers would do."""
    runner = Runner(Balance(6))
    with pytest.raises(ValueError, match="no multiple of 4"):
        ARS(runner, ARSSettings(repeats=2)).begin()


def test_the_policy_is_linear_in_normalized_observations(rng):
    """Statistics are those of NumPy over all that was seen."""
    learner = ARS(Runner(Balance(2)))
    seen = rng.normal(3.0, 2.0, (50, 5)).astype(np.float32)
    learner._learn_scale(seen[:20])
    learner._learn_scale(seen[20:])
    learner.weights = rng.normal(size=(1, 6)).astype(np.float32)
    normal = (seen - seen.mean(axis=0)) / seen.std(axis=0)
    expected = normal @ learner.weights[0, :5] + learner.weights[0, 5]
    np.testing.assert_allclose(learner.policy(seen)[:, 0], expected, rtol=1e-4, atol=1e-4)
