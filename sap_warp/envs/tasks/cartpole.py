"""Task of a cart on a rail that swings a pole up and balances it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..draws import Draws
from ..task import Task
from ..terms import JointEfforts, metric, observation, reward

RAIL = 2.0
"""Largest distance of the cart from the middle [m]."""
LOWEST = np.array([-0.5, np.pi - 0.3, -0.1, -0.1], np.float32)
HIGHEST = np.array([0.5, np.pi + 0.3, 0.1, 0.1], np.float32)
"""Largest initial cart position, pole angle and their velocities [m, rad, m/s, rad/s]."""
NEARLY_UPRIGHT = float(np.cos(0.2))
"""Cosine of the largest angle that counts as standing."""

RAIL_SHAPE: dict[str, Any] = {
    "type": "box",
    "hx": RAIL + 0.15,
    "hy": 0.03,
    "hz": 0.02,
    "transform": {"p": [0.0, 0.0, 1.5]},
    "has_shape_collision": False,
    "color": [0.45, 0.47, 0.5],
}
"""Visual shape, as long as the cart reaches."""

SCENE: dict[str, Any] = {
    "schema_version": 1,
    "name": "cartpole_swing_up",
    "description": "A cart of 1 kg on a rail of 4 m carries a pole of 0.1 kg and 1 m on a hinge.",
    "simulation": {"dt": 0.005, "max_rigid_contact": 1},
    "builder": {"defaults": {"joint": {"damping": 0.002}}},
    "ground": False,
    "bodies": [
        {"id": "cart", "shapes": [{"type": "box", "hx": 0.15, "hy": 0.1, "hz": 0.05, "density": 1.0 / 0.006}]},
        {"id": "pole", "shapes": [{"type": "box", "hx": 0.02, "hy": 0.02, "hz": 0.5, "density": 0.1 / 0.0016}]},
    ],
    "joints": [
        {
            "id": "rail",
            "type": "prismatic",
            "axis": "x",
            "parent": "world",
            "child": "cart",
            "parent_xform": {"p": [0.0, 0.0, 1.5]},
            "limit_lower": -RAIL,
            "limit_upper": RAIL,
        },
        {
            "id": "hinge",
            "type": "revolute",
            "axis": "y",
            "parent": "cart",
            "child": "pole",
            "child_xform": {"p": [0, 0, -0.5]},
        },
    ],
    "articulations": [{"id": "cartpole", "joints": ["rail", "hinge"]}],
    "post_build": [{"op": "add_shape", "body": "world", "shape": RAIL_SHAPE}],
}


class CartPoleSwingUp(Task):
    """A pole that hangs down at first, and a force on its cart as the only input. The angle is zero when it stands."""

    scene = SCENE
    substeps = 8  # 25 actions a second: the pole takes a second and a half to swing
    time_limit = 20.0
    training: ClassVar = {
        "ppo": {
            "num_worlds": 256,
            "iterations": 220,
            # Wide exploration: a policy that is sure too early goes on swinging the pole around.
            "settings": {"rollout": 32, "epochs": 4, "hidden": [64, 64], "deviation": 1.0, "entropy": 0.03}
            | {"discount": 0.98},
        },
        "ars": {"num_worlds": 64, "iterations": 60},
    }
    actions = JointEfforts("rail", scale=10.0)

    @observation
    def coordinates(self) -> Any:
        """Return position of the cart, direction of the pole, and their rates."""
        return self.joint_q[:, 0], self.sine, self.cosine, self.joint_qd

    @reward(0.5)
    def upright(self) -> Any:
        """Return 1 when the pole stands, -1 when it hangs."""
        return self.cosine

    @reward(-0.1)
    def away_from_the_middle(self) -> Any:
        """Return the square of the distance [m^2]."""
        return self.joint_q[:, 0] ** 2

    @reward(2.0)
    def balanced(self) -> Any:
        """Return 1 when the pole stands still, falling off within some 0.3 rad and 2 rad/s."""
        speed = 0.5 * self.joint_qd[:, 1]
        return self.xp.exp(20.0 * self.cosine - 20.0 - speed * speed)

    @metric
    def standing(self) -> Any:
        """Return the share of the time that the pole is within 0.2 rad of upright."""
        return self.cosine > NEARLY_UPRIGHT

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin hanging, nearly at rest."""
        values = draw.uniform(LOWEST, HIGHEST, 4)
        return values[:, :2], values[:, 2:]

    def derive(self) -> None:
        """Compute the direction of the pole."""
        self.sine, self.cosine = self.xp.sin(self.joint_q[:, 1]), self.xp.cos(self.joint_q[:, 1])
