"""Every message that names an answer finds it on the page, and every answer has its message."""

import re

import pytest

from sap_warp import Simulation
from sap_warp.scene.shipped.scene_files import UnknownSceneError, find_scene_file
from tests.support.markdown import ROOT, headings

PAGE = ROOT / "docs" / "faq.md"


def anchors():
    return re.findall(r"^###? .* \{ #([\w-]+) \}$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def sources():
    """Text of every module by its file."""
    return {file: file.read_text("utf-8") for file in (ROOT / "sap_warp").rglob("*.py")}


def named_in_messages():
    found = set()
    for file, text in sources().items():
        if re.search(r"^\s*from \.+(core\.)?faq import see$", text, flags=re.MULTILINE):
            calls, named = re.findall(r"\bsee\(", text), re.findall(r"\bsee\([\"']([\w-]+)[\"']\)", text)
            assert len(calls) == len(named) > 0, f"{file}: name the answer in the call, so that this test sees it"
            found.update(named)
    return found


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
    ids = set(re.findall(r"\bNote\(\s*\"([\w-]+)\"", "".join(sources().values())))
    assert ids and ids <= notes()


def test_pages_that_the_code_names_exist():
    """In messages, help texts and docstrings, with the heading if one is named."""
    named = {
        (page, anchor)
        for file, text in sources().items()
        if file.name != "faq.py"
        for page, anchor in re.findall(r"\bdocs/([\w/-]+\.md)(?:#([\w-]+))?", text)
    }
    assert named
    for page, anchor in named:
        assert (ROOT / "docs" / page).exists(), page
        assert not anchor or anchor in headings(ROOT / "docs" / page), f"{page}#{anchor}"


def test_messages_carry_the_reference():
    """As a reader meets it."""
    with pytest.raises(UnknownSceneError, match=r"docs/faq\.md#unknown-scene"):
        find_scene_file("no_such_scene")
    sim = Simulation.from_scene("cube", num_worlds=1)
    with pytest.raises(KeyError, match=r"docs/faq\.md#unknown-name"):
        sim.find_joints("no_such_joint")
    with pytest.raises(ValueError, match=r"docs/faq\.md#too-many-threads"):
        Simulation.from_scene("cube", num_worlds=1, threads=2)
