"""Rewrite actuators that Newton's importer does not know or would change as <general>, before it reads the document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ....text.errors import Complaint
from ....text.nodes import Node
from ..coordinates import bodies_of, body_joints, joint_kind
from ..reader import MjcfDocument
from .ball_actuators import translate_ball_actuators

if TYPE_CHECKING:
    from ..content import Import

_MUSCLE = {
    "force": -1.0,
    "scale": 200.0,
    "lmin": 0.5,
    "lmax": 1.6,
    "vmax": 1.5,
    "fpmax": 1.3,
    "fvmax": 1.2,
}
"""MuJoCo's defaults, in the order of its parameters."""
_LINEAR = ("position", "velocity")
_OWN = ("kv", "dampratio", "forcerange")
"""Attributes that a <position> does not share with a <velocity> on its joint."""
_KEPT = (
    "name",
    "joint",
    "jointinparent",
    "tendon",
    "site",
    "refsite",
    "cranksite",
    "slidersite",
    "cranklength",
    "body",
)
"""Attributes of an actuator that say where it acts."""


def translate_actuators(document: MjcfDocument) -> None:
    """Make <general> of cylinders, muscles, filtered positions, and of all but one drive on a joint."""
    nodes = document.elements("actuator")
    _name_joints(document, nodes)
    _switch_off(document, nodes)
    _give_to_joints(document, nodes)
    translate_ball_actuators(document)
    last = {(node.tag, node.get("joint")): node for node in nodes if node.tag in _LINEAR and node.get("joint")}
    for node in [node for node in last.values() if node.tag == "velocity"]:
        beside = last.get(("position", node.get("joint")))
        if beside is not None and (node.get("forcerange") or any(map(beside.get, _OWN))):
            _translate_linear(node)  # a drive has one damping and one force range
    for node in nodes:
        if node.tag == "cylinder":
            _translate_cylinder(node)
        elif node.tag == "muscle":
            _translate_muscle(node)
        elif node.tag == "damper" and node.get("kv") is None:
            node.set("kv", "0")  # Newton's default is another one
        elif (node.tag == "intvelocity" and node.number("dampratio", 0.0) > 0.0) or (
            node.tag in _LINEAR
            and (
                node.number("timeconst", 0.0) > 0.0
                or (node.number("dampratio", 0.0) > 0.0 and node.get("joint") is None)  # `resolve_ratios` or the solver
                or last.get((node.tag, node.get("joint")), node) is not node
                or _is_uneven(node)
            )
        ):
            _translate_linear(node)


def _is_uneven(node: Node) -> bool:
    """Return True if the force range of a drive is not symmetric, as the effort limit of a joint is."""
    if node.get("forcerange") is None:
        return False
    low, high = node.numbers("forcerange", 2)
    return not np.isclose(-low, high)


def _switch_off(document: MjcfDocument, nodes: list[Node]) -> None:
    """Keep actuators of disabled groups as inputs that do nothing."""
    option = document.option("actuatorgroupdisable")
    groups = set(option.numbers("actuatorgroupdisable").astype(int).tolist()) if option is not None else set()
    for node in nodes:
        if int(node.number("group", 0)) in groups and groups:
            kept = {name: node.attrib[name] for name in _KEPT if name in node.attrib}
            node.attrib.clear()
            node.attrib.update(kept | {"gainprm": "0", "biastype": "none", "gaintype": "fixed", "dyntype": "none"})
            node.tag = "general"


def _joints(document: MjcfDocument) -> dict[str | None, Node]:
    """Map the name of each joint to its element."""
    found = (joint for body in bodies_of(document.root) for joint in body_joints(body))
    return {joint.get("name"): joint for joint in found if joint.get("name")}


def _name_joints(document: MjcfDocument, nodes: list[Node]) -> None:
    """Write ``joint`` for ``jointinparent``: for a hinge or slide both push the same way."""
    joints = _joints(document)
    for node in nodes:
        joint = joints.get(node.get("jointinparent"))
        if joint is not None and joint_kind(joint) in ("hinge", "slide"):
            node.set("joint", node.get("jointinparent", ""))
            node.drop("jointinparent")


