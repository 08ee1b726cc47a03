"""Expand frames and replicas: their poses go into what they hold."""

from __future__ import annotations

import numpy as np

from ....text.errors import Complaint
from ....text.nodes import Node
from ..names import copy_references, copy_with_ending, names_below
from .poses import Angles, Pose, from_euler, from_z_axis, read_pose, rotate, write_pose

_RADIANS = Angles(degrees=False)
_MAX_COPIES = 100_000


def flatten_frames(body: Node) -> None:
    """Replace every <frame> below ``body`` by its content, moved."""
    for child in list(body):
        if child.tag == "body":
            flatten_frames(child)
        elif child.tag == "frame":
            index = list(body).index(child)
            body.remove(child)
            flatten_frames(child)
            pose = read_pose(child, _RADIANS)
            for i, node in enumerate(list(child)):
                if not pose.is_identity:
                    move(node, pose)
                body.insert(index + i, node)


def resolve_segment(node: Node) -> None:
    """Write a shape that is given by the two ends of its axis as one with a pose."""
    kind = node.get("type")
    if node.get("fromto") is None or kind not in ("capsule", "cylinder", "box", "ellipsoid"):
        return
    ends = node.numbers("fromto", 6).reshape(2, 3)
    axis = ends[0] - ends[1]  # local z points to the first end
    width = node.numbers("size")[:1].tolist() * (1 if kind in ("capsule", "cylinder") else 2)
    node.put("size", [*width, float(np.linalg.norm(axis)) / 2])
    node.drop("fromto")
    write_pose(node, Pose(ends.mean(axis=0), from_z_axis(axis)))


def move(node: Node, frame: Pose) -> None:
    """Put an element, given in ``frame``, into the frame above."""
    if node.tag == "joint":
        if node.get("type", "hinge") != "free":
            node.put("pos", frame.apply(read_pose(node, _RADIANS).p))
            node.put(
                "axis", rotate(frame.q, node.numbers("axis", 3) if node.get("axis") else np.array([0.0, 0.0, 1.0]))
            )
    elif node.tag == "light":
        node.put("pos", frame.apply(read_pose(node, _RADIANS).p))
        node.put("dir", rotate(frame.q, node.numbers("dir", 3) if node.get("dir") else np.array([0.0, 0.0, -1.0])))
    elif node.tag == "inertial" and node.get("fullinertia") is not None:
        _turn_inertia(node, frame)
    elif node.tag not in ("freejoint", "plugin"):
        write_pose(node, frame * read_pose(node, _RADIANS))


def _turn_inertia(node: Node, frame: Pose) -> None:
    xx, yy, zz, xy, xz, yz = node.numbers("fullinertia", 6)
    R = np.column_stack([rotate(frame.q, axis) for axis in np.eye(3)])
    I = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    node.put("fullinertia", [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])
    node.put("pos", frame.apply(read_pose(node, _RADIANS).p))


def expand_replicas(root: Node) -> None:
    """Replace every <replicate> by copies in frames, and copy what refers to its content."""
    for world in root.children("worldbody"):
        _expand(root, world)


def _expand(root: Node, body: Node) -> None:
    for child in list(body):
        if child.tag in ("body", "frame", "replicate"):
            _expand(root, child)
        if child.tag == "replicate":
            index = list(body).index(child)
            body.remove(child)
            for i, copy in enumerate(_copies(root, child)):
                body.insert(index + i, copy)


def _copies(root: Node, node: Node) -> list[Node]:
    count = int(node.number("count", 0))
    if not 0 < count <= _MAX_COPIES:
        raise Complaint(f"{node.location('count')}: <replicate> makes {count} copies; 1 to {_MAX_COPIES} are possible")
    offset = node.numbers("offset", 3) if node.get("offset") is not None else np.zeros(3)
    turn = node.numbers("euler", 3)
    inside, digits, position = names_below(node), len(str(count - 1)), np.zeros(3)
    endings = [f"{node.get('sep', '')}{i:0{digits}d}" for i in range(count)]
    copies = []
    for i, ending in enumerate(endings):
        frame = Node("frame", None, node)
        frame.extend([copy_with_ending(inner, inside, ending) for inner in node])
        rotation = from_euler(i * turn, node.get("sequence", "xyz"))
        write_pose(frame, Pose(position, rotation))
        copies.append(frame)
        position = position + rotate(rotation, offset)
    copy_references(root, inside, endings)
    return copies
