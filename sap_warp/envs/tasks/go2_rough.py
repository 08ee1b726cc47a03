"""Task of a Unitree Go2 that walks over rough ground."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..draws import Draws
from ..terms import observation, termination
from .go2 import Go2Walk, go2_scene

if TYPE_CHECKING:
    from ...simulation import Simulation

CELLS, CELL, ROUGHNESS = 80, 0.15, 0.08
"""Height field: cells to a side, width of a cell [m], lowest to highest point [m]."""
TERRAIN_GROUP, FEET = 2, (4, 8, 13, 18)
"""Collision group of the ground, and the shapes that are feet."""
HALF = 0.5 * CELLS * CELL
SEEN = [(x, y) for x in (-0.3, 0.0, 0.3, 0.6) for y in (-0.2, 0.0, 0.2)]
"""Points at which the robot knows the height of the ground, in its own frame [m]."""


def make_heights(seed: int = 0) -> np.ndarray:
    """Return heights of the corners of the cells [m], rows from the smallest y, shape (CELLS + 1, CELLS + 1)."""
    values = np.random.default_rng(seed).uniform(0.0, 1.0, (CELLS + 3, CELLS + 3))
    smooth = sum(values[i : i + CELLS + 1, j : j + CELLS + 1] for i in range(3) for j in range(3)) / 9.0
    smooth = 0.5 * smooth + 0.5 * values[1:-1, 1:-1]
    return (ROUGHNESS * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.float32)


def terrain(heights: np.ndarray) -> dict[str, Any]:
    """Return the ground as an asset of a scene."""
    rows = heights[::-1] / ROUGHNESS  # in a text the first row is that of the largest y
    share = " ".join(f"{value:.5f}" for value in rows.ravel())
    count = f'nrow="{CELLS + 1}" ncol="{CELLS + 1}"'
    size = f'size="{HALF} {HALF} {ROUGHNESS} 0.1"'
    text = f'<hfield name="rough" {count} {size} elevation="{share}"/>'
    geom = '<geom name="rough" type="hfield" hfield="rough"/>'
    return {
        "id": "terrain",
        "type": "mjcf",
        "source": f"<mujoco><asset>{text}</asset><worldbody>{geom}</worldbody></mujoco>",
    }


class Go2WalkRough(Go2Walk):
    """`Go2Walk` on a height field of 12 m, with the heights around the robot among the observations."""

    training: ClassVar = Go2Walk.training

    def build(self, num_worlds: int, device: Any, options: dict[str, Any]) -> Simulation:
        """Build the Go2 on its ground; the plane stays below."""
        from ...simulation import Simulation

        self._terrain = make_heights()
        content = go2_scene()
        content["assets"].append(terrain(self._terrain))
        # Hulls against a height field would take most of the time: the feet alone meet it, the rest only the plane.
        content["post_build"] += [
            {"op": "set_array", "array": "shape_collision_group", "match": "rough", "value": TERRAIN_GROUP},
            *({"op": "set_array", "array": "shape_collision_group", "index": i, "value": -1} for i in FEET),
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*eightfield-vs-heightfield")  # those of different worlds never meet
            return Simulation.from_scene(content, num_worlds=num_worlds, device=device, dt=self.dt, **options)

    def setup(self) -> None:
        """Find feet, and make commands, clock and the ground as an array."""
        super().setup()
        self._heights = self.arrays.from_numpy(self._terrain)
        self._points = self.arrays.from_numpy(np.array(SEEN, np.float32))

    def ground_below(self, points: Any) -> Any:
        """Interpolate linearly between the corners of cells."""
        x, y = ((points[..., i] + HALF).clip(0.0, 2.0 * HALF - 1e-3) / CELL for i in range(2))
        i, j = (self._whole(value) for value in (x, y))
        u, v, h = x - i, y - j, self._heights
        near, far = h[j, i] * (1.0 - u) + h[j, i + 1] * u, h[j + 1, i] * (1.0 - u) + h[j + 1, i + 1] * u
        return near * (1.0 - v) + far * v

    def derive(self) -> None:
        """Compute also the ground around the robot."""
        super().derive()
        q = self.joint_q
        heading = 2.0 * self.xp.arctan2(q[:, 5], q[:, 6])
        c, s = self.xp.cos(heading)[:, None], self.xp.sin(heading)[:, None]
        x = q[:, :1] + c * self._points[:, 0] - s * self._points[:, 1]
        y = q[:, 1:2] + s * self._points[:, 0] + c * self._points[:, 1]
        self.scan = self.ground_below(self.xp.stack([x, y], 2))

    @observation(noise=0.01, scale=10.0)
    def ground_heights(self) -> Any:
        """Return heights below the points of `SEEN`, from 0.3 m under the trunk [m]."""
        return self.joint_q[:, 2:3] - self.scan - 0.3

    @termination
    def off_the_ground(self) -> Any:
        """End near the edge."""
        return (abs(self.joint_q[:, 0]) > HALF - 0.5) | (abs(self.joint_q[:, 1]) > HALF - 0.5)

    def start(self, worlds: Any, draw: Draws) -> tuple[Any, Any]:
        """Begin anywhere in the middle of the ground."""
        q, qd = super().start(worlds, draw)
        q[:, :2] = draw.uniform(-0.6 * HALF, 0.6 * HALF, 2)
        q[:, 2] += self.ground_below(q[:, None, :3])[:, 0] + 0.02
        return q, qd

    def _whole(self, values: Any) -> Any:
        return values.long() if self.arrays.is_torch else values.astype(np.int64)
