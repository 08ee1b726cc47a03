"""A tower of boxes."""

import numpy as np
import warp as wp
from common import Example, run

HALF, COUNT = 0.1, 6


class BoxStack(Example):
    """Six boxes on one another, with a small gap at the start, stand still."""

    def build(self, builder):
        builder.default_shape_cfg.mu = 0.6
        builder.add_ground_plane()
        for i in range(COUNT):
            body = builder.add_body(xform=wp.transform((0.0, 0.0, HALF + i * (2.0 * HALF + 0.001))))
            builder.add_shape_box(body, hx=HALF, hy=HALF, hz=HALF)

    def test_final(self):
        position = self.body_q[:, :3]
        expected = HALF + 2.0 * HALF * np.arange(COUNT)
        assert np.abs(position[:, :2]).max() < 0.01, f"the tower leans: {position[:, :2]}"
        assert np.abs(position[:, 2] - expected).max() < 0.01, f"the tower sinks or flies: {position[:, 2]}"
        assert self.speed() < 0.02, f"the tower moves: {self.speed()} m/s"


if __name__ == "__main__":
    run(BoxStack)
