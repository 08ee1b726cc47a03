"""The `sap-warp` command, the scenes it runs, and what its documentation says about presets and options."""

import json
import math
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation, SolveStatus, cli
from sap_warp.commands import presets
from sap_warp.commands.common import DEFAULT_SCENE
from sap_warp.commands.run import name_solver, verdict, watched_body
from sap_warp.judge.compare import compare_presets
from sap_warp.scene.shipped.scene_files import find_scene_file, scene_description, shipped_scenes
from sap_warp.scene.shipped.scenes import build_scene, randomize_start
from sap_warp.solver.settings.options import OPTION_NAMES, PRESETS

DOCS = Path(__file__).parents[2] / "docs"
HEAVY_MODULES = {"newton", "warp", "numpy", "rich", "mujoco", "pxr"}


def run(capsys, *arguments):
    """Exit code, standard output and standard error of the command, in this process."""
    code = cli.main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def differing_options():
    """Option -> value under each preset, for the options that are not the same under all of them."""
    table = {
        f.name: [presets._shown(getattr(preset, f.name)) for preset in PRESETS.values()]
        for f in fields(PRESETS["drake"])
    }
    return {name: row for name, row in table.items() if len(set(row)) > 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["--version"],
        ["run", "no-such-scene"],
        ["explain", "no-such-scene", "a", "b"],
        ["presets"],
        ["robots"],
        ["schema"],
    ],
)
def test_what_does_not_simulate_needs_no_large_library(arguments):
    """It loads neither Newton nor Warp nor rich; the schema is made by pydantic, some numbers in it by NumPy."""
    code = f"import sys; from sap_warp.cli import main; main({arguments!r}); print(*sys.modules, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (HEAVY_MODULES - ({"numpy"} if arguments == ["schema"] else set())).isdisjoint(result.stderr.split())
    if "--help" in arguments:
        assert "run" in result.stdout


def test_help_lists_the_scenes(capsys):
    """`run --help` says which scenes there are and which one is the default."""
    code, out, _ = run(capsys, "run", "--help")
    assert code == 0
    assert all(scene_description(file) in out for file in shipped_scenes().values())
    assert f"default: {DEFAULT_SCENE}" in out


def test_run_prints_a_summary(capsys):
    """A short run ends with exit code 0 and a summary of what was simulated and how it went."""
    code, out, _ = run(capsys, "run", "cube", "--num-worlds", "3", "--duration", "0.1", "--device", "cpu")
    assert code == 0
    summary = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines() if "  " in line)
    assert summary["scene"] == "free_cube"
    assert summary["worlds"] == "3"
    assert summary["dofs per world"] == "6"
    assert summary["steps"] == "20 (0.1 s simulated)"
    assert summary["truncated contacts"] == "0"
    assert summary["not converged"] == "0 of 60 world-steps"
    assert summary["worlds at the end"] == "3 converged"
    assert float(summary["world-steps per second"].replace(",", "")) > 0.0
    for name in ("device", "solver", "time step", "compile and first steps", "elapsed", "realtime ratio"):
        assert summary[name]
    assert "Preparing kernels" in out  # the first time it takes long: say why
    height = float(summary["final height of cube"].split()[0])
    assert height == pytest.approx(0.3 - 0.5 * 9.81 * 0.1**2, abs=1e-3)  # still falling


def test_a_run_tells_the_height_of_what_floats():
    """Not that of a link which is fixed to the ground; where nothing floats, that of the end of the arm."""
    handled, swinging = (Simulation.from_scene(name, num_worlds=2) for name in ("multi_joints", "double_pendulum"))
    assert handled.model.body_label[watched_body(handled)] == "ball"  # the sixth of its world
    assert watched_body(swinging) == 1


