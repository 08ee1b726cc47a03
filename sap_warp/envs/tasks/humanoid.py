"""Task of a humanoid that gets up from the ground."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..draws import Draws
from ..rotations import down_in_body, product, rotate_inverse
from ..task import Task
from ..terms import JointEfforts, metric, observation, reward

STANDING = 1.3
"""Height of the torso when it stands [m]."""
TORQUE = {"abdomen": 67.5, "hip_x": 45.0, "hip_z": 45.0, "hip_y": 135.0, "knee": 90.0, "ankle": 22.5}
TORQUE |= {"shoulder": 67.5, "elbow": 45.0}
"""What the motors of the file can do [N m]."""


class HumanoidStandUp(Task):
    """A humanoid with torques at 21 joints that lies on the ground at first, and should stand up straight."""

    scene = "humanoid"
    substeps = 4
    time_limit = 8.0
    actions = JointEfforts(["abdomen*", "left_*", "right_*"], scale=1.0)
    training: ClassVar = {"ppo": {"num_worlds": 512, "iterations": 1500, "settings": {"hidden": [256, 128]}}}

    def setup(self) -> None:
        """Give each action the strength of its motor."""
        names = self.sim.find_dofs(["abdomen*", "left_*", "right_*"]).names
        strength = [next(value for part, value in TORQUE.items() if part in name) for name in names]
        self.strength = self.arrays.from_numpy(np.array(strength, np.float32))
        """Largest torques [N m], shape (actions,)."""

    def apply(self, actions: Any) -> None:
        """Apply torques, as shares of what the motors can do."""
        super().apply(actions * self.strength)

    def derive(self) -> None:
        """Compute what several terms need."""
        turn = self.joint_q[:, 3:7]
        self.height = self.joint_q[:, 2]
        self.down = down_in_body(self.xp, turn)
        self.velocity = rotate_inverse(self.xp, turn, self.joint_qd[:, :3])

    @observation
    def posture(self) -> Any:
        """Return height, direction of gravity and joint angles."""
        return self.height, self.down, self.joint_q[:, 7:]

    @observation(scale=0.1)
    def speeds(self) -> Any:
        """Return velocities of torso and joints."""
        return self.velocity, self.joint_qd[:, 3:]

    @reward(2.0)
    def high(self) -> Any:
        """Return 1 when the torso is as high as in standing."""
        return (self.height / STANDING).clip(0.0, 1.0) ** 2

    @reward(1.0)
    def straight(self) -> Any:
        """Return 1 when the torso is upright, and high."""
        return (-self.down[:, 2]).clip(0.0) * (self.height / STANDING).clip(0.0, 1.0)

    @reward(-0.02)
    def effort(self) -> Any:
        """Return the sum of squared actions."""
        return (self.action**2).sum(1)

    @metric
    def torso_height(self) -> Any:
        """Return the height of the torso [m]."""
        return self.height

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin on its back, its front or a side, joints a little bent."""
        q = self.initial_q[worlds] + 0.0
        roll, heading = draw.uniform(-np.pi, np.pi), draw.uniform(-np.pi, np.pi)
        # Lying: a quarter turn about y; then a roll about its own axis, and any direction.
        half = float(np.sqrt(0.5))
        lying = self.xp.stack([0.0 * roll, 0.0 * roll + half, 0.0 * roll, 0.0 * roll + half], 1)
        spin = self.xp.stack([0.0 * roll, 0.0 * roll, self.xp.sin(0.5 * roll), self.xp.cos(0.5 * roll)], 1)
        around = self.xp.stack([0.0 * roll, 0.0 * roll, self.xp.sin(0.5 * heading), self.xp.cos(0.5 * heading)], 1)
        q[:, 3:7] = product(self.xp, around, product(self.xp, lying, spin))
        q[:, 2] = 0.35
        q[:, 7:] += draw.uniform(-0.1, 0.0, q.shape[1] - 7)
        return q, None
