"""Step 4: inline bodies and their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ..assets.sources.source_file import check_mesh, fence_of, resolve_source
from ..text.errors import Complaint, Path
from ..text.provenance import record_shape
from .materials import custom_attributes, make_shape_config
from .objects import Body, MeshShape

if TYPE_CHECKING:
    from ..build import SceneBuild

WORLD = -1


def add_bodies(build: SceneBuild) -> None:
    """Add every body of the scene."""
    for i, body in enumerate(build.scene.bodies):
        with build.at("bodies", i):
            _add_body(build, i, body)


def _add_body(build: SceneBuild, i: int, body: Body) -> None:
    index = build.builder.add_link(
        xform=_newton_transform(body.transform),
        com=body.com,
        inertia=None if body.inertia is None else wp.mat33(*body.inertia),
        mass=body.mass,
        label=body.label or body.id,
        lock_inertia=body.lock_inertia,
        is_kinematic=body.is_kinematic,
    )
    build.body_of[body.id] = index
    fields = body.shape_fields()
    build.note_unused_fields(("bodies", i), body.shape_fields_with_paths())
    for j, shape in enumerate(body.shapes):
        with build.at("bodies", i, "shapes", j):
            add_shape(build, index, shape, (fields, ("bodies", i)), ("bodies", i, "shapes", j))
    add_body_armature(build, range(index, index + 1), body.armature)


def add_body_armature(build: SceneBuild, bodies: range, armature: float | None) -> None:
    """Regularize the rotational inertia of bodies; None takes the default of the scene [kg m^2]."""
    armature = build.scene.builder.default_body_armature if armature is None else armature
    builder = build.builder
    for body in bodies if armature > 0.0 else ():
        inertia = np.array(builder.body_inertia[body], dtype=np.float64).reshape(3, 3) + armature * np.eye(3)
        builder.body_inertia[body] = wp.mat33(*inertia.ravel())
        builder.body_inv_inertia[body] = wp.mat33(*np.linalg.inv(inertia).ravel())


def add_shape(build: SceneBuild, body: int, shape: Any, inherited: tuple[dict[str, Any], Path], path: Path) -> None:
    """Add one shape; its own fields win over ``inherited`` ones, those over the defaults of the scene."""
    own = shape.shape_fields()
    build.shape_paths[build.builder.shape_count] = path
    build.note_unused_fields(path, shape.shape_fields_with_paths())
    record_shape(build, build.builder.shape_count, inherited, (own, path))
    fields = {**inherited[0], **own}
    tau = fields.get("tau", build.default_tau)
    config = make_shape_config(build.builder.default_shape_cfg, fields)
    if not config.collision_filter_parent:
        build.unfiltered.append(build.builder.shape_count)
    common: dict[str, Any] = {
        "xform": _newton_transform(shape.transform),
        "cfg": config,
        "label": shape.label,
        **custom_attributes(tau),
    }
    if shape.color is not None:
        common["color"] = shape.color
    builder = build.builder
    if isinstance(shape, MeshShape):
        add = builder.add_shape_convex_hull if shape.convex else builder.add_shape_mesh
        add(body, mesh=_make_mesh(build, shape), scale=shape.scale, **common)
    else:
        shape.add_to(builder, body, **common)


def _make_mesh(build: SceneBuild, shape: MeshShape) -> newton.Mesh:
    if shape.source is None:
        return newton.Mesh(np.array(shape.vertices, dtype=np.float32), np.array(shape.triangles(), dtype=np.int32))
    import trimesh

    file = resolve_source(shape.source, build.document)
    check_mesh(file, fence_of(shape.source, file, build.document))
    loaded: Any = trimesh.load(file, force="mesh")
    if not len(getattr(loaded, "faces", ())):
        raise Complaint(f"{file.name} has no triangles", ("source",))
    return newton.Mesh(np.asarray(loaded.vertices, np.float32), np.asarray(loaded.faces, np.int32).ravel())


def _newton_transform(transform: Any) -> wp.transform:
    return wp.transform(*transform)
