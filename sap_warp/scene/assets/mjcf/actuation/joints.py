"""Bodies with several joints, split where Newton's single joint for all of them would behave differently."""

from __future__ import annotations

from ....text.nodes import Node, walk
from ..coordinates import bodies_of, body_joints, joint_kind
from ..reader import MjcfDocument

_MOST = 3
"""Largest number of slides, or of hinges, in one joint of Newton's."""


def take_first_numbers(document: MjcfDocument) -> None:
    """Keep only the linear coefficient of springs and dampers; notes have named the others already."""
    joints = [node for world in document.sections("worldbody") for node in walk(world) if node.tag == "joint"]
    for node in (*joints, *document.elements("tendon", "fixed", "spatial")):
        for name in ("stiffness", "damping"):
            if node.get(name) is not None:
                node.put(name, list(node.numbers(name)[:1]))


def split_joints(document: MjcfDocument) -> None:
    """Put bodies without mass between joints of a body that do not fit into one.

    Newton makes one joint of all those of a body: slides first, then hinges through one point. MuJoCo moves a body by
    its joints in their order, each about its own point.
    """
    parent_of = {child: node for world in document.sections("worldbody") for node in walk(world) for child in node}
    names = {node.get("name") for node in parent_of if node.tag == "body"}
    for body in bodies_of(document.root):
        groups = _groups(body_joints(body))
        above = parent_of[body]
        for i, group in enumerate(groups[:-1]):
            between = Node("body", origin=body)
            if body.get("name"):
                between.set("name", _free_name(f"{body.get('name')}_part{i}", names))
            if i == 0:
                for name in ("pos", "quat"):
                    if body.get(name) is not None:
                        between.set(name, body.get(name, ""))
                above[list(above).index(body)] = between
                body.drop("pos", "quat")
            else:
                above.append(between)
            for joint in group:
                body.remove(joint)
                between.append(joint)
            document.parts.add(between)
            above = between
        if len(groups) > 1:
            above.append(body)


def _groups(joints: list[Node]) -> list[list[Node]]:
    """Split joints into runs that fit into one joint of Newton's, in their order."""
    groups: list[list[Node]] = []
    for joint in joints:
        if groups and _fits(groups[-1], joint):
            groups[-1].append(joint)
        else:
            groups.append([joint])
    return groups


def _fits(group: list[Node], joint: Node) -> bool:
    kinds = [joint_kind(other) for other in group]
    kind = joint_kind(joint)
    if {"ball", "free"} & {kind, *kinds} or kinds.count(kind) == _MOST or (kind == "slide" and "hinge" in kinds):
        return False
    return kind == "slide" or _point(joint) == _point(group[0])


def _point(joint: Node) -> tuple[float, ...]:
    return tuple(joint.numbers("pos", 3)) if joint.get("pos") else (0.0, 0.0, 0.0)


def _free_name(name: str, taken: set[str | None]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
