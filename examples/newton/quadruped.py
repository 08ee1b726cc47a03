"""Quadrupeds that stand on their drives."""

import newton
import newton.examples
import numpy as np
import warp as wp
from common import Example, run

POSE = [0.2, 0.4, -0.6, -0.2, -0.4, 0.6, -0.2, 0.4, -0.6, 0.2, -0.4, 0.6]


class Quadruped(Example):
    """Two quadrupeds drop by a few centimetres onto their feet and stand."""

    worlds = 2

    def build(self, builder):
        robot = newton.ModelBuilder()
        robot.default_joint_cfg.armature = 0.01
        robot.default_joint_cfg.target_ke = 2000.0
        robot.default_joint_cfg.target_kd = 20.0
        robot.default_shape_cfg = builder.default_shape_cfg.copy()
        robot.default_shape_cfg.mu = 1.0
        robot.rigid_gap = builder.rigid_gap
        robot.add_urdf(
            newton.examples.get_asset("quadruped.urdf"),
            xform=wp.transform(wp.vec3(0.0, 0.0, 0.5)),
            floating=True,
            enable_self_collisions=False,
            joint_damping_mode="drive",
        )
        robot.joint_q[-12:] = POSE
        robot.joint_target_q[-12:] = POSE
        builder.replicate(robot, self.worlds, spacing=(2.0, 0.0, 0.0))
        builder.add_ground_plane()

    def test_final(self):
        per_world = self.model.body_count // self.worlds
        base, twist = self.body_q[::per_world], self.body_qd
        up = 1.0 - 2.0 * (base[:, 3] ** 2 + base[:, 4] ** 2)
        assert (up > 0.98).all(), f"a quadruped is tilted: cosine {up}"
        assert (base[:, 2] > 0.3).all(), f"a base is on the ground: {base[:, 2]} m"
        assert np.abs(twist).max() < 0.1, f"something still moves: {np.abs(twist).max()}"
        q = self.state.joint_q.numpy().reshape(self.worlds, -1)[:, -12:]
        assert np.abs(q - POSE).max() < 0.1, "a drive gave way"


if __name__ == "__main__":
    run(Quadruped)
