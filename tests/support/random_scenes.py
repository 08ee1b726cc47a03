"""Random trees of bodies with offsets, filters and defaults, and what they must become: an oracle that reads the scene.

Poses are 4x4 matrices here, rotations come from Rodrigues' formula; nothing of the loader is used.
"""

from __future__ import annotations

import numpy as np

SCALAR_FIELDS = {
    "armature": (0.0, 1.0),
    "target_ke": (1.0, 10.0),
    "target_kd": (1.0, 10.0),
    "target_pos": (-1.0, 1.0),
    "target_vel": (-1.0, 1.0),
    "friction": (0.0, 1.0),
    "damping": (0.0, 1.0),
    "limit_lower": (-2.0, -1.0),
    "limit_upper": (1.0, 2.0),
    "limit_ke": (10.0, 100.0),
    "limit_kd": (1.0, 2.0),
    "effort_limit": (10.0, 20.0),
    "velocity_limit": (10.0, 20.0),
}
"""Joint fields with the ranges that they are taken from; the first limits never cross the second ones."""
KINDS = ("fixed", "free", "revolute", "prismatic", "ball", "d6", "distance")
FLOATING = ("free", "distance")


def make_scene(rng, count=6):
    """A scene: bodies ``b0`` and so on with joints ``j0`` and so on, a wall of the world, some shapes added later."""
    defaults = _some_fields(rng, 0.5)
    if rng.random() < 0.5:
        defaults["axis"] = _unit(rng).tolist()
    scene = {"bodies": [], "joints": [], "initial_joint_q": [], "builder": {"defaults": {"joint": defaults}}}
    root = 0
    for i in range(count):
        kind = "free" if i == 0 else str(rng.choice(KINDS))
        root = i if i == 0 or rng.random() < 0.4 else root  # joints of a tree stand next to each other
        parent = "world" if root == i else f"b{rng.integers(root, i)}"
        body = {"id": f"b{i}", "shapes": [_shape(rng) for _ in range(rng.integers(1, 3))]}
        joint = {"id": f"j{i}", "type": kind, "parent": parent, "child": f"b{i}"}
        _put(rng, body, "transform", 0.6, lambda: _pose(rng))
        _put(rng, joint, "parent_xform", 0.5, lambda: _pose(rng))
        _put(rng, joint, "child_xform", 0.5, lambda: _pose(rng))
        _put(rng, joint, "collision_filter_parent", 0.6, lambda: bool(rng.random() < 0.5))
        if kind in ("revolute", "prismatic"):
            joint |= _some_fields(rng, 0.3)
            _put(rng, joint, "axis", 0.5, lambda: _unit(rng).tolist())
        if kind == "d6":
            joint["linear_axes"] = [{"axis": _unit(rng).tolist(), **_some_fields(rng, 0.3)}]
            joint["angular_axes"] = [{"axis": _unit(rng).tolist(), **_some_fields(rng, 0.3)}]
        scene["bodies"].append(body)
        scene["joints"].append(joint)
        if kind not in (*FLOATING, "fixed") and rng.random() < 0.5:
            values = _unit(rng, 4) if kind == "ball" else rng.uniform(-1.0, 1.0, 2 if kind == "d6" else 1)
            scene["initial_joint_q"].append({"joint": f"j{i}", "values": values.tolist()})
    added = ["world", *(f"b{i}" for i in rng.integers(0, count, 2))]
    scene["post_build"] = [{"op": "add_shape", "body": body, "shape": _shape(rng)} for body in added]
    return scene


def _some_fields(rng, share):
    return {name: float(rng.uniform(*bounds)) for name, bounds in SCALAR_FIELDS.items() if rng.random() < share}


def _put(rng, block, key, share, make):
    if rng.random() < share:
        block[key] = make()


def _shape(rng):
    shape = {"type": "sphere", "radius": 0.1}
    _put(rng, shape, "collision_filter_parent", 0.4, lambda: bool(rng.random() < 0.5))
    _put(rng, shape, "has_shape_collision", 0.3, lambda: bool(rng.random() < 0.5))
    return shape


def _unit(rng, size=3):
    vector = rng.normal(size=size)
    return vector / np.linalg.norm(vector)


def _pose(rng):
    return {"p": rng.uniform(-1.0, 1.0, 3).tolist(), "q": _unit(rng, 4).tolist()}


# What it must become.


def _turn(axis, angle):
    """Rodrigues' formula."""
    x, y, z = np.array(axis, float) / np.linalg.norm(axis)
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K


def _turn_of(quaternion):
    x, y, z, w = quaternion
    length = np.linalg.norm([x, y, z])
    return _turn([x, y, z], 2.0 * np.arctan2(length, w)) if length > 0.0 else np.eye(3)


