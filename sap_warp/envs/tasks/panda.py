"""Task of a Panda that brings its hand to a point."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..draws import Draws
from ..rotations import rotate
from ..task import Task
from ..terms import JointPositions, metric, observation, reward

TOOL = np.array([0.0, 0.0, 0.107 + 0.1034], np.float32)
"""Point between the finger tips in the frame of the last link [m]."""
NEAREST, FARTHEST = np.array([0.3, -0.35, 0.15], np.float32), np.array([0.65, 0.35, 0.6], np.float32)
"""Corners of the box in which goals lie [m]."""


class PandaReach(Task):
    """An arm with seven position drives, moved in steps. A new goal is drawn for every episode."""

    scene = "panda"
    substeps = 8
    time_limit = 4.0
    actions = JointPositions("panda_joint*", scale=0.1, relative=True)
    training: ClassVar = {"ppo": {"num_worlds": 256, "iterations": 150}}

    def setup(self) -> None:
        """Find the hand, and make the goals."""
        self._hand = int(self.sim.find_bodies("panda_link7").indices[0])
        self._tool = self.arrays.from_numpy(TOOL)
        self.goal = self.arrays.zeros(self.num_worlds, 3)
        """Where the tool should be [m], shape (worlds, 3)."""

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin in the ready pose, a little off, with a new goal."""
        q = self.initial_q[worlds] + 0.0
        q[:, :7] += draw.uniform(-0.2, 0.2, 7)
        self.goal[worlds] = draw.uniform(NEAREST, FARTHEST, 3)
        return q, None

    def derive(self) -> None:
        """Compute the position of the tool, and its distance from the goal."""
        hand = self.body_q[:, self._hand]
        self.tool = hand[:, :3] + rotate(self.xp, hand[:, 3:], self._tool)
        self.away = self.goal - self.tool
        self.gap = self.xp.sqrt((self.away**2).sum(1))

    @observation
    def arm(self) -> Any:
        """Return angles and speeds of the joints, from the ready pose."""
        return self.joint_q[:, :7] - self.initial_q[:, :7], self.joint_qd[:, :7]

    @observation(scale=3.0)
    def way(self) -> Any:
        """Return the vector from the tool to the goal [m]."""
        return self.away

    @observation
    def last_action(self) -> Any:
        """Return the previous action."""
        return self.action

    @reward(-1.0)
    def far(self) -> Any:
        """Return the distance [m]."""
        return self.gap

    @reward(1.0)
    def near(self) -> Any:
        """Return 1 at the goal, falling off within 5 cm."""
        return self.xp.exp(-((self.gap / 0.05) ** 2))

    @reward(-0.01)
    def hurry(self) -> Any:
        """Return squared changes of the action."""
        return ((self.action - self.previous_action) ** 2).sum(1)

    @metric
    def distance(self) -> Any:
        """Return the distance from the goal [m]."""
        return self.gap