def test_a_run_recommends_a_preset_that_holds():
    """Where light fingers may hold something; not if it is chosen already, nor where nothing is held."""
    arm = [
        Simulation.from_scene("franka_pick_cube", num_worlds=1, contact_preset_variant=p) for p in ("approx32", "robot")
    ]
    assert [name_solver(sim) for sim in arm] == [
        "approx32, monotone_decay; --preset robot holds better here",
        "robot, loose_root",
    ]
    assert name_solver(Simulation.from_scene("cube", num_worlds=1)) == "approx32, monotone_decay"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "humanoyd"], "Did you mean 'humanoid'"),
        (["run", "xyz"], "one of: "),
        (["compare-presets", "cubes"], "Did you mean 'cube'"),
        (["run", "cube", "--preset", "approx16"], "valid choices are approx32, approx64, drake"),
        (["run", "cube", "--line-search", "wolfe"], "valid choices are monotone_decay"),
        (["run", "cube", "--device", "cuda:99"], "no device 'cuda:99'"),
        (["run", "cube", "--num-worlds", "0"], "whole number of at least 1"),
        (["run", "cube", "--dt", "nan"], "positive number of seconds"),
        (["run", "cube", "--dt", "1e-12"], "a time step is 1e-09 to 100 s"),
        (["run", "cube", "--duration", "1e30"], "at most 1e9"),
        (["run", "cube", "--duration", "-1"], "positive number of seconds"),
        (["compare-presets", "cube", "--steps", "5", "--every", "6"], "nothing to compare"),
        (["compare-presets", "cube", "--json", "no/such/folder/x.json"], "there is no folder"),
        (["bench", "--scene", "humanoyd"], "Did you mean 'humanoid'"),
        (["bench", "--scene", "none.yaml"], "no scene file 'none.yaml'"),
        (["run", "none.urdf"], "no robot file 'none.urdf'"),
        (["bench", "--frames", "0"], "whole number of at least 1"),
        (["bench", "--frames", "5", "--duration", "1"], "give one of them"),
        (["bench", "--dt", "0"], "positive number of seconds"),
        (["bench", "--preset", "approx16"], "valid choices are approx32"),
        (["bench", "--line-search", "wolfe"], "valid choices are monotone_decay"),
        (["bench", "--device", "cuda:99"], "no device 'cuda:99'"),
        (["bench", "--scene", "cube", "--threads", "4", "--device", "cpu"], "only 1 world to share out"),
        (["bench", "--json", "no/such/folder/x.json"], "there is no folder"),
        (["run", "--no-such-option"], "--no-such-option"),
    ],
)
def test_mistakes_are_explained_in_one_line(capsys, arguments, message):
    """A request that cannot be met gives exit code 2 and one line on standard error."""
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert out == ""


def test_a_missing_gpu_is_one_line_in_all(capfd):
    """Warp's native library, which writes past Python, has nothing to add."""
    if wp.is_cuda_available():
        pytest.skip("there is a GPU")
    assert cli.main(["run", "cube", "--device", "cuda"]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_exit_codes_of_a_scene_that_is_not_valid(capsys, tmp_path):
    """`check` is asked whether it is; for all others it is a request that cannot be met."""
    file = tmp_path / "scene.yaml"
    file.write_text("simulation: {dt: 0}\nbodis: []\n")
    lines = [f"{file}:1: simulation.dt: found 0; expected a positive number"]
    lines += [f"{file}:2: bodis: unknown key; did you mean 'bodies'?"]
    code, out, err = run(capsys, "check", str(file))
    assert (code, out) == (1, "") and err.splitlines() == [*lines, f"sap-warp: 2 problems in {file}"]
    for arguments in (["run"], ["explain"], ["bench", "--scene"]):
        code, out, err = run(capsys, *arguments, str(file))
        assert (code, out) == (2, "") and err.splitlines() == [f"sap-warp: error: {lines[0]}", lines[1]]


def test_a_diverged_world_makes_the_command_fail(capsys):
    """Worlds that did not survive are named, and the exit code says so."""
    status = np.array([SolveStatus.CONVERGED, SolveStatus.DIVERGED, SolveStatus.ITERATION_LIMIT])
    fake = SimpleNamespace(diverged=status == SolveStatus.DIVERGED)
    assert verdict(fake) == 1
    assert "1 of 3 worlds diverged: 1" in capsys.readouterr().err
    fake.diverged = fake.diverged[[0, 2]]
    assert verdict(fake) == 0


def test_interrupt_is_quiet(capsys, monkeypatch):
    """Ctrl-C ends the command without a traceback."""

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(presets, "run", interrupt)
    code, _, err = run(capsys, "presets")
    assert code == 130
    assert err == "sap-warp: interrupted\n"


def test_presets_prints_the_table_of_the_code(capsys):
    """Every option is listed, with one column per preset where presets differ."""
    code, out, _ = run(capsys, "presets")
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith("  ")}
    for name, values in differing_options().items():
        assert rows[name] == values
    assert set(OPTION_NAMES) <= set(rows)


