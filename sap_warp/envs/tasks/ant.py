"""Task of an ant that runs."""

from __future__ import annotations

from typing import Any, ClassVar

from ..draws import Draws
from ..rotations import up_axis
from ..task import Task
from ..terms import JointEfforts, metric, observation, reward, termination

SCENE: dict[str, Any] = {
    "schema_version": 1,
    "name": "ant",
    "description": "Newton's nv_ant.xml, 0.9 kg, without drives.",
    "simulation": {"dt": 0.01, "max_rigid_contact": 16},
    "builder": {"rigid_gap": 0.002, "defaults": {"shape": {"ke": 1.0e5, "tau": 0.01, "mu": 0.8}}},
    "assets": [
        {
            "id": "ant",
            "type": "mjcf",
            "source": {"package": {"name": "newton", "path": "examples/assets/nv_ant.xml"}},
            "xform": {"p": [0.0, 0.0, -0.184]},
            "ignore_names": ["floor"],
            "parse_sites": False,
            "enable_self_collisions": False,
        }
    ],
    "initial_joint_q": [
        {"joint": "ankle_1", "value": 1.0},
        {"joint": "ankle_2", "value": -1.0},
        {"joint": "ankle_3", "value": -1.0},
        {"joint": "ankle_4", "value": 1.0},
    ],
}


class Ant(Task):
    """Torques at eight joints; the faster in the direction of x, the better."""

    scene = SCENE
    dt = 0.01
    substeps = 5
    time_limit = 20.0
    film: ClassVar = {"camera": {"preset": "auto", "follow": "torso"}}
    actions = JointEfforts(["hip_*", "ankle_*"], scale=3.0)

    @observation
    def pose(self) -> Any:
        """Return height, orientation and joint angles; the horizontal position does not matter."""
        return self.joint_q[:, 2:]

    @observation
    def velocity(self) -> Any:
        """Return velocities of torso and joints."""
        return self.joint_qd

    @reward(1.0)
    def speed(self) -> Any:
        """Return the speed along x [m/s]."""
        return self.joint_qd[:, 0]

    @reward(1.0)
    def upright(self) -> Any:
        """Return 1 when the torso's z points up."""
        return up_axis(self.joint_q[:, 3:7])

    @reward(-0.05)
    def effort(self) -> Any:
        """Return the sum of squared actions."""
        return (self.action**2).sum(1)

    @metric
    def forward(self) -> Any:
        """Return the speed along x [m/s]."""
        return self.joint_qd[:, 0]

    @termination
    def fallen(self) -> Any:
        """End when the torso is too low, too high or on its back."""
        height = self.joint_q[:, 2]
        return (height < 0.2) | (height > 1.2) | (up_axis(self.joint_q[:, 3:7]) < 0.0)

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin standing, with joints a little off."""
        q = self.initial_q[worlds] + 0.0
        q[:, 7:] += draw.uniform(-0.1, 0.1, q.shape[1] - 7)
        return q, draw.normal(0.0, 0.1, self.joint_qd.shape[1])
