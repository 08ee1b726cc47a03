"""Sweeps on threads: right, the same however they are run, and not to be lost."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pyarrow.dataset
import pytest

from sap_warp import SapSceneError, Simulation, SweepError, SweepResult, cli, sweep
from sap_warp.scale.sweeps import run_point
from sap_warp.scale.sweeps.results.dataset import RUN_COLUMNS, Dataset, Writer
from sap_warp.scale.sweeps.running import execute
from tests.sweeps.scene import BOX_MU, DT, PULL, SCENE, TAU

MU = "0.2:1.0:3"
SECONDS = 0.4
VARY = {"materials.ground.mu": MU, "dt": [DT, 0.0025], "gravity.x": [PULL]}
OPTIONS = {"seconds": SECONDS, "every": 1, "record": "body_q:box.x"}


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """Six slides on two threads."""
    return sweep(SCENE, VARY, tmp_path_factory.mktemp("sweep") / "slides", workers=2, **OPTIONS)


def same(one, other):
    return one.table(run_columns=False).equals(other.table(run_columns=False))


def test_boxes_slide_as_friction_lets_them(slides):
    """From rest by (pull - mu g) t^2 / 2, and half a step's way more: a step counts with the velocity at its end.

    A contact of this formulation rises while it speeds up, by mu v (h + tau), which takes mu^2 (pull - mu g) (h + tau)
    off the velocity.
    """
    assert len(slides) == slides.point_count == 6 and not slides.failures
    ground, dt = slides["materials.ground.mu"], slides["dt"]
    mu = 2.0 * BOX_MU * ground / (BOX_MU + ground)
    rate = PULL - 9.81 * mu
    way = rate * SECONDS * (0.5 * (SECONDS + dt) - mu**2 * (dt + 2.0 * TAU))
    np.testing.assert_allclose(slides["slip"], way, rtol=0.02)
    rows = slides.table().to_pylist()
    np.testing.assert_allclose([row["body_q:box.x"][-1] for row in rows], slides["slip"], rtol=0.02)
    assert all(row["success"] and row["ended"] == "time" for row in rows)
    np.testing.assert_allclose([row["end_time"] for row in rows], SECONDS)
    assert [len(row["time"]) for row in rows] == [80, 160] * 3


def test_batches_change_nothing(slides, tmp_path):
    """Six worlds of two models, or six models on two devices: the same bits. So is a point that is run again alone."""
    singles = sweep(SCENE, VARY, tmp_path / "singles", workers=2, devices=("cpu", "cpu"), batch=1, **OPTIONS)
    assert same(slides, singles)
    row = run_point(slides.folder, 4)
    assert {k: v for k, v in row.items() if k not in RUN_COLUMNS} == slides.table(False).to_pylist()[4]


def test_a_row_is_what_a_simulation_of_it_gives(slides):
    """Put together by hand from the inputs of a row."""
    row = slides.table().to_pylist()[4]
    assert row["sap_warp"] and row["warp"] and row["newton"] and row["scene_digest"] and row["device"]
    assert json.loads(row["reproduce"])["values"] == {name: row[name] for name in VARY}
    content = json.loads(json.dumps(SCENE))
    content["ground"] = {"mu": row["materials.ground.mu"]}
    sim = Simulation.from_scene(content, num_worlds=1, dt=row["dt"], device="cpu")
    sim.gravity[:, 0, 0] = row["gravity.x"]
    with sim.record("energy,body_q:box.x") as record:
        sim.step(len(row["time"]))
    assert record["body_q:box.x"][:, 0].tolist() == row["body_q:box.x"]
    assert record["energy"][-1, 0] == row["energy"]


def test_until_ends_each_world_for_itself(tmp_path):
    """The slowest does not hold the others up, and does not fill up their rows."""
    vary = {"materials.ground.mu": "0.2:1.0:3", "gravity.x": [PULL]}
    options = {"seconds": 1.0, "every": 2, "record": "body_q:box.x", "until": "body_q:box.x > 0.1 and contacts >= 4"}
    found = sweep(SCENE, vary, tmp_path / "a", success="slip_speed < 1.2", **options)
    rows = found.table().to_pylist()
    assert [row["ended"] for row in rows] == ["until"] * 3
    assert [row["success"] for row in rows] == [False, True, True]
    ends = [row["end_time"] for row in rows]
    assert ends[0] < ends[1] < ends[2] and [row["time"][-1] for row in rows] == ends
    assert all(row["body_q:box.x"][-2] <= 0.1 < row["body_q:box.x"][-1] for row in rows)
    assert same(found, sweep(SCENE, vary, tmp_path / "b", success="slip_speed < 1.2", batch=2, **options))


def test_seeds_start_worlds_at_random(tmp_path):
    """Seeds of a row decide about its start, not its place in a batch."""
    found = sweep("pendulum", (), tmp_path / "a", seeds=3, seed=5, seconds=0.05, record="joint_q:*")
    assert found["seed"].tolist() == [5, 6, 7]
    starts = np.array([row["joint_q:shoulder"][0] for row in found.table().to_pylist()])
    assert len(set(starts)) == 3
    again = sweep("pendulum", (), tmp_path / "b", seeds=1, seed=6, seconds=0.05, record="joint_q:*")
    assert again.table().to_pylist()[0]["joint_q:elbow"] == found.table().to_pylist()[1]["joint_q:elbow"]


@pytest.mark.parametrize(
    "vary, error, message",
    [
        ({"grond.mu": [1.0]}, SapSceneError, "free_cube.yaml: grond: unknown key; did you mean 'ground'?"),
        (
            {"bodies.cube.shapes[0].hx": [0.1, -1]},
            SapSceneError,
            r"free_cube.yaml:28: bodies\[0\].shapes\[0\].hx: found -1",
        ),
        ({"solver.contact_sigma": [1.0, -2.0]}, SapSceneError, "free_cube.yaml:8: simulation.solver.contact_sigma"),
        ({"body_mass:cub": [1.0]}, SweepError, "'cub'"),
        ({"body_mass:cube": [1.0, -1.0]}, SweepError, "body_mass has to be positive"),
        ({"materials.ground.mu": [-1.0]}, SweepError, "ground_mu has to be"),
        ({"joint_q:cube_free.qx": [0.0]}, SweepError, "rotations"),
        ({"joint_q:cube_free.x": ["far"]}, SweepError, "takes numbers"),
    ],
)
def test_wrong_values_are_refused_before_any_worker_starts(tmp_path, monkeypatch, vary, error, message):
    """With file and line where the scene has them; no folder is left behind."""
    monkeypatch.setattr(execute, "run_batch", lambda *_: pytest.fail("something was run"))
    with pytest.raises(error, match=message):
        sweep("cube", vary, tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_wrong_options_are_refused(tmp_path):
    """Signals, conditions, options of the other engine, and what there is none of."""
    for options, message in (
        ({"record": "energie"}, "'energie' is not known"),
        ({"until": "joint_q:* < 1"}, "about one signal"),
        ({"gpus_per_worker": 1.0}, "is for engine 'ray'"),
        ({"engine": "slurm"}, "one of threads, ray"),
        ({"workers": 0}, "at least 1"),
        ({"device": "tpu"}, "must be 'cpu' or 'cuda'"),
        ({"device": "cpu", "devices": ("cuda:0",)}, "its workers would have others"),
    ):
        with pytest.raises(SweepError, match=message):
            sweep("cube", VARY_ONE, tmp_path / "no", **options)
    with pytest.raises(TypeError, match="no option 'second'"):
        sweep("cube", VARY_ONE, tmp_path / "no", second=1.0)


# What can go wrong meanwhile: with runs that cost nothing.

VARY_ONE = {"materials.ground.mu": "0.1:1.0:40"}


@pytest.fixture
def made_up(monkeypatch):
    """In place of simulations: a function of the inputs, and a hook that is called with each point."""
    hooks = []

    def run(job, overrides, points, beat):
        rows = []
        for point in points:
            for hook in hooks:
                hook(point.number, beat)
            numbers = {"ended": "time", "success": True, "slip": float(np.sin(point.values[0]))}
            rows.append(
                {**execute._inputs(job, point), **execute._common(job), "status": "ok", **numbers, "series": {}}
            )
        return rows

    monkeypatch.setattr(execute, "run_batch", run)
    return hooks


def go(folder, **options):
    return sweep("cube", VARY_ONE, folder, **{"workers": 2, "batch": 4, **options})


def test_an_error_stays_in_its_row_until_it_is_retried(tmp_path, made_up):
    """The other points of its batch have numbers; `retry` repeats it and nothing else, `resume` nothing at all."""
    folder = tmp_path / "a"

    def fail(number, beat):
        if number == 13:
            raise RuntimeError("no luck")

    made_up.append(fail)
    found = go(folder)
    assert found.failures == {13: "RuntimeError: no luck"} and len(found) == 40
    row = found.table().to_pylist()[13]
    assert row["status"] == "failed" and row["slip"] is None
    assert json.loads(row["reproduce"])["values"] == {"materials.ground.mu": row["materials.ground.mu"]}
    made_up[:] = [lambda number, beat: seen.append(number)]
    seen = []
    assert go(folder, resume=True).failures and seen == []
    found = go(folder, retry=True)
    assert seen == [13] and not found.failures and len(found) == 40
    assert same(found, go(tmp_path / "b"))
    assert pyarrow.dataset.dataset(folder / "failed").to_table()["error"].to_pylist() == ["RuntimeError: no luck"]


def test_ctrl_c_leaves_what_resumes(tmp_path, made_up):
    """What came before is kept, what comes later is run once."""
    counts = []

    def interrupt(done, total, failed):
        counts.append(done)
        if done >= 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "a", workers=1, progress=interrupt)
    part = SweepResult(tmp_path / "a")
    assert len(part) == 12 and "12 of 40" in repr(part)
    seen = []
    made_up.append(lambda number, beat: seen.append(number))
    found = go(tmp_path / "a", resume=True, batch=3)
    assert sorted(seen) == list(range(12, 40))
    assert same(found, go(tmp_path / "b"))


def test_a_worker_that_hangs_is_replaced(tmp_path, made_up):
    """Its task is done by another; when it wakes up, nobody counts what it has to say."""
    hung, wake = threading.Event(), threading.Event()

    def hang(number, beat):
        if number == 5 and not hung.is_set():
            hung.set()
            wake.wait(60.0)
            beat()

    made_up.append(hang)
    # Long enough that a busy computer does not make workers that go on look like ones that hang.
    found = go(tmp_path / "a", timeout=3.0, progress=lambda done, total, failed: wake.set() if done >= 39 else None)
    wake.set()
    rows = found.table().to_pylist()
    assert [row["point"] for row in rows] == list(range(40)) and not found.failures
    assert {row["attempt"] for row in rows if 4 <= row["point"] < 8} == {2}


def test_a_point_that_no_worker_survives_fails_alone(tmp_path, made_up):
    """After three workers its task is tried point by point: its neighbours have numbers, and it has the reason."""

    def die(number, beat):
        if number == 6:
            raise SystemExit("gone")

    made_up.append(die)
    found = go(tmp_path / "a")
    assert list(found.failures) == [6] and "WorkerLost: 4 workers" in found.failures[6] and "gone" in found.failures[6]
    assert len(found) == 40


def test_a_folder_belongs_to_one_sweep(tmp_path, made_up):
    """No second sweep in it, no other definition, no second process, no other files."""
    folder = tmp_path / "a"
    found = go(folder)
    with pytest.raises(SweepError, match="already; go on with it"):
        go(folder)
    with pytest.raises(SweepError, match="has other seconds"):
        go(folder, resume=True, seconds=3.0)
    with Writer(Dataset(folder)), pytest.raises(SweepError, match=f"process {os.getpid()}"):
        go(folder, resume=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(SweepError, match="other files"):
        go(tmp_path / "notes")
    with pytest.raises(SweepError, match="no sweep in"):
        SweepResult(tmp_path / "none")
    assert len(pyarrow.dataset.dataset(folder / "rows").to_table()) == len(found) == 40  # as others read it


def test_a_sweep_goes_on_with_its_own_scene_only(tmp_path, made_up):
    """A scene file that was edited since is another one."""
    file = tmp_path / "box.json"
    file.write_text(json.dumps(SCENE))

    def interrupt(done, total, failed):
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(file, VARY_ONE, tmp_path / "a", batch=4, workers=1, progress=interrupt)
    file.write_text(json.dumps(SCENE).replace("1000.0", "900.0"))
    with pytest.raises(SweepError, match="The scene is not what it was"):
        sweep(file, VARY_ONE, tmp_path / "a", resume=True)


KILLED = """
import sys
from sap_warp import sweep
from tests.sweeps.scene import SCENE
sweep(SCENE, {"materials.ground.mu": "0.1:1.0:60"}, sys.argv[1], batch=2, workers=2, seconds=0.1,
      progress=lambda done, total, failed: print("at", done, flush=True))
