"""The table of conventions, one record per system, and the lookup of records by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .table import AxisName, Convention, Parameter, PoseOrder, QuaternionOrder, ShapeLayout, SpatialLayout

SHAPE_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "box": ("hx", "hy", "hz"),
        "sphere": ("radius",),
        "ellipsoid": ("rx", "ry", "rz"),
        "capsule": ("radius", "half_height"),
        "cylinder": ("radius", "half_height"),
        "cone": ("radius", "half_height"),
        "plane": ("width", "length"),
    }
)
"""Kinds of primitive shapes and Newton's parameters [m]. All are half sizes, except that ``width`` and ``length`` of
a plane are full sizes and 0 means infinite."""

_RADIUS = Parameter("radius", ("radius",))
_ROUND_KINDS = ("capsule", "cylinder", "cone")
AXIAL_KINDS = (*_ROUND_KINDS, "plane")
"""Kinds whose axis, or normal, is z in Newton; other systems may lay it along another one."""


def _round(name: str, factor: float, axis: AxisName = "Z", axis_attribute: bool = False) -> ShapeLayout:
    """Return the layout of a capsule, cylinder or cone whose length ``name`` is ``factor`` times Newton's."""
    return ShapeLayout((_RADIUS, Parameter(name, ("half_height",), factor)), axis, axis_attribute)


def _same_names(kind: str) -> ShapeLayout:
    """Return Newton's own layout of a kind."""
    return ShapeLayout(tuple(Parameter(name, (name,)) for name in SHAPE_KINDS[kind]))


def _missing(reason: str) -> ShapeLayout:
    return ShapeLayout(unsupported=reason)


_NEWTON_SHAPES = {kind: _same_names(kind) for kind in SHAPE_KINDS}

# A MuJoCo geom keeps three sizes whatever its type; unused ones are zero (the third of a plane is a grid spacing,
# which must be positive).
_MUJOCO_SHAPES = {
    "box": ShapeLayout((Parameter("size", ("hx", "hy", "hz"), vector=True),)),
    "sphere": ShapeLayout((Parameter("size", ("radius",), vector=True, fill=(0.0, 0.0)),)),
    "ellipsoid": ShapeLayout((Parameter("size", ("rx", "ry", "rz"), vector=True),)),
    "capsule": ShapeLayout((Parameter("size", ("radius", "half_height"), vector=True, fill=(0.0,)),)),
    "cylinder": ShapeLayout((Parameter("size", ("radius", "half_height"), vector=True, fill=(0.0,)),)),
    "cone": _missing("MuJoCo has no cone geom; use a convex mesh"),
    "plane": ShapeLayout((Parameter("size", ("width", "length"), 0.5, vector=True, fill=(1.0,)),)),
}

_DRAKE_SHAPES = {
    "box": ShapeLayout(
        (Parameter("width", ("hx",), 2.0), Parameter("depth", ("hy",), 2.0), Parameter("height", ("hz",), 2.0))
    ),
    "sphere": ShapeLayout((_RADIUS,)),
    "ellipsoid": ShapeLayout((Parameter("a", ("rx",)), Parameter("b", ("ry",)), Parameter("c", ("rz",)))),
    "capsule": _round("length", 2.0),
    "cylinder": _round("length", 2.0),
    "cone": _missing("Drake's only cone, MeshcatCone, is for drawing and has its tip at the origin; use Convex"),
    "plane": ShapeLayout(),  # HalfSpace: no parameters, always infinite
}

_NO_PHYSX_SHAPE = "not among PhysX's geometry types; use a convex mesh"
_PHYSX_SHAPES = {
    "box": ShapeLayout((Parameter("halfExtents", ("hx", "hy", "hz"), vector=True),)),
    "sphere": ShapeLayout((_RADIUS,)),
    "ellipsoid": _missing(_NO_PHYSX_SHAPE),
    "capsule": _round("halfHeight", 1.0, axis="X"),
    "cylinder": _missing(_NO_PHYSX_SHAPE),
    "cone": _missing(_NO_PHYSX_SHAPE),
    "plane": ShapeLayout(axis="X"),  # PxPlaneGeometry: no parameters, always infinite
}

