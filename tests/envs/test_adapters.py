"""Tasks in Stable-Baselines3, in rsl_rl and with torch: the same numbers as in Gymnasium."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch, which is not part of the extra dev")
pytest.importorskip("gymnasium", reason="the numbers are compared with Gymnasium's")

import torch

from sap_warp.envs import Runner, TaskVectorEnv
from tests.envs.test_gym import Short


def roll(actions, **options):
    """Observations, rewards and ends of Gymnasium's environment."""
    env = TaskVectorEnv(Short, actions.shape[1], **options)
    rows = [env.reset(seed=5)[0]]
    return rows, [env.step(action) for action in actions]


@pytest.fixture
def actions(rng):
    return rng.uniform(-1.0, 1.0, (30, 3, 1)).astype(np.float32)


def test_torch_arrays_hold_the_same_numbers(actions):
    """They share the memory of the simulation, and results do not depend on the library."""
    _, plain = roll(actions)
    env = TaskVectorEnv(Short, 3, arrays="torch")
    assert env.task.joint_q.data_ptr() == env.sim.joint_q.array.ptr
    env.reset(seed=5)
    for action, expected in zip(torch.from_numpy(actions), plain, strict=True):
        found = env.step(action)
        for mine, other in zip(found[:4], expected[:4], strict=True):
            assert torch.is_tensor(mine)
            np.testing.assert_allclose(mine.numpy(), other, rtol=1e-5, atol=1e-6)
        assert found[4].keys() == expected[4].keys()
        if found[4]:
            mask = found[4]["_final_obs"]
            final = np.stack(expected[4]["final_obs"][mask])
            np.testing.assert_allclose(found[4]["final_obs"].numpy()[mask], final, rtol=1e-5, atol=1e-6)


def test_stable_baselines(actions):
    """Same numbers, and what it wants to know about ends; its own checks of spaces pass."""
    pytest.importorskip("stable_baselines3", reason="not part of any extra")
    from sap_warp.envs import StableBaselinesVecEnv

    first, plain = roll(actions)
    env = StableBaselinesVecEnv(Short, 3)
    env.seed(5)
    np.testing.assert_array_equal(env.reset(), first[0])
    ends = 0
    for action, (seen, reward, terminated, truncated, infos) in zip(actions, plain, strict=True):
        found, found_reward, done, found_infos = env.step(action)
        np.testing.assert_array_equal(found, seen)
        np.testing.assert_array_equal(found_reward, reward)
        np.testing.assert_array_equal(done, terminated | truncated)
        for world in np.flatnonzero(done):
            ends += 1
            np.testing.assert_array_equal(found_infos[world]["terminal_observation"], infos["final_obs"][world])
            assert found_infos[world]["TimeLimit.truncated"] == truncated[world]
    assert ends
    with pytest.raises(ValueError, match="share one task"):
        env.set_attr("time_limit", 1.0, indices=[0])


def test_stable_baselines_learns_with_it():
    """One update of its PPO runs through."""
    sb3 = pytest.importorskip("stable_baselines3", reason="not part of any extra")
    from sap_warp.envs import StableBaselinesVecEnv

    agent = sb3.PPO(
        "MlpPolicy", StableBaselinesVecEnv(Short, 4), n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu"
    )
    agent.learn(128)
    assert agent.num_timesteps == 128 and len(agent.ep_info_buffer)


def test_rsl_rl(actions):
    """Same numbers as tensors, time outs told apart, and what is known of the episodes that ended."""
    pytest.importorskip("rsl_rl", reason="part of the extra rl, not of dev")
    from sap_warp.envs import RslRlVecEnv

    first, plain = roll(actions)
    own, given = RslRlVecEnv(Short, 3, seed=5), RslRlVecEnv.of(Runner(Short(3), seed=5))
    given.reset()
    for env in (own, given):  # with arrays of torch, and with the NumPy arrays of a runner that is there already
        np.testing.assert_allclose(env.get_observations()["policy"].numpy(), first[0], rtol=1e-6)
        for action, (seen, reward, terminated, truncated, infos) in zip(torch.from_numpy(actions), plain, strict=True):
            found, found_reward, done, extras = env.step(action)
            np.testing.assert_allclose(found["policy"].numpy(), seen, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found_reward.numpy(), reward, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(done.bool().numpy(), terminated | truncated)
            np.testing.assert_array_equal(extras["time_outs"].numpy(), truncated)
            assert ("ended" in extras) == ("log" in extras) == bool(infos)
            if infos:
                np.testing.assert_array_equal(extras["ended"].worlds, np.flatnonzero(infos["_final_obs"]))
        assert torch.is_tensor(env.episode_length_buf)
        env.episode_length_buf = torch.full((3,), 24)
        assert env.step(torch.zeros(3, 1))[2].all()  # it is the environment's own count
