"""Step 5: inline joints and articulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import warp as wp

from ..text.errors import Complaint
from ..text.references import trees_of
from .bodies import WORLD
from .fields import JointFields
from .joint_defaults import joint_arguments, set_target
from .objects import BallJoint, D6Joint, DistanceJoint, FixedJoint, FreeJoint, PrismaticJoint, RevoluteJoint
from .placement import parent_frame, place_child

if TYPE_CHECKING:
    from ..build import SceneBuild


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


def _check_limits(build: SceneBuild, index: int, joint: Any) -> None:
    """Check that limits of the joint and limits of the defaults, of which each may give one, fit together."""
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
        return _set_losses(build, joint, builder.add_joint_free(**common))
    if isinstance(joint, DistanceJoint):
        bounds = {"min_distance": joint.min_distance, "max_distance": joint.max_distance}
        return _set_losses(build, joint, builder.add_joint_distance(**common, **bounds))
    if isinstance(joint, BallJoint):
        return builder.add_joint_ball(**common, armature=joint.armature, friction=joint.friction, damping=joint.damping)
    linear: list[dict[str, Any]] = []
    angular: list[dict[str, Any]] = []
    if isinstance(joint, D6Joint):
        linear = [_dof(build, axis) for axis in joint.linear_axes]
        angular = [_dof(build, axis) for axis in joint.angular_axes]
    else:
        assert isinstance(joint, (RevoluteJoint, PrismaticJoint))
        (angular if isinstance(joint, RevoluteJoint) else linear).append(_dof(build, joint))
    config = newton.ModelBuilder.JointDofConfig
    axes = {"linear_axes": [config(**dof) for dof in linear], "angular_axes": [config(**dof) for dof in angular]}
    index = builder.add_joint(newton.JointType[joint.type.upper()], **common, **axes)
    for i, dof in enumerate((*linear, *angular)):
        set_target(builder, index, builder.joint_qd_start[index] + i, dof.get("target_pos"))
    return index


def _dof(build: SceneBuild, fields: JointFields) -> dict[str, Any]:
    """Return the values of one dof: its own fields over the defaults of the scene."""
    return joint_arguments(build.scene.builder.defaults.joint) | joint_arguments(fields)


def _set_losses(build: SceneBuild, joint: FreeJoint | DistanceJoint, index: int) -> int:
    """Set armature and damping of a floating joint, which Newton adds without them.

    Armature has a default as that of any dof. Damping and friction are losses of bearings, of which it has none.
    """
    builder = build.builder
    armature = builder.default_joint_cfg.armature if joint.armature is None else joint.armature
    for dof in range(builder.joint_qd_start[index], builder.joint_dof_count):
        builder.joint_armature[dof] = armature
        builder.joint_damping[dof] = joint.damping or 0.0
    return index
