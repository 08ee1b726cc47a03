"""What a reader can take in: limits of files, functions and parameters (CONTRIBUTING.md), and the solver's own page."""

import ast
import re
from pathlib import Path

import pytest

import sap_warp

ROOT = Path(sap_warp.__file__).parent
FILE_LINES, FUNCTION_LINES, PARAMETERS = 600, 120, 12


def too_large(source: str) -> list[str]:
    """What exceeds the limits in a text. A function's lines are all of them, with those of functions in it."""
    found = [f"{lines} lines"] if (lines := len(source.splitlines())) > FILE_LINES else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            parameters = len([name for name in names if name not in ("self", "cls")])
            if lines > FUNCTION_LINES:
                found.append(f"{node.name} has {lines} lines")
            if parameters > PARAMETERS:
                found.append(f"{node.name} has {parameters} parameters")
    return found


def test_files_and_functions_are_small():
    """No file over 600 lines, no function over 120 (factories of kernels count whole), at most 12 parameters."""
    found = {path.relative_to(ROOT).as_posix(): too_large(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    assert not {path: faults for path, faults in found.items() if faults}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = 0\n" * 601, "601 lines"),
        ("def make():\n    def inner():\n" + "        pass\n" * 119, "make has 121 lines"),
        ("def wide(self, *, " + ", ".join(f"p{i}" for i in range(13)) + "): ...", "wide has 13 parameters"),
    ],
)
def test_what_is_too_large_is_found(source, fault):
    """One line, or one parameter, more than allowed."""
    assert too_large(source) == [fault]


def test_the_solvers_page_names_every_file():
    """And no file that is not there."""
    text = (ROOT / "solver" / "README.md").read_text("utf-8")
    named = {name for name in re.findall(r"`([\w/]+\.py)`", text) if not name.startswith("core/")}
    files = {path.relative_to(ROOT / "solver").as_posix() for path in (ROOT / "solver").rglob("*.py")}
    assert named == {name for name in files if not name.endswith("__init__.py")}
