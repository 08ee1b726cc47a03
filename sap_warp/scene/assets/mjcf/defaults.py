"""Default classes: their values are written into the elements, and the classes removed."""

from __future__ import annotations

import math
from typing import TypeAlias

from ...text.errors import Complaint
from ...text.nodes import Node, walk

Values: TypeAlias = dict[str, dict[str, tuple[str, Node]]]
"""Per kind of element: attribute, value, and the element of the class that gives it."""

MAIN = "main"
ACTUATORS = (
    *("general", "motor", "position", "velocity", "intvelocity", "orientation", "pid", "damper", "cylinder"),
    *("muscle", "adhesion", "dcmotor", "plugin"),
)
_OF_ALL_ACTUATORS = {
    *("ctrllimited", "ctrlrange", "forcelimited", "forcerange", "gear", "cranklength", "group", "user", "damping"),
    *("armature", "delay", "interp", "nsample", "actlimited", "actrange"),
}
"""Attributes that MuJoCo keeps once for all kinds of actuators of a class."""
_OF_SIMPLE_ACTUATORS = _OF_ALL_ACTUATORS - {"actlimited", "actrange"}
_SHARED_BY = {
    **dict.fromkeys(("general", "intvelocity", "plugin"), _OF_ALL_ACTUATORS),
    **dict.fromkeys(("motor", "position", "velocity", "pid", "cylinder", "muscle"), _OF_SIMPLE_ACTUATORS),
    "damper": _OF_SIMPLE_ACTUATORS - {"ctrllimited"},
    "dcmotor": _OF_SIMPLE_ACTUATORS - {"forcelimited", "forcerange"},
    **dict.fromkeys(
        ("adhesion", "orientation"),
        _OF_SIMPLE_ACTUATORS - {"ctrllimited", "gear", "cranklength", "damping", "armature"},
    ),
}
_PADDED = {"size", "friction", "solref", "solreflimit", "solreffriction", "solimp", "solimplimit", "solimpfriction"}
_PADDED |= {"gear", "gainprm", "biasprm", "dynprm", "fluidcoef"}
"""Attributes of which an element may give the first numbers; the others are the class's."""
_AS_GENERAL = {
    "position": {"kp": 1.0, "kv": 0.0},
    "intvelocity": {"kp": 1.0, "kv": 0.0},
    "velocity": {"kp ": 0.0, "kv": 1.0},  # it has no position gain
    "motor": {"kp ": 0.0, "kv ": 0.0},
}
"""Gains of shortcut actuators whose class default also holds for <general>."""
_EITHER = {"kv": "dampratio", "dampratio": "kv"}
"""Pairs of attributes that mean the same; one that is given replaces the inherited other one."""
_IN_BODIES = ("joint", "geom", "site", "camera", "light")
_SHARED = {"equality": "equality", "tendon": "tendon"}
"""Sections whose elements share one kind of default."""


def bake_defaults(root: Node) -> None:
    """Write the values of default classes into the elements they are for, and remove the classes."""
    classes: dict[str, Values] = {MAIN: {}}
    for section in root.children("default"):
        _read_class(section, classes, MAIN)
        root.remove(section)
    for section in root:
        if section.tag == "worldbody":
            _bake_body(section, classes, MAIN)
            continue
        for node in section:
            if section.tag in ("asset", "contact", "actuator", *_SHARED):
                _bake(node, _find(node, classes).get(_SHARED.get(section.tag, node.tag), {}))
            node.drop("class")


def _read_class(node: Node, classes: dict[str, Values], name: str) -> None:
    values = classes[name]
    inherited = {kind: dict(given) for kind, given in values.items()}
    for child in node:
        if child.tag in ACTUATORS:
            _read_actuator(child, values, inherited)
        elif child.tag != "default":
            _take_over(child, values.setdefault(child.tag, {}))
    for child in node.children("default"):
        own = child.get("class")
        if own is None:
            raise Complaint(f"{child.location()}: a <default> inside another one needs a class")
        if own not in classes:
            classes[own] = {kind: dict(given) for kind, given in values.items()}
        _read_class(child, classes, own)


def _take_over(node: Node, given: dict[str, tuple[str, Node]]) -> None:
    for key in _EITHER.keys() & node.attrib.keys():
        given.pop(_EITHER[key], None)
    for key, value in node.attrib.items():
        given[key] = (_pad(key, value, given), node)


