"""Initial poses of inline bodies: from their transforms, and from the frames of their joints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ..text.values import Transform
from .objects import Body, DistanceJoint, FreeJoint

if TYPE_CHECKING:
    from ..build import SceneBuild

MAX_SHIFT = 1e-4
"""Largest distance of two positions that count as equal [m], for bodies within 1 m of the origin."""
MAX_TURN = 1e-3
"""Largest angle between two rotations that count as equal [rad]: the rounding of three decimals."""


def parent_frame(build: SceneBuild, joint: Any) -> wp.transform:
    """Return the frame of a joint in its parent.

    A joint to the world that does not say where it is, is where the transform of its body puts it. A floating joint
    has its pose in its coordinates.
    """
    if joint.parent_xform is not None:
        return wp.transform(*joint.parent_xform)
    if joint.parent != "world" or _floats(joint):
        return wp.transform()
    return build.builder.body_q[build.body_of[joint.child]] * wp.transform(*joint.child_xform)


def place_child(build: SceneBuild, joint: Any, index: int) -> None:
    """Make the pose of the body below a new joint agree with the coordinates of that joint.

    Bodies below it then start from there. Coordinates of Newton's new joints are 0; those of free joints are already
    as the transform of the body has it.
    """
    if isinstance(joint, FreeJoint):
        return
    builder = build.builder
    parent, child = builder.joint_parent[index], builder.joint_child[index]
    above = builder.joint_X_p[index] if parent < 0 else builder.body_q[parent] * builder.joint_X_p[index]
    if isinstance(joint, DistanceJoint):
        start = builder.joint_q_start[index]
        pose = wp.transform_inverse(above) * builder.body_q[child] * builder.joint_X_c[index]
        builder.joint_q[start : start + 7] = list(pose)
    else:
        builder.body_q[child] = above * wp.transform_inverse(builder.joint_X_c[index])


def _floats(joint: Any) -> bool:
    return isinstance(joint, (FreeJoint, DistanceJoint))


def note_misplaced_bodies(build: SceneBuild, model: newton.Model, all_worlds: newton.ModelBuilder) -> None:
    """Note where a body starts whose joints overrule its transform.

    A transform may tell the pose before or after the edits of joint_q. Bodies above which one was named are left out:
    they are off because that one is.

    Args:
        build: The authored world.
        model: All worlds, bodies placed.
        all_worlds: What the model was made of.
    """
    world = build.builder
    if not build.body_of:
        return
    moved = np.array(all_worlds.body_q[0][:3], float) - np.array(world.body_q[0][:3], float)  # world 0 in the grid
    final = model.body_q.numpy()[: world.body_count].astype(float) - np.append(moved, np.zeros(4))
    bodies = {body.id: (i, body) for i, body in enumerate(build.scene.bodies)}
    off: set[str] = set()
    for joint in build.scene.joints:
        i, body = bodies[joint.child]
        index = build.body_of[body.id]
        if joint.parent in off:
            off.add(body.id)
        elif "transform" in body.model_fields_set and not _floats(joint):
            poses = np.array(world.body_q[index], float), final[index]
            if not any(_is_same(body.transform, pose) for pose in poses):
                off.add(body.id)
                _note(build, i, body, joint, poses[1], index)


def _note(build: SceneBuild, i: int, body: Body, joint: Any, pose: np.ndarray, index: int) -> None:
    problem = build.document.problem(("joints", build.scene.joints.index(joint), "parent_xform"), "")
    line = "" if problem.line is None else f" (line {problem.line})"
    frames = "parent_xform" if joint.parent == "world" else "the frames"
    build.note(
        "placement",
        ("bodies", i, "transform"),
        f"{body.id!r} is at {_shown(np.array([*body.transform.p, *body.transform.q]))} by its transform, but starts at "
        f"{_shown(pose)} by {frames} of joint {joint.id!r}{line}; make them agree, or leave one out",
        ("body", index),
    )


def _is_same(transform: Transform, pose: np.ndarray) -> bool:
    shift = float(np.linalg.norm(pose[:3] - transform.p))
    turn = 2.0 * float(min(np.linalg.norm(pose[3:] - transform.q), np.linalg.norm(pose[3:] + transform.q)))
    return shift <= MAX_SHIFT * max(1.0, float(np.linalg.norm(transform.p))) and turn <= MAX_TURN


def _shown(pose: np.ndarray) -> str:
    def numbers(values: np.ndarray) -> str:
        return ", ".join(f"{round(value, 4) + 0.0:g}" for value in values.tolist())

    return f"p = [{numbers(pose[:3])}], q = [{numbers(pose[3:])}]"
