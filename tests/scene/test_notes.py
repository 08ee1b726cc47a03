"""Advice about scenes that load: which notes there are, where they point, and where they are shown."""

import json
import logging

import pytest

from sap_warp import Simulation, cli
from sap_warp.notes import ENVIRONMENT
from sap_warp.scene_files import runs_offline, shipped_scenes
from tests.support.scene_files import load

ARM = """\
bodies:
  - {id: arm, mass: 1.0, transform: {p: [0, 0, 2]}, shapes: [{type: sphere, radius: 0.1}]}
joints:
  - {id: hinge, type: revolute, child: arm, axis: y, parent_xform: {p: [0, 0, 2]}}
post_build:
  - {op: set_joint_targets, joint: hinge, mode: position}
"""
"""A drive without gains."""
HINGE = {"id": "hinge", "type": "revolute", "child": "arm", "axis": "y", "parent_xform": {"p": [0, 0, 2]}}


def ids(scene, **options):
    return [note.id for note in load(scene, **options).notes]


def arm(**fields):
    """A hinge that carries a ball."""
    body = {"id": "arm", "mass": 1.0, "transform": {"p": [0, 0, 2]}, "shapes": [{"type": "sphere", "radius": 0.1}]}
    return {"bodies": [body], "joints": [{**HINGE, **fields}]}


@pytest.fixture
def arm_file(tmp_path):
    file = tmp_path / "arm.yaml"
    file.write_text(ARM, encoding="utf-8")
    return file


# Where notes are shown.


def test_note_names_kind_and_place(arm_file):
    """One line: file, line, path inside, what to do, and a name that stays."""
    (note,) = load(arm_file).notes
    assert (note.id, note.path, note.line) == ("drive-without-gains", "post_build[0]", 6)
    assert str(note).startswith(f"{arm_file}:6: post_build[0]: ")
    assert str(note).endswith("[drive-without-gains]") and "\n" not in str(note)


def test_simulation_prints_each_note_once_and_can_be_quiet(arm_file, caplog, monkeypatch):
    """To the logger of the package: `notes=False`, the environment and the logger silence it."""
    with caplog.at_level(logging.WARNING, "sap_warp"):
        sim = Simulation.from_scene(arm_file, device="cpu")
        assert [record.getMessage() for record in caplog.records] == [f"note: {note}" for note in sim.notes]
        caplog.clear()
        assert Simulation.from_scene(arm_file, device="cpu", notes=False).notes == sim.notes
        monkeypatch.setenv(ENVIRONMENT, "0")
        Simulation.from_scene(arm_file, device="cpu")
        monkeypatch.delenv(ENVIRONMENT)
        logging.getLogger("sap_warp").setLevel(logging.ERROR)
        Simulation.from_scene(arm_file, device="cpu")
        assert not caplog.records


def test_simulation_of_a_model_gives_notes_too(caplog):
    """Without a scene there is no place, but the same advice."""
    model = load(arm(actuator_mode=1)).sap_model
    with caplog.at_level(logging.WARNING, "sap_warp"):
        sim = Simulation(model, dt=0.005)
    assert [(note.id, note.subject, note.file) for note in sim.notes] == [("drive-without-gains", ("joint", 0), None)]
    assert len(caplog.records) == 1
    assert Simulation(model, dt=0.005, notes=False).notes == []


def test_check_and_run_print_notes(arm_file, capsys, caplog):
    """Also as findings of `check --json`, which exits with 0: a note is no mistake."""
    for arguments in (["check"], ["run", "--num-worlds", "1", "--duration", "0.01", "--device", "cpu"]):
        caplog.clear()
        assert cli.main([*arguments, str(arm_file)]) == 0
        assert [record.getMessage() for record in caplog.records if record.name == "sap_warp"] == [
            f"note: {note}" for note in load(arm_file).notes
        ]
    capsys.readouterr()
    assert cli.main(["check", "--json", str(arm_file)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["valid"] and result["summary"]["worlds"] == "1"
    (finding,) = result["findings"]
    assert {**finding, "message": ""} == {
        "kind": "note", "id": "drive-without-gains", "message": "", "subject": None,
        "path": "post_build[0]", "file": str(arm_file), "line": 6,
    }  # fmt: skip


def test_check_json_lists_problems(tmp_path, capsys):
    """A scene that is not valid gives its problems as findings, and exit code 1."""
    file = tmp_path / "bad.yaml"
    file.write_text("simulation: {dt: -1}\n", encoding="utf-8")
    assert cli.main(["check", "--json", str(file)]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["valid"]
    assert [(f["kind"], f["path"], f["line"]) for f in result["findings"]] == [("error", "simulation.dt", 1)]


# What shipped scenes say.


@pytest.mark.parametrize("name", [name for name, file in shipped_scenes().items() if runs_offline(file)])
def test_shipped_scenes_deserve_no_note(name):
    """No false alarm on scenes that are known to be right."""
    assert [str(note) for note in load(shipped_scenes()[name], num_worlds=2).notes] == []


# Drives.


def test_drives_without_gains_are_noted_and_not_counted_as_driven():
    """By the scene's edit, by a joint's own mode; not where a later edit gives the gain."""
    from sap_warp.scene.summary import summarize_scene

    scene = load(arm(actuator_mode=1))
    assert [note.id for note in scene.notes] == ["drive-without-gains"]
    assert dict(summarize_scene(scene))["dofs"] == "1 per world, 0 driven"
    assert ids(arm(actuator_mode=1, target_kd=1.0)) == []
    assert ids(arm()) == []
    mode = {"op": "set_joint_targets", "joint": "hinge", "mode": "position"}
    gain = {"op": "set_array", "array": "joint_target_ke", "range": "all", "value": 5.0}
    assert ids({**arm(), "post_build": [mode]}) == ["drive-without-gains"]
    assert ids({**arm(), "post_build": [mode, gain]}) == []
