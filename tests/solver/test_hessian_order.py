"""The order of trees in the Hessian."""

import newton
import numpy as np
import warp as wp

from sap_warp import Simulation

BALLS, RADIUS = 14, 0.1
LINK_MASS = 0.3


def run(*orders, arms=()):
    """A few steps of a world for each order: a row of balls that overlap with their neighbours, numbered in this order.

    The balls of ``arms`` carry a link.
    """
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    cfg = newton.ModelBuilder.ShapeConfig(ke=1e4, mu=0.5, density=500.0, gap=0.001)
    for order in orders:
        builder.begin_world()
        for k in order:
            place = wp.transform((1.9 * RADIUS * int(k), 0.0, 1.0), wp.quat_identity())
            body = builder.add_link(xform=place)
            builder.add_shape_sphere(body, radius=RADIUS, cfg=cfg)
            joints = [builder.add_joint_free(body)]
            builder.joint_q[-7:] = [*place]
            builder.joint_qd[-6] = 0.1 * (-1.0) ** k
            if k in arms:
                link = builder.add_link(xform=place, mass=LINK_MASS, inertia=wp.mat33(np.eye(3) * 1e-3))
                joints.append(builder.add_joint_revolute(body, link, axis=(0.0, 0.0, 1.0)))
            builder.add_articulation(joints)
        builder.end_world()
    sim = Simulation(builder.finalize("cpu"), dt=0.002, contact_preset_variant="drake", notes=False)
    sim.step(3)
    assert not sim.status.any() and (sim.contact_counts == BALLS - 1).all()
    return sim


def test_rows_are_as_short_as_in_a_row_that_is_numbered_along(rng):
    """Neighbours in the row are neighbours in the Hessian, however the balls are numbered."""
    data = run(rng.permutation(BALLS)).solver.contact_jacobian.data
    dofs = 6 * BALLS
    place, first = data.dof_position.numpy()[:dofs], data.ordered_first.numpy()[:dofs]
    assert sorted(place) == list(range(dofs))
    assert (place.reshape(-1, 6) - place[::6, None] == np.arange(6)).all(), "trees stay together"
    assert not np.array_equal(place, np.arange(dofs))
    widths = np.arange(dofs) - first
    assert widths.max() < 12
    assert (widths + 1).sum() == sum(range(1, 7)) + (BALLS - 1) * sum(range(7, 13))


def test_motion_does_not_depend_on_the_numbers(rng):
    """The same balls numbered along the row and in another order, some with a link: as closely as the solve goes."""
    orders = [np.arange(BALLS), rng.permutation(BALLS)]
    sim = run(*orders, arms=(2, 5, 11))
    velocity = sim.body_qd.flat()[sim.model.body_mass.numpy() != np.float32(LINK_MASS)].reshape(2, BALLS, 6)
    assert np.abs(velocity).max() > 0.01
    np.testing.assert_allclose(velocity[1][np.argsort(orders[1])], velocity[0], rtol=0, atol=1e-6)


def test_each_world_has_its_own_order(rng):
    """Worlds in one model move bitwise as each alone."""
    orders = [rng.permutation(BALLS) for _ in range(3)]
    together = run(*orders).joint_qd.flat().reshape(3, -1)
    for order, velocity in zip(orders, together, strict=True):
        np.testing.assert_array_equal(run(order).joint_qd.flat(), velocity)