_NO_USD_ELLIPSOID = "USD has no ellipsoid; scale a sphere"
_NO_USD_PLANE = (
    "USD has no plane that all applications read alike (UsdGeomPlane is a finite rectangle for drawing and an "
    "infinite plane for UsdPhysics); place it by its transform"
)
_USD_SHAPES = {
    "box": ShapeLayout((Parameter("size", ("hx", "hy", "hz"), 2.0, vector=True),), scaled_cube=True),
    "sphere": ShapeLayout((_RADIUS,)),
    "ellipsoid": _missing(_NO_USD_ELLIPSOID),
    **{kind: _round("height", 2.0, axis_attribute=True) for kind in _ROUND_KINDS},
    "plane": _missing(_NO_USD_PLANE),
}
_USD_PHYSICS_SHAPES = {
    **_USD_SHAPES,
    "box": ShapeLayout((Parameter("halfExtents", ("hx", "hy", "hz"), vector=True),)),
    **{kind: _round("halfHeight", 1.0, axis_attribute=True) for kind in _ROUND_KINDS},
}
_ISAAC_LAB_SHAPES = {
    **_USD_SHAPES,
    "box": ShapeLayout((Parameter("size", ("hx", "hy", "hz"), 2.0, vector=True),)),
    "plane": _missing("Isaac Lab has no plane primitive; spawn GroundPlaneCfg"),
}
_NO_GYM_SHAPE = "Isaac Gym cannot be checked for this primitive (closed, no longer distributed); load it from URDF"
_ISAAC_GYM_SHAPES = {
    **{kind: _missing(_NO_GYM_SHAPE) for kind in SHAPE_KINDS},
    "box": ShapeLayout(
        (Parameter("width", ("hx",), 2.0), Parameter("height", ("hy",), 2.0), Parameter("depth", ("hz",), 2.0))
    ),
    "sphere": ShapeLayout((_RADIUS,)),
    "plane": _missing("an Isaac Gym ground plane has no shape frame; it is PlaneParams(normal, distance)"),
}

_COM = SpatialLayout("linear_first", "com", "world", "world")
_ORIGIN = SpatialLayout("angular_first", "origin", "world", "world")
_FREE_JOINT = SpatialLayout("linear_first", "origin", "world", "body")
# The schema of USD says "in the same space as the node's xform" and leaves the point open. This is how Newton's USD
# importer reads it: body axes, degrees, and the numbers become the velocity of the centre of mass.
_USD = SpatialLayout("linear_first", "com", "body", "body", angle_unit="deg")
_MR_BODY = SpatialLayout("angular_first", "origin", "body", "body")
_MR_SPATIAL = SpatialLayout("angular_first", "world_origin", "world", "world")

_USD_NOTE = "`physics:velocity`, `physics:angularVelocity` (degrees); Gf.Quat's constructor and text are (w, x, y, z)."
_NOTES = {
    "public": "`body_qd`, `body_f`, `joint_f` of a free joint, and its `joint_qd` if its parent frame is not turned.",
    "sap": "Velocities and forces of free and distance joints inside the solver; poses are as in public.",
    "drake": "`SpatialVelocity` V_WB_W, `SpatialForce` F_Bo_W, and q, v of a quaternion floating joint.",
    "mujoco": "`qvel` and `qfrc_applied` of a free joint; for `xfrc_applied` use `mujoco_xfrc`.",
    "mujoco_xfrc": "Rows of `xfrc_applied`: a world-frame wrench at the centre of mass. Wrenches only.",
    "isaac_gym": "Root and rigid-body state tensors; `SimParams` is Y-up unless told otherwise.",
    "isaac_lab": "`root_com_vel_w`; external wrenches are in this form only when applied with `is_global=True`.",
    "isaac_lab_3": "As `isaac_lab`; version 3 turned quaternions to scalar-last.",
    "physx": "`PxRigidBody` velocities and `addForce`/`addTorque`; the pose is `PxTransform` (q before p).",
    "usd": _USD_NOTE,
    "usd_physics": _USD_NOTE,
    "mr_body": "V_b and F_b; its body frame is the pose passed in, here the body origin rather than the centre of "
    "mass.",
    "mr_spatial": "V_s and F_s, angular part first as in the book.",
}