def _read_actuator(node: Node, values: Values, inherited: Values) -> None:
    """Read the actuator default of a class: range and gear hold for all kinds, gains for the kind given last."""
    for kind, shared in _SHARED_BY.items() if node.tag != "general" else ():
        if kind not in (node.tag, "general"):
            old, given = inherited.get(kind, {}), values.setdefault(kind, {})
            values[kind] = {key: value for key, value in (old | given).items() if key in shared or key in old}
            values[kind].update({key: value for key, value in old.items() if key not in shared})
    given = values.setdefault(node.tag, {})
    _take_over(node, given)
    for kind, shared in _SHARED_BY.items():
        values.setdefault(kind, {}).update({key: given[key] for key in node.attrib if key in shared})
    general = values["general"]
    if node.tag == "general" and {"gainprm", "biasprm"} & general.keys():
        given_gain = general.get("gainprm", ("1", node))[0].split()[0]
        bias = [*map(float, general.get("biasprm", ("0", node))[0].split()), 0.0, 0.0, 0.0]
        damping, other = ("dampratio", "kv") if bias[2] > 0.0 else ("kv", "dampratio")
        for kind in ("position", "intvelocity"):
            values[kind] |= {"kp": (given_gain, node), damping: (repr(abs(bias[2])), node)}
            values[kind].pop(other, None)
        values["velocity"] |= {"kv": (given_gain, node)}
        values["cylinder"] |= {"area": (given_gain, node), "bias": (" ".join(map(repr, bias[:3])), node)}
    elif node.tag in _AS_GENERAL:
        kp, kv = (float(given[key][0]) if key in given else start for key, start in _AS_GENERAL[node.tag].items())
        gain = {"position": kp, "intvelocity": kp, "velocity": kv}.get(node.tag, 1.0)
        ratio = float(given["dampratio"][0]) if "dampratio" in given else 0.0
        plain = {"gainprm": repr(gain), "biasprm": f"0 {-kp!r} {ratio or -kv!r}", "gaintype": "fixed"}
        plain["biastype"] = "none" if node.tag == "motor" else "affine"
        timeconst = float(given["timeconst"][0]) if "timeconst" in given else 0.0
        plain |= {"dyntype": "filterexact", "dynprm": repr(timeconst)} if timeconst > 0.0 else {"dyntype": "none"}
        plain |= {"dyntype": "integrator"} if node.tag == "intvelocity" else {}
        general |= {key: (value, node) for key, value in plain.items()}
    elif node.tag == "cylinder":
        general |= {key: (value, node) for key, value in _cylinder_as_general(given).items()}


def _cylinder_as_general(given: dict[str, tuple[str, Node]]) -> dict[str, str]:
    area = given["area"][0] if "area" in given else "1"
    if "diameter" in given:
        area = repr(0.25 * math.pi * float(given["diameter"][0]) ** 2)
    plain = {"gainprm": area, "biasprm": given["bias"][0] if "bias" in given else "0 0 0", "gaintype": "fixed"}
    plain |= {"dyntype": "filter", "dynprm": given["timeconst"][0] if "timeconst" in given else "1"}
    return plain | {"biastype": "affine"}


def _find(node: Node, classes: dict[str, Values], ambient: str = MAIN) -> Values:
    name = node.get("class", ambient)
    if name not in classes:
        raise Complaint(f"{node.location()}: <{node.tag}> has the default class {name!r}, which is not defined")
    return classes[name]


def _bake(node: Node, given: dict[str, tuple[str, Node]]) -> None:
    for name, (value, source) in given.items():
        own = node.get(name)
        if own is None and node.get(_EITHER.get(name, "")) is None:
            node.set(name, value)
            node.inherited[name] = source
        elif own is not None:
            node.set(name, _pad(name, own, given))


def _pad(name: str, value: str, given: dict[str, tuple[str, Node]]) -> str:
    """Return ``value`` followed by the further numbers of what is given already."""
    if name not in _PADDED or name not in given:
        return value
    own = value.split()
    return " ".join([*own, *given[name][0].split()[len(own) :]])


def _bake_body(body: Node, classes: dict[str, Values], ambient: str) -> None:
    ambient = body.get("childclass", ambient)
    if ambient not in classes:
        raise Complaint(f"{body.location()}: <{body.tag}> has the childclass {ambient!r}, which is not defined")
    body.drop("childclass")
    for node in body:
        if node.tag in ("body", "frame", "replicate"):
            _bake_body(node, classes, ambient)
        elif node.tag in _IN_BODIES:
            _bake(node, _find(node, classes, ambient).get(node.tag, {}))
        for inner in walk(node):
            if inner.tag not in ("body", "frame", "replicate"):
                inner.drop("class")
