"""Different worlds in one model: a pendulum, a conveyor, a four-bar linkage and a ball, stepped together."""

import math

import newton
import numpy as np
import warp as wp
from common import Example, run

BELT_SPEED = 0.4


def pendulum():
    b = newton.ModelBuilder()
    rod = b.add_link(mass=1.0, com=wp.vec3(0.0, 0.0, -0.5), inertia=wp.mat33(*(0.01 * np.eye(3)).ravel()))
    b.add_articulation([b.add_joint_revolute(-1, rod, axis=newton.Axis.Y, parent_xform=wp.transform((0.0, 0.0, 2.0)))])
    b.joint_q[-1] = 0.3
    return b


def conveyor(cfg):
    """A kinematic slab with a velocity that stays where it is, and a box on it."""
    b = newton.ModelBuilder()
    b.rigid_gap = 0.005
    belt = b.add_body(xform=wp.transform((0.0, 0.0, 0.2)), is_kinematic=True)
    b.add_shape_box(belt, hx=2.0, hy=0.3, hz=0.1, cfg=cfg)
    box = b.add_body(xform=wp.transform((-1.0, 0.0, 0.4)))
    b.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    b.joint_qd[0] = BELT_SPEED
    return b


def four_bar():
    """A parallelogram closed by a loop joint."""
    b = newton.ModelBuilder()
    inertia = wp.mat33(*(0.01 * np.eye(3)).ravel())
    bars = [b.add_link(mass=1.0, com=wp.vec3(0.0, 0.0, -0.5), inertia=inertia) for _ in range(2)]
    coupler = b.add_link(mass=1.0, com=wp.vec3(0.5, 0.0, 0.0), inertia=inertia)
    y = {"axis": newton.Axis.Y}
    joints = [
        b.add_joint_revolute(-1, bars[0], parent_xform=wp.transform((0.0, 0.0, 2.0)), **y),
        b.add_joint_revolute(bars[0], coupler, parent_xform=wp.transform((0.0, 0.0, -1.0)), **y),
        b.add_joint_revolute(-1, bars[1], parent_xform=wp.transform((1.0, 0.0, 2.0)), **y),
    ]
    b.add_articulation(joints)
    b.add_joint_revolute(
        coupler,
        bars[1],
        parent_xform=wp.transform((1.0, 0.0, 0.0)),
        child_xform=wp.transform((0.0, 0.0, -1.0)),
        **y,
    )
    b.joint_q[:3] = [0.4, -0.4, 0.4]
    return b


def ball(cfg):
    b = newton.ModelBuilder()
    b.rigid_gap = 0.005
    body = b.add_body(xform=wp.transform((0.0, 0.0, 0.6)))
    b.add_shape_sphere(body, radius=0.1, cfg=cfg)
    return b


class HeterogeneousWorlds(Example):
    """Four worlds that have nothing in common but the ground."""

    def build(self, builder):
        cfg = builder.default_shape_cfg.copy()
        for i, world in enumerate((pendulum(), conveyor(cfg), four_bar(), ball(cfg))):
            builder.add_world(world, xform=wp.transform((0.0, 3.0 * i, 0.0)))
        builder.add_ground_plane()

    def prepare(self):
        self.energy_0 = self.pendulum_energy()

    def pendulum_energy(self):
        angle, rate = self.state.joint_q.numpy()[0], self.state.joint_qd.numpy()[0]
        return 0.5 * (0.01 + 0.25) * rate**2 - 9.81 * 0.5 * math.cos(angle)

    def test_final(self):
        swing = 9.81 * 0.5 * (1.0 - math.cos(0.3))
        drift = self.pendulum_energy() - self.energy_0
        assert abs(drift) < 0.2 * swing, f"the pendulum's energy changed by {drift} J of {swing} J"
        belt, box = self.body_q[1], self.body_q[2]
        assert abs(belt[0]) < 1e-6, "the belt left its place"
        assert abs(self.body_qd[2, 0] - BELT_SPEED) < 0.01, f"the box moves with {self.body_qd[2, 0]} m/s"
        assert abs(box[2] - 0.4) < 0.01, f"the box is at a height of {box[2]} m"
        crank, _, rocker = self.state.joint_q.numpy()[15:18]
        assert abs(crank - rocker) < 1e-3, f"the parallelogram opened: {crank} and {rocker} rad"
        low = self.body_q[-1]
        assert abs(low[2] - 0.1) < 0.01, f"the ball is at a height of {low[2]} m"


if __name__ == "__main__":
    run(HeterogeneousWorlds)
