"""`sap-warp bench` and `benchmark.py`: what they accept and what they report."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from sap_warp import cli
from sap_warp.commands import bench
from sap_warp.commands.common import EXIT_DIVERGED
from sap_warp.scene.shipped.scene_files import find_scene_file
from sap_warp.simulation.run.profile import STAGES

ROOT = Path(__file__).parents[2]
KEYS = [
    "scene",
    "device",
    "dt",
    "frames",
    "num_worlds",
    "max_rigid_contact_per_env",
    "rigid_contact_capacity",
    "collision_path",
    "cuda_graph",
    "elapsed",
    "fps",
    "realtime_ratio",
]
"""What the specification's summary has, in this order."""
OUR_KEYS = {"world_steps_per_second", "mean_contacts", "newton_iterations", "truncated_contacts", "bytes_per_world"}


def run(capsys, *arguments):
    """Exit code, standard output and standard error of `sap-warp bench`, in this process."""
    code = cli.main(["bench", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def read_summary(text):
    """Key -> text of the plain summary."""
    lines = (re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines() if "  " in line)
    return {line[0]: line[1] for line in lines if line[0]}


def test_summary_reports_what_was_run(capsys, tmp_path):
    """All keys are printed and written, and the numbers fit together."""
    target = tmp_path / "bench.json"
    options = ("--scene", "cube", "--num-worlds", "3", "--frames", "41", "--device", "cpu", "--json", str(target))
    code, out, _ = run(capsys, *options)
    assert code == 0
    result = json.loads(target.read_text())
    assert list(result)[: len(KEYS)] == KEYS
    assert OUR_KEYS <= set(result)
    assert set(result) <= set(read_summary(out))
    assert (result["scene"], result["device"], result["dt"], result["frames"]) == ("free_cube", "cpu", 0.005, 41)
    assert (result["num_worlds"], result["max_rigid_contact_per_env"], result["rigid_contact_capacity"]) == (3, 8, 24)
    assert result["cuda_graph"] is False
    assert result["fps"] == pytest.approx(41 / result["elapsed"])
    assert result["realtime_ratio"] == pytest.approx(41 * 0.005 / result["elapsed"])
    assert result["world_steps_per_second"] == pytest.approx(3 * result["fps"])
    assert result["truncated_contacts"] == result["not_converged"] == 0
    assert result["bytes_per_world"] > 1000
    startup = result["startup"]
    assert startup["total"] == pytest.approx(startup["imports"] + startup["scene"] + startup["kernels"])
    assert "step 41 of 41" in out and "\r" not in out  # plain lines where there is no terminal
    assert "stages" not in result


def test_duration_dt_and_solver_options_act(capsys, tmp_path):
    """Steps follow from duration and dt; preset and line search reach the solver."""
    target = tmp_path / "bench.json"
    options = ("--scene", "pendulum", "--duration", "0.1", "--dt", "0.01", "--preset", "approx64", "--device", "cpu")
    code, _, _ = run(capsys, *options, "--line-search", "exact_root", "--json", str(target))
    assert code == 0
    result = json.loads(target.read_text())
    assert (result["frames"], result["dt"]) == (10, 0.01)
    assert (result["preset"], result["line_search"]) == ("approx64", "exact_root")
    assert result["num_worlds"] == 1


def test_profile_and_threads(capsys, tmp_path):
    """The time of each stage is printed with its share, and the threads are counted."""
    target = tmp_path / "bench.json"
    options = ("--scene", "cube", "--num-worlds", "4", "--frames", "20", "--threads", "2", "--profile")
    code, out, _ = run(capsys, *options, "--device", "cpu", "--json", str(target))
    assert code == 0
    result = json.loads(target.read_text())
    assert result["threads"] == 2
    assert list(result["stages"]) == list(STAGES)
    assert all(value > 0.0 for value in result["stages"].values())
    assert all(f"  {stage}" in out for stage in STAGES) and "share" in out


@pytest.mark.parametrize(
    "wanted, given, frames",
    [
        ({"frames": 30, "duration": None}, [], 30),
        ({"frames": None, "duration": 0.06}, [], 20),
        ({"frames": None, "duration": None}, ["--frames", "7"], 7),
        ({"frames": 30, "duration": None}, ["--duration", "0.03"], 10),
    ],
)
def test_scene_file_gives_the_defaults(capsys, tmp_path, wanted, given, frames):
    """Steps, dt, worlds and capacity come from the scene file; the command line wins."""
    scene = yaml.safe_load(find_scene_file("cube").read_text(encoding="utf-8"))
    length = {name: value for name, value in wanted.items() if value is not None}
    solver = {"line_search_variant": "armijo_decay"}
    scene["simulation"] = {"dt": 0.003, "num_worlds": 2, "max_rigid_contact": 24, "solver": solver, **length}
    file, target = tmp_path / "from_a_file.yaml", tmp_path / "bench.json"
    file.write_text(yaml.safe_dump({**scene, "name": "from a file"}), encoding="utf-8")
    code, _, _ = run(capsys, "--scene", str(file), *given, "--device", "cpu", "--json", str(target))
    assert code == 0
    result = json.loads(target.read_text())
    assert (result["scene"], result["frames"], result["dt"], result["num_worlds"]) == ("from a file", frames, 0.003, 2)
    assert (result["max_rigid_contact_per_env"], result["rigid_contact_capacity"]) == (24, 48)
    assert result["line_search"] == "armijo_decay"


def test_a_diverged_world_makes_the_command_fail(capsys, monkeypatch):
    """Worlds that did not survive are named, and the exit code says so."""
    advance = bench.advance

    def poison(sim, frames):
        sim.joint_f.numpy()[1] = float("nan")
        return advance(sim, frames)

    monkeypatch.setattr(bench, "advance", poison)
    code, _, err = run(capsys, "--scene", "cube", "--num-worlds", "3", "--frames", "4", "--device", "cpu")
    assert code == EXIT_DIVERGED
    assert "1 of 3 worlds diverged: 1" in err


def test_script_at_the_root_is_the_same_command():
    """`benchmark.py` passes its arguments on."""
    command = [sys.executable, str(ROOT / "benchmark.py"), "--scene", "nothing"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 2
    assert "unknown scene 'nothing'" in result.stderr


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    """On a terminal there are no plain progress lines."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    code, out, _ = run(capsys, "--scene", "cube", "--frames", "10", "--device", "cpu")
    assert code == 0
    assert "step 10 of 10" not in out
    assert "world_steps_per_second" in out


# The comparison with other engines.


@pytest.fixture(scope="module")
def comparison():
    """The modules of the comparison, which lie beside the package."""
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import export
        import robots

        yield SimpleNamespace(export=export, robots=robots)
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("name", ["cube", "ant", "humanoid", "clutter", "go2_hulls"])
def test_scene_is_the_same_in_all_engines(comparison, name):
    """Masses, and the poses of all bodies in a random configuration, agree in MuJoCo and Drake; so do the filters."""
    import mujoco

    scene = comparison.robots.SCENES[name]
    model = comparison.robots.build(scene, 1, seed=3)
    poses = model.body_q.numpy()
    compiled = comparison.export.to_mujoco(model, scene.dt)  # raises if other pairs may collide
    data = mujoco.MjData(compiled)
    q, starts = model.joint_q.numpy(), model.joint_q_start.numpy()
    for joint, kind in enumerate(model.joint_type.numpy()):
        part = q[starts[joint] : starts[joint + 1]]
        data.qpos[starts[joint] : starts[joint + 1]] = part[[0, 1, 2, 6, 3, 4, 5]] if kind == 4 else part
    mujoco.mj_kinematics(compiled, data)
    np.testing.assert_allclose(data.xpos[1:], poses[:, :3], atol=1e-6)
    turn = np.abs((data.xquat[1:][:, [1, 2, 3, 0]] * poses[:, 3:]).sum(axis=1))
    np.testing.assert_allclose(turn, 1.0, atol=1e-6)
    np.testing.assert_allclose(compiled.body_mass[1:], model.body_mass.numpy(), rtol=1e-6)
    drake = comparison.export.to_drake(model, scene.dt, 0.01, scene.hydroelastic)
    drake.set_coordinates(q)
    context = drake.plant.GetMyContextFromRoot(drake.simulator.get_context())
    assert drake.plant.CalcTotalMass(context) == pytest.approx(model.body_mass.numpy().sum(), rel=1e-6)
    for body, pose in enumerate(poses):
        found = drake.plant.EvalBodyPoseInWorld(context, drake.bodies[body])
        np.testing.assert_allclose(found.translation(), pose[:3], atol=1e-6)
        matrix = comparison.export.rotation(pose[3:].astype(float))
        np.testing.assert_allclose(found.rotation().matrix(), matrix, atol=1e-6)


def test_scenes_that_differ_are_noted(comparison):
    """Another mass or another height at rest is marked and cannot pass for a comparison."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import compare
    finally:
        sys.path.pop(0)
    scene = comparison.robots.SCENES["cube"]

    def row(mass, height):
        ours, theirs = compare.Timing("SAP Warp", [2.0, 1.0], 8.0, 0.1), compare.Timing("MuJoCo C", [8.0, 8.0])
        theirs.mass, theirs.height = mass, height
        made = compare.Row("cube", 1, "settled", {"SAP Warp": ours, "MuJoCo C": theirs})
        compare.check_same(made, scene)
        return made

    assert row(8.0, 0.101).notes == []
    assert "mass" in row(8.1, 0.1).notes[0]
    assert "height" in row(8.0, 0.2).notes[0]
    assert compare.cells(row(8.0, 0.2))[0] == "cube, settled*"
    np.testing.assert_allclose(row(8.0, 0.1).ratio("MuJoCo C"), [5.0, 6.0, 7.0])  # quartiles of 4 and 8
    assert row(8.0, 0.1).ratio("Drake SAP") is None
