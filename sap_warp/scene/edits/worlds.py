"""Steps 8 and 9: copies of the authored world, and the ground that they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ...collision.newton_compat import finalize_without_pairs
from ...core.runtime.capture import capturing
from ...model.model import register_tau
from ..objects.materials import make_shape_config, write_tau
from ..objects.terrain import add_terrain, make_heights
from ..text.bounds import LENGTH
from ..text.errors import Complaint
from ..text.provenance import record_shape

if TYPE_CHECKING:
    from ..build import SceneBuild

MAX_LISTED_PAIRS = 2**19
"""Most pairs of shapes of one world that are listed, as a thousand shapes have; beyond, each step searches."""


def replicate_world(build: SceneBuild, num_worlds: int) -> newton.ModelBuilder:
    """Step 8: return a builder with ``num_worlds`` copies of the authored world, arranged by `replicate`."""
    world = build.builder
    builder = newton.ModelBuilder(gravity=wp.vec3(*world.gravity))
    register_tau(builder)
    builder.rigid_gap = world.rigid_gap
    builder.default_shape_cfg = world.default_shape_cfg
    builder.replicate(world, num_worlds, spacing=build.scene.replicate.spacing)
    return builder


def check_extent(spacing: tuple[float, float, float], num_worlds: int) -> None:
    """Refuse a row of worlds that is longer than a position may be."""
    axes = sum(step != 0.0 for step in spacing)
    longest = max(map(abs, spacing)) * math.ceil(num_worlds ** (1.0 / max(axes, 1)))
    if longest > LENGTH.largest:
        raise Complaint(f"{num_worlds} worlds would cover {longest:g} m; {LENGTH.name} is {LENGTH.range}")


@capturing()  # what it copies and clears is not for a graph that another thread captures
def finalize(build: SceneBuild, builder: newton.ModelBuilder, device: Any) -> newton.Model:
    """Return the model of all worlds, with a list of the pairs of shapes that may collide unless there are too many."""
    pairs = count_pairs(build.builder)
    if pairs <= MAX_LISTED_PAIRS:
        return builder.finalize(device)
    what = f"{pairs:,} pairs of shapes may collide in a world; they are searched for in every step and not listed"
    build.note("many-pairs", (), f"{what}: give shapes that never meet other values of collision_group")
    return finalize_without_pairs(builder, device)


def count_pairs(world: newton.ModelBuilder) -> int:
    """Count pairs of shapes of ``world`` that may collide; filters, which only remove some, are ignored."""
    flags, group, body = (
        np.array(values, np.int64) for values in (world.shape_flags, world.shape_collision_group, world.shape_body)
    )
    takes_part = ((flags & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0) & (group != 0)
    return _pairs_by_group(group[takes_part]) - _pairs_by_group(group[takes_part & (body < 0)])


def _pairs_by_group(group: np.ndarray) -> int:
    """Count pairs by collision group: positive groups collide within themselves, negative ones with all others."""
    groups, counts = np.unique(group, return_counts=True)
    alike, others = counts[groups > 0], counts[groups < 0]
    among_others = (others.sum() ** 2 - (others**2).sum()) // 2
    return int((alike * (alike - 1) // 2).sum() + alike.sum() * others.sum() + among_others)


def add_ground(build: SceneBuild, builder: newton.ModelBuilder) -> None:
    """Step 9: add one plane or terrain for all worlds."""
    ground = build.scene.ground
    if not ground.enabled:
        return
    fields = ground.shape_fields()
    build.note_unused_fields(("ground",), ground.shape_fields_with_paths())
    record_shape(build, build.builder.shape_count, (fields, ("ground",)))
    config = make_shape_config(builder.default_shape_cfg, fields)
    if ground.terrain is None:
        shape = builder.add_ground_plane(height=ground.height, cfg=config, label=ground.label)
    else:
        heights = make_heights(**ground.terrain.model_dump())
        xform = wp.transform((0.0, 0.0, ground.height), wp.quat_identity())
        shape = add_terrain(builder, heights, ground.terrain.size, cfg=config, label=ground.label, xform=xform)
    tau = fields.get("tau", build.default_tau)
    if tau is not None:
        write_tau(builder, builder.shape_count - 1 if shape is None else shape, tau)


def add_contact_pairs(build: SceneBuild, model: newton.Model) -> None:
    """Let the pairs of shapes that assets name collide in every world, whatever their groups say."""
    pairs, count = build.contact_pairs, build.builder.shape_count
    if not pairs:
        return
    if model.shape_contact_pairs is None:
        build.note_unsupported((), "the <pair> contacts of its MJCF assets are not found among so many shapes")
        return
    known = model.shape_contact_pairs.numpy().reshape(-1, 2)
    present = set(map(tuple, known[(known < count).all(axis=1)].tolist()))
    new = np.array([pair for pair in pairs if pair not in present], np.int32).reshape(-1, 2)
    first = count * np.arange(max(int(model.world_count), 1), dtype=np.int32)
    rows = np.concatenate([known, (first[:, None, None] + new).reshape(-1, 2)]).astype(np.int32)
    model.shape_contact_pairs = wp.array(rows, dtype=wp.vec2i, device=model.device)
    model.shape_contact_pair_count = len(rows)
