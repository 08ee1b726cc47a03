"""Steps 8 and 9: copies of the authored world, and the ground that they share."""

from __future__ import annotations

import newton
import warp as wp

from ..model import register_tau
from .build import SceneBuild
from .errors import Complaint
from .materials import make_shape_config, write_tau
from .provenance import record_shape

MAX_WORLDS = 2**20
"""Most worlds of a scene."""
MAX_ENTRIES = 2**28
"""Most bodies, shapes and dofs of all worlds together."""


def replicate_world(build: SceneBuild, num_worlds: int) -> newton.ModelBuilder:
    """Step 8: a builder with ``num_worlds`` copies of the authored world, side by side as `replicate` says."""
    world = build.builder
    check_size(world, num_worlds)
    builder = newton.ModelBuilder(gravity=wp.vec3(*world.gravity))
    register_tau(builder)
    builder.rigid_gap = world.rigid_gap
    builder.default_shape_cfg = world.default_shape_cfg
    builder.replicate(world, num_worlds, spacing=build.scene.replicate.spacing)
    return builder


def check_size(world: newton.ModelBuilder, num_worlds: int) -> None:
    """Refuse sizes that can only be a mistake, before memory runs out."""
    if num_worlds > MAX_WORLDS:
        raise Complaint(f"found {num_worlds} worlds; at most {MAX_WORLDS} are possible")
    entries = num_worlds * (world.body_count + world.shape_count + world.joint_dof_count)
    if entries > MAX_ENTRIES:
        raise Complaint(
            f"{num_worlds} worlds would have {entries} bodies, shapes and dofs; at most {MAX_ENTRIES} are possible"
        )


def add_ground(build: SceneBuild, builder: newton.ModelBuilder) -> None:
    """Step 9: one plane for all worlds."""
    ground = build.scene.ground
    if not ground.enabled:
        return
    fields = ground.shape_fields()
    build.note_unused_fields(("ground",), ground.placed_shape_fields())
    record_shape(build, build.builder.shape_count, (fields, ("ground",)))
    config = make_shape_config(builder.default_shape_cfg, fields)
    shape = builder.add_ground_plane(height=ground.height, cfg=config, label=ground.label)
    tau = fields.get("tau", build.default_tau)
    if tau is not None:
        write_tau(builder, builder.shape_count - 1 if shape is None else shape, tau)
