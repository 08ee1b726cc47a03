"""The reference of scene files as Markdown, made from the classes that read them."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from . import schema
from .edits import operations
from .objects import objects
from .objects.fields import JOINT_FIELDS, SHAPE_FIELDS, JointFields, ShapeFields, WithShapeFields
from .text.section import Section

_BLOCKS: tuple[tuple[str, type[Section]], ...] = (
    ("Scene", schema.Scene),
    ("simulation", schema.Simulation),
    ("builder", schema.Builder),
    ("builder.defaults", schema.Defaults),
    ("ground", objects.Ground),
    ("assets: type usd", objects.UsdAsset),
    ("assets: type urdf", objects.UrdfAsset),
    ("assets: type mjcf", objects.MjcfAsset),
    ("source", objects.Source),
    ("source.git", objects.GitSource),
    ("source.package", objects.PackageSource),
    ("bodies", objects.Body),
    ("articulations", objects.Articulation),
    ("initial_joint_q", objects.InitialJointQ),
    ("replicate", objects.Replicate),
    ("control", objects.Control),
)


def scene_reference() -> str:
    """Return all blocks of a scene with their keys, aliases and defaults."""
    parts = [
        "# Scene reference",
        "Every key of a scene file. This page is made from the code that reads scenes; "
        "[Scene files](loader.md) explains how they work, [the JSON schema](scene.schema.json) is for editors "
        "(`sap-warp schema` prints it).",
    ]
    parts += [_block(title, section) for title, section in _BLOCKS]
    parts.append(_block("Shape fields", ShapeFields))
    parts += [_block(f"shapes: type {_tag(s, 'type')}", s, hide=SHAPE_FIELDS) for s in _variants(objects.Shape)]
    parts.append(_block("Joint fields", JointFields))
    parts += [_block(f"joints: type {_tag(s, 'type')}", s, hide=JOINT_FIELDS) for s in _variants(objects.Joint)]
    parts.append(_block("Selectors", operations.Selector))
    hide = (*operations.SELECTORS,)
    parts += [_block(f"post_build: op {_tag(s, 'op')}", s, hide=hide) for s in _variants(operations.Operation)]
    return "\n\n".join(parts) + "\n"


def _variants(union: Any) -> tuple[type[Section], ...]:
    return get_args(get_args(union)[0])


def _tag(section: type[Section], field: str) -> str:
    return str(get_args(section.model_fields[field].annotation)[0])


def _block(title: str, section: type[Section], hide: tuple[str, ...] = ()) -> str:
    lines = [f"## {title}", "", (section.__doc__ or "").strip().splitlines()[0], ""]
    if issubclass(section, WithShapeFields):
        lines[-2] += " Takes all [shape fields](#shape-fields)."
        hide = (*hide, *SHAPE_FIELDS)
    elif hide == JOINT_FIELDS and issubclass(section, JointFields):
        lines[-2] += " Takes all [joint fields](#joint-fields)."
    elif hide and issubclass(section, operations.Selector):
        lines[-2] += " Takes a [selector](#selectors)."
    lines += ["| key | meaning | default |", "| --- | --- | --- |"]
    for name, field in section.model_fields.items():
        if name in ("type", "op") or (name in hide and not _redefined(section, name)):
            continue
        aliases = [alias for alias, canonical in section.all_aliases().items() if canonical == name]
        key = f"`{name}`" + (f" ({', '.join(f'`{alias}`' for alias in aliases)})" if aliases else "")
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        lines.append(f"| {key} | {meaning} | {_default(field)} |")
    return "\n".join(lines)


def _redefined(section: type[Section], name: str) -> bool:
    """Return True if a variant redefines a shared field, as a ball joint redefines its armature."""
    return name in section.__annotations__


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default_factory() if field.default_factory is not None else field.default
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel) or value in ([], {}):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:g}"
    return (
        "identity" if type(value).__name__ == "Transform" else str(list(value) if isinstance(value, tuple) else value)
    )
