"""Small things that a page shows many of, in changing numbers: arrows, points, cones, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....model.shapes import shape_type_named
from ...visuals import make_geometry


def turn_z(direction: np.ndarray) -> np.ndarray:
    """Return quaternions (wxyz) that turn z into unit vectors, shape (n, 4)."""
    x, y, z = direction[:, 0], direction[:, 1], direction[:, 2]
    w = 1.0 + z
    upside_down = w < 1e-9
    found = np.stack([np.where(upside_down, 0.0, w), np.where(upside_down, 1.0, -y), x, np.zeros_like(x)], axis=1)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


def unit_mesh(name: str, scale: tuple[float, float, float], segments: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a type of shape, by its name."""
    geometry = make_geometry(shape_type_named(name).type, scale, None, segments)
    assert geometry is not None
    return geometry.vertices, geometry.faces


class Instances:
    """Instances of one mesh, with a capacity that grows when it is exceeded."""

    def __init__(
        self,
        server: Any,
        name: str,
        mesh: tuple[np.ndarray, np.ndarray],
        opacity: float | None = None,
        capacity: int = 64,
    ):
        """Store the mesh; it is sent when something is shown."""
        self._server, self._name, self._mesh, self._opacity, self._capacity = server, name, mesh, opacity, capacity
        self._handle: Any = None

    def set(self, position: np.ndarray, wxyz: np.ndarray, scale: np.ndarray, color: np.ndarray) -> None:
        """Show instances at these positions.

        Args:
            position: [m], shape (n, 3).
            wxyz: Quaternions, shape (n, 4).
            scale: Along the axes of the mesh, shape (n, 3).
            color: 0 to 255, shape (n, 3) or (3,).
        """
        count = len(position)
        if self._handle is None or count > self._capacity:
            if count == 0:
                return
            while self._capacity < count:
                self._capacity *= 2
            self._make()
        capacity = self._capacity
        positions, turns = np.zeros((capacity, 3), np.float32), np.zeros((capacity, 4), np.float32)
        sizes, colors = np.zeros((capacity, 3), np.float32), np.zeros((capacity, 3), np.uint8)
        turns[:, 0] = 1.0
        positions[:count], turns[:count], sizes[:count], colors[:count] = position, wxyz, scale, color
        handle = self._handle
        handle.batched_positions, handle.batched_wxyzs = positions, turns
        handle.batched_scales, handle.batched_colors = sizes, colors
        handle.visible = count > 0

    def hide(self) -> None:
        """Show nothing."""
        if self._handle is not None:
            self._handle.visible = False

    def _make(self) -> None:
        capacity = self._capacity
        turns = np.zeros((capacity, 4), np.float32)
        turns[:, 0] = 1.0
        self._handle = self._server.scene.add_batched_meshes_simple(
            self._name,
            *self._mesh,
            turns,
            np.zeros((capacity, 3), np.float32),
            batched_scales=np.zeros((capacity, 3), np.float32),
            batched_colors=np.zeros((capacity, 3), np.uint8),
            opacity=self._opacity,
            lod="off",
            cast_shadow=False,
            receive_shadow=False,
            side="front" if self._opacity is None else "double",
        )


class Rods:
    """Straight rods between pairs of points, lines that are cheap to draw without a graphics card."""

    def __init__(self, server: Any, name: str, segments: int = 6):
        """Prepare the rods; nothing is sent before something is shown."""
        vertices, faces = unit_mesh("cylinder", (1.0, 0.5, 0.0), segments)
        self._rods = Instances(server, name, (vertices + np.array([0.0, 0.0, 0.5], np.float32), faces))

    def set(self, points: np.ndarray, color: np.ndarray, thickness: float) -> None:
        """Show rods between points [m], shape (n, 2, 3); colours (n, 3) or (3,)."""
        vector = points[:, 1] - points[:, 0]
        length = np.linalg.norm(vector, axis=1)
        turn = turn_z(vector / np.maximum(length, 1e-12)[:, None])
        half = np.full_like(length, 0.5 * thickness)
        self._rods.set(points[:, 0], turn, np.stack([half, half, length], axis=1), color)

    def hide(self) -> None:
        """Show nothing."""
        self._rods.hide()


class Arrows:
    """Arrows of equal thickness, given by start and vector."""

    def __init__(self, server: Any, name: str):
        """Prepare the arrows; nothing is sent before something is shown."""
        shaft = unit_mesh("cylinder", (1.0, 0.5, 0.0))
        head = unit_mesh("cone", (1.0, 0.5, 0.0))
        up = np.array([0.0, 0.0, 0.5], np.float32)
        self._shaft = Instances(server, f"{name}/shaft", (shaft[0] + up, shaft[1]))
        self._head = Instances(server, f"{name}/head", (head[0] + up, head[1]))

    def set(self, start: np.ndarray, vector: np.ndarray, color: np.ndarray, thickness: float) -> None:
        """Show arrows that start at ``start`` [m] and are as long as ``vector`` [m]."""
        length = np.linalg.norm(vector, axis=1)
        seen = length > 1e-9
        start, vector, length = start[seen], vector[seen], length[seen]
        colors = color[seen] if np.ndim(color) == 2 else color
        unit = vector / length[:, None]
        turn = turn_z(unit)
        tip = np.minimum(3.5 * thickness, 0.6 * length)
        round_ = np.full_like(length, 0.5 * thickness)
        self._shaft.set(start, turn, np.stack([round_, round_, length - tip], axis=1), colors)
        wide = 2.4 * round_ * np.minimum(1.0, tip / (3.5 * thickness))
        self._head.set(start + unit * (length - tip)[:, None], turn, np.stack([wide, wide, tip], axis=1), colors)

    def hide(self) -> None:
        """Show nothing."""
        self._shaft.hide()
        self._head.hide()
