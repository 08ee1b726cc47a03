"""Joint defaults (`builder.defaults.joint`): values of dofs where neither the scene nor a file gives any.

Newton's importers take some fields from the defaults of the builder and leave out others. What a file says about a dof
is found for those, and the rest filled in: what is filled in is the same for inline joints, URDF, MJCF and USD.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import newton
import warp as wp

from ...model.joint_types import FLOATING_JOINTS, SCALAR_JOINTS
from .fields import JOINT_FIELDS, JointFields

if TYPE_CHECKING:
    from ..build import SceneBuild

_LIMITS = ("limit_lower", "limit_upper", "effort_limit", "velocity_limit")
_KIND = newton.JointType
MAX_FLOATING_ARMATURE = 0.01
"""Ratio of the default armature to a floating body's inertia above which a note is given."""
_FRICTION = "file:frictionloss"
_USD_DRIVE = {
    "target_pos": "targetPosition",
    "target_vel": "targetVelocity",
    "target_ke": "stiffness",
    "target_kd": "damping",
    "effort_limit": "maxForce",
}
_SINGLE_AXIS = {_KIND.REVOLUTE: "angular", _KIND.PRISMATIC: "linear"}

Stated = Mapping[str, set[int]]
"""Fields, each with the dofs for which a file states it."""


def joint_arguments(fields: Any) -> dict[str, Any]:
    """Return joint fields of a scene as keywords of Newton, which writes 'no limit' as a large number."""
    given = {name: value for name, value in fields.given().items() if name in JOINT_FIELDS}
    for name in _LIMITS:
        if name in given and abs(given[name]) > newton.MAXVAL:
            given[name] = math.copysign(newton.MAXVAL, given[name])
    if "actuator_mode" in given:
        given["actuator_mode"] = newton.JointTargetMode(given["actuator_mode"])
    return given


def set_joint_defaults(builder: newton.ModelBuilder, fields: JointFields) -> None:
    """Make ``fields`` the defaults of joint dofs that are added later."""
    arguments = joint_arguments(fields)
    builder.default_joint_cfg = newton.ModelBuilder.JointDofConfig(**arguments)
    # Newton moves a target that is outside of the limits; those of a joint may be others.
    builder.default_joint_cfg.target_pos = arguments.get("target_pos", 0.0)


def set_target(builder: newton.ModelBuilder, joint: int, dof: int, target: float | None) -> None:
    """Set the drive target of one scalar dof of a joint [m or rad], even outside of the limits.

    None leaves Newton's choice: 0, or the middle of the limits if they exclude it.
    """
    if target is not None:
        builder.joint_target_q[builder.joint_q_start[joint] + dof - builder.joint_qd_start[joint]] = target


def _fill(build: SceneBuild, joints: range, names: Iterable[str], stated: Stated) -> None:
    """Give imported joints the fields ``names`` that their file does not state, and set drive modes."""
    builder, given = build.builder, joint_arguments(build.scene.builder.defaults.joint)
    for joint in joints if given else ():
        kind = builder.joint_type[joint]
        scalar = kind in SCALAR_JOINTS
        kept = names if scalar else ("armature",) if kind in FLOATING_JOINTS else {"friction"}.intersection(names)
        for dof in _dofs(builder, joint):
            for name in kept:
                if name not in given or dof in stated[name]:
                    continue
                if name == "target_pos":
                    set_target(builder, joint, dof, given[name])
                else:
                    getattr(builder, "joint_target_qd" if name == "target_vel" else f"joint_{name}")[dof] = given[name]
            if scalar and dof not in stated["actuator_mode"]:
                _set_mode(builder, dof, given)


def _dofs(builder: newton.ModelBuilder, joint: int) -> range:
    starts = [*builder.joint_qd_start[joint : joint + 2], builder.joint_dof_count]
    return range(starts[0], starts[1])


def _set_mode(builder: newton.ModelBuilder, dof: int, given: Mapping[str, Any]) -> None:
    """Set the drive mode: that of the defaults, else the one found from the gains."""
    if "actuator_mode" in given:
        builder.joint_target_mode[dof] = int(given["actuator_mode"])
    elif given.get("target_ke") or given.get("target_kd"):
        _infer_mode(builder, dof)


def _infer_mode(builder: newton.ModelBuilder, dof: int) -> None:
    gains = builder.joint_target_ke[dof], builder.joint_target_kd[dof]
    builder.joint_target_mode[dof] = int(newton.JointTargetMode.from_gains(*gains, has_drive=True))


def fill_urdf_joints(build: SceneBuild, joints: range, text: str) -> None:
    """Fill in what a URDF leaves open: it never states drives, and a continuous joint has no limits."""
    attributes = {"limit": ("lower", "upper", "effort", "velocity"), "dynamics": ("damping", "friction")}
    names = ("limit_lower", "limit_upper", "effort_limit", "velocity_limit", "damping", "friction")
    stated: defaultdict[str, set[int]] = defaultdict(set)
    builder = build.builder
    elements = {element.get("name"): element for element in ElementTree.fromstring(text).findall("joint")}
    for joint in joints:
        label = builder.joint_label[joint]
        element = next((e for name, e in elements.items() if label == name or label.endswith(f"/{name}")), None)
        if element is None:  # the joint of the root
            continue
        told = [element.find(f"{tag}[@{key}]") is not None for tag, keys in attributes.items() for key in keys]
        if element.get("type") == "continuous" and not any(told[:2]):
            told[:2] = True, True
            for dof in _dofs(builder, joint):
                builder.joint_limit_lower[dof], builder.joint_limit_upper[dof] = -newton.MAXVAL, newton.MAXVAL
        for name, is_told in zip(names, told, strict=True):
            stated[name].update(_dofs(builder, joint) if is_told else ())
    _fill(build, joints, [name for name in JOINT_FIELDS if name not in ("axis", "actuator_mode")], stated)


