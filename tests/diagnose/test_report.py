"""The report as people and programs read it, and arguments that cannot be met."""

import json
import math

import pytest

from sap_warp import cli
from sap_warp.judge.diagnose import Finding, Number
from sap_warp.judge.diagnose.report import show, worst_first
from tests.support.staged import boxes, gripper


@pytest.fixture(scope="module")
def slipping():
    return gripper(worlds=2).diagnose(0.3)


def test_the_simulation_goes_on_and_stays_where_it_ends():
    """Steps are taken, once."""
    sim = boxes()
    sim.diagnose(0.1)
    assert sim.step_count == 20
    assert sim.diagnose(0.1, every=5).every == 5
    assert sim.step_count == 40


def test_the_text_has_cause_change_and_prediction(slipping):
    """One block for each finding, then tables."""
    text = str(slipping)
    slip = slipping.of("slip")[0]
    assert slip.title in text
    assert "body-inertia-weight" in slip.title
    assert f"    change   {slip.change}" in text
    assert f"    expect   {slip.effect}" in text
    assert slip.worlds == (0, 1)
    assert "Pairs in contact, by friction in use" in text


def test_the_dictionary_is_json(slipping):
    """With nothing that JSON cannot hold, and all that the text has."""
    content = json.loads(json.dumps(slipping.as_dict(), allow_nan=False))
    assert content["ok"] is False
    assert [f["title"] for f in content["findings"]] == [f.title for f in slipping.findings]
    assert content["findings"][0]["measure"]["unit"] in ("m", "m/s")


def test_alike_findings_are_one(slipping):
    """Left and right finger sink alike, and one option helps both."""
    (deep,) = slipping.of("deep-contact")
    assert len(deep.others) == 1


def test_problems_come_before_warnings_and_these_before_information():
    """Whatever their scores."""
    made = [
        Finding("k", severity, "here", "why", "what", Number("n", 1.0), "do", score=score)
        for severity, score in (("info", 9.0), ("warning", 1.0), ("problem", 0.1), ("warning", 2.0))
    ]
    assert [(f.severity, f.score) for f in worst_first(made)] == [
        ("problem", 0.1),
        ("warning", 2.0),
        ("warning", 1.0),
        ("info", 9.0),
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.1e-3, "m", "2.1 mm"),
        (0.0, "m/s", "0 m/s"),
        (50000.0, "N/m", "50000 N/m"),
        (12.345, "%", "12.3 %"),
        (math.inf, "m", "inf m"),
    ],
)
def test_quantities_have_readable_units(value, unit, text):
    assert show(value, unit) == text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"seconds": 0.0}, ValueError, "positive"),
        ({"seconds": "1"}, TypeError, "a time"),
        ({"seconds": 0.1, "every": 21}, ValueError, "from 1 to the 20 steps"),
        ({"seconds": 0.1, "every": 1.5}, TypeError, "number of steps"),
        ({"worlds": [1]}, ValueError, "worlds 0 to 0"),
        ({"worlds": []}, TypeError, "numbers of worlds"),
    ],
)
def test_arguments_that_cannot_be_met(arguments, error, message):
    with pytest.raises(error, match=message):
        boxes().diagnose(**arguments)


SCENE = """
schema_version: 1
name: weak_arm
simulation: {dt: 0.005}
bodies:
  - id: arm
    mass: 2.0
    com: [0.25, 0, 0]
    inertia: [0.01, 0.05, 0.05]
    shapes: [{type: sphere, radius: 0.02, density: 0.0}]
ground: false
joints:
  - id: shoulder
    type: revolute
    parent: world
    child: arm
    axis: y
    target_ke: 1000.0
    target_kd: 50.0
    effort_limit: 3.0
articulations:
  - {id: tree, joints: [shoulder]}
"""


def test_the_command_fails_where_there_is_a_problem(tmp_path, capsys):
    """And writes what it prints."""
    scene, out = tmp_path / "arm.yaml", tmp_path / "report.json"
    scene.write_text(SCENE, encoding="utf-8")
    assert cli.main(["diagnose", str(scene), "--duration", "0.3", "--after", "0.05", "--json", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "problem: drive-saturated at shoulder" in printed
    finding = json.loads(out.read_text(encoding="utf-8"))["findings"][0]
    assert finding["cause"] == "effort-limit"


def test_the_command_succeeds_where_there_is_none(capsys):
    assert cli.main(["diagnose", "free_cube", "--duration", "0.2", "--num-worlds", "3"]) == 0
    printed = capsys.readouterr().out
    assert "nothing found" in printed
    assert "3 worlds" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diagnose", "no-such-scene"], "no-such-scene"),
        (["diagnose", "free_cube", "--duration", "-1"], "--duration"),
        (["diagnose", "free_cube", "--json", "/no/such/folder/x.json"], "no folder"),
    ],
)
def test_requests_that_cannot_be_met(capsys, arguments, message):
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err
