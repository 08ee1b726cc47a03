"""Lowest point of a robot, from the kinematics of a URDF, for link origins alone."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np

_X, _Y, _Z = np.eye(3)


def lowest_link(root: ElementTree.Element, values: dict[str, float]) -> float:
    """Return the height of the lowest link origin above that of the upright base [m]; at most zero.

    Args:
        root: The element <robot>.
        values: Positions of joints that are not at zero [rad or m], by name.
    """
    below: dict[str, list[ElementTree.Element]] = {}
    for joint in root.findall("joint"):
        below.setdefault(_link(joint, "parent"), []).append(joint)
    children = {_link(joint, "child") for joint in root.findall("joint")}
    bases = [name for name in (link.get("name", "") for link in root.findall("link")) if name not in children]
    lowest, waiting = 0.0, [(base, np.zeros(3), np.eye(3)) for base in bases]
    while waiting:
        link, p, R = waiting.pop()
        for joint in below.get(link, ()):
            p_child, R_child = _child_pose(joint, p, R, values.get(joint.get("name", ""), 0.0))
            lowest = min(lowest, float(p_child[2]))
            waiting.append((_link(joint, "child"), p_child, R_child))
    return lowest


def _child_pose(
    joint: ElementTree.Element, p: np.ndarray, R: np.ndarray, value: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pose of the child of a joint at ``value``, from that of its parent."""
    origin, axis = joint.find("origin"), _three(joint.find("axis"), "xyz", "1 0 0")
    axis = axis / (np.linalg.norm(axis) or 1.0)
    roll, pitch, yaw = _three(origin, "rpy", "0 0 0")
    p = p + R @ _three(origin, "xyz", "0 0 0")
    R = R @ _about(_Z, yaw) @ _about(_Y, pitch) @ _about(_X, roll)
    return (p + R @ (value * axis), R) if joint.get("type") == "prismatic" else (p, R @ _about(axis, value))


def _link(joint: ElementTree.Element, end: str) -> str:
    node = joint.find(end)
    return node.get("link", "") if node is not None else ""


def _three(node: ElementTree.Element | None, name: str, default: str) -> np.ndarray:
    return np.array((node.get(name, default) if node is not None else default).split(), dtype=np.float64)


def _about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return the rotation by ``angle`` [rad] about a unit axis."""
    K = np.cross(np.eye(3), axis)
    return np.eye(3) + math.sin(angle) * K + (1.0 - math.cos(angle)) * K @ K
