"""Trainings as a whole: commands, checkpoints, resuming, interruptions and determinism."""

import csv
import os
import signal
import sys

import numpy as np
import pytest

from sap_warp.cli import main
from sap_warp.envs.training.progress import write_atomically
from sap_warp.envs.training.run_folder import CheckpointError, read_checkpoint
from sap_warp.envs.training.training import Plan, Player, Training

TASK = f"{os.path.dirname(__file__)}/test_ars.py:Balance"
ARS = ["--algorithm", "ars", "--num-worlds", "8", "--device", "cpu", "--no-video"]


def plan(folder, **changes):
    given = {"task": TASK, "folder": folder, "algorithm": "ars", "num_worlds": 8, "iterations": 2} | changes
    return Plan(**given)


def rows_of(folder):
    with open(folder / "progress.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def without_times(rows):
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in rows]


def test_train_and_play(tmp_path, capsys, monkeypatch):
    """Table, curves and checkpoint are there; a policy of the newest training is played; resuming goes on."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", TASK, *ARS, "--iterations", "2", "--seed", "3"]) == 0
    folder = tmp_path / "runs" / "Balance-ars-3"
    rows = rows_of(folder)
    assert [row["iteration"] for row in rows] == ["1", "2"] and "standing" in rows[0]
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert "of processor time" in capsys.readouterr().out
    assert main(["train", TASK, *ARS, "--seed", "3"]) == 2
    assert "resume it" in capsys.readouterr().err
    assert main(["train", TASK, *ARS, "--iterations", "3", "--seed", "3", "--resume"]) == 0
    assert [row["iteration"] for row in rows_of(folder)] == ["1", "2", "3"]
    assert float(rows_of(folder)[2]["steps"]) > float(rows[1]["steps"])
    capsys.readouterr()
    assert main(["play", TASK, "--num-worlds", "2", "--device", "cpu", "--duration", "1"]) == 0
    assert "Balance-ars-3" in capsys.readouterr().out
    assert main(["play", "CartPoleSwingUp"]) == 2
    assert "sap-warp train CartPoleSwingUp" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["train", "CartPolSwingUp"], "Did you mean CartPoleSwingUp?"),
        (["train", "nowhere.py:Task"], "no file nowhere.py"),
        (["train", "CartPoleSwingUp", "--algorithm", "ars", "--set", "rate"], "NAME=VALUE"),
        (["train", "CartPoleSwingUp", "--algorithm", "ars", "--set", "speed=1"], "no setting speed"),
        (["train", "CartPoleSwingUp", "--algorithm", "ars", "--num-worlds", "3"], "no multiple of 2"),
        (["play", "CartPoleSwingUp", "--checkpoint", "nowhere"], "no checkpoint nowhere"),
    ],
)
def test_wrong_requests_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    """With exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_without_rsl_rl_ppo_says_what_to_install_and_random_search_works(tmp_path, capsys, monkeypatch):
    """In one line, before anything is built; nothing of rsl_rl or torch is touched by the search."""
    monkeypatch.delitem(sys.modules, "sap_warp.envs.training.ppo", raising=False)
    for name in ("torch", "rsl_rl", "rsl_rl.algorithms"):
        monkeypatch.setitem(sys.modules, name, None)
    order = ["train", TASK, "--device", "cpu", "--no-video", "--output", str(tmp_path / "run"), "--num-worlds", "8"]
    assert main(order) == 2
    printed = capsys.readouterr()
    assert "pip install 'sap-warp[rl]'" in printed.err and "--algorithm ars" in printed.err
    assert printed.err.count("\n") == 1 and not printed.out and not (tmp_path / "run").exists()
    assert main([*order, "--algorithm", "ars", "--iterations", "1"]) == 0


def test_a_seed_decides_what_is_learned(tmp_path):
    """Two trainings are equal to the last bit, another seed is not; resuming goes on where the numbers were."""
    found = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        Training(plan(tmp_path / name, seed=seed)).run()
        found[name] = without_times(rows_of(tmp_path / name)), read_checkpoint(tmp_path / name)[1]
    assert found["a"][0] == found["b"][0] != found["c"][0]
    for name, values in found["a"][1].items():
        np.testing.assert_array_equal(values, found["b"][1][name])
    Training(plan(tmp_path / "d", seed=1, iterations=1)).run()
    Training(plan(tmp_path / "d", seed=1, resume=True)).run()
    np.testing.assert_array_equal(read_checkpoint(tmp_path / "d")[1]["weights"], found["a"][1]["weights"])


def test_ctrl_c_ends_with_a_checkpoint(tmp_path):
    """The update that is being made is finished, and the policy can be played."""
    training, before = Training(plan(tmp_path, iterations=1000)), signal.getsignal(signal.SIGINT)
    outcome = training.run(lambda iteration, row: iteration == 2 and os.kill(os.getpid(), signal.SIGINT))
    assert outcome.interrupted and outcome.iterations == 2
    assert len(rows_of(tmp_path)) == 2
    assert Player(tmp_path, 2).play(0.2).episodes == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_checkpoints_of_others_are_refused(tmp_path):
    """Other task, other algorithm, broken file; nothing is executed on reading."""
    Training(plan(tmp_path, iterations=1)).run()
    with pytest.raises(CheckpointError, match="task"):
        Training(plan(tmp_path, task="CartPoleSwingUp", resume=True))
    with pytest.raises(CheckpointError, match="not for"):
        Player(tmp_path, 1, task="CartPoleSwingUp")
    file = tmp_path / "checkpoint.npz"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        read_checkpoint(tmp_path)


def test_files_are_whole_or_not_there(tmp_path, monkeypatch):
    """A crash while writing leaves the old file."""
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
