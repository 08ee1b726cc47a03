"""Hulls that are proved to be apart: Newton's narrow phase would find nothing, and is asked about cylinders only."""

import coal
import newton
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from sap_warp.collision import SapCollisionPipeline
from sap_warp.conventions.rotations import rotation_matrix
from tests.support.contact_rows import turns

KINDS = ("sphere", "capsule", "cylinder", "hull")
WORLDS, GAP = 100, 0.002


@pytest.fixture
def rng():
    return np.random.default_rng(41)


def add(builder, kind, body, points):
    cfg = newton.ModelBuilder.ShapeConfig(gap=GAP)
    if kind == "sphere":
        builder.add_shape_sphere(body, radius=0.05, cfg=cfg)
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius=0.03, half_height=0.06, cfg=cfg)
    elif kind == "cylinder":
        builder.add_shape_cylinder(body, radius=0.04, half_height=0.06, cfg=cfg)
    else:
        faces = ConvexHull(points).simplices
        mesh = newton.Mesh(points.astype(np.float32), faces.ravel(), compute_inertia=False)
        builder.add_shape_convex_hull(body, mesh=mesh, cfg=cfg)


def coal_shape(kind, points):
    if kind == "sphere":
        return coal.Sphere(0.05)
    if kind == "capsule":
        return coal.Capsule(0.03, 0.12)
    if kind == "cylinder":
        return coal.Cylinder(0.04, 0.12)
    cloud = coal.StdVec_Vec3s()
    for point in points:
        cloud.append(point)
    return coal.Convex.convexHull(cloud, False, "")


def coal_distance(shapes, poses):
    places = [coal.Transform3s(rotation_matrix(pose[3:]), pose[:3]) for pose in poses]
    result = coal.DistanceResult()
    return coal.distance(shapes[0], places[0], shapes[1], places[1], coal.DistanceRequest(), result)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_within_reach_is_found(rng, kind):
    """By coal's distance, deep overlaps too, without Newton's narrow phase."""
    points = rng.normal(size=(60, 3))
    points *= [0.1, 0.07, 0.04] / np.linalg.norm(points, axis=1, keepdims=True)
    world = newton.ModelBuilder()
    add(world, kind, world.add_body(), points)
    add(world, "hull", world.add_body(), points)
    builder = newton.ModelBuilder()
    builder.replicate(world, WORLDS)
    model = builder.finalize("cpu")
    poses = np.zeros((2 * WORLDS, 7))
    poses[:, 3:] = turns(rng, 2 * WORLDS)
    poses[1::2, :3] = 0.14 * turns(rng, WORLDS)[:, :3]
    poses = poses.astype(np.float32).astype(float)
    pipeline, state = SapCollisionPipeline(model), model.state()
    assert pipeline.path.name == "listed"
    state.body_q.assign(poses.astype(np.float32))
    contacts = pipeline.contacts()
    pipeline.collide(state, contacts)
    arrays = pipeline.newton_pipeline.arrays
    touching = contacts.rigid_contact_shape0.numpy()[: contacts.rigid_contact_count.numpy()[0]] // 2
    shapes = coal_shape(kind, points), coal_shape("hull", points)
    distance = np.array([coal_distance(shapes, poses[2 * i : 2 * i + 2]) for i in range(WORLDS)])
    near, far = np.flatnonzero(distance <= 2.0 * GAP), np.flatnonzero(distance > 0.01)
    assert len(near) > 10 and len(far) > 10
    assert arrays.pair_count.numpy()[0] == 0
    assert set(touching) == set(near)
