"""Pull a body with the mouse: a damped spring from the grabbed point to the pointer, as an external force.

The force acts through `Simulation.body_f` and is bounded: k is what moves the whole mechanism at a leisurely pace, less
where the body is so light that the step would make the spring unstable. The bound is rigorous: a body in a mechanism
yields to a force at one of its points at most as much as the body alone would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...visuals import rotate

RATE = 8.0
"""Natural frequency of the spring if the whole mechanism were one mass [rad/s]."""
MOST_WEIGHTS = 5.0
"""Largest force, in weights of the mechanism."""
GRAVITY = 9.81


@dataclass(eq=False)
class _Pull:
    world: int
    body: int
    arm: np.ndarray
    """Point at which the body was grabbed, in its frame, from its centre of mass [m]."""
    com: np.ndarray
    """Centre of mass in the frame of the body [m]."""
    before: np.ndarray
    """External wrench on the body before [N, N m]."""
    target: np.ndarray
    """Position of the pointer in the frame of the world [m]."""
    light: float
    """Effective mass of the body alone at that point, in the direction that moves most [kg]."""
    total: float
    """Mass of the mechanism [kg]."""


class Drag:
    """Spring on at most one body at a time."""

    def __init__(self, sim: Any):
        """Begin without a pull."""
        self._sim = sim
        self._pull: _Pull | None = None
        self.strength = 1.0
        """Factor on the stiffness, between 0.1 and 10."""
        self.force = np.zeros(3)
        """What acts now [N]."""

    @property
    def is_active(self) -> bool:
        """True while a body is pulled."""
        return self._pull is not None

    def start(self, body: int, world: int, point: np.ndarray) -> None:
        """Begin to pull a body.

        Args:
            body: Number in the whole model.
            world: Its world; -1 is taken for the first one.
            point: Where, in the frame of the world [m].
        """
        self.end()
        model = self._sim.model
        pose = self._sim.body_q.flat()[body].astype(np.float64)
        com = model.body_com.numpy()[body].astype(np.float64)
        mass = float(model.body_mass.numpy()[body])
        if not 0 <= body < int(model.body_count) or mass <= 0.0 or not np.isfinite(point).all():
            return
        back = pose[3:] * (-1.0, -1.0, -1.0, 1.0)
        arm = rotate(back, point - pose[:3]) - com
        inertia = model.body_inertia.numpy()[body].astype(np.float64)
        light = _least_mass(mass, inertia, arm)
        before = self._sim.body_f.flat()[body].copy()
        self._pull = _Pull(world, body, arm, com, before, np.array(point), light, self._total_mass(body))

    def move(self, point: np.ndarray) -> None:
        """Move the pointer to ``point`` [m], in the frame of the world."""
        if self._pull is not None and np.isfinite(point).all():
            self._pull.target = np.array(point)

    def end(self) -> None:
        """Let go: the earlier external wrench acts again."""
        if self._pull is not None:
            self._write(self._pull.body, self._pull.before)
        self._pull, self.force = None, np.zeros(3)

    def apply(self) -> None:
        """Set the force for the next step."""
        pull = self._pull
        if pull is None:
            return
        arm, point = self._where(pull)
        twist = self._sim.body_qd.flat()[pull.body].astype(np.float64)
        velocity = twist[:3] + np.cross(twist[3:], arm)
        dt = self._sim.dt
        stiffness = min(self.strength * pull.total * RATE**2, 0.2 * pull.light / dt**2)
        damping = min(2.0 * np.sqrt(stiffness * pull.light), 0.4 * pull.light / dt)
        force = stiffness * (pull.target - point) - damping * velocity
        most = MOST_WEIGHTS * GRAVITY * pull.total * max(self.strength, 1.0)
        force *= min(1.0, most / max(float(np.linalg.norm(force)), 1e-12))
        if not np.isfinite(force).all():
            self.end()
            return
        self.force = force
        self._write(pull.body, pull.before + np.concatenate([force, np.cross(arm, force)]))

    def line(self) -> tuple[int, np.ndarray, np.ndarray] | None:
        """Return world, point on the body and pointer [m], in the frame of that world; None if nothing is pulled."""
        if self._pull is None:
            return None
        return self._pull.world, self._where(self._pull)[1], self._pull.target

    def _where(self, pull: _Pull) -> tuple[np.ndarray, np.ndarray]:
        """Return the arm from the centre of mass, and the point, in world axes [m]."""
        pose = self._sim.body_q.flat()[pull.body].astype(np.float64)
        arm = rotate(pose[3:], pull.arm)
        return arm, pose[:3] + rotate(pose[3:], pull.com) + arm

    def _total_mass(self, body: int) -> float:
        """Return the mass of all bodies of the articulation of ``body``; of the body alone if it is in none."""
        model = self._sim.model
        mass = model.body_mass.numpy()
        children, starts = model.joint_child.numpy(), model.articulation_start.numpy()
        joints = np.flatnonzero(children == body)
        if len(joints) and len(starts) > 1:
            tree = int(np.searchsorted(starts, joints[0], side="right")) - 1
            if 0 <= tree < len(starts) - 1:
                return float(mass[children[starts[tree] : starts[tree + 1]]].sum())
        return float(mass[body])

    def _write(self, body: int, wrench: np.ndarray) -> None:
        view = self._sim.body_f
        values = view.flat()
        if self._sim.device.is_cpu:  # shares the memory of the state
            values[body] = wrench
            return
        values = values.copy()
        values[body] = wrench
        view.assign(values)


def _least_mass(mass: float, inertia: np.ndarray, arm: np.ndarray) -> float:
    """Return the effective mass of a free body at ``arm`` from its centre, in the direction that yields most."""
    cross = np.array([[0.0, -arm[2], arm[1]], [arm[2], 0.0, -arm[0]], [-arm[1], arm[0], 0.0]])
    yielding = np.eye(3) / mass - cross @ np.linalg.pinv(inertia) @ cross
    return 1.0 / float(np.linalg.eigvalsh(0.5 * (yielding + yielding.T)).max())
