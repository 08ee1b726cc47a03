"""Run a URDF, MJCF or USD file in the place of a scene, with what a scene would add to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.notes import Note
from ..text.errors import Complaint
from ..text.file_kinds import find_kind
from .mjcf import read_mjcf

_PLANE = re.compile(rb"""type\s*=\s*["']plane["']""")
_MOVING = re.compile(rb"""<joint\b[^>]*type\s*=\s*["'](?!fixed)""")
TIME_STEP = 0.005
"""Time step of a robot file that suggests none [s]."""
SHAPE_DEFAULTS = {"ke": 1.0e5, "tau": 0.01, "mu": 0.8}
"""Material of shapes whose file gives none: stiffness [N/m], dissipation time [s], friction."""


def scene_of_robot(file: Path) -> tuple[Mapping[str, Any], Note] | None:
    """Return the scene of a robot file and a note that says what was added; None for any other file."""
    with file.open("rb") as stream:
        content = stream.read(1 << 24)
    kind = find_kind(file, content)
    if kind is None:
        return None
    has_ground = _has_plane(file, content, kind)
    step = suggested_step(file) if kind == "mjcf" else None
    scene: dict[str, Any] = {
        "schema_version": 1,
        "name": file.stem,
        "simulation": {"dt": TIME_STEP} if step is None else {},
        "builder": {"defaults": {"shape": SHAPE_DEFAULTS}},
        "ground": {"enabled": not has_ground},
        "assets": [{"id": "robot", "type": kind, "source": {"path": str(file.resolve())}}],
    }
    base = ""
    if kind == "urdf" and not _MOVING.search(content):
        scene["assets"][0]["floating"] = True
        base = "its base floats, "
    ground = "the ground of the file" if has_ground else "a ground plane at height 0"
    material = ", ".join(f"{name} {value:g}" for name, value in SHAPE_DEFAULTS.items())
    dt = f"dt {TIME_STEP:g} s, " if step is None else ""
    added = f"{base}{ground}, {dt}shapes without values of their own get {material}"
    what = f"taken as a scene of its own: {added}"
    return scene, Note("robot-file", f"{what}; write a scene file to choose", file=str(file))


def suggested_step(file: Path) -> float | None:
    """Return the <option timestep> of an MJCF file [s], includes considered; None if there is none."""
    try:
        option = read_mjcf(file).option("timestep")
        return None if option is None else option.number("timestep", 0.0)
    except Complaint:
        return None  # loading it says what is wrong


def _has_plane(file: Path, content: bytes, kind: str) -> bool:
    """Return True if a file brings its own ground."""
    if kind != "usd":
        return bool(_PLANE.search(content))
    from pxr import Tf, Usd

    try:
        stage = Usd.Stage.Open(str(file))
    except Tf.ErrorException:
        return False  # loading it says what is wrong
    return any(prim.GetTypeName() == "Plane" for prim in stage.Traverse())
