"""PPO by rsl_rl: what reaches it, what it is given, that it learns, and that a seed decides."""

import os

import numpy as np
import pytest

pytest.importorskip("torch", reason="PPO needs torch, which is not part of the extra dev")
pytest.importorskip("rsl_rl", reason="PPO needs rsl_rl, which is not part of the extra dev")

import torch

from sap_warp.cli import main
from sap_warp.envs import Runner
from sap_warp.envs.training.ppo import PPO, PPOSettings
from sap_warp.envs.training.progress import Episodes, History
from sap_warp.envs.training.run_folder import read_checkpoint, write_checkpoint
from sap_warp.envs.training.training import Plan, Player, Training
from tests.learning.test_ars import Balance
from tests.learning.test_training import TASK, rows_of, without_times

SMALL = {"hidden": [16], "rollout": 8}


@pytest.fixture(autouse=True)
def _one_thread():
    """Of torch, as the command asks for; the number of threads decides the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plan(folder, **changes):
    given = {"task": TASK, "folder": folder, "num_worlds": 8, "iterations": 2, "settings": SMALL} | changes
    return Plan(**given)


def small(**settings):
    return PPOSettings(hidden=(16,), rollout=8, **settings)


def test_settings_reach_rsl_rl():
    """Each decides the attribute of rsl_rl that means it."""
    settings = PPOSettings(7, (6, 5), 3, 2, 2e-3, 0.03, 0.91, 0.92, 0.13, 0.014, 0.6, 1.7)
    alg = PPO(Runner(Balance(4)), settings)._trainer.alg
    names = ("num_learning_epochs", "num_mini_batches", "learning_rate", "desired_kl", "gamma", "lam", "clip_param")
    found = [getattr(alg, name) for name in (*names, "entropy_coef", "max_grad_norm", "schedule")]
    assert found == [3, 2, 2e-3, 0.03, 0.91, 0.92, 0.13, 0.014, 1.7, "adaptive"]
    assert alg.storage.num_transitions_per_env == 7
    for network, outputs in ((alg.actor, 1), (alg.critic, 1)):
        assert [tuple(network.mlp[i].weight.shape) for i in (0, 2, 4)] == [(6, 5), (5, 6), (outputs, 5)]
    torch.testing.assert_close(alg.actor.distribution.log_std_param.exp(), torch.tensor([0.6]))
    assert PPO(Runner(Balance(4)), PPOSettings(target_kl=0.0))._trainer.alg.schedule == "fixed"


def test_worlds_that_run_out_of_time_are_paid_for_what_they_could_have_earned():
    """The value of what follows, discounted; a world that fell gets nothing more."""
    runner = Runner(Balance(2), seed=0)
    learner = PPO(runner, PPOSettings(rollout=1, epochs=1, batches=1, discount=0.9))
    alg = learner._trainer.alg
    with torch.no_grad():
        alg.critic.mlp[-1].weight.zero_()
        alg.critic.mlp[-1].bias.fill_(5.0)
    learner.begin()
    runner.set_steps(np.array([runner.task.step_limit - 1, 0]))
    runner.task.joint_q[1, 1] = 2.0  # far from upright
    episodes = Episodes()
    learner.update(episodes)
    assert alg.storage.dones.all() and episodes.count == 2
    paid = alg.storage.rewards.numpy()[0, :, 0]
    np.testing.assert_allclose(paid, [0.04 * 1.0 + 0.9 * 5.0, 0.02 * (1.0 + np.cos(2.0))], atol=0.01)


def test_it_learns_to_balance(report):
    """The pole stays up for most of the time after some updates; it falls within a second before."""
    learner = PPO(Runner(Balance(64), seed=0), PPOSettings(hidden=(32, 32)), seed=0)
    first, last = Episodes(last=64), Episodes(last=64)
    learner.update(first)
    for _ in range(25):
        row = learner.update(last)
    report(before=first.means()["length"], after=last.means()["length"])
    assert first.means()["length"] < 40.0 and last.means()["length"] > 70.0
    assert {"value_loss", "surrogate_loss", "entropy", "rate", "deviation"} == row.keys()
    assert np.isfinite(list(row.values())).all()


def test_torch_arrays_learn_what_numpy_arrays_do():
    """Worlds on a GPU have torch's; the numbers do not depend on the library."""
    learners = [PPO(Runner(Balance(8, arrays=name), seed=1), small(), seed=1) for name in ("numpy", "torch")]
    plain, tensors = ([learner.update(Episodes()) for _ in range(2)][-1] for learner in learners)
    assert plain == pytest.approx(tensors, rel=1e-3, abs=1e-4)
    seen = np.linspace(-1.0, 1.0, 40, dtype=np.float32).reshape(8, 5)
    found = learners[1].policy(torch.from_numpy(seen))
    assert torch.is_tensor(found)
    np.testing.assert_allclose(found.numpy(), learners[0].policy(seen), rtol=1e-3, atol=1e-4)


