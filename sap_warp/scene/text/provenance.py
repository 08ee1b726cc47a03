"""Record which part of a scene gave a shape its values; `sap-warp explain` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton

from .errors import format_path

if TYPE_CHECKING:
    from ..build import SceneBuild

_FIELD_OF = {"ke": "ke", "tau": "tau", "mu": "mu", "margin": "margin", "gap": "gap", "collision_group": "group"}
"""Shape fields of a scene by the names that `explain_contact` gives them."""
_ARRAY_OF = {
    "shape_material_ke": "ke",
    "shape_material_tau": "tau",
    "shape_material_mu": "mu",
    "shape_margin": "margin",
    "shape_gap": "gap",
    "shape_collision_group": "group",
}
DEFAULTS = "builder.defaults.shape"


def record_shape(build: SceneBuild, shape: int, *layers: tuple[dict[str, Any], tuple[str | int, ...]]) -> None:
    """Remember where the values of an inline shape come from.

    Args:
        build: The scene.
        shape: Number of the shape.
        *layers: Fields and the path that gives them, the weakest first.
    """
    defaults = build.scene.builder.defaults.shape.given()
    for field, name in _FIELD_OF.items():
        source = _default_source(build, field, defaults)
        for fields, path in layers:
            if field in fields:
                source = format_path(path)
        if source:
            build.provenance[shape, name] = source


def record_import(build: SceneBuild, shapes: range, fields: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """Remember where the values of imported shapes come from: the scene, the file, or a default where both agree."""
    builder = build.builder
    defaults = build.scene.builder.defaults.shape.given()
    config = builder.default_shape_cfg
    stored = {
        "ke": (builder.shape_material_ke, config.ke),
        "mu": (builder.shape_material_mu, config.mu),
        "margin": (builder.shape_margin, config.margin),
        "gap": (builder.shape_gap, builder.rigid_gap if config.gap is None else config.gap),
        "collision_group": (builder.shape_collision_group, config.collision_group),
    }
    for shape in shapes:
        for field, name in _FIELD_OF.items():
            if field in fields:
                build.provenance[shape, name] = format_path(path)
            elif field in stored and stored[field][0][shape] != stored[field][1]:
                build.provenance[shape, name] = f"file of {format_path(path)}"
            elif source := _default_source(build, field, defaults):
                build.provenance[shape, name] = source


def record_edit(build: SceneBuild, array: str, shapes: list[int], path: tuple[str | int, ...]) -> None:
    """Remember that an edit set entries of a shape array."""
    for shape in shapes if array in _ARRAY_OF else ():
        build.provenance[shape, _ARRAY_OF[array]] = format_path(path)


def _default_source(build: SceneBuild, field: str, defaults: dict[str, Any]) -> str:
    if field in defaults:
        return DEFAULTS
    if field == "tau":
        return ""  # the solver's own default, which it knows itself
    if field == "gap":
        given = "rigid_gap" in build.scene.builder.model_fields_set
        return "builder.rigid_gap" if given else "loader default"
    return "loader default" if field == "ke" else "Newton default"


def provenance_of_worlds(build: SceneBuild, model: newton.Model) -> dict[tuple[int, str], str]:
    """Return the record for the shapes of the first world and for shared shapes, which come after all worlds."""
    count = build.builder.shape_count
    shared = model.shape_count - count * max(model.world_count, 1)
    found = {key: source for key, source in build.provenance.items() if key[0] < count + shared}
    offset = model.shape_count - shared - count
    return {(shape + (offset if shape >= count else 0), name): source for (shape, name), source in found.items()}
