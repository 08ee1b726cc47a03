"""Advice about sizes: robots and meshes a thousand times too small or too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import numpy as np

from ...core.notes import Note, name_some
from ...model.shapes import WITH_VERTICES
from ...solver.model.initial_poses import body_poses

TINY, HUGE = 0.02, 100.0
"""Sizes of a robot of several links beyond which it is noted [m]."""


def advise_sizes(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Note articulations of several links, and moving meshes, that are millimetres or hundreds of metres large."""
    body = model.shape_body.numpy()
    moving = np.flatnonzero((body >= 0) & ((model.shape_flags.numpy() & int(newton.ShapeFlags.SITE)) == 0))
    if not len(moving):
        return []
    radius = model.shape_collision_radius.numpy()[moving].astype(np.float64)
    poses = body_poses(model, model.joint_q.numpy())
    tree = np.full(model.body_count, -1)
    tree[model.joint_child.numpy()] = model.joint_articulation.numpy()
    owner = tree[body[moving]]
    count = model.articulation_count + 1  # the last one: bodies of none
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, owner, poses[body[moving], :3] - radius[:, None])
    np.maximum.at(high, owner, poses[body[moving], :3] + radius[:, None])
    size = (high - low).max(axis=1)[:-1]
    links = np.bincount(tree[tree >= 0], minlength=count)[:-1]
    odd = (links > 1) & np.isfinite(size) & ((size < TINY) | (size > HUGE))
    mesh = np.isin(model.shape_type.numpy()[moving], WITH_VERTICES) & (2.0 * radius > HUGE)
    if odd.any():
        chosen = np.flatnonzero(odd)
        first = int(np.flatnonzero(tree == chosen[0])[0])
        names = name_some(model.articulation_label, chosen)
        return [_note(f"robot {names}", size[chosen[0]], ("body", first))]
    if mesh.any():
        chosen = moving[mesh]
        return [_note(f"mesh {name_some(model.shape_label, chosen)}", 2.0 * radius[mesh][0], ("shape", int(chosen[0])))]
    return []


def _note(what: str, size: float, subject: tuple[str, int]) -> Note:
    scale = "0.001" if size > 1.0 else "1000"
    return Note("odd-size", f"{what} is {size:.3g} m large; lengths are in m, scale: {scale} turns the units", subject)
