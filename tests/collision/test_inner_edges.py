"""Edges inside of meshes and height fields: nobody feels them, and ridges, steps and borders everybody does."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation
from sap_warp.collision import SapCollisionPipeline

SLOPE, FRICTION = 0.2, 0.14
DOWN = 9.81 * (np.sin(np.arctan(SLOPE)) - FRICTION * np.cos(np.arctan(SLOPE)))
"""Acceleration of what slides [m/s^2]."""


def grid_mesh(height, cells=40, half=2.0):
    """A surface over a square, of triangles."""
    xs = np.linspace(-half, half, cells + 1)
    vertices = np.array([[x, y, height(x, y)] for y in xs for x in xs], dtype=np.float32)
    corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    a, b, c, d = corner, corner + 1, corner + cells + 2, corner + cells + 1
    faces = np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, d])])
    return newton.Mesh(vertices, faces.ravel())


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_boxes_slide_on_a_flat_mesh_as_on_a_plane(scale):
    """Straight down a slope and by what friction allows, whatever their heading."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.002
    cfg = newton.ModelBuilder.ShapeConfig(ke=1e5, mu=FRICTION)
    angle = float(np.arctan(SLOPE))
    tilt = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), -angle)
    mesh = grid_mesh(lambda x, y: 0.0, half=2.0 / scale)
    builder.add_shape_mesh(-1, xform=wp.transform((0, 0, 0), tilt), mesh=mesh, scale=wp.vec3(scale), cfg=cfg)
    normal = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    for k, heading in enumerate((0.0, 0.5, 1.2)):
        turn = tilt * wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), heading)
        place = 0.0499 * normal + [0.3, 0.7 * (k - 1) + 0.013, 0.3 * SLOPE]
        body = builder.add_body(xform=wp.transform(wp.vec3(*place), turn))
        builder.add_shape_box(body, hx=0.15, hy=0.12, hz=0.05, cfg=cfg)
    sim = Simulation(builder.finalize(device="cpu"), dt=0.004, max_rigid_contact=400)
    start = sim.joint_q.numpy().reshape(-1, 7).copy()
    sim.step(125)
    moved = sim.joint_q.numpy().reshape(-1, 7)[:, :3] - start[:, :3]
    np.testing.assert_allclose(-moved @ [np.cos(angle), 0.0, np.sin(angle)], DOWN * 0.125, rtol=0.04)
    assert np.abs(moved[:, 1]).max() < 3e-3


def contacts_of(surface, place, turn):
    """Normals of the contacts of a small box with a surface, from the surface."""
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.002
    surface(builder)
    body = builder.add_body(xform=wp.transform(wp.vec3(*place), turn))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    model = builder.finalize(device="cpu")
    pipeline = SapCollisionPipeline(model)
    contacts = pipeline.contacts()
    pipeline.collide(model.state(), contacts)
    shape0 = contacts.rigid_contact_shape0.numpy()[: contacts.rigid_contact_count.numpy()[0]]
    sign = np.where(model.shape_body.numpy()[shape0] < 0, 1.0, -1.0)
    return (sign[:, None] * contacts.rigid_contact_normal.numpy()[: len(shape0)])[shape0 >= 0]


def roof(x, y):
    """A ridge along y, as steep as stairs are."""
    return -1.5 * abs(x)


def mesh_roof(builder):
    builder.add_shape_mesh(-1, mesh=grid_mesh(roof, cells=20, half=1.0))


def field_roof(builder):
    xs = np.linspace(-1.0, 1.0, 21)
    heights = np.array([[roof(x, y) for x in xs] for y in xs])
    builder.add_shape_heightfield(heightfield=newton.Heightfield(heights, 21, 21, 1.0, 1.0))


@pytest.mark.parametrize("surface", [mesh_roof, field_roof])
def test_a_ridge_carries_what_lies_on_it(surface):
    """Flat across the ridge."""
    normals = contacts_of(surface, (0.013, 0.021, 0.0995), wp.quat_identity())
    assert len(normals) and normals[:, 2].max() > 0.5


def test_a_border_is_an_edge():
    """A box beside the end of a field is kept away by it."""
    normals = contacts_of(field_roof, (0.013, 1.1005, -0.05), wp.quat_identity())
    assert len(normals) and normals[:, 1].max() > 0.9
