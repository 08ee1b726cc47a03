"""A parallel gripper with a mimic finger closes on a cube and lifts it."""

import newton
import numpy as np
import warp as wp
from common import Example, run

HALF, GRIP, LIFT = 0.03, 30.0, 0.2
"""Half size of the cube [m], force of a finger [N], height to lift [m]."""


class Gripper(Example):
    """One driven finger, one that follows it, and a cube of 0.4 kg held by friction."""

    def build(self, builder):
        builder.default_shape_cfg.mu = 0.8
        builder.add_ground_plane()
        cube = builder.add_body(xform=wp.transform((0.0, 0.0, HALF)), label="cube")
        builder.add_shape_box(cube, hx=HALF, hy=HALF, hz=HALF, cfg=self.solid(builder, 0.4 / (8.0 * HALF**3)))
        hand = builder.add_link(xform=wp.transform((0.0, 0.0, 0.15)), label="hand")
        builder.add_shape_box(hand, hx=0.02, hy=0.1, hz=0.02, cfg=self.solid(builder, 1000.0))
        fingers = [builder.add_link(label=side) for side in ("left", "right")]
        for finger in fingers:
            builder.add_shape_box(finger, hx=0.02, hy=0.01, hz=0.04, cfg=self.solid(builder, 1000.0))
        high = wp.transform((0.0, 0.0, 0.15))
        lift = builder.add_joint_prismatic(
            -1,
            hand,
            axis=newton.Axis.Z,
            parent_xform=high,
            target_ke=4000.0,
            target_kd=400.0,
            actuator_mode=newton.JointTargetMode.POSITION,
        )
        slide = {"axis": newton.Axis.Y, "limit_lower": 0.0, "limit_upper": 0.06}
        turned = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), wp.pi)  # both fingers close with a falling coordinate
        left = builder.add_joint_prismatic(
            hand, fingers[0], parent_xform=wp.transform((0.0, 0.01, -0.11)), armature=0.1, **slide
        )
        right = builder.add_joint_prismatic(
            hand,
            fingers[1],
            parent_xform=wp.transform(wp.vec3(0.0, -0.01, -0.11), turned),
            child_xform=wp.transform(wp.vec3(), wp.quat_identity()),
            armature=0.1,
            **slide,
        )
        builder.add_articulation([lift, left, right])
        builder.set_joint_mimic(right, left)
        builder.joint_q[-2:] = [0.05, 0.05]
        builder.add_shape_collision_filter_pair(1, 2)

    @staticmethod
    def solid(builder, density):
        cfg = builder.default_shape_cfg.copy()
        cfg.density = density
        return cfg

    def actuate(self):
        force, target = self.control.joint_f.numpy(), self.control.joint_target_q.numpy()
        force[-2] = -2.0 * GRIP  # the follower takes half of it
        target[-3] = LIFT * min(max((self.time - 1.0) / 1.0, 0.0), 1.0)
        self.control.joint_f.assign(force)
        self.control.joint_target_q.assign(target)

    def test_final(self):
        cube, hand = self.body_q[0], self.body_q[1]
        q = self.state.joint_q.numpy()
        assert abs(hand[2] - 0.15 - LIFT) < 0.02, f"the hand is at {hand[2]} m"
        assert abs(cube[2] - HALF - LIFT) < 0.02, f"the cube was not lifted: {cube[2]} m"
        assert np.abs(cube[:2]).max() < 0.01, f"the cube slipped: {cube[:2]}"
        assert abs(q[-1] - q[-2]) < 1e-3, f"the fingers are not together: {q[-2:]}"
        assert self.speed() < 0.02, f"something moves: {self.speed()} m/s"


if __name__ == "__main__":
    run(Gripper)
