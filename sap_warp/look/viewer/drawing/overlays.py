"""Overlays of a scene: contact points and forces, friction cones, frames, masses, inertias, joints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...visuals import multiply, rotate
from .contacts import COLORS, SEPARATES, ShownContacts, read_contacts
from .instances import Arrows, Instances, turn_z, unit_mesh
from .joint_marks import JointMarks

_MASS_COLOR = np.array((200, 60, 160), np.uint8)
_INERTIA_COLOR = np.array((120, 80, 200), np.uint8)


class Overlays:
    """Overlays that are switched on one by one; those that are off cost nothing."""

    def __init__(self, server: Any, sim: Any, stage: Any, size: float):
        """Begin with everything off.

        Args:
            server: Of the page.
            sim: The simulation.
            stage: Says which worlds are shown, and where.
            size: Of what is shown of one world [m]; marks are a small part of it.
        """
        self._server, self._sim, self._stage, self.size = server, sim, stage, size
        self.force_scale = 1.0
        """Factor on the length of force arrows."""
        self._on: set[str] = set()
        self._arrows = Arrows(server, "/marks/forces")
        self._points = Instances(server, "/marks/points", unit_mesh("sphere", (1.0, 0.0, 0.0)))
        self._cones = Instances(server, "/marks/cones", _open_cone(), opacity=0.3)
        self._masses = Instances(server, "/marks/masses", unit_mesh("sphere", (1.0, 0.0, 0.0)))
        self._boxes = Instances(server, "/marks/inertias", unit_mesh("box", (0.5, 0.5, 0.5)), opacity=0.35)
        self._joints = JointMarks(server, sim, stage, size)
        self._frames: Any = None
        self._frames_of: tuple[int, ...] = ()
        self._inertia: tuple[np.ndarray, np.ndarray] | None = None
        self._draws: dict[str, Callable[[np.ndarray, ShownContacts | None], None]] = {
            "Contact points": self._draw_points,
            "Contact forces": self._draw_forces,
            "Friction cones": self._draw_cones,
            "Body frames": self._draw_frames,
            "Centres of mass": self._draw_masses,
            "Inertia boxes": self._draw_inertias,
            "Joint axes and limits": self._draw_joints,
        }
        self._hides: dict[str, Callable[[], None]] = {
            "Contact points": self._points.hide,
            "Contact forces": self._arrows.hide,
            "Friction cones": self._cones.hide,
            "Body frames": self._hide_frames,
            "Centres of mass": self._masses.hide,
            "Inertia boxes": self._boxes.hide,
            "Joint axes and limits": self._joints.hide,
        }
        self.newtons_per_metre = self._choose_force_scale()
        """Force of an arrow of 1 m [N]."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the overlays."""
        return tuple(self._draws)

    def switch(self, name: str, on: bool) -> None:
        """Switch an overlay on or off; unknown names are ignored."""
        if name not in self._draws:
            return
        if on:
            self._on.add(name)
        else:
            self._on.discard(name)
            self._hides[name]()

    def draw(self, body_q: np.ndarray) -> None:
        """Send the overlays that are on."""
        if not self._on:
            return
        contacts = None
        if self._on & {"Contact points", "Contact forces", "Friction cones"}:
            contacts = read_contacts(self._sim, self._stage.chosen, body_q)
        for name in self._draws:
            if name in self._on:
                self._draws[name](body_q, contacts)

    def _choose_force_scale(self) -> float:
        """Scale forces so that a world's weight is as long as what is shown of it."""
        model = self._sim.model
        mass = float(model.body_mass.numpy().sum()) / max(self._sim.world_count, 1)
        gravity = float(np.linalg.norm(model.gravity.numpy().reshape(-1, 3)[0])) or 9.81
        return max(mass * gravity, 1e-9) / self.size

    # Contacts.

    def _draw_points(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        assert contacts is not None
        at = contacts.point + self._stage.offsets[contacts.world]
        radius = np.full((len(at), 3), 0.006 * self.size)
        self._points.set(at, np.tile([1.0, 0.0, 0.0, 0.0], (len(at), 1)), radius, COLORS[contacts.state])

    def _draw_forces(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        assert contacts is not None
        at = contacts.point + self._stage.offsets[contacts.world]
        vector = contacts.force * (self.force_scale / self.newtons_per_metre)
        long = np.linalg.norm(vector, axis=1, keepdims=True)
        vector = vector * np.minimum(1.0, 3.0 * self.size / np.maximum(long, 1e-12))
        self._arrows.set(at, vector, COLORS[contacts.state], 0.012 * self.size)

    def _draw_cones(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        assert contacts is not None
        touching = (contacts.state != SEPARATES) & (contacts.mu > 0.0)
        at = (contacts.point + self._stage.offsets[contacts.world])[touching]
        height = np.full(len(at), 0.08 * self.size)
        wide = height * np.minimum(contacts.mu[touching], 3.0)
        turn = turn_z(contacts.normal[touching])
        colors = COLORS[contacts.state[touching]]
        self._cones.set(at, turn, np.stack([wide, wide, height], axis=1), colors)

    # Bodies.

    def _bodies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the bodies of the shown worlds, and the offsets of these."""
        offsets = self._sim.body_q.offsets
        ranges = [np.arange(offsets[world], offsets[world + 1]) for world in self._stage.chosen]
        bodies = np.concatenate(ranges) if ranges else np.zeros(0, np.int64)
        world = np.repeat(self._stage.chosen, [len(part) for part in ranges]).astype(np.int64)
        return bodies, self._stage.offsets[world]

    def _draw_frames(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        bodies, offsets = self._bodies()
        if len(bodies) == 0:
            return
        at = body_q[bodies]
        position, wxyz = (at[:, :3] + offsets).astype(np.float32), at[:, (6, 3, 4, 5)].astype(np.float32)
        if self._frames is None or self._frames_of != tuple(self._stage.chosen):
            self._frames_of = tuple(self._stage.chosen)
            length = 0.08 * self.size
            self._frames = self._server.scene.add_batched_axes(
                "/marks/frames", wxyz, position, axes_length=length, axes_radius=0.04 * length
            )
        self._frames.batched_positions, self._frames.batched_wxyzs = position, wxyz
        self._frames.visible = True

    def _hide_frames(self) -> None:
        if self._frames is not None:
            self._frames.visible = False

    def _centres(self, body_q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return bodies with mass, their centres on the page [m], and poses."""
        bodies, offsets = self._bodies()
        model = self._sim.model
        heavy = model.body_mass.numpy()[bodies] > 0.0
        bodies, offsets = bodies[heavy], offsets[heavy]
        at = body_q[bodies]
        com = model.body_com.numpy()[bodies].astype(np.float64)
        return bodies, at[:, :3] + rotate(at[:, 3:], com) + offsets, at

    def _draw_masses(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        bodies, centre, _ = self._centres(body_q)
        mass = self._sim.model.body_mass.numpy()[bodies].astype(np.float64)
        radius = 0.03 * self.size * np.cbrt(mass / max(float(mass.max(initial=0.0)), 1e-12))
        none = np.tile([1.0, 0.0, 0.0, 0.0], (len(bodies), 1))
        self._masses.set(centre, none, np.repeat(radius[:, None], 3, axis=1), _MASS_COLOR)

    def _draw_inertias(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        bodies, centre, at = self._centres(body_q)
        if self._inertia is None:
            self._inertia = inertia_boxes(self._sim.model.body_mass.numpy(), self._sim.model.body_inertia.numpy())
        sides, axes = self._inertia
        turn = multiply(at[:, 3:], axes[bodies])
        self._boxes.set(centre, turn[:, (3, 0, 1, 2)], sides[bodies], _INERTIA_COLOR)

    def _draw_joints(self, body_q: np.ndarray, contacts: ShownContacts | None) -> None:
        self._joints.draw(body_q)


def inertia_boxes(mass: np.ndarray, inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sides [m] and axes (quaternions xyzw) of homogeneous boxes with these masses and inertias.

    A box of sides a, b, c has the moments m (b^2 + c^2) / 12, and so on.
    """
    moments, axes = np.linalg.eigh(0.5 * (inertia + inertia.transpose(0, 2, 1)).astype(np.float64))
    axes[np.linalg.det(axes) < 0.0, :, 0] *= -1.0
    total = moments.sum(axis=1, keepdims=True)
    squares = 6.0 * (total - 2.0 * moments) / np.maximum(mass, 1e-12)[:, None]
    sides = np.sqrt(np.maximum(squares, 0.0))
    return sides, quaternions(axes)


def quaternions(matrices: np.ndarray) -> np.ndarray:
    """Return quaternions xyzw of rotation matrices, shape (n, 3, 3)."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(matrices).as_quat() if len(matrices) else np.zeros((0, 4))


def _open_cone(segments: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Return a cone of height 1 and radius 1 along z, its tip in the origin, without a lid."""
    angle = np.linspace(0.0, 2.0 * np.pi, segments, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle), np.ones(segments)], axis=1)
    this = np.arange(segments)
    faces = np.stack([np.full(segments, segments), (this + 1) % segments, this], axis=1)
    return np.concatenate([rim, np.zeros((1, 3))]).astype(np.float32), faces
