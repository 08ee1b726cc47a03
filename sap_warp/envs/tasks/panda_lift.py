"""Task of a Panda that lifts a cube."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ...scene.shipped.scene_files import find_scene_file
from ..draws import Draws
from ..rotations import rotate
from ..task import Task
from ..terms import JointPositions, metric, observation, reward, termination
from .panda import TOOL, PandaReach

if TYPE_CHECKING:
    from ...simulation import Simulation

READY = {"panda_joint2": 0.0459, "panda_joint4": -2.3763, "panda_joint6": 2.4222, "panda_joint7": 0.7854}
READY |= {"panda_finger_joint1": 0.04, "panda_finger_joint2": 0.04}
"""The hand points down, 18 cm above the cube, open [rad, m]."""
REST, LIFTED = 0.025, 0.3
"""Height of the cube on the ground, and height to lift it to [m]."""


class PandaLiftCube(Task):
    """An arm that is moved in steps of seven joints, with a target for both fingers. The cube lies below the hand."""

    substeps = 8
    time_limit = 5.0
    actions = (
        JointPositions("panda_joint*", scale=0.08, relative=True),
        JointPositions("panda_finger_joint*", scale=0.03, offset=0.02),
    )
    training: ClassVar = {"ppo": {"num_worlds": 512, "iterations": 1000}}

    def build(self, num_worlds: int, device: Any, options: dict[str, Any]) -> Simulation:
        """Build the shipped scene without its recorded motion."""
        import yaml

        from ...simulation import Simulation

        content = yaml.safe_load(find_scene_file("franka_pick_cube").read_text(encoding="utf-8"))
        del content["control"]
        content["initial_joint_q"] = [{"joint": joint, "value": value} for joint, value in READY.items()]
        return Simulation.from_scene(content, num_worlds=num_worlds, device=device, dt=self.dt, **options)

    def setup(self) -> None:
        """Find the hand and the cube."""
        self._hand = int(self.sim.find_bodies("panda_link7").indices[0])
        self._cube = self.sim.find_coords("cube_free").indices[:3].tolist()
        self._tool = self.arrays.from_numpy(TOOL)

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin with the hand above the cube, which is some centimetres off."""
        q = self.initial_q[worlds] + 0.0
        q[:, :7] += draw.uniform(-0.05, 0.05, 7)
        x, y, _ = self._cube
        q[:, x] += draw.uniform(-0.08, 0.08)
        q[:, y] += draw.uniform(-0.08, 0.08)
        return q, None

    def derive(self) -> None:
        """Compute tool, cube and the vector between them."""
        hand = self.body_q[:, self._hand]
        self.tool = hand[:, :3] + rotate(self.xp, hand[:, 3:], self._tool)
        self.cube = self.joint_q[:, self._cube]
        self.away = self.cube - self.tool
        self.gap = self.xp.sqrt((self.away**2).sum(1))
        self.lift = (self.cube[:, 2] - REST).clip(0.0)

    @observation
    def arm(self) -> Any:
        """Return angles and speeds of joints and fingers."""
        return self.joint_q[:, :9] - self.initial_q[:, :9], self.joint_qd[:, :9]

    @observation(scale=5.0)
    def way(self) -> Any:
        """Return the vector from the tool to the cube, and the cube's position [m]."""
        return self.away, self.cube

    last_action = PandaReach.last_action

    @reward(1.0)
    def reach(self) -> Any:
        """Return 1 when the cube is between the fingers."""
        return self.xp.exp(-((self.gap / 0.1) ** 2))

    @reward(10.0)
    def raise_cube(self) -> Any:
        """Return 1 when the cube is as high as it should be."""
        return (self.lift / LIFTED).clip(0.0, 1.0)

    hurry = PandaReach.hurry

    @metric
    def cube_height(self) -> Any:
        """Return the height above where it lay [m]."""
        return self.lift

    @termination
    def lost(self) -> Any:
        """End when the cube is out of reach."""
        return (abs(self.cube[:, 1]) > 0.5) | (self.cube[:, 0] < 0.2) | (self.cube[:, 0] > 0.9)
