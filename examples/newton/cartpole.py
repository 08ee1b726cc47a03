"""A pole on a cart, balanced by state feedback through joint_f."""

import newton
import warp as wp
from common import Example, run

CART, POLE, LENGTH = 1.0, 0.3, 0.5
"""Masses [kg] and half length of the pole [m]."""


@wp.kernel
def balance(joint_q: wp.array(dtype=float), joint_qd: wp.array(dtype=float), joint_f: wp.array(dtype=float)):
    world = wp.tid()
    i = 2 * world
    joint_f[i] = 2.0 * joint_q[i] + 4.0 * joint_qd[i] + 40.0 * joint_q[i + 1] + 8.0 * joint_qd[i + 1]


class Cartpole(Example):
    """Several cart-poles that start tilted and are brought upright."""

    worlds = 4

    def build(self, builder):
        single = newton.ModelBuilder()
        cart, pole = single.add_link(), single.add_link()
        hidden = newton.ModelBuilder.ShapeConfig(density=0.0, has_shape_collision=False)
        single.add_shape_box(cart, hx=0.2, hy=0.1, hz=0.08, cfg=hidden)
        single.add_shape_capsule(pole, radius=0.02, half_height=LENGTH, cfg=hidden)
        for body, mass, inertia in ((cart, CART, 0.01), (pole, POLE, POLE * (2 * LENGTH) ** 2 / 12.0)):
            single.body_mass[body], single.body_inv_mass[body] = mass, 1.0 / mass
            single.body_inertia[body] = wp.mat33(inertia, 0.0, 0.0, 0.0, inertia, 0.0, 0.0, 0.0, inertia)
            single.body_inv_inertia[body] = wp.inverse(single.body_inertia[body])
        rail = single.add_joint_prismatic(-1, cart, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, 1.0)))
        hinge = single.add_joint_revolute(
            cart, pole, axis=newton.Axis.Y, child_xform=wp.transform((0.0, 0.0, -LENGTH)), limit_ke=0.0
        )
        single.add_articulation([rail, hinge])
        for world in range(self.worlds):
            builder.add_world(single, xform=wp.transform((0.0, 2.0 * world, 0.0)))
            builder.joint_q[-1] = 0.1 * (world + 1) - 0.25

    def actuate(self):
        wp.launch(
            balance, dim=self.worlds, inputs=[self.state.joint_q, self.state.joint_qd], outputs=[self.control.joint_f]
        )

    def test_final(self):
        q, qd = self.state.joint_q.numpy().reshape(-1, 2), self.state.joint_qd.numpy().reshape(-1, 2)
        assert abs(q[:, 1]).max() < 0.02, f"a pole is not upright: {q[:, 1]} rad"
        assert abs(qd[:, 1]).max() < 0.05, f"a pole still turns: {qd[:, 1]} rad/s"


if __name__ == "__main__":
    run(Cartpole)
