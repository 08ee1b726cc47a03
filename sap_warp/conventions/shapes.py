"""Parameters of primitive shapes: half or full sizes, parameter names, and the axis of symmetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ._arrays import Array, as_floats
from .rotations import axis_index, up_axis_rotation
from .systems import AXIAL_KINDS, SHAPE_KINDS, get_convention
from .table import Convention, Parameter, ShapeLayout

_AXES = ("X", "Y", "Z")
# A capsule of zero length is a sphere, and a plane of zero width is infinite; any other zero is a mistake.
_MAY_BE_ZERO = {("capsule", "half_height"), ("plane", "width"), ("plane", "length")}


class ShapeConversion(NamedTuple):
    """Result of :func:`convert_shape`."""

    params: dict[str, Any]
    """Parameters in the target's names and sizes [m]."""
    rotation: Array
    """Orientation of the target's shape frame in the source's shape frame, quaternion xyzw, shape [4]. Not the
    identity when the two systems lay the shape along different axes: multiply the shape's rotation by it from the
    right, q_target = q_source * rotation."""


def convert_shape(
    kind: str, params: Mapping[str, Any], source: str | Convention, target: str | Convention
) -> ShapeConversion:
    """Convert the parameters of a primitive shape between systems.

    Parameter names are those of each system, e.g. ``half_height`` for Newton, ``size`` for MuJoCo (a row of
    ``geom_size`` will do), ``height`` and ``axis`` for USD, ``length`` for Drake. Values may be arrays of worlds.

    Args:
        kind: "box", "sphere", "ellipsoid", "capsule", "cylinder", "cone" or "plane".
        params: Parameters in the source's names [m].
        source: System of ``params``.
        target: System wanted.

    Returns:
        The target's parameters and the rotation between the two shape frames.

    Raises:
        ValueError: Unknown kind, a primitive one of the systems lacks, or missing, unknown or impossible parameters.
    """
    source, target = get_convention(source), get_convention(target)
    layout_in, layout_out = _shape_layout(source, kind), _shape_layout(target, kind)
    values = _read(kind, params, source, layout_in)
    axis_in = (
        _AXES[axis_index(params.get("axis", layout_in.axis), "axis")] if layout_in.axis_attribute else layout_in.axis
    )
    # A system with an axis attribute takes the shape as it lies; elsewhere the shape frame has to turn.
    axis_out = axis_in if layout_out.axis_attribute else layout_out.axis
    out = _write(kind, values, target, layout_out)
    if layout_out.axis_attribute:
        out["axis"] = axis_out
    turns = kind in AXIAL_KINDS
    return ShapeConversion(out, up_axis_rotation(axis_out, axis_in) if turns else up_axis_rotation("Z", "Z"))


def cone_center_of_mass(half_height: Any) -> Array:
    """Return the centre of mass of a solid Newton cone in its shape frame, in [m], shape [..., 3].

    The shape frame sits halfway between base (-Z) and apex (+Z), but the mass is nearer the base, a quarter of the
    full height above it.

    Args:
        half_height: Half the distance from base to apex, any shape [m].
    """
    h = as_floats(half_height, "half_height")
    zero = np.zeros_like(h)
    return np.stack([zero, zero, -0.5 * h], axis=-1)


def _shape_layout(convention: Convention, kind: str) -> ShapeLayout:
    if kind not in SHAPE_KINDS:
        raise ValueError(f"kind: unknown primitive {kind!r}; expected one of {', '.join(SHAPE_KINDS)}")
    layout = convention.shapes.get(kind)
    if layout is None:
        raise ValueError(f"{convention.title} defines no primitive shapes")
    if layout.unsupported:
        raise ValueError(f"{convention.title} has no primitive {kind!r}: {layout.unsupported}")
    return layout