def _matrix(rotation=None, position=(0.0, 0.0, 0.0)):
    result = np.eye(4)
    result[:3, :3] = np.eye(3) if rotation is None else rotation
    result[:3, 3] = position
    return result


def matrix_of(pose):
    """A transform of a scene as a 4x4 matrix."""
    return _matrix(_turn_of(pose.get("q", (0.0, 0.0, 0.0, 1.0))), pose.get("p", (0.0, 0.0, 0.0)))


def _motion(joint, defaults, values):
    """What the coordinates of a joint do: from its parent frame to its child frame."""
    if joint["type"] == "fixed" or values is None:
        return np.eye(4)
    axis = np.array(joint.get("axis", defaults.get("axis", [1.0, 0.0, 0.0])))
    if joint["type"] == "revolute":
        return _matrix(_turn(axis, values[0]))
    if joint["type"] == "prismatic":
        return _matrix(position=axis * values[0])
    if joint["type"] == "ball":
        return _matrix(_turn_of(values))
    slide, turn = (np.array(joint[key][0]["axis"]) for key in ("linear_axes", "angular_axes"))
    return _matrix(_turn(turn, values[1]), slide * values[0])


def expected_poses(scene):
    """Pose of every body as a 4x4 matrix.

    A joint to the world that gives no parent frame is where its body's transform says; floating ones always start at
    the transform, before the joints above are moved.
    """
    defaults = scene["builder"]["defaults"]["joint"]
    moved = {edit["joint"]: edit["values"] for edit in scene["initial_joint_q"]}
    start, final = {"world": np.eye(4)}, {"world": np.eye(4)}
    for body, joint in zip(scene["bodies"], scene["joints"], strict=True):
        parent, child = joint["parent"], joint["child"]
        transform = matrix_of(body.get("transform", {}))
        below = np.linalg.inv(matrix_of(joint.get("child_xform", {})))
        if joint["type"] in FLOATING:
            start[child] = transform
            final[child] = final[parent] @ np.linalg.inv(start[parent]) @ transform
            continue
        if "parent_xform" in joint:
            above = matrix_of(joint["parent_xform"])
        else:
            above = transform @ np.linalg.inv(below) if parent == "world" else np.eye(4)
        start[child] = start[parent] @ above @ below
        final[child] = final[parent] @ above @ _motion(joint, defaults, moved.get(joint["id"])) @ below
    return [final[body["id"]] for body in scene["bodies"]]


def expected_fields(scene):
    """Fields of every dof, in order; None where nothing says anything about it."""
    defaults = scene["builder"]["defaults"]["joint"]
    rows = []
    for joint in scene["joints"]:
        kind = joint["type"]
        if kind in ("revolute", "prismatic"):
            rows.append({name: joint.get(name, defaults.get(name)) for name in SCALAR_FIELDS})
        elif kind == "d6":
            axes = (*joint["linear_axes"], *joint["angular_axes"])
            rows += [{name: axis.get(name, defaults.get(name)) for name in SCALAR_FIELDS} for axis in axes]
        elif kind == "ball":
            rows += [{name: defaults.get(name, 0.0) for name in ("armature", "friction", "damping")}] * 3
        elif kind in FLOATING:
            rows += [{"armature": defaults.get("armature", 0.0), "friction": 0.0, "damping": 0.0}] * 6
    return rows


def expected_filters(scene):
    """Pairs of shapes that ignore each other because of a joint, and all pairs that can tell.

    Shapes are numbered as in the model: those of bodies, the ones added later, the ground. Pairs within one body, or
    with a shape that collides with nothing, tell nothing.
    """
    shapes = [(body["id"], shape) for body in scene["bodies"] for shape in body["shapes"]]
    shapes += [(edit["body"], edit["shape"]) for edit in scene["post_build"]] + [("world", {})]
    joints = {frozenset((joint["parent"], joint["child"])): joint for joint in scene["joints"]}
    filtered, telling = set(), set()
    for i, (one, first) in enumerate(shapes):
        for j, (other, second) in enumerate(shapes[:i]):
            if one == other or not all(shape.get("has_shape_collision", True) for shape in (first, second)):
                continue
            joint = joints.get(frozenset((one, other)))
            if joint is not None and "world" in (one, other) and joint["type"] == "fixed":
                continue  # neither can move
            telling.add((j, i))
            wants = all(part.get("collision_filter_parent", True) for part in (first, second, joint or {}))
            if joint is not None and "world" not in (one, other) and wants:
                filtered.add((j, i))
    return filtered, telling