"""


def test_killing_the_process_loses_nothing_that_was_written(tmp_path):
    """SIGKILL in the middle; the files can be read, and resuming leads to what an undisturbed sweep gives."""
    folder = tmp_path / "a"
    process = subprocess.Popen([sys.executable, "-c", KILLED, folder], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("at") and list((folder / "rows").glob("part-*")):
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    before = len(SweepResult(folder))
    assert before > 0
    vary, options = {"materials.ground.mu": "0.1:1.0:60"}, {"seconds": 0.1}
    found = sweep(SCENE, vary, folder, resume=True, **options)
    assert [row["point"] for row in found.table().to_pylist()] == list(range(60))
    assert same(found, sweep(SCENE, vary, tmp_path / "b", **options))


def test_the_command(tmp_path, capsys, monkeypatch, made_up):
    """Runs, draws, refuses, resumes and runs a point again."""
    folder, picture = tmp_path / "mu", tmp_path / "slip.png"
    start = ["sweep", "cube", "--vary", "materials.ground.mu=0.1:1.0:40", "-o", str(folder)]
    assert cli.main([*start, "--plot", str(picture), "--y", "slip", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "40 of 40" in out and picture.stat().st_size > 5000
    assert cli.main([*start, "--device", "cpu"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert cli.main(["sweep", "--resume", "-o", str(folder)]) == 0
    assert cli.main(["sweep", "--point", "3", "-o", str(folder)]) == 0
    assert "the same as its row, bit by bit" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    for arguments, message in (
        (["sweep"], "name a scene"),
        (["sweep", "--resume"], "say where"),
        (["sweep", "--resume", "-o", str(folder), "--seconds", "3"], "has its own"),
        (["sweep", "cube", "--vary", "mu", "-o", str(tmp_path / "x")], "not PATH=VALUES"),
        (["sweep", "--plot", str(picture), "--y", "speed", "-o", str(folder)], "no number 'speed'"),
        (
            ["sweep", "cube", "--seeds", "2", "--engine", "ray", "-o", str(tmp_path / "x")],
            "pip install 'sap-warp[scale]'",
        ),
        (["sweep", "--plot", str(picture), "--x", "dt", "-o", str(folder)], "'dt' is not varied"),
    ):
        assert cli.main(arguments) == 2
        assert message in capsys.readouterr().err
