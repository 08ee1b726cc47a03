"""A humanoid that holds its pose by weak drives, falls and comes to rest."""

import newton
import newton.examples
import numpy as np
import warp as wp
from common import Example, run


class Humanoid(Example):
    """One humanoid from MJCF with joint limits, damping and many contacts."""

    def build(self, builder):
        builder.default_joint_cfg.armature = 0.01
        builder.add_mjcf(
            newton.examples.get_asset("nv_humanoid.xml"),
            xform=wp.transform((0.0, 0.0, 1.35)),
            ignore_names=["floor", "ground"],
            up_axis=newton.Axis.Z,
            enable_self_collisions=False,
        )
        for dof in range(6, len(builder.joint_target_ke)):
            builder.joint_target_ke[dof] = 10.0
            builder.joint_target_kd[dof] = 5.0
            builder.joint_target_mode[dof] = int(newton.JointTargetMode.POSITION)
        builder.add_ground_plane()

    def test_final(self):
        heights = self.body_q[:, 2]
        assert np.isfinite(self.body_q).all()
        assert heights.min() > 0.0, f"a body is below the ground: {heights.min()} m"
        assert heights.max() < 0.8, f"it should have fallen: {heights.max()} m"
        assert self.speed() < 0.5, f"it still moves: {self.speed()} m/s"


if __name__ == "__main__":
    run(Humanoid)