def _give_to_joints(document: MjcfDocument, nodes: list[Node]) -> None:
    """Add the armature and damping of an actuator, reflected by its gear, to those of its joint."""
    joints = _joints(document)
    for node in nodes:
        joint = joints.get(node.get("joint"))
        if joint is None:
            continue
        for name in ("armature", "damping"):
            value = node.numbers(name) if node.get(name) is not None else np.zeros(1)
            if len(value) == 1 and value[0] and joint_kind(joint) in ("hinge", "slide"):
                gear = float(node.numbers("gear")[0]) if node.get("gear") is not None else 1.0
                joint.put(name, [joint.number(name, 0.0) + gear**2 * float(value[0])])
            elif len(value) == 1 and value[0]:
                raise Complaint(f"{node.location(name)}: {name} of an actuator on a joint that is no hinge or slide")
        node.drop("armature", "damping")


def _translate_cylinder(node: Node) -> None:
    area = node.number("area", 1.0)
    if node.get("diameter") is not None:
        area = 0.25 * math.pi * node.number("diameter", 0.0) ** 2
    bias = node.numbers("bias", 3) if node.get("bias") is not None else np.zeros(3)
    timeconst = node.number("timeconst", 1.0)
    _become_general(node, "area diameter bias timeconst", dyntype="filter", gaintype="fixed", biastype="affine")
    node.put("dynprm", [timeconst])
    node.put("gainprm", [area])
    node.put("biasprm", bias)


def _translate_muscle(node: Node) -> None:
    times = node.numbers("timeconst", 2) if node.get("timeconst") is not None else np.array([0.01, 0.04])
    reach = node.numbers("range", 2) if node.get("range") is not None else np.array([0.75, 1.05])
    smooth = node.number("tausmooth", 0.0)
    strength = [*reach, *(node.number(name, default) for name, default in _MUSCLE.items())]
    types = dict.fromkeys(("dyntype", "gaintype", "biastype"), "muscle")
    _become_general(node, "timeconst range tausmooth " + " ".join(_MUSCLE), **types)
    node.put("dynprm", [*times, smooth])
    node.put("gainprm", strength)
    node.put("biasprm", strength)


def _translate_linear(node: Node) -> None:
    """Rewrite a position or velocity servo; a damping ratio is stored in the place of kv, as MuJoCo stores it."""
    timeconst, integrates = node.number("timeconst", 0.0), node.tag == "intvelocity"
    if node.tag in ("position", "intvelocity"):
        kp, kv = node.number("kp", 1.0), node.number("kv", 0.0)
        gain, bias = kp, [0.0, -kp, -kv if kv else node.number("dampratio", 0.0)]
    else:
        gain = node.number("kv", 1.0)
        bias = [0.0, 0.0, -gain]
    _become_general(node, "kp kv dampratio timeconst", gaintype="fixed", biastype="affine")
    node.put("gainprm", [gain])
    node.put("biasprm", bias)
    if integrates:
        node.set("dyntype", "integrator")
    elif timeconst > 0.0:
        node.set("dyntype", "filterexact")
        node.put("dynprm", [timeconst])


def _become_general(node: Node, dropped: str, **types: str) -> None:
    node.tag = "general"
    node.drop(*dropped.split())
    for name, value in types.items():
        node.set(name, value)


def resolve_ratios(done: Import) -> None:
    """Turn damping ratios of actuators that are not drives (biasprm[2] > 0 with opposite gains) into damping."""
    values = done.build.builder.custom_attributes["mujoco:actuator_biasprm"].values
    gains = done.build.builder.custom_attributes["mujoco:actuator_gainprm"].values
    for node, i in done.actuators.items():
        bias, gain = np.array(values[i], float), float(gains[i][0])
        name = node.get("joint")  # not that of a joint without one
        found = [index for joint, index in done.joint_indices.items() if name and joint.get("name") == name]
        if node.tag in _LINEAR or not (bias[2] > 0.0 and gain == -bias[1] and bias[0] == 0.0) or not found:
            continue
        gear = abs(float(node.numbers("gear")[0])) if node.get("gear") is not None else 1.0
        bias[2] = -2.0 * bias[2] * math.sqrt(gain * done.inertia_at(found[0].dof)) / (gear or 1.0)
        values[i] = type(values[i])(*map(float, bias))
