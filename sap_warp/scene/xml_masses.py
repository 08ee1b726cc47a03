"""Masses in URDF and MJCF that no body has: the importers and Newton's finalization would make them 0."""

from __future__ import annotations

import math
from pathlib import Path
from xml.parsers import expat

from .errors import Complaint

_PLACES = {"mass": ("value",), "inertial": ("mass",), "geom": ("mass", "density")}
"""Attributes that hold a mass or a density, by element."""


def check_masses(source: Path | str) -> None:
    """Complain about the first mass or density that is negative or not a number, with its line.

    Args:
        source: A file, or the text itself. What is not valid XML is left to those who read it.
    """
    parser = expat.ParserCreate()

    def look(element: str, attributes: dict[str, str]) -> None:
        for name in _PLACES.get(element, ()):
            if name in attributes and not _is_mass(attributes[name]):
                place = f"{source.name if isinstance(source, Path) else 'the text'}:{parser.CurrentLineNumber}"
                raise Complaint(
                    f'{place}: <{element} {name}="{attributes[name]}"> is not possible; masses and densities are '
                    "finite and not negative"
                )

    parser.StartElementHandler = look
    try:
        parser.Parse(source.read_bytes() if isinstance(source, Path) else source.strip(), True)
    except (expat.ExpatError, ValueError, OSError) as error:
        if isinstance(error, Complaint):
            raise


def _is_mass(text: str) -> bool:
    try:
        return 0.0 <= float(text) < math.inf
    except ValueError:
        return True  # the importer says what is no number
