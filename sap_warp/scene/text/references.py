"""Check references between the parts of a scene: ids, joints between bodies, articulations."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .errors import Path

if TYPE_CHECKING:
    from ..schema import Scene

Finding = tuple[Path, str]
MAX_FINDINGS = 100
"""Most problems of one kind that are looked for; finding the nearest name takes time in a large scene."""
MAX_SHOWN = 8
"""Most names that a message lists."""


def find_reference_problems(scene: Scene) -> list[Finding]:
    """Return everything that does not fit together, with its path in the scene."""
    names = itertools.chain(
        _duplicates("bodies", scene.bodies),
        _duplicates("joints", scene.joints),
        _duplicates("articulations", scene.articulations),
        _duplicates("assets", scene.assets),
        _articulation_problems(scene),
        _capacity_problems(scene),
    )
    tree = list(itertools.islice(_joint_problems(scene), MAX_FINDINGS))
    # Joints that form no tree belong to none: what else would be said about them is a consequence.
    loose = [] if tree else _loose_joint_problems(scene)
    return [*itertools.islice(names, MAX_FINDINGS), *tree, *itertools.islice(loose, MAX_FINDINGS)]


def names_of(data: Any, sections: type) -> Any:
    """Return the names in a scene with other errors, for `find_reference_problems`; None if they are wrong too.

    A name that cannot be read would make every mention of it look wrong.
    """
    if not isinstance(data, dict) or not all(key in sections.accepted_keys() for key in data):  # type: ignore[attr-defined]
        return None
    wanted = {"bodies": ("id",), "joints": ("id", "child", "parent"), "articulations": ("id",), "assets": ()}
    found: dict[str, list[SimpleNamespace]] = {}
    for section, keys in wanted.items():
        found[section] = []
        items = data.get(section) or []
        for item in items if isinstance(items, list) else [None]:
            if not isinstance(item, dict):
                return None
            names = {"id": item.get("id"), "parent": item.get("parent", "world"), "child": item.get("child")}
            listed = item.get("joints")
            if not all(isinstance(names[key], str) and names[key] for key in keys):
                return None
            if section == "articulations" and not (
                isinstance(listed, list) and all(isinstance(name, str) for name in listed)
            ):
                return None
            found[section].append(SimpleNamespace(**names, joints=listed))
    return SimpleNamespace(**found, simulation=SimpleNamespace(max_rigid_contact=None, solver={}))


def tell_nearest(name: str, names: Iterable[str], what: str) -> str:
    """Return a sentence about the names that would have been valid."""
    names = list(dict.fromkeys(names))
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return f"there is no {what}"
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    shown = ", ".join(map(repr, names[:MAX_SHOWN])) + more
    return f"the {what} are {shown}"


def _duplicates(section: str, items: Sequence[Any]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for i, item in enumerate(items):
        if item.id is None:
            continue
        if item.id in seen:
            yield (section, i, "id"), f"{item.id!r} is already the id of {section}[{seen[item.id]}]"
        elif section == "bodies" and item.id == "world":
            yield (section, i, "id"), "'world' stands for the world; choose another id"
        seen.setdefault(item.id, i)


def _capacity_problems(scene: Scene) -> Iterator[Finding]:
    """Find a capacity that is given twice with two values."""
    one, other = scene.simulation.max_rigid_contact, scene.simulation.solver.get("max_rigid_contact")
    if one is not None and other is not None and one != other:
        path, inner = ("simulation", "max_rigid_contact"), ("simulation", "solver", "max_rigid_contact")
        yield path, f"found {one}, but simulation.solver.max_rigid_contact is {other}; give one of them"
        yield inner, f"found {other}, but simulation.max_rigid_contact is {one}; give one of them"


def _joint_problems(scene: Scene) -> Iterator[Finding]:
    bodies = dict.fromkeys(body.id for body in scene.bodies)
    parent_of: dict[str, str] = {}
    joint_of: dict[str, int] = {}
    sound = True
    for i, joint in enumerate(scene.joints):
        if joint.child not in bodies:
            sound = False
            yield (
                ("joints", i, "child"),
                f"unknown body {joint.child!r}; " + tell_nearest(joint.child, bodies, "bodies"),
            )
        elif joint.child in joint_of:
            other = scene.joints[joint_of[joint.child]].id
            yield ("joints", i, "child"), f"{joint.child!r} is already the child of joint {other!r}; joints form a tree"
        if joint.parent != "world" and joint.parent not in bodies:
            sound = False
            names = ["world", *bodies]
            yield (
                ("joints", i, "parent"),
                f"unknown body {joint.parent!r}; " + tell_nearest(joint.parent, names, "bodies"),
            )
        parent_of.setdefault(joint.child, joint.parent)
        joint_of.setdefault(joint.child, i)
    if not sound:
        return
    for i, body in enumerate(scene.bodies):
        if body.id not in parent_of:
            yield (
                ("bodies", i),
                f"body {body.id!r} is the child of no joint; add a free joint for a body that moves freely, or a fixed "
                "one to hold it",
            )
    yield from _order_problems(scene, parent_of, joint_of)


def _order_problems(scene: Scene, parent_of: dict[str, str], joint_of: dict[str, int]) -> Iterator[Finding]:
    """Find cycles, and joints that come before the joint of their parent body."""
    looped = _find_cycles(parent_of)
    for i, joint in enumerate(scene.joints):
        if joint_of.get(joint.child) != i:
            continue
        if joint.child in looped:
            loop = looped[joint.child]
            if i == min(joint_of[name] for name in loop):
                names = [*loop, loop[0]] if len(loop) <= MAX_SHOWN else [*loop[: MAX_SHOWN - 1], "...", loop[0]]
                shown = " -> ".join(names)
                yield ("joints", i), f"the joints form a cycle: {shown}; one of them must have the world as parent"
        elif joint.parent not in looped and joint.parent in joint_of and joint_of[joint.parent] > i:
            other = scene.joints[joint_of[joint.parent]].id
            yield (
                ("joints", i),
                f"comes before joint {other!r}, which holds its parent; list joints from the root outwards",
            )


def _find_cycles(parent_of: dict[str, str]) -> dict[str, list[str]]:
    """Map bodies that are their own ancestors to their cycle, child to parent; every body is visited once."""
    looped: dict[str, list[str]] = {}
    visited: set[str] = set()
    for start in parent_of:
        trail: dict[str, int] = {}
        body = start
        while body in parent_of and body not in visited and body not in trail:
            trail[body] = len(trail)
            body = parent_of[body]
        if body in trail:
            cycle = list(trail)[trail[body] :]
            looped.update((name, cycle) for name in cycle)
        visited.update(trail)
    return looped


def _articulation_problems(scene: Scene) -> Iterator[Finding]:
    index = {joint.id: i for i, joint in enumerate(scene.joints)}
    owner: dict[str, str] = {}
    for i, articulation in enumerate(scene.articulations):
        numbers = []
        if not articulation.joints:
            yield ("articulations", i, "joints"), "found no joints; an articulation has at least one"
        for j, name in enumerate(articulation.joints):
            path: Path = ("articulations", i, "joints", j)
            if name not in index:
                yield path, f"unknown joint {name!r}; " + tell_nearest(name, index, "joints")
                continue
            if name in owner:
                yield path, f"joint {name!r} is already in articulation {owner[name]!r}"
            owner.setdefault(name, articulation.id)
            numbers.append(index[name])
        if len(numbers) == len(articulation.joints) and numbers:
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                yield (
                    ("articulations", i, "joints"),
                    "its joints must stand next to each other in 'joints' and in the same order",
                )
            else:
                yield from _split_problems(scene, i, numbers)


def _loose_joint_problems(scene: Scene) -> Iterator[Finding]:
    listed = {name for articulation in scene.articulations for name in articulation.joints}
    for joints in _loose_trees(scene, {i for i, joint in enumerate(scene.joints) if joint.id in listed}):
        if joints != list(range(joints[0], joints[0] + len(joints))):
            first = scene.joints[joints[0]].id
            yield ("joints", joints[0]), f"joints of the tree that starts with {first!r} must stand next to each other"
        elif (parent := scene.joints[joints[0]].parent) != "world":
            yield ("joints", joints[0]), f"is in no articulation, but its parent {parent!r} is; list it there"


def _split_problems(scene: Scene, i: int, numbers: list[int]) -> Iterator[Finding]:
    """Find joints whose parent body hangs on a joint of another articulation."""
    members = {scene.joints[n].child for n in numbers}
    for j, n in enumerate(numbers):
        joint = scene.joints[n]
        if joint.parent != "world" and joint.parent not in members:
            yield (
                ("articulations", i, "joints", j),
                f"joint {joint.id!r} is disconnected: its parent {joint.parent!r} is not part of this articulation",
            )


def trees_of(scene: Scene) -> list[tuple[str, list[int]]]:
    """Return articulations as label and joint numbers: those that the scene lists, and trees of all other joints.

    A tree that the scene does not list is named after its first joint.
    """
    index = {joint.id: i for i, joint in enumerate(scene.joints)}
    trees = [(articulation.id, [index[name] for name in articulation.joints]) for articulation in scene.articulations]
    loose = _loose_trees(scene, {i for _, joints in trees for i in joints})
    trees += [(scene.joints[joints[0]].id, joints) for joints in loose]
    return sorted(trees, key=lambda tree: tree[1][0])


def _loose_trees(scene: Scene, listed: set[int]) -> list[list[int]]:
    """Return joints that are in no articulation, by tree."""
    root_of: dict[str, int] = {}
    trees: dict[int, list[int]] = {}
    for i, joint in enumerate(scene.joints):
        root = i if joint.parent == "world" else root_of.get(joint.parent, i)
        root_of.setdefault(joint.child, root)
        if i not in listed:
            trees.setdefault(root, []).append(i)
    return list(trees.values())
