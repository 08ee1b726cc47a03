"""Find the joints, dofs, coordinates or shapes that an edit selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..text.errors import Complaint, below
from ..text.references import tell_nearest
from ..text.values import resolve_index
from .operations import Selector

if TYPE_CHECKING:
    from ..build import SceneBuild

_UNITS = {"shape": "shapes", "dof": "degrees of freedom", "coordinate": "coordinates"}


def find_joint(build: SceneBuild, name: str) -> int:
    """Return the joint with this id or label, or whose label ends with it after a slash."""
    if name in build.joint_of:
        return build.joint_of[name]
    return find_label(name, build.builder.joint_label, "joint")


def find_body(build: SceneBuild, name: str | int) -> int:
    """Return the body with this id, label, end of its label or number; -1 for the world."""
    if isinstance(name, int):
        return resolve_index(name, build.builder.body_count)
    if name == "world":
        return -1
    if name in build.body_of:
        return build.body_of[name]
    return find_label(name, build.builder.body_label, "body")


def find_label(name: str, labels: Sequence[str], what: str) -> int:
    """Return the index of the only label that is ``name`` or ends with it after a slash."""
    hits = [i for i, label in enumerate(labels) if label == name]
    hits = hits or [i for i, label in enumerate(labels) if label.endswith(f"/{name}")]
    if len(hits) == 1:
        return hits[0]
    if hits:
        shown = ", ".join(repr(labels[i]) for i in hits[:4])
        raise Complaint(f"{name!r} stands for {len(hits)} {_plural(what)}: {shown}; give more of the label")
    ends = [label.rsplit("/", 1)[-1] for label in labels]
    raise Complaint(f"unknown {what} {name!r}; " + tell_nearest(name, [*ends, *labels], _plural(what)))


def _plural(what: str) -> str:
    return "bodies" if what == "body" else what + "s"


def select_joints(build: SceneBuild, selector: Selector) -> list[int]:
    """Return the joints that a selector names by label."""
    kind = selector.selected_by()
    if kind in ("joint", "joint_label"):
        with below(kind):
            return [find_joint(build, getattr(selector, kind))]
    if kind in ("joints", "joint_labels"):
        return [_find_listed_joint(build, kind, i, name) for i, name in enumerate(getattr(selector, kind))]
    return _match_labels(selector, kind or "", build.builder.joint_label, "joints")


def _find_listed_joint(build: SceneBuild, kind: str, i: int, name: str) -> int:
    with below(kind, i):
        return find_joint(build, name)


def _match_labels(selector: Selector, kind: str, labels: Sequence[str], what: str) -> list[int]:
    text = getattr(selector, kind)
    hits = [
        i for i, label in enumerate(labels) if (label.startswith(text) if kind == "label_prefix" else text in label)
    ]
    if not hits:
        rule = "starts with" if kind == "label_prefix" else "contains"
        raise Complaint(f"no label of the {what} {rule} {text!r}; " + tell_nearest(text, labels, what), (kind,))
    return hits


def select_entries(build: SceneBuild, selector: Selector, unit: str) -> list[int]:
    """Return the entries of an array that a selector names.

    Args:
        build: The scene.
        selector: Part of an edit; one without any selection means everything.
        unit: What the array has an entry for: ``"shape"``, ``"dof"`` or ``"coordinate"``.
    """
    builder = build.builder
    length = {"shape": builder.shape_count, "dof": builder.joint_dof_count, "coordinate": builder.joint_coord_count}[
        unit
    ]
    kind = selector.selected_by()
    if kind is None:
        if not length:
            raise Complaint(f"there is nothing to edit: the scene has no {_UNITS[unit]}")
        return list(range(length))
    if kind == "index":
        with below("index"):
            return [resolve_index(selector.index, length)]
    if kind == "range":
        with below("range"):
            return list(selector.range.resolve(length))
    if unit == "shape":
        if kind not in ("label_prefix", "match"):
            raise Complaint("a joint selects no shapes; use index, range, label_prefix or match", (kind,))
        return _match_labels(selector, kind, builder.shape_label, "shapes")
    entries = [entry for joint in select_joints(build, selector) for entry in joint_entries(build, joint, unit)]
    if not entries:
        raise Complaint(f"selects nothing: the joints that it names have no {_UNITS[unit]}", (kind,))
    return entries


def joint_entries(build: SceneBuild, joint: int, unit: str) -> range:
    """Return the dofs or coordinates of one joint."""
    builder = build.builder
    starts = builder.joint_qd_start if unit == "dof" else builder.joint_q_start
    total = builder.joint_dof_count if unit == "dof" else builder.joint_coord_count
    return range(starts[joint], starts[joint + 1] if joint + 1 < builder.joint_count else total)
