"""What the house promises: rooms that a reader can survey, docstrings that help without the code, the solver's page."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import sap_warp

ROOT = Path(sap_warp.__file__).parent
MOST_FILES = 12
LARGER_ROOMS = {"commands": "one file per sub-command"}
"""Rooms with more files, each with the reason."""
RIDDLES = re.compile(r"(The same|Of|Likewise|As)\b")
"""Beginnings that are understood only by a reader of the lines above."""


def docstrings(source: str) -> list[tuple[str, str]]:
    """Name and docstring of the modules, classes, functions and documented attributes of a text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((getattr(node, "name", "module"), ast.get_docstring(node) or ""))
        if isinstance(node, ast.Module | ast.ClassDef):
            for field, text in zip(node.body, node.body[1:], strict=False):
                is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
                if isinstance(field, ast.Assign | ast.AnnAssign) and is_text:
                    target = field.targets[0] if isinstance(field, ast.Assign) else field.target
                    found.append((ast.unparse(target), str(text.value.value)))
    return [(name, text) for name, text in found if text]


def unhelpful(source: str) -> list[str]:
    """Names of what has a docstring that begins like a riddle, and of functions whose docstring is one word."""
    functions = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    return [
        name
        for name, text in docstrings(source)
        if RIDDLES.match(text) or (name in functions and len(text.split()) == 1)
    ]


def test_rooms_have_at_most_a_dozen_files():
    """Without ``__init__``; a room that needs more is listed with the reason, and leaves the list when it does not."""
    rooms = Counter(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if path.stem != "__init__")
    assert {room for room, count in rooms.items() if count > MOST_FILES} == set(LARGER_ROOMS)


@pytest.mark.parametrize("room", sorted({path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")}))
def test_docstrings_help_without_the_code(room):
    """None of them continues the one before, and a function's says more than a word."""
    home = ROOT / room
    files = [home] if home.is_file() else sorted(home.rglob("*.py"))
    found = {path.relative_to(ROOT).as_posix(): unhelpful(path.read_text("utf-8")) for path in files}
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('"""The same for a mesh."""', ["module"]),
        ('def f():\n    """Position."""', ["f"]),
        ('class C:\n    x: int\n    """Of the body."""\n    y: int\n    """Offset of the body."""', ["x"]),
        ('def f():\n    """Return the asset."""\n\n\nclass D:\n    """Sphere."""', []),
    ],
)
def test_unhelpful_docstrings_are_found(source, names):
    """In modules, functions and attributes; words that only begin alike do not count."""
    assert unhelpful(source) == names


def test_the_solvers_page_names_every_file():
    """And no file that is not there."""
    text = (ROOT / "solver" / "README.md").read_text("utf-8")
    named = {name for name in re.findall(r"`([\w/]+\.py)`", text) if not name.startswith("core/")}
    files = {path.relative_to(ROOT / "solver").as_posix() for path in (ROOT / "solver").rglob("*.py")}
    assert named == {name for name in files if not name.endswith("__init__.py")}
