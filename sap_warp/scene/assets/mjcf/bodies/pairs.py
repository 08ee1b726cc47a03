"""Which shapes of an MJCF document may collide, by MuJoCo's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import newton
import numpy as np

from ....text.nodes import Node, walk

if TYPE_CHECKING:
    from ..content import Import

WORLD = -1


def filter_as_mujoco(done: Import) -> None:
    """Filter pairs of shapes of one welded body, of parent and child (unless the world is one), and of <exclude>."""
    builder, document = done.build.builder, done.document
    colliding = [s for s in done.shapes if builder.shape_flags[s] & int(newton.ShapeFlags.COLLIDE_SHAPES)]
    if len(colliding) < 2:
        return
    weld, above = _welded(done)
    own = np.array([weld[builder.shape_body[shape]] for shape in colliding])
    parent = np.array([above[body] for body in own])
    body = np.array([builder.shape_body[shape] for shape in colliding])
    apart = own[:, None] == own[None, :]
    if not document.is_disabled("filterparent"):
        moving = (own[:, None] != WORLD) & (own[None, :] != WORLD)
        apart |= moving & ((parent[:, None] == own[None, :]) | (own[:, None] == parent[None, :]))
    for first, second in _excluded_bodies(done):
        apart |= (body[:, None] == first) & (body[None, :] == second)
        apart |= (body[:, None] == second) & (body[None, :] == first)
    for i, j in np.argwhere(np.triu(apart & (body[:, None] != body[None, :]), 1)).tolist():
        builder.add_shape_collision_filter_pair(colliding[i], colliding[j])
    if done.asset.enable_self_collisions:
        types, affinities = (_masks(builder, name, colliding) for name in ("contype", "conaffinity"))
        masked = (types[:, None] & affinities[None, :]) | (affinities[:, None] & types[None, :])
        freed = np.argwhere(np.triu(_of_joints(done, body) & (masked != 0) & ~apart, 1)).tolist()
        done.build.freed_pairs |= {(colliding[i], colliding[j]) for i, j in freed}


def _masks(builder: newton.ModelBuilder, name: str, shapes: list[int]) -> np.ndarray:
    attribute = builder.custom_attributes[f"mujoco:{name}"]
    values = attribute.values or {}
    return np.array([int(values.get(shape, attribute.default)) for shape in shapes], np.int64)


def _of_joints(done: Import, body: np.ndarray) -> np.ndarray:
    """Return the pairs of shapes that Newton filtered because a joint connects their bodies, loop joints included."""
    builder = done.build.builder
    joined = np.zeros((len(body), len(body)), bool)
    for parent, child in zip(builder.joint_parent, builder.joint_child, strict=True):
        if child in done.bodies or parent in done.bodies:
            joined |= (body[:, None] == parent) & (body[None, :] == child)
    return joined | joined.T


def _welded(done: Import) -> tuple[dict[int, int], dict[int, int]]:
    """Return the moving body that each body is fixed to (itself if it moves), and that of its parent."""
    builder = done.build.builder
    weld, above = {WORLD: WORLD}, {WORLD: WORLD}
    for body in done.bodies:
        joint = done.joint_of[body]
        parent = weld[builder.joint_parent[joint]]
        if done.bodies.get(parent) in done.document.parts:  # a part of this body itself
            parent = above[parent]
        if builder.joint_type[joint] == newton.JointType.FIXED:
            weld[body] = parent
        else:
            weld[body], above[body] = body, parent
    return weld, above


def _excluded_bodies(done: Import) -> list[tuple[int, int]]:
    number = {node.get("name"): body for body, node in done.bodies.items()} | {"world": WORLD}
    found = []
    for exclude in done.document.elements("contact", "exclude"):
        found.append((number[exclude.get("body1")], number[exclude.get("body2")]))
    return found


def add_pairs(done: Import) -> None:
    """Let the shapes of every <pair> collide, with the pair's own friction where that is possible."""
    pairs = [(node, _shapes_of(done, node, "geom1"), _shapes_of(done, node, "geom2")) for node in _pairs(done)]
    builder, flag = done.build.builder, int(newton.ShapeFlags.COLLIDE_SHAPES)
    met = {shape for _, first, second in pairs for shape in (*first, *second)}
    for shape in met:
        builder.shape_flags[shape] |= flag
    added = {(min(a, b), max(a, b)) for _, first, second in pairs for a in first for b in second}
    done.build.freed_pairs |= added
    done.build.contact_pairs += sorted(added)
    _set_friction(done, pairs)


def _pairs(done: Import) -> list[Node]:
    return done.document.elements("contact", "pair")


def _shapes_of(done: Import, pair: Node, attribute: str) -> list[int]:
    """Return the shapes of a geom that a pair names; a mesh file may hold several."""
    builder, name = done.build.builder, pair.get(attribute)
    site = int(newton.ShapeFlags.SITE)
    found = [
        s for s in done.shapes if builder.shape_label[s].endswith(f"/{name}") and not builder.shape_flags[s] & site
    ]
    if not found and not done.asset.ignore_names:
        done.note(f"{pair.location()}: <pair>: the geom {name!r} is not loaded")
    return found


def pair_friction(pair: Node, geoms: dict[str, Node]) -> float:
    """Return the sliding friction of a pair: its own, or else the larger one of its geoms."""
    if pair.get("friction") is not None:
        return float(pair.numbers("friction")[0])
    both = [geoms[pair.get(name, "")] for name in ("geom1", "geom2")]
    return max(float(geom.numbers("friction")[0]) if geom.get("friction") is not None else 1.0 for geom in both)


def _set_friction(done: Import, pairs: list[tuple[Node, list[int], list[int]]]) -> None:
    """Give shapes the friction of their pairs, which is possible only if all pairs of connected shapes agree."""
    builder = done.build.builder
    if done.asset.shape_fields().get("mu") is not None:
        return  # the scene's own friction wins
    parts = [node for part in done.document.sections("worldbody") for node in walk(part)]
    geoms = {node.get("name", ""): node for node in parts if node.tag == "geom"}
    group = {shape: shape for _, first, second in pairs for shape in (*first, *second)}

    def root(shape: int) -> int:
        while group[shape] != shape:
            shape = group[shape]
        return shape

    for _, first, second in pairs:
        for a in first:
            for b in second:
                group[root(a)] = root(b)
    wanted: dict[int, set[float]] = {}
    for node, first, second in pairs:
        if first and second:
            wanted.setdefault(root(first[0]), set()).add(round(pair_friction(node, geoms), 9))
    free = {shape for shape in group if builder.shape_collision_group[shape] == 0}
    noted = False
    for shape in group:
        values = wanted.get(root(shape), set())
        if len(values) == 1 and (shape in free or np.isclose(builder.shape_material_mu[shape], min(values))):
            builder.shape_material_mu[shape] = min(values)
        elif values and not noted:
            noted = True
            node = next(node for node, first, second in pairs if shape in (*first, *second))
            shown = ", ".join(f"{value:g}" for value in sorted(values))
            done.note(
                f"{node.location('friction')}: <pair> friction ({shown}) does not act: SAP contact has a friction for "
                "each shape, and these shapes meet others with another one"
            )
