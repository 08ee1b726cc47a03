"""Materials of shapes while a scene is built: defaults, overrides, and tau, for which Newton has no field."""

from __future__ import annotations

from typing import Any

import newton

from ...model.model import TAU_ATTRIBUTE, TAU_NAMESPACE, TAU_UNSET
from .fields import NOT_APPLIED, STORED_ONLY

DEFAULT_KE = 1.0e6
"""Contact stiffness of a scene that gives none [N/m]; Newton's 2,500 N/m lets a robot sink by centimetres."""
TAU_KEY = f"{TAU_NAMESPACE}:{TAU_ATTRIBUTE}"

_ARRAY_OF = {
    "margin": "shape_margin",
    "gap": "shape_gap",
    "ke": "shape_material_ke",
    "kd": "shape_material_kd",
    "kf": "shape_material_kf",
    "ka": "shape_material_ka",
    "mu": "shape_material_mu",
    "restitution": "shape_material_restitution",
    "mu_torsional": "shape_material_mu_torsional",
    "mu_rolling": "shape_material_mu_rolling",
    "kh": "shape_material_kh",
    "collision_group": "shape_collision_group",
}


def make_shape_config(base: newton.ModelBuilder.ShapeConfig, fields: dict[str, Any]) -> newton.ModelBuilder.ShapeConfig:
    """Return ``base`` with the ``fields`` of a scene on top, without tau and unsupported fields."""
    config = base.copy()
    for name, value in fields.items():
        if name != "tau" and name not in NOT_APPLIED:
            setattr(config, name, value)
    if config.is_site:
        config.mark_as_site()
    return config


def set_defaults(builder: newton.ModelBuilder, fields: dict[str, Any]) -> None:
    """Make ``fields`` the defaults of shapes that are added later."""
    builder.default_shape_cfg = make_shape_config(builder.default_shape_cfg, {"ke": DEFAULT_KE, **fields})


def custom_attributes(tau: float | None) -> dict[str, Any]:
    """Return the arguments that give a new shape its dissipation time [s]; none for None."""
    return {} if tau is None else {"custom_attributes": {TAU_KEY: tau}}


def read_tau(builder: newton.ModelBuilder) -> list[float]:
    """Return the dissipation time of every shape [s]; negative where a shape has none of its own."""
    values = builder.custom_attributes[TAU_KEY].values or {}
    return [float(values.get(shape, TAU_UNSET)) for shape in range(builder.shape_count)]


def write_tau(builder: newton.ModelBuilder, shape: int, tau: float) -> None:
    """Set the dissipation time of one shape [s]."""
    attribute = builder.custom_attributes[TAU_KEY]
    if attribute.values is None:
        attribute.values = {}
    attribute.values[shape] = tau


def override_shapes(builder: newton.ModelBuilder, shapes: range, fields: dict[str, Any], tau: float | None) -> None:
    """Give imported shapes the values that the scene sets, whatever the file said.

    Density and is_solid have acted during import, where the file gives no mass of its own.
    """
    for name, value in fields.items():
        for shape in shapes if name in _ARRAY_OF else ():
            getattr(builder, _ARRAY_OF[name])[shape] = value
    _override_flags(builder, shapes, fields)
    for shape in shapes if tau is not None else ():
        write_tau(builder, shape, float(tau or 0.0))


def _override_flags(builder: newton.ModelBuilder, shapes: range, fields: dict[str, Any]) -> None:
    """Apply collision switches, which can only remove collision: what the file made visual-only stays so."""
    flags = newton.ShapeFlags
    for name, bit in (
        ("has_shape_collision", flags.COLLIDE_SHAPES),
        ("has_particle_collision", flags.COLLIDE_PARTICLES),
        ("is_visible", flags.VISIBLE),
    ):
        for shape in shapes if fields.get(name) is False else ():
            builder.shape_flags[shape] &= ~int(bit)
    for shape in shapes if fields.get("is_visible") else ():
        builder.shape_flags[shape] |= int(flags.VISIBLE)


def describe_unused(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Yield fields that are understood and do not act, each with an explanation."""
    found = []
    for name, value in fields.items():
        if name in NOT_APPLIED and value is not False:
            what = "hydroelastic contact" if name == "is_hydroelastic" else "collision with signed distance fields"
            found.append((name, f"{what} is not supported yet; the shape makes point contacts"))
        elif name in STORED_ONLY and value:
            found.append((name, "is stored in the model, but SAP contact does not use it"))
    return found
