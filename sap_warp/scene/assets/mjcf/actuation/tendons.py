"""Tendon data that Newton's importer loses: which axis of a joint a tendon acts on, and equalities between tendons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ....text.nodes import Node
from ..coordinates import bodies_of, body_joints
from ..reader import MjcfDocument

if TYPE_CHECKING:
    from ..content import Import

AXIS = "sap:tendon_joint_axis"
EQUALITY = "tendon_equality"
_vec5 = wp.types.vector(length=5, dtype=wp.float32)


def translate_equalities(document: MjcfDocument) -> None:
    """Couple single-joint tendons in place of joints that share a body, or of joints that are coupled to nothing.

    Newton makes one joint of all those of a body, and its couplings are between two whole joints.
    """
    shared = {
        joint.get("name")
        for body in bodies_of(document.root)
        for joint in body_joints(body)
        if len(body_joints(body)) > 1 and joint.get("name")
    }
    chosen = [
        node
        for node in document.elements("equality", "joint")
        if node.get("joint2") is None or shared & {node.get(name) for name in ("joint1", "joint2")}
    ]
    if not chosen:
        return
    section = Node("tendon", origin=chosen[0])
    document.root.append(section)
    for i, node in enumerate(chosen):
        for end in ("1", "2"):
            joint = node.get(f"joint{end}")
            if joint is not None:
                tendon = Node("fixed", {"name": f"equality_{i}_{joint}"}, origin=node)
                tendon.append(Node("joint", {"joint": joint, "coef": "1"}, origin=node))
                section.append(tendon)
                node.set(f"tendon{end}", tendon.get("name", ""))
        node.tag = "tendon"
        node.drop("joint1", "joint2")


def tendon_labels(builder: newton.ModelBuilder) -> list[Any]:
    """Return the list of all tendon names of a builder, to be changed in place."""
    attribute = builder.custom_attributes.get("mujoco:tendon_label")
    values = attribute.values if attribute is not None else None
    return values if isinstance(values, list) else []


def keep_tendons(done: Import) -> None:
    """Write tendon axes and equalities into attributes of this package, which are copied with the world."""
    builder = done.build.builder
    fixed = done.document.elements("tendon", "fixed")
    entries = [joint for tendon in fixed for joint in tendon.children("joint")]
    found = {joint.get("name"): (joint, index) for joint, index in done.joint_indices.items()}
    if entries:
        _add_axes(builder, [found[entry.get("joint")][1] if entry.get("joint") in found else None for entry in entries])
    equalities = done.document.elements("equality", "tendon")
    if equalities:
        parts = [part.children(kind) for part in done.document.sections("tendon") for kind in ("fixed", "spatial")]
        _add_equalities(done, equalities, [tendon.get("name") for part in parts for tendon in part])


def _add_axes(builder: newton.ModelBuilder, indices: list[Any]) -> None:
    """Record the axis of each joint in a tendon: Newton merges the joints of a body and keeps no axes."""
    kept = builder.custom_attributes["mujoco:tendon_joint"].values or []
    first = len(kept) - len(indices)
    if first < 0 or any(index is None for index in indices):
        return  # Newton has warned about what it skips
    if AXIS not in builder.custom_attributes:
        builder.add_custom_attribute(
            newton.ModelBuilder.CustomAttribute(
                name=AXIS.partition(":")[2],
                namespace="sap",
                dtype=wp.int32,
                frequency="mujoco:tendon_joint",
                assignment=newton.Model.AttributeAssignment.MODEL,
                default=0,
            )
        )
    attribute = builder.custom_attributes[AXIS]
    values = list(attribute.values or [])
    values += [0] * (len(kept) - len(values))
    for i, index in enumerate(indices, start=first):
        values[i] = index.dof - builder.joint_qd_start[int(kept[i])]
    attribute.values = values


def _add_equalities(done: Import, nodes: list[Any], names: list[str | None]) -> None:
    builder = done.build.builder
    _register_equalities(builder)
    first = len(builder.custom_attributes["mujoco:tendon_world"].values or []) - len(names)
    for node in nodes:
        second = node.get("tendon2")
        polynomial = np.array([0.0, 1.0, 0.0, 0.0, 0.0])
        if node.get("polycoef") is not None:
            given = node.numbers("polycoef")
            polynomial[: len(given)] = given
        values = {
            "world": builder.current_world,
            "tendon1": first + names.index(node.get("tendon1")),
            "tendon2": first + names.index(second) if second is not None else -1,
            "polycoef": _vec5(*map(float, polynomial)),
            "enabled": node.get("active", "true") == "true",
        }
        builder.add_custom_values(**{f"sap:{EQUALITY}_{name}": value for name, value in values.items()})


def _register_equalities(builder: newton.ModelBuilder) -> None:
    if f"sap:{EQUALITY}" in builder.custom_frequencies:
        return
    builder.add_custom_frequency(newton.ModelBuilder.CustomFrequency(name=EQUALITY, namespace="sap"))
    kinds: dict[str, tuple[Any, Any, str | None]] = {
        "world": (wp.int32, -1, "world"),
        "tendon1": (wp.int32, -1, "mujoco:tendon"),
        "tendon2": (wp.int32, -1, "mujoco:tendon"),
        "polycoef": (_vec5, _vec5(), None),
        "enabled": (wp.bool, True, None),
    }
    for name, (dtype, default, references) in kinds.items():
        builder.add_custom_attribute(
            newton.ModelBuilder.CustomAttribute(
                name=f"{EQUALITY}_{name}",
                namespace="sap",
                dtype=dtype,
                frequency=f"sap:{EQUALITY}",
                assignment=newton.Model.AttributeAssignment.MODEL,
                default=default,
                references=references,
            )
        )
