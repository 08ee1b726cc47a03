"""Every message that names an answer finds it on the page, and every answer has its message."""

import re

import pytest

from sap_warp import Simulation
from sap_warp.scene_files import UnknownSceneError, find_scene_file
from tests.support.markdown import ROOT

PAGE = ROOT / "docs" / "faq.md"


def anchors():
    return re.findall(r"^###? .* \{ #([\w-]+) \}$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def named_in_messages():
    files = (ROOT / "sap_warp").rglob("*.py")
    return {name for file in files for name in re.findall(r"\bsee\([\"']([\w-]+)[\"']\)", file.read_text("utf-8"))}


def notes():
    """Names of notes, as the page about scene files lists them."""
    text = (ROOT / "docs" / "loader.md").read_text(encoding="utf-8").split("## Notes")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[\w-]+`(?:, `[\w-]+`)*) \|", text, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)}


def test_anchors_are_those_that_messages_name():
    """Both ways, and none twice."""
    found = anchors()
    assert len(found) == len(set(found))
    assert set(found) == named_in_messages() | notes()


def test_every_note_of_the_code_is_listed():
    """Names of notes are texts of the code; the list on the page about scene files is complete."""
    source = "".join(path.read_text("utf-8") for path in (ROOT / "sap_warp").rglob("*.py"))
    ids = set(re.findall(r"\bNote\(\s*\"([\w-]+)\"", source))
    assert ids and ids <= notes()


def test_messages_carry_the_reference():
    """As a reader meets it."""
    with pytest.raises(UnknownSceneError, match=r"docs/faq\.md#unknown-scene"):
        find_scene_file("no_such_scene")
    sim = Simulation.from_scene("cube", num_worlds=1)
    with pytest.raises(KeyError, match=r"docs/faq\.md#unknown-name"):
        sim.find_joints("no_such_joint")
    with pytest.raises(ValueError, match=r"docs/faq\.md#too-many-threads"):
        Simulation.from_scene("cube", num_worlds=1, threads=2)
