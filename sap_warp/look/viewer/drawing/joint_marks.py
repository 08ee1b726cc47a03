"""Marks of joints: axes as arrows, and limits as arcs or tracks with the present position."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from ....model.joint_types import SCALAR_JOINTS
from ...visuals import multiply, rotate
from .instances import Arrows, Rods

_AXIS = np.array((40, 110, 220), np.uint8)
_RANGE = np.array((250, 180, 40), np.uint8)
_NOW = np.array((220, 50, 50), np.uint8)
_ARC = 16
"""Number of segments of an arc."""
_ENDLESS = 1.0e6
"""Magnitude from which on a limit counts as infinite."""


class JointMarks:
    """Marks of revolute and prismatic dofs of the worlds that are shown; other joints have no axis to show."""

    def __init__(self, server: Any, sim: Any, stage: Any, size: float):
        """Prepare the marks; nothing is sent before something is shown."""
        self._server, self._sim, self._stage, self._size = server, sim, stage, size
        self._arrows = Arrows(server, "/marks/axes")
        self._ranges = Rods(server, "/marks/limits")
        self._table = _dofs(sim.model)

    def hide(self) -> None:
        """Show nothing."""
        self._arrows.hide()
        self._ranges.hide()

    def draw(self, body_q: np.ndarray) -> None:
        """Send the marks of the worlds that are shown."""
        table = self._table
        model, stage = self._sim.model, self._stage
        shown = np.isin(table["world"], stage.chosen)
        if not shown.any():
            self.hide()
            return
        own = {name: values[shown] for name, values in table.items()}
        parent = own["parent"]
        at = np.where((parent >= 0)[:, None], body_q[np.maximum(parent, 0)], (0, 0, 0, 0, 0, 0, 1.0))
        anchor = at[:, :3] + rotate(at[:, 3:], own["frame"][:, :3]) + stage.offsets[own["world"]]
        turn = multiply(at[:, 3:], own["frame"][:, 3:])
        axis = rotate(turn, own["axis"])
        self._arrows.set(anchor, 0.1 * self._size * axis, _AXIS, 0.008 * self._size)
        q = self._sim.joint_q.flat()[own["coord"]].astype(np.float64)
        limits = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
        low, high = (array[own["dof"]].astype(np.float64) for array in limits)
        points, colors = limit_marks(anchor, axis, rotate(turn, own["side"]), own["turns"], q, low, high, self._size)
        self._ranges.set(points, colors, 0.005 * self._size)


def _dofs(model: newton.Model) -> dict[str, np.ndarray]:
    """Return numbers, frames and axes of revolute and prismatic dofs."""
    kinds, parents = model.joint_type.numpy(), model.joint_parent.numpy()
    starts, coords = model.joint_qd_start.numpy(), model.joint_q_start.numpy()
    dims, axes, frames = model.joint_dof_dim.numpy(), model.joint_axis.numpy(), model.joint_X_p.numpy()
    worlds = np.maximum(model.joint_world.numpy(), 0)
    names = ("dof", "coord", "parent", "world", "turns", "frame", "axis", "side")
    rows: dict[str, list[Any]] = {name: [] for name in names}
    for j in np.flatnonzero(np.isin(kinds, SCALAR_JOINTS)):
        for k in range(int(dims[j].sum())):
            axis = axes[starts[j] + k].astype(np.float64)
            helper = np.eye(3)[np.argmin(np.abs(axis))]
            side = np.cross(axis, helper)
            row = (starts[j] + k, coords[j] + k, parents[j], worlds[j], k >= dims[j][0])
            for name, value in zip(names, (*row, frames[j], axis, side / np.linalg.norm(side)), strict=True):
                rows[name].append(value)
    shapes = {"frame": (-1, 7), "axis": (-1, 3), "side": (-1, 3)}
    found = {name: np.array(values, np.float64).reshape(shapes.get(name, (-1,))) for name, values in rows.items()}
    return found | {name: found[name].astype(np.int64) for name in ("dof", "coord", "parent", "world")}


def limit_marks(
    anchor: np.ndarray,
    axis: np.ndarray,
    side: np.ndarray,
    turns: np.ndarray,
    q: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    size: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return lines [m], shape (n, 2, 3), and colours (n, 3) of the ranges of dofs with limits and their positions.

    Args:
        anchor: Of each joint [m], shape (joints, 3).
        axis: Unit vectors, likewise.
        side: Unit vectors normal to the axes: where an angle of zero points.
        turns: Whether the dof is an angle.
        q: Positions [rad or m].
        low: Lower limits.
        high: Upper limits.
        size: Of a world [m].
    """
    bounded = (np.abs(low) < _ENDLESS) & (np.abs(high) < _ENDLESS)
    around = bounded & (turns > 0.5)
    along = bounded & ~(turns > 0.5)
    segments, colors = [np.zeros((0, 2, 3))], [np.zeros((0, 3), np.uint8)]
    if around.any():
        radius = 0.05 * size
        first, third = side[around], np.cross(axis[around], side[around])

        def at(angle: np.ndarray) -> np.ndarray:
            turned = np.cos(angle)[..., None] * first[:, None] + np.sin(angle)[..., None] * third[:, None]
            return anchor[around][:, None] + radius * turned

        span = np.clip(high[around] - low[around], 0.0, 2.0 * np.pi)
        angles = low[around][:, None] + span[:, None] * np.linspace(0.0, 1.0, _ARC + 1)
        arc = at(angles)
        segments.append(np.stack([arc[:, :-1], arc[:, 1:]], axis=2).reshape(-1, 2, 3))
        colors.append(np.tile(_RANGE, (len(segments[-1]), 1)))
        now = at(q[around][:, None])[:, 0]
        segments.append(np.stack([anchor[around], now], axis=1))
        colors.append(np.tile(_NOW, (len(now), 1)))
    if along.any():
        ends = [anchor[along] + axis[along] * (limit[along] - q[along])[:, None] for limit in (low, high)]
        segments.append(np.stack(ends, axis=1))
        colors.append(np.tile(_RANGE, (len(ends[0]), 1)))
        cross = 0.02 * size * side[along]
        segments.append(np.stack([anchor[along] - cross, anchor[along] + cross], axis=1))
        colors.append(np.tile(_NOW, (len(cross), 1)))
    return np.concatenate(segments), np.concatenate(colors)
