"""Imports point one way: no package knows what is built on it, and no module imports itself in a ring."""

import ast
from functools import cache
from pathlib import Path

import pytest

import sap_warp

ROOT = Path(sap_warp.__file__).parent
BELOW = {
    "faq": set(),
    "lazy_names": set(),
    "warp_output": set(),
    "native": set(),
    "kernels": {"native"},
    "conventions": set(),
    "scene_files": set(),
    "notes": {"scene_files"},
    "newton_view": set(),
    "randomization": set(),
    "model": {"newton_view", "kernels", "conventions"},
    "model_values": {"model"},
    "contacts": {"newton_view", "model"},
    "collision": {"newton_view", "kernels", "model", "contacts"},
    "solver": {"notes", "kernels", "model", "model_values", "contacts"},
    "explain": {"conventions", "model", "contacts", "collision", "solver", "kernels"},
    "advice": {"notes", "solver", "collision"},
    "scene": {"conventions", "model", "contacts", "collision", "solver", "explain", "scene_files", "kernels"}
    | {"notes", "advice"},
    "diagnose": {"solver"},
    "scenes": {"scene", "scene_files", "solver"},
    "pictures": {"kernels"},
    "signals": {"kernels"},
    "sensors": {"kernels"},
    "task_names": set(),
    "cluster": set(),
    "envs": {"simulation", "scene_files", "task_names", "cluster"},
    "learning": {"envs"},
    "robots": {"scene"},
    "rollouts": {"simulation", "scene_files", "cluster"},
    "sweeps": {"cluster", "kernels", "scene", "scene_files", "scenes", "signals", "simulation", "solver"},
    "simulation": {
        "pictures",
        "signals",
        "sensors",
        "kernels",
        "model",
        "model_values",
        "contacts",
        "collision",
        "solver",
        "scene",
        "scene_files",
        "notes",
        "advice",
        "diagnose",
        "randomization",
        "robots",
        "viewer",
    },
    "viewer": {"visuals", "solver"},
    "visuals": set(),
    "compare": {"model", "solver", "simulation", "scenes"},
    "validation": {
        "conventions",
        "model",
        "contacts",
        "collision",
        "solver",
        "scene",
        "scenes",
        "simulation",
        "compare",
        "scene_files",
    },
}
"""What each package or module may import, besides itself; the command line may import everything."""
EVERYWHERE = {"faq", "lazy_names"}
"""What every package may import, because they import nothing themselves."""
TOP = {"cli", "commands", "__init__"}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules():
    """Syntax tree of every module, by its name below the package."""
    return {module_name(path): (path, ast.parse(path.read_text(encoding="utf-8"))) for path in ROOT.rglob("*.py")}


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def statements(tree, lazy):
    """Import statements that run; with those inside functions if ``lazy``."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            yield node
        elif is_for_types(node) or (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not lazy):
            continue
        else:
            waiting.extend(
                child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.excepthandler))
            )


def imported(name, lazy):
    """Modules of this package that a module imports."""
    path, tree = modules()[name]
    base = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in statements(tree, lazy):
        if node.level == 0:
            if (node.module or "").split(".")[0] != "sap_warp":
                continue
            prefix = (node.module or "").split(".")[1:]
        else:
            prefix = [part for part in base[: len(base) - node.level + 1] if part]
            prefix += (node.module or "").split(".") if node.module else []
        for alias in node.names:
            inner = ".".join([*prefix, alias.name])
            yield inner if inner in modules() else ".".join(prefix)


def owner(name):
    return name.split(".")[0] or "__init__"


def test_every_package_has_its_place():
    """A new package has to say what it may import."""
    assert {owner(name) for name in modules()} - TOP == set(BELOW)


@pytest.mark.parametrize("package", sorted(BELOW))
def test_no_arrow_points_up(package):
    """Also not inside functions."""
    allowed = BELOW[package] | {package} | EVERYWHERE
    wrong = [
        f"{name} imports {other}"
        for name in modules()
        if owner(name) == package
        for other in imported(name, lazy=True)
        if owner(other) not in allowed
    ]
    assert not wrong


def test_what_may_be_imported_has_no_ring():
    """The table itself is a tree of layers."""
    left = {name: set(below) for name, below in BELOW.items()}
    while left:
        free = [name for name, below in left.items() if not below & set(left)]
        assert free, f"a ring among {sorted(left)}"
        for name in free:
            del left[name]


def test_no_ring_of_modules():
    """Modules can be imported in some order without one that is half loaded."""
    edges = {name: set(imported(name, lazy=False)) - {name} for name in modules() if name}
    state = {}

    def visit(name, chain):
        if state.get(name) == "done" or name not in edges:
            return
        assert state.get(name) != "open", " -> ".join([*chain[chain.index(name) :], name])
        state[name] = "open"
        for other in sorted(edges[name]):
            if not name.startswith(other + "."):  # a package's own __init__ is being loaded already
                visit(other, [*chain, name])
        state[name] = "done"

    for name in edges:
        visit(name, [])
