"""Flags of <option> that disable parts of a model: the disabled elements are removed."""

from __future__ import annotations

from ...text.nodes import Node, walk
from .reader import MjcfDocument

_ATTRIBUTES = {
    "limit": ("range", "limited"),
    "frictionloss": ("frictionloss",),
    "spring": ("stiffness",),
    "damper": ("damping",),
}
_SECTIONS = {"equality": "equality", "actuation": "actuator"}
CONSTRAINTS = ("contact", "limit", "frictionloss", "equality")
"""Switches that <flag constraint="disable"> stands for."""


def is_off(document: MjcfDocument, name: str) -> bool:
    """Return True if a flag switches something off, by its own name or as one of the constraints."""
    return document.is_disabled(name) or (name in CONSTRAINTS and document.is_disabled("constraint"))


def apply_switches(document: MjcfDocument) -> None:
    """Remove what flags disable; gravity, contact and filterparent act where the model is built."""
    jointed: list[Node] = [
        node for part in document.sections("worldbody") for node in walk(part) if node.tag == "joint"
    ]
    jointed += document.elements("tendon", "fixed", "spatial")
    for name, attributes in _ATTRIBUTES.items():
        for node in jointed if is_off(document, name) else ():
            node.drop(*attributes)
    for name, section in _SECTIONS.items():
        for node in document.sections(section) if is_off(document, name) else ():
            document.root.remove(node)
    if is_off(document, "clampctrl"):
        for node in document.elements("actuator"):
            node.drop("ctrlrange", "ctrllimited", "inheritrange")
