"""Imports point one way: no room knows what is built on it, and no module imports itself in a ring."""

import ast
from functools import cache
from pathlib import Path

import pytest

import sap_warp

ROOT = Path(sap_warp.__file__).parent
BELOW = {
    "core.faq": set(),
    "core.lazy_names": set(),
    "core.printable": set(),
    "core.notes": {"core.printable"},
    "core.json_values": set(),
    "core.long_work": {"core.notes"},
    "core.task_names": set(),
    "core.warp_output": set(),
    "core.native": set(),
    "core.kernels": {"core.native"},
    "core.runtime": set(),
    "conventions": set(),
    "randomization": set(),
    "model": {"core.kernels", "conventions"},
    "collision.state": {"model"},
    "collision.model": {"model", "collision.state"},
    "collision.newton_compat": set(),
    "collision.buffers": {"core.kernels", "model", "collision.model", "collision.newton_compat"},
    "collision.broad": {"core.kernels", "model"},
    "collision.narrow": {"core.kernels", "model", "collision.buffers", "collision.broad"},
    "collision.repair": {"core.kernels", "model", "collision.buffers", "collision.narrow"},
    "collision": {"core.kernels", "core.runtime", "model", "collision.state", "collision.model"}
    | {"collision.newton_compat", "collision.buffers", "collision.broad", "collision.narrow"}
    | {"collision.repair"},
    "solver.settings": {"core.kernels", "core.native"},
    "solver.terms": {"core.kernels", "solver.settings"},
    "solver.model": {"core.kernels", "model", "solver.settings"},
    "solver.state": {"core.kernels", "model", "solver.settings", "solver.model"},
    "solver.dynamics": {"core.kernels", "solver.settings", "solver.model"},
    "solver.contact": {
        "core.kernels",
        "core.faq",
        "model",
        "solver.settings",
        "solver.terms",
        "solver.model",
        "solver.state",
    },
    "solver.joints": {"core.kernels", "model", "solver.settings", "solver.terms", "solver.contact"},
    "solver.equations": {"core.kernels", "solver.settings", "solver.terms", "solver.model"},
    "solver.tendons": {"core.kernels", "model", "solver.settings", "solver.terms", "solver.model", "solver.equations"},
    "solver.prepare": {"core.kernels", "model", "solver.settings", "solver.terms", "solver.model", "solver.contact"}
    | {"solver.joints", "solver.equations", "solver.tendons"},
    "solver.objective": {"core.kernels", "solver.settings", "solver.terms", "solver.model", "solver.contact"}
    | {"solver.equations"},
    "solver.minimize": {"core.kernels", "solver.settings", "solver.terms", "solver.model", "solver.state"}
    | {"solver.objective"},
    "solver.outputs": {"core.kernels", "model", "solver.settings", "solver.terms", "solver.model", "solver.state"}
    | {"solver.contact", "solver.joints", "solver.objective"},
    "solver": {"core.notes", "core.kernels", "core.runtime", "model", "solver.settings", "solver.terms"}
    | {"solver.model", "solver.state", "solver.dynamics", "solver.contact", "solver.prepare"}
    | {"solver.equations", "solver.tendons", "solver.minimize", "solver.outputs"},
    "look.pictures": {"core.kernels", "core.runtime", "model"},
    "look.sensors": {"core.kernels", "core.runtime"},
    "look.signals": {"core.kernels", "core.runtime"},
    "look.viewer": {"model", "solver.settings", "look.visuals"},
    "look.visuals": {"model"},
    "judge.advice": {"core.notes", "model", "collision.broad", "solver.settings", "solver.terms", "solver.model"},
    "judge.compare": {"core.json_values", "model", "solver", "scene.shipped", "simulation"},
    "judge.diagnose": {"core.json_values", "model", "solver.settings", "solver.terms", "solver.model"},
    "judge.explain": {"core.json_values", "conventions", "model", "solver.settings", "solver.terms", "solver.model"}
    | {"solver.contact"},
    "judge.validation": {"conventions", "model", "collision", "solver", "judge.compare", "simulation"},
    "scene.shipped.scene_files": set(),
    "scene.text": {"core.printable", "core.kernels"},
    "scene.assets.sources": {"scene.text"},
    "scene.objects": {"core.kernels", "model", "solver.model", "scene.text", "scene.assets.sources"},
    "scene.assets": {"core.printable", "core.notes", "core.long_work", "conventions", "model", "scene.text"}
    | {"scene.assets.sources", "scene.objects"},
    "scene.edits": {"core.notes", "core.runtime", "model", "collision.newton_compat", "solver.settings", "scene.text"}
    | {"scene.objects", "scene.assets"},
    "scene": {"core.printable", "core.notes", "core.long_work", "core.runtime", "model", "collision.buffers"}
    | {"collision", "solver.settings", "solver.model", "solver", "judge.advice", "scene.text"}
    | {"scene.assets.sources", "scene.objects", "scene.assets", "scene.edits"},
    "scene.shipped": {"model", "solver.model", "scene"},
    "scene.robots": {"scene.assets"},
    "simulation.kernels": {"core.kernels", "model", "solver.settings"},
    "simulation.run": {"core.notes", "core.kernels", "core.runtime", "model", "collision.newton_compat"}
    | {"collision.buffers", "collision", "solver.settings", "solver.model", "solver.minimize", "solver"}
    | {"simulation.kernels"},
    "simulation.views": {"core.runtime", "model", "solver.model", "simulation.kernels", "simulation.run"},
    "simulation.parameters": {"core.runtime", "model", "solver.contact", "simulation.kernels", "simulation.views"},
    "simulation.random": {"core.kernels", "core.runtime", "randomization", "model", "simulation.views"}
    | {"simulation.parameters"},
    "simulation.checkpoint": {"core.runtime", "simulation.run", "simulation.views", "simulation.parameters"}
    | {"simulation.random"},
    "simulation": {"core.notes", "core.kernels", "core.runtime", "randomization", "model", "solver.settings"}
    | {"solver", "look.pictures", "look.sensors", "look.signals", "look.viewer", "judge.advice"}
    | {"judge.diagnose", "scene.assets", "scene", "scene.robots", "simulation.run"}
    | {"simulation.views", "simulation.parameters", "simulation.random", "simulation.checkpoint"},
    "envs": {"core.task_names", "simulation.run", "simulation.views", "simulation"},
    "envs.tasks": {"simulation", "envs"},
    "envs.adapters": {"envs", "scale.cluster"},
    "envs.training": {"envs", "envs.adapters"},
    "scale.cluster": set(),
    "scale.rollouts": {"simulation.views", "simulation.checkpoint", "simulation", "scale.cluster"},
    "scale.sweeps": {"core.runtime", "solver", "look.signals", "scene.text", "scene.assets", "scene", "scene.shipped"}
    | {"simulation.checkpoint", "simulation", "scale.cluster"},
}
"""What each room may import, besides itself; the command line may import everything.

A room is a folder, or a module that is a room of its own; what is not listed belongs to the room around it. `scene` is
what lies in the folder itself. Every arrow here is used.
"""
EVERYWHERE = {"core.faq", "core.lazy_names", "scene.shipped.scene_files"}
"""What every room may import, because they import nothing but each other."""
TOP = {"cli", "commands", "__init__"}
FLOORS = {"core", "look", "judge", "scale"}
"""Packages that are nothing but their rooms."""


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
    """The room of a module: the nearest one around it that is in the table."""
    parts = name.split(".")
    around = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((room for room in around if room in BELOW), parts[0] or "__init__")


@cache
def arrows():
    """Arrows between rooms, also those inside functions, with the modules that make them."""
    found = {}
    for name in modules():
        for other in imported(name, lazy=True):
            if owner(other) != owner(name):
                found.setdefault((owner(name), owner(other)), []).append(f"{name} imports {other}")
    return found


def test_every_room_has_its_place():
    """A new package has to say what it may import."""
    assert {owner(name) for name in modules()} - TOP - FLOORS == set(BELOW)
    assert {name for name in modules() if owner(name) in FLOORS} == FLOORS


@pytest.mark.parametrize("room", sorted(BELOW))
def test_no_arrow_points_up(room):
    """Also not inside functions."""
    allowed = BELOW[room] | EVERYWHERE
    wrong = [line for (low, high), lines in arrows().items() if low == room and high not in allowed for line in lines]
    assert not wrong


def test_every_arrow_of_the_table_is_used():
    """So that the table tells what is, and an arrow that went cannot come back unseen."""
    unused = [f"{room} -> {other}" for room, below in BELOW.items() for other in below if (room, other) not in arrows()]
    assert not unused


def test_what_may_be_imported_has_no_ring():
    """The table itself is a tree of layers."""
    left = dict(BELOW)
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
