"""Step 5: inline joints and articulations."""

from __future__ import annotations

import math
from typing import Any

import newton
import warp as wp

from .bodies import WORLD
from .build import SceneBuild
from .errors import Complaint
from .fields import JOINT_FIELDS, JointFields
from .filters import drop_parent_filters
from .objects import BallJoint, D6Joint, DistanceJoint, FixedJoint, FreeJoint, PrismaticJoint, RevoluteJoint
from .placement import parent_frame, place_child
from .references import trees_of

_LIMITS = ("limit_lower", "limit_upper", "effort_limit", "velocity_limit")


def set_joint_defaults(builder: newton.ModelBuilder, fields: JointFields) -> None:
    """Make ``fields`` the defaults of joint dofs that are added later."""
    builder.default_joint_cfg = newton.ModelBuilder.JointDofConfig(**_dof_arguments(fields))


def _dof_arguments(fields: Any) -> dict[str, Any]:
    """Joint fields of a scene as keywords of Newton, which writes 'no limit' as a large number."""
    given = {name: value for name, value in fields.given().items() if name in JOINT_FIELDS}
    for name in _LIMITS:
        if name in given and abs(given[name]) > newton.MAXVAL:
            given[name] = math.copysign(newton.MAXVAL, given[name])
    if "actuator_mode" in given:
        given["actuator_mode"] = newton.JointTargetMode(given["actuator_mode"])
    return given


def add_joints(build: SceneBuild) -> None:
    """Add every joint of the scene, then the articulations."""
    for i, joint in enumerate(build.scene.joints):
        with build.at("joints", i):
            index = build.joint_of[joint.id] = _add_joint(build, joint)
            _check_limits(build, index, joint)
            place_child(build, joint, index)
    build.stop_if_broken()
    first = build.builder.joint_count - len(build.scene.joints)
    for label, joints in trees_of(build.scene):
        with build.at("articulations"):
            build.builder.add_articulation([first + joint for joint in joints], label=label)
    drop_parent_filters(build.builder, build.unfiltered)


def _check_limits(build: SceneBuild, index: int, joint: Any) -> None:
    """A lower limit of the joint may not fit to an upper one of the defaults, or the other way round."""
    builder = build.builder
    for dof in range(builder.joint_qd_start[index], builder.joint_dof_count):
        lower, upper = builder.joint_limit_lower[dof], builder.joint_limit_upper[dof]
        if lower > upper:
            raise Complaint(
                f"limit_lower {lower:g} is above limit_upper {upper:g}; one of them comes from builder.defaults.joint"
            )


def _add_joint(build: SceneBuild, joint: Any) -> int:
    builder = build.builder
    parent = WORLD if joint.parent == "world" else build.body_of[joint.parent]
    common: dict[str, Any] = {
        "parent": parent,
        "child": build.body_of[joint.child],
        "parent_xform": parent_frame(build, joint),
        "child_xform": wp.transform(*joint.child_xform),
        "label": joint.label or joint.id,
        # None is Newton's rule, by which only a body that is fixed to the world ignores shapes of the world.
        "collision_filter_parent": None if joint.collision_filter_parent else False,
    }
    if isinstance(joint, FixedJoint):
        return builder.add_joint_fixed(**common)
    if isinstance(joint, FreeJoint):
        return builder.add_joint_free(**common)
    if isinstance(joint, RevoluteJoint):
        return builder.add_joint_revolute(**common, **_dof_arguments(joint))
    if isinstance(joint, PrismaticJoint):
        return builder.add_joint_prismatic(**common, **_dof_arguments(joint))
    if isinstance(joint, BallJoint):
        return builder.add_joint_ball(**common, armature=joint.armature, friction=joint.friction, damping=joint.damping)
    if isinstance(joint, DistanceJoint):
        return builder.add_joint_distance(**common, min_distance=joint.min_distance, max_distance=joint.max_distance)
    assert isinstance(joint, D6Joint)
    return builder.add_joint_d6(
        **common,
        linear_axes=[_dof(build, axis) for axis in joint.linear_axes],
        angular_axes=[_dof(build, axis) for axis in joint.angular_axes],
    )


def _dof(build: SceneBuild, fields: JointFields) -> Any:
    """One dof of a d6 joint, with the defaults of the scene below its own fields."""
    defaults = _dof_arguments(build.scene.builder.defaults.joint)
    return newton.ModelBuilder.JointDofConfig(**{**defaults, **_dof_arguments(fields)})
