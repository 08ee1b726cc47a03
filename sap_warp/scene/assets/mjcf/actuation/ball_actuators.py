"""Rewrite actuators on ball joints as actuators between two sites, one on the body and one on its parent.

A site and a reference site give the same length, the rotation vector of the joint times the gear, and the same torque
on both bodies. MuJoCo's ``joint`` takes the gear in the axes of the body, ``jointinparent`` in those that the body has
at rest.
"""

from __future__ import annotations

import numpy as np

from ....text.nodes import Node, walk
from ..coordinates import body_joints, joint_kind
from ..reader import MjcfDocument


def translate_ball_actuators(document: MjcfDocument) -> None:
    """Replace the transmission of every actuator on a ball joint."""
    parent_of = {child: node for world in document.sections("worldbody") for node in walk(world) for child in node}
    balls = {
        joint.get("name"): body
        for body in parent_of
        if body.tag == "body"
        for joint in body_joints(body)
        if joint_kind(joint) == "ball" and joint.get("name")
    }
    sites: dict[Node, tuple[str, str]] = {}
    for node in document.elements("actuator"):
        for name in ("joint", "jointinparent"):
            body = balls.get(node.get(name))
            if body is None:
                continue
            if body not in sites:
                sites[body] = _add_sites(body, parent_of[body], len(sites))
            moving, resting = sites[body]
            gear = np.zeros(3)
            given = node.numbers("gear")[:3] if node.get("gear") is not None else np.array([1.0])
            gear[: len(given)] = given
            node.drop(name)
            node.put("gear", [0.0, 0.0, 0.0, *(gear if name == "jointinparent" else -gear)])
            node.set("site", moving if name == "jointinparent" else resting)
            node.set("refsite", resting if name == "jointinparent" else moving)


def _add_sites(body: Node, parent: Node, number: int) -> tuple[str, str]:
    """Add two sites that coincide at rest, in the body and in its parent, and return their names."""
    moving, resting = f"ball_{number}_moving", f"ball_{number}_resting"
    body.append(Node("site", {"name": moving}, origin=body))
    pose = {key: body.get(key, "") for key in ("pos", "quat") if body.get(key) is not None}
    parent.append(Node("site", {"name": resting, **pose}, origin=body))
    return moving, resting
