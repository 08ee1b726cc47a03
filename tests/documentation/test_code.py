"""Every block of code in docs is executed as it stands; `test_package.py` does it with those of the README.

A Python block is a whole program. One whose title is "continued" is a fragment: it goes on with the names of the blocks
above it. A block whose title is the name of a file is that file for the programs of its page; tutorials share theirs.
One whose title begins with "needs" asks for machines that a test has not, and is only compiled. Shell blocks are not
run, but every `sap-warp` line in them is one that the command line understands, and the scene that it names exists. A
YAML block with the name of a file is a whole scene and loads; another one is a part of one.
"""

import re
import shlex
import warnings

import pytest
import warp as wp
import yaml

from sap_warp import cli, load_sap_scene_config
from sap_warp.core.task_names import TASKS
from sap_warp.scene.shipped.scene_files import find_scene_file
from tests.support.markdown import PAGES, blocks

OPTIONAL = {"torch", "gymnasium", "stable_baselines3", "rsl_rl", "mujoco", "pydrake", "ray", "viser", "pyarrow"}
"""Packages that a reader may not have; a page that imports one says so."""


def with_python():
    return [page for page in PAGES if page.name != "README.md" and blocks(page, "python")]


def is_file(block):
    return re.fullmatch(r"[\w/-]+\.\w+", block.title) is not None


def on_this_machine(text):
    """Programs for several GPUs run here on as many CPUs."""
    return text if wp.is_cuda_available() else re.sub(r'"cuda:\d"', '"cpu"', text)


@pytest.mark.parametrize("page", with_python(), ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """In their order, whole programs with names of their own; nothing warns."""
    monkeypatch.chdir(tmp_path)
    shared = [other for other in PAGES if page.parent.name == "tutorials" == other.parent.name]
    for block in (block for each in [*shared, page] for block in blocks(each) if is_file(block)):
        (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    names = {}
    for block in blocks(page, "python"):
        if not block.is_continued:
            names = {"__name__": "__main__"}
        program = compile("\n" * block.line + on_this_machine(block.text), str(page), "exec")
        if block.title.startswith("needs "):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("error", RuntimeWarning)
            try:
                exec(program, names)
            except ImportError as error:  # one of ours names the package and has Python's own as its cause
                missing = getattr(error.__cause__, "name", None) or error.name or ""
                if missing.split(".")[0] not in OPTIONAL:
                    raise
                pytest.skip(f"{block.place} needs {missing}")


def test_no_fragment_comes_first():
    """A fragment has a program that it continues."""
    first = [found[0] for page in PAGES if (found := blocks(page, "python"))]
    assert [block.place for block in first if block.is_continued] == []


def shell_lines():
    """Lines of shell blocks and of shown sessions that call our command, without their comments."""
    for page in PAGES:
        for block in blocks(page, "bash", "text", "console"):
            for line in block.text.replace("\\\n", " ").splitlines():
                match = re.match(r"(?:\$ )?(?:[\w./]*/)?sap-warp (?P<rest>.*)", line)
                if match and "..." not in line and not re.search(r"[\[\]]|TASK|\bSCENE\b", line):
                    yield block.place, match["rest"]


def is_listing(rest):
    """A line of a table of commands: two words of explanation after two blanks."""
    return re.search(r"\S {2,}\S", rest.split(" # ")[0]) is not None


def test_shell_lines_are_understood():
    """Each is parsed by the command's own parser, and scenes are shipped ones or files of the page."""
    lines = [(place, rest) for place, rest in shell_lines() if not is_listing(rest)]
    assert len(lines) > 20
    parser, _ = cli.make_parsers()
    for place, rest in lines:
        words = shlex.split(rest, comments=True)
        words = words[: next((i for i, word in enumerate(words) if word in {"|", ">", "&"}), len(words))]
        if {"--help", "--version"} & set(words) or not words:
            continue
        arguments = parser.parse_args(words)
        scene = getattr(arguments, "scene", None)
        if isinstance(scene, str) and "." not in scene and "humanoyd" not in scene:
            assert find_scene_file(scene), place
        task = getattr(arguments, "task", None)
        if isinstance(task, str) and ":" not in task:
            assert task in TASKS, place


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=lambda page: page.name)
def test_yaml_blocks_are_scenes_or_parts_of_them(page, tmp_path, monkeypatch):
    """With a file name they are whole and valid; without, their keys are those of a scene."""
    from sap_warp.scene.json_schema import scene_json_schema

    monkeypatch.chdir(tmp_path)
    known = set(scene_json_schema()["properties"])
    for block in blocks(page, "yaml"):
        content = yaml.safe_load(block.text)
        if is_file(block):
            load_sap_scene_config(content)
        else:
            assert set(content) <= known, block.place