def watch_mjcf_friction(builder: newton.ModelBuilder) -> None:
    """Make Newton record during import where a file or class gives frictionloss, for `fill_mjcf_joints`."""
    builder.add_custom_attribute(
        newton.ModelBuilder.CustomAttribute(
            name="frictionloss",
            namespace="file",
            dtype=wp.float32,
            frequency=newton.Model.AttributeFrequency.JOINT_DOF,
            mjcf_attribute_name="frictionloss",
        )
    )


def fill_mjcf_joints(build: SceneBuild, joints: range) -> None:
    """Fill in what an MJCF leaves open. Actuators decide over the drives of their dofs; targets are in no file."""
    attributes = build.builder.custom_attributes
    stated: defaultdict[str, set[int]] = defaultdict(set)
    stated["friction"].update(attributes.pop(_FRICTION).values or ())
    kinds, ends = (attributes[f"mujoco:actuator_{name}"].values or () for name in ("trntype", "trnid"))
    stated["actuator_mode"].update(int(end[0]) for kind, end in zip(kinds, ends, strict=True) if int(kind) == 0)
    _fill(build, joints, ("target_pos", "target_vel", "velocity_limit", "friction"), stated)


def fill_usd_joints(build: SceneBuild, joints: range, stage: Any) -> None:
    """Fill in what a USD stage leaves open: drives and limits whose attributes are not authored."""
    builder = build.builder
    stated: defaultdict[str, set[int]] = defaultdict(set)
    dofs = [
        (joint, dof) for joint in joints if builder.joint_type[joint] in SCALAR_JOINTS for dof in _dofs(builder, joint)
    ]
    for joint, dof in dofs if joint_arguments(build.scene.builder.defaults.joint) else ():
        axis = _SINGLE_AXIS.get(builder.joint_type[joint]) or _usd_axis(builder, joint, dof)
        prim = stage.GetPrimAtPath(builder.joint_label[joint])
        ends = (f"limit:{axis}:physics:low", f"limit:{axis}:physics:high")
        ends = ends if builder.joint_type[joint] == _KIND.D6 else ("physics:lowerLimit", "physics:upperLimit")
        attributes = {name: f"drive:{axis}:physics:{attribute}" for name, attribute in _USD_DRIVE.items()}
        told = {
            name
            for name, attribute in (*attributes.items(), ("limit_lower", ends[0]), ("limit_upper", ends[1]))
            if not prim or prim.GetAttribute(attribute).HasAuthoredValue()
        }
        if builder.joint_target_mode[dof] == newton.JointTargetMode.NONE:  # no drive, whatever is authored
            told -= set(attributes)
        elif not prim or f"PhysicsDriveAPI:{axis}" not in prim.GetAppliedSchemas():  # Newton found it elsewhere
            told.update(attributes)
        elif "target_pos" in told and axis not in ("linear", "transX", "transY", "transZ"):
            # Newton has moved it into limits that were not yet those of the joint.
            set_target(builder, joint, dof, math.radians(prim.GetAttribute(attributes["target_pos"]).Get()))
        if told & {"target_ke", "target_kd"}:
            told.add("actuator_mode")
        if builder.joint_effort_limit[dof] < newton.MAXVAL:  # of the joint, if not of the drive
            told.add("effort_limit")
        for name in told:
            stated[name].add(dof)
    _fill(build, joints, (*_USD_DRIVE, "limit_lower", "limit_upper"), stated)
    for dof in stated["actuator_mode"]:  # of the gains that it has now, some of which may be defaults
        _infer_mode(builder, dof)


def _usd_axis(builder: newton.ModelBuilder, joint: int, dof: int) -> str:
    """Return the name of an axis of a d6 joint in the schemas of USD."""
    slides = builder.joint_dof_dim[joint][0]
    offset = dof - builder.joint_qd_start[joint]
    letter = "XYZ"[int(max(range(3), key=lambda i: abs(builder.joint_axis[dof][i])))]
    return ("trans" if offset < slides else "rot") + letter


def note_armature_of_floating_joints(build: SceneBuild) -> None:
    """Name floating bodies that the default armature slows down: it adds inertia but no weight."""
    builder, armature = build.builder, build.builder.default_joint_cfg.armature
    slow: list[int] = []
    for joint, kind in enumerate(builder.joint_type if armature > 0.0 else ()):
        body = builder.joint_child[joint]
        moments = [builder.body_inertia[body][i, i] for i in range(3)]
        if (
            kind in FLOATING_JOINTS
            and armature > MAX_FLOATING_ARMATURE * min(builder.body_mass[body], *moments)
            and armature in (builder.joint_armature[dof] for dof in _dofs(builder, joint))
        ):
            slow.append(joint)
    if slow:
        shown = ", ".join(repr(builder.joint_label[joint]) for joint in slow[:3])
        more = f" and {len(slow) - 3} more" if len(slow) > 3 else ""
        build.note(
            "floating-armature",
            ("builder", "defaults", "joint", "armature"),
            f"{armature:g} kg and kg m^2 are added to floating joints too, and slow the bodies of {shown}{more} down; "
            "give such a joint armature: 0, or use set_joint_armature",
            ("joint", slow[0]),
        )
