"""Check masses in URDF and MJCF that no body can have; importers and Newton's finalization would make them 0."""

from __future__ import annotations

import math

from ..text.errors import Complaint
from ..text.nodes import Node, walk

_ATTRIBUTES = {"mass": ("value",), "inertial": ("mass",), "geom": ("mass", "density")}
"""Attributes that hold a mass or a density, by element."""


def check_masses(root: Node) -> None:
    """Complain about the first mass or density that is negative or not a number, with its line."""
    for node in walk(root):
        for name in _ATTRIBUTES.get(node.tag, ()):
            if name in node.attrib and not _is_mass(node.attrib[name]):
                raise Complaint(
                    f'{node.location(name)}: <{node.tag} {name}="{node.attrib[name]}"> is not possible; masses and '
                    "densities are finite and not negative"
                )


def _is_mass(text: str) -> bool:
    try:
        return 0.0 <= float(text) < math.inf
    except ValueError:
        return True  # the importer says what is no number