def test_a_seed_decides_and_checkpoints_hold_the_policy(tmp_path):
    """Equal to the last bit, whatever others draw; a policy that is read again acts as the one that was written."""
    trainings = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.manual_seed(len(trainings))  # random numbers of somebody else
        others = torch.get_rng_state()
        trainings.append(Training(plan(tmp_path / name, seed=seed)))
        trainings[-1].run()
        assert torch.equal(torch.get_rng_state(), others)
    first, second, third = (read_checkpoint(tmp_path / name)[1] for name in "abc")
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)
    assert (first["actor/mlp.0.weight"] != third["actor/mlp.0.weight"]).any()
    assert without_times(rows_of(tmp_path / "a")) == without_times(rows_of(tmp_path / "b"))
    player = Player(tmp_path / "a", 8)
    seen = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    np.testing.assert_array_equal(player.learner.policy(seen), trainings[0].learner.policy(seen))


def test_a_checkpoint_holds_all_that_decides_how_it_goes_on():
    """Networks, statistics of observations, moments and step size of the optimizer, random numbers."""
    runner = Runner(Balance(8), seed=0)
    learner, other = PPO(runner, small(), seed=0), PPO(Runner(Balance(8)), small(), seed=1)
    learner.update(Episodes())
    state = {name: np.array(value) for name, value in learner.state().items()}
    other.load(state)
    again = other.state()
    assert again.keys() == state.keys()
    assert {name.partition("/")[0] for name in state} == {"actor", "critic", "optimizer", "random", "rate"}
    for name, values in state.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)
    with pytest.raises(ValueError, match="another network"):
        PPO(runner, PPOSettings(hidden=(8,))).load(state)


def test_train_resume_and_play(tmp_path, capsys):
    """The commands: rsl_rl prints nothing of its own and writes no files; resuming goes on with the settings."""
    order = ["train", TASK, "--num-worlds", "8", "--device", "cpu", "--no-video", "--output", str(tmp_path / "run")]
    order += ["--set", "hidden=[16]", "--set", "rollout=40"]
    assert main([*order, "--iterations", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[2:4]] == ["iteration 1 of 2", "iteration 2 of 2"]
    files = ["checkpoint.npz", "curves.png", "progress.csv"]
    assert sorted(os.listdir(tmp_path / "run")) == files
    assert main([*order, "--iterations", "3", "--resume"]) == 0
    rows = rows_of(tmp_path / "run")
    assert [row["steps"] for row in rows] == ["320", "640", "960"] and "standing" in rows[-1]
    capsys.readouterr()
    played = ["play", TASK, "--checkpoint", str(tmp_path / "run"), "--num-worlds", "2", "--device", "cpu"]
    assert main([*played, "--duration", "4"]) == 0
    assert "ppo, 960 environment steps" in capsys.readouterr().out


def test_policies_of_another_ppo_are_refused(tmp_path, capsys):
    """A checkpoint without rsl_rl's networks is not guessed at; the message says what to do."""
    about = {"task": TASK, "algorithm": "ppo", "seed": 0, "num_worlds": 8, "settings": SMALL, "episodes": [0] * 8}
    write_checkpoint(tmp_path, about | {"steps": 0.0}, {"agent/policy.0.weight": np.zeros((16, 5))}, History())
    assert main(["play", TASK, "--checkpoint", str(tmp_path), "--num-worlds", "2", "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert "train it again" in error and error.count("\n") == 1
    with pytest.raises(ValueError, match="train it again"):
        Training(plan(tmp_path, resume=True))
