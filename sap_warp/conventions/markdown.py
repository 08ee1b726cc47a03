"""The conventions table as Markdown, for ``docs/conventions.md``.

``python -m sap_warp.conventions.markdown docs/conventions.md`` rewrites the tables between the markers of that file;
a test fails when file and table disagree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from .systems import ALIASES, AXIAL_KINDS, SHAPE_KINDS, SYSTEMS
from .table import Parameter, ShapeLayout, SpatialLayout

_POINT = {"com": "C", "origin": "O", "world_origin": "S"}
_FRAME = {"world": "W", "body": "B"}


def tables() -> dict[str, str]:
    """Return the generated tables by marker name."""
    return {"spatial": _spatial_table(), "storage": _storage_table(), "shapes": _shape_table()}


def fill_in(text: str) -> str:
    """Return a document with the content between its table markers replaced by the current tables."""
    for name, table in tables().items():
        parts = re.split(rf"(?<=<!-- table: {name} -->\n).*?(?=<!-- end -->)", text, flags=re.DOTALL)
        if len(parts) != 2:
            raise ValueError(f"expected one '<!-- table: {name} -->' ... '<!-- end -->', found {len(parts) - 1}")
        text = table.join(parts)
    return text


def _rows(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _spatial(layout: SpatialLayout | None, linear: str, angular: str, moment: bool) -> str:
    """Return e.g. ``[v_C^W, w^W]``; the reference point marks the block that depends on it."""
    if layout is None:
        return "none"
    point = _POINT[layout.reference]
    first = f"{linear}^{_FRAME[layout.linear_frame]}" if moment else f"{linear}_{point}^{_FRAME[layout.linear_frame]}"
    second = f"{angular}_{point}" if moment else angular
    second += f"^{_FRAME[layout.angular_frame]}" + (" (deg/s)" if layout.angle_unit == "deg" else "")
    blocks = (first, second) if layout.order == "linear_first" else (second, first)
    return f"`[{', '.join(blocks)}]`"


def _spatial_table() -> str:
    rows = [
        [f"`{s.name}`", s.title, _spatial(s.twist, "v", "w", False), _spatial(s.wrench, "f", "tau", True), s.note]
        for s in SYSTEMS.values()
    ]
    return _rows(["Name", "System", "Twist", "Wrench", "Where, and what to watch"], rows)


def _storage_table() -> str:
    rows = []
    for s in SYSTEMS.values():
        aliases = ", ".join(f"`{alias}`" for alias, name in ALIASES.items() if name == s.name)
        pose = {"position_first": "[p, q]", "rotation_first": "[q, p]", None: "none"}[s.pose]
        rows.append([f"`{s.name}`", s.quaternion or "none", pose, s.up_axis or "none", s.handedness, aliases or "-"])
    return _rows(["Name", "Quaternion", "Pose", "Default up axis", "Handedness", "Also accepted"], rows)


def _parameter(parameter: Parameter) -> str:
    factor = "" if parameter.factor == 1.0 else f"{parameter.factor:g} "
    parts = ", ".join(factor + part for part in parameter.parts)
    return f"`{parameter.name}` = ({parts})" if parameter.vector else f"`{parameter.name}` = {parts}"


def _shape(layout: ShapeLayout | None, kind: str) -> str:
    if layout is None or layout.unsupported:
        return "-"
    text = "; ".join(_parameter(parameter) for parameter in layout.parameters) or "infinite"
    if layout.scaled_cube:
        text = "`size` * `scale` = (2 hx, 2 hy, 2 hz)"
    if kind in AXIAL_KINDS:
        text += "; along `axis`" if layout.axis_attribute else f"; along {layout.axis}"
    return text


def _shape_table() -> str:
    systems = [s for s in SYSTEMS.values() if s.shapes and s.name not in ("sap", "mujoco_xfrc", "isaac_lab_3")]
    rows = [[f"`{s.name}`", *(_shape(s.shapes.get(kind), kind) for kind in SHAPE_KINDS)] for s in systems]
    return _rows(["Name", *SHAPE_KINDS], rows)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(fill_in(path.read_text()))
