"""Frames of the joints that close loops (<connect> and <weld>), which Newton's importer places by its own rules.

It ties the point of the first site to whatever meets it in the pose of the file, takes the anchor of a weld as one of
the first body, and wants welded bodies to have equal axes, whatever ``relpose`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ....text.nodes import Node, walk
from ..bodies.poses import Angles, Pose, read_pose
from ..coordinates import bodies_of
from ..reader import MjcfDocument

if TYPE_CHECKING:
    from ..content import Import

_RADIANS = Angles(degrees=False)
_WORLD = -1


def drop_self_ties(document: MjcfDocument) -> None:
    """Remove equalities that tie a body to itself, with a note; Newton has no joint for them."""
    body_of = {site.get("name"): body for body in bodies_of(document.root) for site in body.children("site")}
    for section in document.sections("equality"):
        for node in section.children("connect", "weld"):
            by_site = node.get("site1") is not None
            ends = [body_of.get(node.get(name)) for name in ("site1", "site2")]
            names = [node.get(name) or "world" for name in ("body1", "body2")]
            if (by_site and ends[0] is ends[1]) or (not by_site and names[0] == names[1]):
                section.remove(node)
                document.notes.append(f"{node.location()}: <{node.tag}>: ties a body to itself; it does not act")


def translate_welds(document: MjcfDocument) -> None:
    """Rewrite a weld that lets its bodies turn as <connect>; `set_loop_frames` still knows it by its frames."""
    for node in document.elements("equality", "weld"):
        if node.number("torquescale", 1.0) == 0.0:
            node.tag = "connect"
            node.set("was", "weld")
            if node.get("anchor") is None and node.get("site1") is None:
                node.set("anchor", "0 0 0")


def set_loop_frames(done: Import) -> None:
    """Give the joints that close loops the frames that MuJoCo would."""
    builder = done.build.builder
    nodes = [
        node
        for part in done.document.sections("equality")
        for tag in ("connect", "weld")
        for node in part.children(tag)
        if max(_ends(done, node)) != _WORLD  # Newton leaves out what ties the world to itself
    ]
    carrying = set(done.joint_of.values())
    loops = [joint for joint in range(done.first["joint"], builder.joint_count) if joint not in carrying]
    if len(loops) != len(nodes):
        raise RuntimeError("Newton has imported other equalities than the file has")
    for node, joint in zip(nodes, loops, strict=True):
        frames = dict(zip(_ends(done, node), _frames(done, node), strict=True))
        builder.joint_X_p[joint] = frames[builder.joint_parent[joint]]
        builder.joint_X_c[joint] = frames[builder.joint_child[joint]]


def _ends(done: Import, node: Node) -> tuple[int, int]:
    """Return the two bodies that an equality ties."""
    if node.get("site1") is not None:
        return _site(done, node.get("site1", ""))[0], _site(done, node.get("site2", ""))[0]
    number = {body.get("name"): i for i, body in done.bodies.items() if body.get("name")}
    return number.get(node.get("body1"), _WORLD), number.get(node.get("body2"), _WORLD)


def _frames(done: Import, node: Node) -> tuple[Any, Any]:
    """Return the frames of the two bodies that the equality makes agree."""
    one, two = _ends(done, node)
    if node.get("site1") is not None:
        sites = [_site(done, node.get(name, "")) for name in ("site1", "site2")]
        here, there = (_root(done, body) * _transform(done, pose) for body, pose in sites)
        return here, there
    anchor = node.numbers("anchor", 3) if node.get("anchor") is not None else np.zeros(3)
    given = _transform(done, Pose(anchor, np.array([1.0, 0.0, 0.0, 0.0])))
    first, second = _pose(done, one), _pose(done, two)
    if node.tag == "connect" and node.get("was") is None:
        frame = _root(done, one) * given  # the second body keeps what meets it in the pose of the file
        return frame, wp.transform_inverse(second) * first * frame
    frame = _root(done, two) * given
    relative = node.numbers("relpose", 7) if node.get("relpose") is not None else np.zeros(7)
    if not relative[3:].any():
        return wp.transform_inverse(first) * second * frame, frame
    pose = Pose(relative[:3], relative[3:] / np.linalg.norm(relative[3:]))
    return _root(done, one) * _transform(done, pose), frame


def _site(done: Import, name: str) -> tuple[int, Pose]:
    """Return the body of a site, and its pose there."""
    number = {node: body for body, node in done.bodies.items()}
    for body in bodies_of(done.document.root):
        for site in body.children("site"):
            if site.get("name") == name:
                return number[body], read_pose(site, _RADIANS)
    worlds = [node for world in done.document.sections("worldbody") for node in walk(world) if node.tag == "site"]
    return _WORLD, read_pose(next(site for site in worlds if site.get("name") == name), _RADIANS)


def _transform(done: Import, pose: Pose) -> Any:
    w, x, y, z = map(float, pose.q)
    return wp.transform(wp.vec3(*map(float, done.asset.scale * pose.p)), wp.quat(x, y, z, w))


def _root(done: Import, body: int) -> Any:
    """Return the frame of the file in that of a body: the pose of the asset if the body is the world."""
    return wp.transform(*done.asset.xform) if body == _WORLD else wp.transform_identity()


def _pose(done: Import, body: int) -> Any:
    """Return a body's pose in the pose of the file."""
    return wp.transform_identity() if body == _WORLD else wp.transform(*done.build.builder.body_q[body])