def _system(
    name: str,
    title: str,
    twist: SpatialLayout | None,
    wrench: SpatialLayout | None,
    quaternion: QuaternionOrder,
    pose: PoseOrder | None,
    up_axis: AxisName | None,
    shapes: dict[str, ShapeLayout],
) -> Convention:
    """Return one record, with its note."""
    frozen = MappingProxyType(shapes)
    return Convention(name, title, twist, wrench, quaternion, pose, up_axis, shapes=frozen, note=_NOTES[name])


_RECORDS = (
    _system("public", "SAP Warp public (= Newton)", _COM, _COM, "xyzw", "position_first", "Z", _NEWTON_SHAPES),
    _system("sap", "SAP Warp sap", _ORIGIN, _ORIGIN, "xyzw", "position_first", "Z", _NEWTON_SHAPES),
    _system("drake", "Drake", _ORIGIN, _ORIGIN, "wxyz", "rotation_first", "Z", _DRAKE_SHAPES),
    _system("mujoco", "MuJoCo", _FREE_JOINT, _FREE_JOINT, "wxyz", "position_first", "Z", _MUJOCO_SHAPES),
    _system("mujoco_xfrc", "MuJoCo xfrc_applied", None, _COM, "wxyz", "position_first", "Z", _MUJOCO_SHAPES),
    _system("isaac_gym", "Isaac Gym", _COM, _COM, "xyzw", "position_first", "Y", _ISAAC_GYM_SHAPES),
    _system("isaac_lab", "Isaac Lab 2 / Isaac Sim", _COM, _COM, "wxyz", "position_first", "Z", _ISAAC_LAB_SHAPES),
    _system("isaac_lab_3", "Isaac Lab 3", _COM, _COM, "xyzw", "position_first", "Z", _ISAAC_LAB_SHAPES),
    _system("physx", "PhysX", _COM, _COM, "xyzw", "rotation_first", None, _PHYSX_SHAPES),
    _system("usd", "USD (UsdGeom)", _USD, None, "xyzw", None, "Y", _USD_SHAPES),
    _system("usd_physics", "USD Physics", _USD, None, "xyzw", None, "Y", _USD_PHYSICS_SHAPES),
    _system("mr_body", "Modern Robotics body twist", _MR_BODY, _MR_BODY, "wxyz", None, None, {}),
    _system("mr_spatial", "Modern Robotics spatial twist", _MR_SPATIAL, _MR_SPATIAL, "wxyz", None, None, {}),
)

SYSTEMS: Mapping[str, Convention] = MappingProxyType({record.name: record for record in _RECORDS})
"""The conventions table: one record per system, by canonical name."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "newton": "public",
        "sap_warp": "public",
        "warp": "public",
        "mujoco_warp": "mujoco",
        "mjwarp": "mujoco",
        "xfrc_applied": "mujoco_xfrc",
        "isaacgym": "isaac_gym",
        "isaaclab": "isaac_lab",
        "isaac_lab_2": "isaac_lab",
        "isaac_sim": "isaac_lab",
        "isaacsim": "isaac_lab",
        "isaaclab_3": "isaac_lab_3",
        "usdgeom": "usd",
        "usd_geom": "usd",
        "usdphysics": "usd_physics",
        "modern_robotics_body": "mr_body",
        "body_twist": "mr_body",
        "modern_robotics_spatial": "mr_spatial",
        "spatial_twist": "mr_spatial",
    }
)
"""Other accepted names. Case does not matter, and ``-`` and spaces count as ``_``."""


def get_convention(system: str | Convention) -> Convention:
    """Return a record of the table by name or alias; a record passes through, so own systems can be described.

    Raises:
        ValueError: The name is unknown; the message lists the valid ones.
    """
    if isinstance(system, Convention):
        return system
    if not isinstance(system, str):
        raise TypeError(f"system: expected a name or a Convention, got {type(system).__name__}")
    key = system.strip().lower().replace("-", "_").replace(" ", "_")
    key = ALIASES.get(key, key)
    if key not in SYSTEMS:
        names = ", ".join(SYSTEMS)
        aliases = ", ".join(ALIASES)
        raise ValueError(f"unknown system {system!r}; valid names: {names}; aliases: {aliases}")
    return SYSTEMS[key]
