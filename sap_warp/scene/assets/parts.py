"""Colliding meshes as several convex shapes: the result of `decomposition`, put into the builder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import newton
import numpy as np

from ...core.long_work import long_work
from ..text.errors import Complaint
from .decomposition import DecompositionError, PartOptions, cache_folder, decompose
from .hulls import convex_hull, is_replaced, make_hull

if TYPE_CHECKING:
    from ..build import SceneBuild

_OF_A_PART = ("shape_label", "shape_source", "shape_type", "shape_collision_radius")
"""Fields that a part does not take over from its mesh."""


def split_meshes(build: SceneBuild, shapes: Iterable[int], options: PartOptions) -> tuple[list[int], list[str]]:
    """Make convex parts of the colliding meshes among ``shapes``; masses and inertias stay those of the meshes.

    The first part takes the place of the mesh, the others are new shapes at the end, with everything that the mesh has:
    material, gap, group, filters, pairs. Meshes with a distance field or for hydroelastic contact stay as they are.

    Returns:
        New shapes, and labels of meshes that have no parts: flat ones. They stay meshes.

    Raises:
        Complaint: CoACD is not installed, or finds no parts.
    """
    builder = build.builder
    meshes = [shape for shape in shapes if is_replaced(builder, shape)]
    found: dict[int, list[newton.Mesh]] = {}
    parts: dict[int, list[int]] = {}
    flat = []
    for number, shape in enumerate(meshes):
        mesh, label = builder.shape_source[shape], builder.shape_label[shape]
        if id(mesh) not in found:
            found[id(mesh)] = _parts_of(mesh, options, f"{label!r}, mesh {number + 1} of {len(meshes)}")
        if not found[id(mesh)]:
            flat.append(label)
            continue
        first, *others = found[id(mesh)]
        builder.shape_source[shape] = first
        builder.shape_type[shape] = newton.GeoType.CONVEX_MESH
        parts[shape] = [shape, *(_add_part(builder, shape, part, k) for k, part in enumerate(others, 1))]
    _share_rules(build, parts)
    return [part for some in parts.values() for part in some[1:]], flat


def _parts_of(mesh: newton.Mesh, options: PartOptions, what: str) -> list[newton.Mesh]:
    faces = np.asarray(mesh.indices).reshape(-1, 3)
    vertices = np.asarray(mesh.vertices, np.float64)
    if convex_hull(vertices) is None:
        return []
    text = f"finding convex parts of {what} ({len(faces):,} triangles), kept in {cache_folder()}"
    try:
        parts = decompose(vertices, faces, options, lambda: long_work(text))
    except DecompositionError as error:
        raise Complaint(f"{what}: {error}") from None
    hulls = [make_hull(mesh, points) for points, _ in parts]
    return [hull for hull in hulls if hull is not None]


def _add_part(builder: newton.ModelBuilder, shape: int, part: newton.Mesh, number: int) -> int:
    """Add a massless shape that otherwise equals ``shape``."""
    config = newton.ModelBuilder.ShapeConfig(density=0.0, collision_filter_parent=False)
    own = {
        name: attribute.values[shape]
        for name, attribute in builder.custom_attributes.items()
        if attribute.frequency == newton.Model.AttributeFrequency.SHAPE and shape in (attribute.values or {})
    }
    new = builder.add_shape_convex_hull(
        builder.shape_body[shape],
        mesh=part,
        scale=builder.shape_scale[shape],
        cfg=config,
        label=f"{builder.shape_label[shape]}_part_{number}",
        custom_attributes=own or None,
    )
    for name, values in vars(builder).items():
        if name.startswith("shape_") and name not in _OF_A_PART and len(values) == builder.shape_count:
            values[new] = values[shape]
    return new


def _share_rules(build: SceneBuild, parts: dict[int, list[int]]) -> None:
    """Give parts the collision filters, pairs and provenance of their meshes."""
    if not any(len(some) > 1 for some in parts.values()):
        return
    builder = build.builder
    for pair in list(builder.shape_collision_filter_pairs):
        for a, b in _new_pairs(pair, parts):
            builder.add_shape_collision_filter_pair(a, b)
    build.freed_pairs |= {(min(new), max(new)) for pair in build.freed_pairs for new in _new_pairs(pair, parts)}
    build.contact_pairs += [new for pair in build.contact_pairs for new in _new_pairs(pair, parts)]
    for some in (build.freed_shapes, build.unfiltered):
        some += [part for shape in some for part in parts.get(shape, ())[1:]]
    for (shape, name), source in list(build.provenance.items()):
        build.provenance.update(((part, name), source) for part in parts.get(shape, ())[1:])
    for shape, path in list(build.shape_paths.items()):
        build.shape_paths.update(dict.fromkeys(parts.get(shape, ())[1:], path))


def _new_pairs(pair: tuple[int, int], parts: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of parts of two shapes, without the pair of shapes itself."""
    a, b = pair
    return (new for new in product(parts.get(a, [a]), parts.get(b, [b])) if new != (a, b))


@contextmanager
def collect_decompositions(builder: newton.ModelBuilder) -> Iterator[list[int]]:
    """Collect the shapes that a USD stage wants as convex parts during import; `split_meshes` makes the parts.

    Newton would take them apart anew each time, and would put hulls in their place where CoACD is missing.
    """
    collected: list[int] = []
    original = builder.approximate_meshes

    def approximate_meshes(method: Any = "convex_hull", shape_indices: Any = None, **options: Any) -> set[int]:
        if method != "coacd":
            return original(method, shape_indices=shape_indices, **options)
        before = {shape: (builder.shape_source[shape], builder.shape_type[shape]) for shape in shape_indices}
        done = original("convex_hull", shape_indices=shape_indices, **options)  # keeps meshes that are to be seen
        for shape, (source, kind) in before.items():
            builder.shape_source[shape], builder.shape_type[shape] = source, kind
        collected.extend(before)
        return done

    builder.approximate_meshes = approximate_meshes
    try:
        yield collected
    finally:
        del builder.approximate_meshes
