"""MuJoCo's order of coordinates, and keyframes taken apart by joint and actuator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...text.errors import Complaint
from ...text.nodes import Node

SIZES = {"free": (7, 6), "ball": (4, 3), "hinge": (1, 1), "slide": (1, 1)}
"""Numbers of coordinates and dofs of a joint."""
_SEVERAL_INPUTS = ("pid", "orientation", "dcmotor")


@dataclass
class Key:
    """A <key>: values for the joints and actuators that it names, in MuJoCo's conventions."""

    name: str
    node: Node
    q: dict[Node, np.ndarray] = field(default_factory=dict)
    qd: dict[Node, np.ndarray] = field(default_factory=dict)
    ctrl: dict[Node, float] = field(default_factory=dict)
    act: dict[Node, float] = field(default_factory=dict)


def joint_kind(joint: Node) -> str:
    """Return the type of a joint: free, ball, hinge or slide."""
    kind = "free" if joint.tag == "freejoint" else joint.get("type", "hinge")
    if kind not in SIZES:
        raise Complaint(f"{joint.location('type')}: joint type {kind!r}; expected one of {', '.join(SIZES)}")
    return kind


def body_joints(body: Node) -> list[Node]:
    """Return the joints of a body, including those in its frames."""
    return [joint for node in body for joint in _joints(node)]


def _joints(node: Node) -> list[Node]:
    if node.tag in ("joint", "freejoint"):
        return [node]
    return body_joints(node) if node.tag == "frame" else []


def child_bodies(body: Node) -> Iterator[Node]:
    """Return the bodies directly below a body, including those in its frames."""
    for node in body:
        if node.tag == "body":
            yield node
        elif node.tag == "frame":
            yield from child_bodies(node)


def bodies_of(root: Node) -> list[Node]:
    """Return all bodies, parents first, in the order in which MuJoCo and Newton number them."""

    def below(body: Node) -> Iterator[Node]:
        for child in child_bodies(body):
            yield child
            yield from below(child)

    return [body for world in root.children("worldbody") for body in below(world)]


def mocap_bodies(root: Node) -> list[Node]:
    """Return the mocap bodies, which the user places."""
    return [body for body in bodies_of(root) if body.get("mocap") == "true"]


def mocap_joint(body: Node) -> Node:
    """Return the free joint for a mocap body, not yet added to it."""
    return Node("freejoint", {"name": f"{body.get('name')}_mocap"} if body.get("name") else None, origin=body)


def _read_mocap(key: Key, mocap: dict[Node, Node]) -> None:
    """Return poses of mocap bodies; what a key leaves open is as the body is drawn."""
    given = {name: key.node.get(name) is not None for name in ("mpos", "mquat")}
    if not any(given.values()):
        return
    for name, attribute, size in (("mpos", "pos", 3), ("mquat", "quat", 4)):
        values = _of_length(key.node, name, size * len(mocap)).reshape(-1, size) if given[name] else None
        for i, (body, joint) in enumerate(mocap.items()):
            drawn = np.eye(4)[0] if size == 4 else np.zeros(3)
            if values is not None:
                drawn = values[i]
            elif body.get(attribute) is not None:
                drawn = body.numbers(attribute, size)
            key.q[joint] = np.concatenate([key.q.get(joint, np.zeros(0)), drawn])


def read_keys(root: Node, mocap: dict[Node, Node]) -> list[Key]:
    """Return the keyframes of a document with mocap bodies and their joints.

    Raises:
        Complaint: One has too many or too few numbers.
    """
    joints = [joint for body in bodies_of(root) for joint in body_joints(body)]
    actuators = [node for section in root.children("actuator") for node in section]
    sizes = np.array([SIZES[joint_kind(joint)] for joint in joints], dtype=int).reshape(-1, 2)
    keys = []
    for node in (node for section in root.children("keyframe") for node in section):
        key = Key(node.get("name", ""), node)
        for name, column, target in (("qpos", 0, key.q), ("qvel", 1, key.qd)):
            if node.get(name) is not None:
                values = _of_length(node, name, int(sizes[:, column].sum()))
                target.update(zip(joints, np.split(values, np.cumsum(sizes[:, column])[:-1]), strict=False))
        if node.get("ctrl") is not None:
            _check_inputs(node, actuators, "ctrl", len(actuators))
            key.ctrl.update(zip(actuators, map(float, _of_length(node, "ctrl", len(actuators))), strict=True))
        _read_mocap(key, mocap)
        if node.get("act") is not None:
            active = [actuator for actuator in actuators if has_activation(actuator)]
            _check_inputs(node, actuators, "act", len(active))
            key.act.update(zip(active, map(float, _of_length(node, "act", len(active))), strict=True))
        keys.append(key)
    return keys


def has_activation(actuator: Node) -> bool:
    """Return True if an actuator has a state of its own."""
    if actuator.tag == "general":
        return actuator.get("dyntype", "none") != "none"
    return actuator.tag in ("intvelocity", "cylinder", "muscle") or (
        actuator.tag == "position" and actuator.number("timeconst", 0.0) > 0.0
    )


def _check_inputs(key: Node, actuators: list[Node], name: str, count: int) -> None:
    several = next((node for node in actuators if node.tag in _SEVERAL_INPUTS), None)
    if several is not None and len(key.numbers(name)) != count:
        what = f"<{several.tag}> takes several inputs, which is not supported; remove it, or {name} of the keyframe"
        raise Complaint(f"{several.location()}: {what} {key.get('name', '')!r}")


def _of_length(node: Node, name: str, count: int) -> np.ndarray:
    values = node.numbers(name)
    if len(values) != count:
        what = f"keyframe {node.get('name', '')!r} has {len(values)} numbers in {name}"
        raise Complaint(f"{node.location(name)}: {what}; the model has {count}")
    return values


def cut_key(key: Key, kept: set[Node], prefix: str) -> Key:
    """Return a key restricted to the elements that are ``kept``, under a new name."""

    def only(values: dict[Node, np.ndarray]) -> dict[Node, np.ndarray]:
        return {node: value for node, value in values.items() if node in kept}

    inputs = [{node: value for node, value in given.items() if node in kept} for given in (key.ctrl, key.act)]
    return Key(prefix + key.name, key.node, only(key.q), only(key.qd), *inputs)