def test_compare_presets_separates_precision_from_model(tmp_path, capsys):
    """On a tumbling cube both differences exist, and the contact model changes more than fp32 does."""
    target = tmp_path / "result.json"
    options = ("--steps", "120", "--every", "10", "--num-worlds", "2", "--device", "cpu", "--json", str(target))
    code, out, _ = run(capsys, "compare-presets", "cube", *options)
    assert code == 0
    assert "Delta_precision" in out and "Delta_model" in out and "m/s" in out and "rad/s" in out
    result = json.loads(target.read_text())
    assert result["samples"] == 24
    assert 0 < result["samples_with_contact"] <= 24
    assert result["not_converged"] == 0
    precision, model = result["precision"], result["model"]
    assert 0.0 < precision["mean"] <= precision["max"] < 1e-3  # fp32 has 7 digits, the cube moves at some m/s
    assert precision["mean"] < model["mean"] <= model["max"]
    assert math.isfinite(model["max"])
    assert len(model["rms_per_dof"]) == 6
    total = np.sqrt(np.mean(np.square(model["rms_per_dof"])))
    parts = np.sqrt(0.5 * (model["rms_linear"] ** 2 + model["rms_angular"] ** 2))
    assert total == pytest.approx(parts)


def test_compare_presets_leaves_the_model_alone_where_nothing_touches():
    """Without contacts the drake preset has the same velocity as approx64: only contact modes differ."""
    result = compare_presets("pendulum", steps=20, every=10, num_worlds=1, device="cpu")
    assert result.samples_with_contact == 0
    assert result.model.max == 0.0
    assert 0.0 < result.precision.max < 1e-4
    assert result.as_dict()["precision"]["rms_linear"] is None  # hinges have no linear dofs


def test_humanoid_has_the_springs_of_its_file():
    """MJCF joint stiffness, which Newton keeps as an attribute of MuJoCo, is in the model."""
    model, _ = build_scene("humanoid", 1, "cpu")
    stiffness = model.mujoco.dof_passive_stiffness.numpy()
    assert (stiffness[:6] == 0.0).all()
    assert stiffness[6:9].tolist() == [20.0, 20.0, 10.0]  # abdomen z, y, x
    assert (stiffness[6:] > 0.0).all()


def test_random_starts_differ_between_worlds_and_repeat():
    """The same seed gives the same poses; worlds get different ones, with unit quaternions and joints in range."""
    poses = []
    for seed in (3, 3, 4):
        model, _ = build_scene("humanoid", 2, "cpu")
        randomize_start(model, seed)
        poses.append(model.joint_q.numpy())
    np.testing.assert_array_equal(poses[0], poses[1])
    assert (poses[0] != poses[2]).any()
    first, second = poses[0].reshape(2, -1)
    assert (first[7:] != second[7:]).all()
    assert np.linalg.norm(first[3:7]) == pytest.approx(1.0, abs=1e-6)
    hinges = first[7:]
    assert (hinges > model.joint_limit_lower.numpy()[6:27]).all()
    assert (hinges < model.joint_limit_upper.numpy()[6:27]).all()


