"""Steps 6 and 7: edits of the initial positions, and of the finished world."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import newton
import warp as wp

from ...core.notes import name_some
from ...model.shapes import SPHERE, WITH_VERTICES, shape_type
from ...solver.settings.options import SapOptions
from ..assets.decomposition import PartOptions
from ..assets.filters import drop_parent_filters
from ..assets.hulls import replace_meshes
from ..assets.parts import split_meshes
from ..objects.bodies import add_shape
from ..objects.materials import read_tau, write_tau
from ..objects.objects import Decomposition, InitialJointQ
from ..text import bounds
from ..text.errors import Complaint, Path, below
from ..text.provenance import record_edit
from ..text.values import LARGEST_INTEGER, resolve_index
from .operations import (
    AddShape,
    ApproximateMeshes,
    CopyArray,
    CopyJointQToJointTargets,
    ScaleSphereShapes,
    SetArray,
    SetAttr,
    SetJointArmature,
    SetJointQ,
    SetJointTargets,
)
from .selectors import find_body, find_joint, joint_entries, select_entries

if TYPE_CHECKING:
    from ..build import SceneBuild

_INTEGER_ARRAYS = ("shape_collision_group", "shape_flags", "joint_target_mode")
_ANY_SIGN = ("joint_q", "joint_qd", "joint_target_pos", "joint_target_vel", "shape_collision_group")
_NEWTON_NAME = {"joint_target_pos": "joint_target_q", "joint_target_vel": "joint_target_qd"}
_QUANTITIES = {
    "shape_margin": bounds.LENGTH,
    "shape_gap": bounds.LENGTH,
    "shape_material_ke": bounds.STIFFNESS,
    "shape_material_tau": bounds.RELAXATION,
    "shape_material_mu": bounds.FRICTION,
    "joint_q": bounds.COORDINATE,
    "joint_qd": bounds.SPEED,
    "joint_target_pos": bounds.COORDINATE,
    "joint_target_vel": bounds.SPEED,
    "joint_target_ke": bounds.STIFFNESS,
    "joint_target_kd": bounds.DAMPING,
    "joint_armature": bounds.INERTIA,
    "joint_friction": bounds.FORCE,
    "joint_damping": bounds.DAMPING,
}
_HYDROELASTIC = int(newton.ShapeFlags.HYDROELASTIC)
_UNUSED = {
    "shape_material_restitution": "SAP contact has no restitution; set tau",
    "shape_material_mu_torsional": "SAP contact has no torsional friction",
    "shape_material_mu_rolling": "SAP contact has no rolling friction",
    "shape_material_kh": "hydroelastic contact is not supported yet",
}


def apply_initial_joint_q(build: SceneBuild) -> None:
    """Step 6: edits of joint_q."""
    for i, edit in enumerate(build.scene.initial_joint_q):
        with build.at("initial_joint_q", i):
            values = [edit.value] if edit.values is None else edit.values
            _set_joint_q(build, edit, values, ("initial_joint_q", i))


def apply_post_build(build: SceneBuild) -> None:
    """Step 7: edits in the order of the scene."""
    for i, operation in enumerate(build.scene.post_build):
        with build.at("post_build", i):
            _apply(operation, build, i)
    drop_parent_filters(build.builder, build.unfiltered)


@functools.singledispatch
def _apply(operation: Any, build: SceneBuild, i: int) -> None:
    raise AssertionError(f"no edit for {type(operation).__name__}")


def _set_joint_q(build: SceneBuild, edit: InitialJointQ | SetJointQ, values: list[float], path: Path) -> None:
    joint_q = build.builder.joint_q
    if edit.index is not None:
        with below("index"):
            start = resolve_index(edit.index, len(joint_q))
        end = len(joint_q)
    else:
        key = "joint" if edit.joint is not None else "joint_label"
        name = getattr(edit, key)
        with below(key):
            entries = joint_entries(build, find_joint(build, name), "coordinate")
        if not 0 <= edit.offset < len(entries):
            raise Complaint(f"found {edit.offset}, but joint {name!r} has {len(entries)} coordinates", ("offset",))
        start, end = entries.start + edit.offset, entries.stop
    if start + len(values) > end:
        raise Complaint(f"found {len(values)} values, but there is room for {end - start}", ("values",))
    joint_q[start : start + len(values)] = values
    build.note_edit(range(start, start + len(values)), path)


# Arrays


def _unit_of(array: str) -> str:
    if array.startswith("shape_"):
        return "shape"
    return "coordinate" if array in ("joint_q", "joint_target_pos") else "dof"


def _read_array(build: SceneBuild, array: str) -> list[Any]:
    if array == "shape_material_tau":
        fallback = build.scene.simulation.solver.get("contact_tau_d", SapOptions.contact_tau_d)
        return [fallback if tau < 0.0 else tau for tau in read_tau(build.builder)]
    return list(getattr(build.builder, _NEWTON_NAME.get(array, array)))


def _write_entry(build: SceneBuild, array: str, entry: int, value: float) -> None:
    if array == "shape_material_tau":
        write_tau(build.builder, entry, float(value))
    else:
        values = getattr(build.builder, _NEWTON_NAME.get(array, array))
        values[entry] = int(value) if array in _INTEGER_ARRAYS else float(value)


def _check_value(array: str, value: float) -> None:
    if array in _INTEGER_ARRAYS and (value != int(value) or abs(value) > LARGEST_INTEGER):
        raise Complaint(f"found {value:g}; entries of {array} are whole numbers of magnitude up to {LARGEST_INTEGER}")
    if array not in _ANY_SIGN and value < 0.0:
        raise Complaint(f"found {value:g}; entries of {array} are not negative")
    if array in _QUANTITIES:
        _QUANTITIES[array].check(value)
    if array == "shape_material_ke" and value == 0.0:
        raise Complaint("found 0; entries of shape_material_ke are positive")
    if array == "joint_target_mode" and value > 4:
        raise Complaint(f"found {value:g}; entries of joint_target_mode are 0 to 4")
    if array == "shape_flags" and int(value) & ~sum(newton.ShapeFlags):
        known = ", ".join(f"{int(flag)} {flag.name.lower()}" for flag in newton.ShapeFlags)
        raise Complaint(f"found {value:g}; entries of shape_flags are sums of {known}")


def _write_entries(build: SceneBuild, i: int, array: str, entries: list[int], values: list[float], key: str) -> None:
    if len(values) != len(entries):
        raise Complaint(f"found {len(values)} values for {len(entries)} selected entries", (key,))
    for value in values:
        with below(key):
            _check_value(array, value)
    if array == "shape_flags" and any(int(value) & _HYDROELASTIC for value in values):
        values = [int(value) & ~_HYDROELASTIC for value in values]
        build.note_unsupported(("post_build", i), "hydroelastic contact is not supported yet; point contacts are made")
    for entry, value in zip(entries, values, strict=True):
        _write_entry(build, array, entry, value)
    if array == "joint_q":
        build.note_edit(entries, ("post_build", i))
    record_edit(build, array, entries, ("post_build", i))
    if array in _UNUSED and any(values):
        build.note_unsupported(("post_build", i), f"{array} is stored in the model, but {_UNUSED[array]}")


@_apply.register(SetArray)
def _set_array(operation: SetArray, build: SceneBuild, i: int) -> None:
    entries = select_entries(build, operation, _unit_of(operation.array))
    if operation.from_array is not None:
        values, key = _read_same_entries(build, operation, operation.array, entries), "from_array"
    elif operation.values is not None:
        values, key = operation.values, "values"
    else:
        values, key = [operation.value] * len(entries), "value"
    _write_entries(build, i, operation.array, entries, values, key)


@_apply.register(CopyArray)
def _copy_array(operation: CopyArray, build: SceneBuild, i: int) -> None:
    entries = select_entries(build, operation, _unit_of(operation.to_array))
    if operation.from_range is None:
        values = _read_same_entries(build, operation, operation.to_array, entries)
    else:
        source = _read_array(build, operation.from_array)
        with below("from_range"):
            values = [source[entry] for entry in operation.from_range.resolve(len(source))]
    _write_entries(build, i, operation.to_array, entries, values, "from_array")


def _read_same_entries(build: SceneBuild, operation: Any, array: str, entries: list[int]) -> list[Any]:
    """Return the values of ``operation.from_array`` for the entries that the operation selects in ``array``."""
    source, unit, other = operation.from_array, _unit_of(array), _unit_of(operation.from_array)
    if unit != other:
        by_joint = operation.selected_by() not in (None, "index", "range")
        if "shape" in (unit, other) or not by_joint:
            raise Complaint(
                f"{source} has an entry for each {other}, {array} for each {unit}; "
                + (
                    "one cannot be copied to the other"
                    if "shape" in (unit, other)
                    else "select joints by label, or use copy_array with from_range"
                ),
                ("from_array",),
            )
        entries = select_entries(build, operation, other)
    values = _read_array(build, source)
    return [values[entry] for entry in entries]


# Shapes


@_apply.register(AddShape)
def _add_shape(operation: AddShape, build: SceneBuild, i: int) -> None:
    with below("body"):
        body = find_body(build, operation.body)
    before = build.builder.body_mass[body] if body >= 0 else 0.0
    add_shape(build, body, operation.shape, ({}, ()), ("post_build", i, "shape"))
    added = build.builder.body_mass[body] - before if body >= 0 else 0.0
    if added > 0.0 and any(body in asset["body"] for asset in build.imported):
        label = build.builder.body_label[body]
        what = f"the shape adds {added:.3g} kg to {label!r}, which has {before:.3g} kg by its file"
        build.note("added-mass", ("post_build", i), f"{what}; density: 0 leaves it as it is", ("body", body))


@_apply.register(ScaleSphereShapes)
def _scale_sphere_shapes(operation: ScaleSphereShapes, build: SceneBuild, i: int) -> None:
    builder = build.builder
    spheres = [s for s in range(builder.shape_count) if builder.shape_type[s] == SPHERE]
    if not spheres:
        raise Complaint("there are no spheres")
    for sphere in spheres:
        x, y, z = builder.shape_scale[sphere]
        builder.shape_scale[sphere] = (operation.factor * x, y, z)
        builder.shape_collision_radius[sphere] *= operation.factor


@_apply.register(ApproximateMeshes)
def _approximate_meshes(operation: ApproximateMeshes, build: SceneBuild, i: int) -> None:
    builder = build.builder
    collides = int(newton.ShapeFlags.COLLIDE_SHAPES)
    shapes = [
        shape
        for shape in range(builder.shape_count)
        if builder.shape_type[shape] in WITH_VERTICES
        and builder.shape_flags[shape] & collides
        and (operation.label_prefix is None or builder.shape_label[shape].startswith(operation.label_prefix))
        and (operation.match is None or operation.match in builder.shape_label[shape])
    ]
    if not shapes:
        raise Complaint(
            "there are no colliding meshes" + (" of these labels" if operation.match or operation.label_prefix else "")
        )
    if operation.method == "convex_hull":
        if flat := replace_meshes(builder, shapes):
            raise Complaint(f"{name_some(flat, range(len(flat)))}: flat meshes have no convex hull")
        return
    if operation.method == "convex_parts":
        given = operation.decomposition or Decomposition()
        hulls = [shape for shape in shapes if shape_type(builder.shape_type[shape]).is_convex]
        if hulls:
            what = name_some(builder.shape_label, hulls)
            raise Complaint(f"{what}: a convex hull already; ask for meshes: parts in the asset", ("method",))
        _, flat = split_meshes(build, shapes, PartOptions(given.threshold, given.max_parts))
        if flat:
            raise Complaint(f"{name_some(flat, range(len(flat)))}: flat meshes have no convex parts")
        return
    builder.approximate_meshes(operation.method, shape_indices=shapes, raise_on_failure=True)


@_apply.register(SetAttr)
def _set_attr(operation: SetAttr, build: SceneBuild, i: int) -> None:
    if operation.attr == "gravity":
        value = operation.value
        build.builder.gravity = wp.vec3(0.0, 0.0, value) if isinstance(value, float) else wp.vec3(*value)
    else:
        build.builder.rigid_gap = operation.value


# Joints


@_apply.register(SetJointTargets)
def _set_joint_targets(operation: SetJointTargets, build: SceneBuild, i: int) -> None:
    builder = build.builder
    dofs = select_entries(build, operation, "dof")
    for name, array in (
        ("mode", builder.joint_target_mode),
        ("ke", builder.joint_target_ke),
        ("kd", builder.joint_target_kd),
        ("target_vel", builder.joint_target_qd),
    ):
        value = getattr(operation, name)
        for dof in dofs if value is not None else ():
            array[dof] = value
    if operation.target_pos is not None:
        for coordinate in _coordinates_of(build, dofs):
            builder.joint_target_q[coordinate] = operation.target_pos


def _coordinates_of(build: SceneBuild, dofs: list[int]) -> list[int]:
    """Return the coordinates of dofs; the rotation of a joint with a quaternion has none of its own."""
    coordinate_of: dict[int, int] = {}
    for joint in range(build.builder.joint_count):
        its_dofs, its_coordinates = (joint_entries(build, joint, unit) for unit in ("dof", "coordinate"))
        if len(its_dofs) == len(its_coordinates):
            coordinate_of.update(zip(its_dofs, its_coordinates, strict=True))
    missing = [dof for dof in dofs if dof not in coordinate_of]
    if missing:
        raise Complaint(
            f"dof {missing[0]} belongs to a joint with a quaternion, which one number cannot be a target for",
            ("target_pos",),
        )
    return [coordinate_of[dof] for dof in dofs]


@_apply.register(SetJointQ)
def _set_one_joint_q(operation: SetJointQ, build: SceneBuild, i: int) -> None:
    _set_joint_q(build, operation, [operation.value], ("post_build", i))


@_apply.register(CopyJointQToJointTargets)
def _copy_joint_q_to_joint_targets(operation: CopyJointQToJointTargets, build: SceneBuild, i: int) -> None:
    for entry in select_entries(build, operation, "coordinate"):
        build.builder.joint_target_q[entry] = float(build.builder.joint_q[entry])


@_apply.register(SetJointArmature)
def _set_joint_armature(operation: SetJointArmature, build: SceneBuild, i: int) -> None:
    dofs = select_entries(build, operation, "dof")
    values = [operation.value] * len(dofs) if operation.values is None else operation.values
    if len(values) != len(dofs):
        raise Complaint(f"found {len(values)} values for {len(dofs)} selected dofs", ("values",))
    for dof, value in zip(dofs, values, strict=True):
        build.builder.joint_armature[dof] = float(value)
