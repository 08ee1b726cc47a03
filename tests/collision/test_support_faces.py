"""Contacts on convex hulls with a support face that is not quite flat, or that is round."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation
from sap_warp.scene.assets.hulls import convex_hull

SIZE = 0.1


def mesh_of(points):
    vertices, faces = convex_hull(np.array(points))
    return newton.Mesh(vertices.astype(np.float32), faces.ravel(), compute_inertia=False)


def ridge(slope):
    """A plate whose upper side has several faces that differ by about this angle [rad]."""
    below = [(x, y, -0.02) for x in (-SIZE, SIZE) for y in (-0.8 * SIZE, 0.8 * SIZE)]
    top = [
        (-0.9, -0.7, 0.0),
        (0.93, 0.66, 0.0),
        (0.9, -0.75, 1.0),
        (-0.95, 0.7, 1.3),
        (0.6, 0.8, 0.8),
        (-0.6, -0.8, 0.7),
    ]
    return mesh_of(below + [(SIZE * x, SIZE * y, -slope * SIZE * down) for x, y, down in top])


def disc():
    """A round table, of 40 corners."""
    angle = 2.0 * np.pi * np.arange(40) / 40
    return mesh_of([(SIZE * np.cos(a), SIZE * np.sin(a), z) for a in angle for z in (-0.02, 0.0)])


def add_box(b, body):
    b.add_shape_box(body, hx=0.03, hy=0.03, hz=0.03)


def add_cylinder(b, body):
    b.add_shape_cylinder(body, radius=0.03, half_height=0.03)


def add_hull(b, body):
    b.add_shape_convex_hull(body, mesh=mesh_of(0.03 * np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T))


def add_ridge(b, body):
    """A hull whose own lower side has several faces."""
    points = 0.4 * np.array(ridge(0.01).vertices) * [1.0, 1.0, -1.0]
    b.add_shape_convex_hull(body, mesh=mesh_of(np.vstack([points - [0, 0, 0.03], points * [1, 1, 0] + [0, 0, 0.03]])))


def on_hull(mesh, place, turn=0.0, gravity=9.81, add=add_box):
    """A shape of 6 cm on a hull that does not move."""
    b = newton.ModelBuilder(gravity=(0.0, 0.0, -gravity))
    b.rigid_gap = 0.002
    b.default_shape_cfg.ke, b.default_shape_cfg.mu = 1e5, 0.8
    at = wp.transform((*place, 0.0301), wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), turn))
    add(b, b.add_body(xform=at))
    b.add_shape_convex_hull(-1, mesh=mesh)
    return Simulation(b.finalize("cpu"), dt=0.005, max_rigid_contact=32)


@pytest.mark.parametrize("gravity", [9.81, 200.0])
@pytest.mark.parametrize(("slope", "turn"), [(0.005, 0.0), (0.01, 0.785), (0.015, 0.3)])
@pytest.mark.parametrize("add", [add_box, add_cylinder, add_hull, add_ridge])
def test_what_is_pressed_on_a_support_face_of_several_faces_comes_to_rest(add, slope, turn, gravity):
    """Its contacts must not be those of one face or the other in turns, or it rattles at 1 rad/s."""
    sim = on_hull(ridge(slope), (0.004, 0.003), turn, gravity, add)
    sim.step(300)
    assert np.abs(sim.joint_qd.numpy()).max() < 1e-4
    before = sim.contacts.newton_contacts.rigid_contact_point0.numpy()[: sim.contact_counts[0]].copy()
    sim.step(20)
    after = sim.contacts.newton_contacts.rigid_contact_point0.numpy()[: sim.contact_counts[0]]
    np.testing.assert_allclose(after, before, atol=1e-5)


@pytest.mark.parametrize("angle", [0.1, 0.8, 1.57, 2.5])
def test_a_cube_stands_at_the_rim_of_a_round_table(angle):
    """Two thirds of it over the table, whose corners are more than contacts can be: in all directions it stays."""
    reach = SIZE - 0.01
    sim = on_hull(disc(), (reach * np.cos(angle), reach * np.sin(angle)), angle)
    sim.step(200)
    q = sim.joint_q.numpy()[0]
    assert abs(q[2] - 0.03) < 1e-3 and abs(q[5]) > np.sin(angle / 2) - 0.02 and np.hypot(q[3], q[4]) < 0.02