def markdown_rows(text, first_cell):
    """Cells of the table whose header starts with ``first_cell``, without code marks."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_cell} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def test_documented_presets_are_those_of_the_code():
    """The preset table in docs/solver.md equals `PRESETS`, row by row."""
    header, *rows = markdown_rows((DOCS / "solver.md").read_text(encoding="utf-8"), "option chosen")
    assert header[1:] == list(PRESETS)
    assert {row[0]: row[1:] for row in rows} == differing_options()


def test_documentation_names_every_option_status_and_scene():
    """No option, status or scene is missing in the documentation."""
    solver = (DOCS / "solver.md").read_text(encoding="utf-8")
    assert [name for name in OPTION_NAMES if f"`{name}`" not in solver] == []
    assert [status.name for status in SolveStatus if f"`{status.name}`" not in solver] == []
    scenes = (DOCS / "scenes.md").read_text(encoding="utf-8")
    assert [name for name in shipped_scenes() if f"`{name}`" not in scenes] == []


def test_warnings_are_plain_lines(tmp_path):
    """A command says what is wrong, not in which line of our code it noticed."""
    scene = tmp_path / "full.yaml"
    text = find_scene_file("box_stack").read_text()
    scene.write_text(re.sub(r"max_rigid_contact: \d+", "max_rigid_contact: 4", text))
    command = [sys.executable, "-m", "sap_warp.cli", "run", str(scene), "--num-worlds", "1", "--duration", "0.1"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert re.search(r"^warning: \d+ contacts found no place", said, re.MULTILINE)
    assert "run.py" not in said and "RuntimeWarning" not in said


@pytest.mark.parametrize("command", ["run", "view", "plot", "diagnose", "check"])
def test_a_scene_and_a_robot_exclude_each_other(capsys, command):
    """The commands that simulate take a robot in place of a scene, and only in its place."""
    assert cli.main([command, "free_cube", "--robot", "go2"]) == 2
    assert "give a scene or --robot, not both" in capsys.readouterr().err


def test_the_file_of_a_robot_is_a_scene_of_its_own(capsys, tmp_path):
    """For every command that takes a scene, and a note says what was added to it."""
    file = tmp_path / "swing.xml"
    body = '<body pos="0 0 1"><joint axis="0 1 0"/><geom name="bob" size=".1" pos=".3 0 0"/></body>'
    file.write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    assert cli.main(["check", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"]["joints"] == "1 revolute" and found["findings"][0]["id"] == "robot-file"
    assert cli.main(["explain", str(file)]) == 0
    assert "bob" in capsys.readouterr().out


def test_check_wants_to_know_what(capsys):
    """It has no default scene: a check of something else would look like a check of one's own."""
    assert cli.main(["check"]) == 2
    assert "give a scene or --robot" in capsys.readouterr().err


def test_check_lists_joints_bodies_and_shapes_with_their_columns(capsys):
    """As a table and as JSON; columns are those of the views of one world."""
    code, out, _ = run(capsys, "check", "humanoid", "--joints", "--bodies", "--shapes", "--num-worlds", "2")
    assert code == 0
    line = next(line for line in out.splitlines() if line.strip().startswith("right_knee ") and "revolute" in line)
    assert line.split()[5:] == ["right_knee", "12", "13", "none", "-2.793", "to", "0.03491", "any", "0.007"]
    assert re.search(r"^  model \d+ +DEFAULT_GROUND +plane +world", out, re.MULTILINE)
    code, out, _ = run(capsys, "check", "humanoid", "--joints", "--json")
    found = json.loads(out)
    assert found["valid"] and len(found["actuators"]) == 21 and len(found["joints"]) == 22 and "bodies" not in found
    assert found["joints"][2]["joint"] == "abdomen_z_abdomen_y" and found["joints"][2]["dof column"] == "7"