def _read(kind: str, params: Mapping[str, Any], system: Convention, layout: ShapeLayout) -> dict[str, Array]:
    """Return Newton's parameters of a shape given in another system's parameters."""
    given = {name: value for name, value in params.items() if not (name == "axis" and layout.axis_attribute)}
    if layout.scaled_cube:
        given = _edges_of_scaled_cube(given)
    expected = [parameter.name for parameter in layout.parameters]
    if sorted(given) != sorted(expected):
        optional = (["axis"] if layout.axis_attribute else []) + (["scale"] if layout.scaled_cube else [])
        extra = f" (optional: {', '.join(optional)})" if optional else ""
        raise ValueError(
            f"params: a {system.title} {kind} has parameters {', '.join(expected) or 'none'}{extra}; "
            f"got {', '.join(sorted(params)) or 'none'}"
        )
    # A system without sizes for a plane has infinite planes: 0 in Newton's terms.
    values: dict[str, Array] = {name: np.asarray(0.0) for name in SHAPE_KINDS[kind]}
    for parameter in layout.parameters:
        values.update(_read_parameter(given[parameter.name], parameter))
    for name, value in values.items():
        _check_size(kind, name, value)
    return values


def _read_parameter(value: Any, parameter: Parameter) -> dict[str, Array]:
    array = as_floats(value, parameter.name)
    if not parameter.vector:
        return {parameter.parts[0]: array / parameter.factor}
    low, high = len(parameter.parts), len(parameter.parts) + len(parameter.fill)
    if array.ndim == 0 or not low <= array.shape[-1] <= high:
        lengths = str(low) if low == high else f"{low} to {high}"
        raise ValueError(f"{parameter.name}: expected shape (..., {lengths}); got {array.shape}")
    return {part: array[..., i] / parameter.factor for i, part in enumerate(parameter.parts)}


def _check_size(kind: str, name: str, value: Array) -> None:
    zero_allowed = (kind, name) in _MAY_BE_ZERO
    good = np.isfinite(value) & ((value >= 0.0) if zero_allowed else (value > 0.0))
    if not np.all(good):
        bound = "not negative" if zero_allowed else "positive"
        raise ValueError(f"params: {name} of a {kind} must be finite and {bound} [m]; got {value}")


def _write(kind: str, values: dict[str, Array], system: Convention, layout: ShapeLayout) -> dict[str, Any]:
    """Return a system's parameters of a shape given in Newton's parameters."""
    written = {part for parameter in layout.parameters for part in parameter.parts}
    for name, value in values.items():
        if name not in written and np.any(value != 0.0):
            raise ValueError(f"params: a {system.title} {kind} is infinite; {name} must be 0, got {value}")
    out = {parameter.name: _write_parameter(values, parameter) for parameter in layout.parameters}
    return _scaled_cube_of_edges(out["size"]) if layout.scaled_cube else out


def _write_parameter(values: dict[str, Array], parameter: Parameter) -> Any:
    stored = [np.asarray(values[part] * parameter.factor) for part in parameter.parts]
    if not parameter.vector:
        return _plain(stored[0])
    stored += [np.asarray(entry, dtype=stored[0].dtype) for entry in parameter.fill]
    return np.stack(np.broadcast_arrays(*stored), axis=-1)


def _plain(value: Array) -> Any:
    """Return a Python float for a single number, as engine constructors want it."""
    return float(value) if value.ndim == 0 else value


def _edges_of_scaled_cube(given: dict[str, Any]) -> dict[str, Any]:
    """Return ``size`` as three edge lengths, from a cube's edge and its optional scale."""
    if "size" not in given:
        return given
    size = as_floats(given["size"], "size")
    scale = as_floats(given.get("scale", (1.0, 1.0, 1.0)), "scale")
    if scale.ndim == 0 or scale.shape[-1] != 3:
        raise ValueError(f"scale: expected shape (..., 3); got {scale.shape}")
    rest = {name: value for name, value in given.items() if name != "scale"}
    return {**rest, "size": size[..., None] * scale}


def _scaled_cube_of_edges(edges: Array) -> dict[str, Any]:
    """Return a cube's edge and scale; the edge is the shortest one, so that a true cube has scale 1."""
    size = edges.min(axis=-1)
    return {"size": _plain(np.asarray(size)), "scale": edges / size[..., None]}
