"""Bodies with simple shapes in random poses, and how contact rows of two pipelines are compared."""

import newton
import numpy as np
import pytest

from sap_warp.collision import SapCollisionPipeline
from sap_warp.model.contacts import dropped_by_world

GAP = 0.05
INDICES = ("shape0", "shape1", "tids")
NUMBERS = ("point0", "point1", "offset0", "offset1", "normal", "margin0", "margin1")
SMALL = 60
"""Capacity of the buffers of `check_overflow`."""
NEWTONS_WAY = {"verify_buffers": False}  # any option that is not about pairs asks for the full pipeline


def turns(rng, count):
    q = rng.normal(size=(count, 4))
    return q / np.linalg.norm(q, axis=1, keepdims=True)


def add_shape(builder, kind, body, pose, **config):
    cfg = newton.ModelBuilder.ShapeConfig(gap=GAP, **config)
    if kind == "sphere":
        builder.add_shape_sphere(body, xform=pose, radius=0.1, cfg=cfg)
    elif kind == "capsule":
        builder.add_shape_capsule(body, xform=pose, radius=0.05, half_height=0.1, cfg=cfg)
    elif kind == "box":
        builder.add_shape_box(body, xform=pose, hx=0.1, hy=0.07, hz=0.05, cfg=cfg)
    elif kind == "ellipsoid":
        builder.add_shape_ellipsoid(body, xform=pose, rx=0.1, ry=0.05, rz=0.07, cfg=cfg)
    elif kind == "cone":
        builder.add_shape_cone(body, xform=pose, radius=0.1, half_height=0.1, cfg=cfg)
    else:
        builder.add_shape_cylinder(body, xform=pose, radius=0.1, half_height=0.08, cfg=cfg)


def place(state, rng, spread=0.5, height=0.0):
    count = state.body_q.shape[0]
    poses = np.column_stack([rng.uniform(-spread, spread, (count, 3)), turns(rng, count)])
    poses[:, 2] += height
    state.body_q.assign(poses.astype(np.float32))


def place_on_cylinder(model, shapes, points):
    """Points in body frame as height along the axis and distance from it [m]."""
    pose = model.shape_transform.numpy()[shapes].astype(float)
    u, w = pose[:, 3:6], pose[:, 6:7]
    axis = 2.0 * (np.cross(u, np.cross(u, [0.0, 0.0, 1.0])) + w * np.cross(u, [0.0, 0.0, 1.0])) + [0.0, 0.0, 1.0]
    arm = points - pose[:, :3]
    height = (arm * axis).sum(axis=1)
    return np.column_stack([height, np.linalg.norm(arm - height[:, None] * axis, axis=1)])


def mirrored_rows(model, ours, theirs, rows):
    """Rows in which a lying cylinder has the other of two points at the same depth: rounding decides in Newton."""
    shapes = ours.rigid_contact_shape1.numpy()[:rows]
    points = [c.rigid_contact_point1.numpy()[:rows] for c in (ours, theirs)]
    other = np.abs(points[0] - points[1]).max(axis=1) > 1e-6
    other &= model.shape_type.numpy()[shapes] == int(newton.GeoType.CYLINDER)
    places = [place_on_cylinder(model, shapes[other], p[other]) for p in points]
    np.testing.assert_allclose(*places, atol=1e-6)
    assert other.sum() <= rows // 20
    return other


def check_overflow(model, rng, places, takes_short_way, assert_same):
    """Buffers that are too small at three of the places keep the same contacts, and lose as many in each world."""
    short, full = pipelines = [SapCollisionPipeline(model, rigid_contact_max=SMALL, **o) for o in ({}, NEWTONS_WAY)]
    assert takes_short_way(short)
    assert not takes_short_way(full)
    assert full.path.name == "newton"
    buffers, state, overflows = [pipeline.contacts() for pipeline in pipelines], model.state(), 0
    for pipeline in pipelines:
        pipeline.clear_statistics()
    for spread, height in places:
        place(state, rng, spread, height)
        for pipeline, buffer in zip(pipelines, buffers, strict=True):
            pipeline.collide(state, buffer)
        found, expected = (int(buffer.rigid_contact_count.numpy()[0]) for buffer in buffers)
        assert found == expected
        for buffer in buffers:
            buffer.rigid_contact_count.fill_(min(found, SMALL))
        assert_same(*buffers)
        if found > SMALL:
            overflows += 1
            lost = [dropped_by_world(buffer.newton_contacts).numpy() for buffer in buffers]
            np.testing.assert_array_equal(*lost)
            assert lost[0].sum() == found - SMALL
    assert overflows == 3
    with pytest.warns(RuntimeWarning, match="too small"):
        assert short.peak_contact_count > SMALL
    with pytest.warns(RuntimeWarning, match="too small"):
        assert full.peak_contact_count == short.peak_contact_count
    assert full.last_overflow == short.last_overflow > 0


def without_inner_edges(model, ours, theirs):
    """Rows of Newton's without those with edges inside of a mesh or height field, which ours has not.

    Both are tables of rows by name. Rows of other pairs stay, and most of those with triangles have to be in both.
    """
    triangles = np.isin(model.shape_type.numpy(), [int(newton.GeoType.MESH), int(newton.GeoType.HFIELD)])
    known = set(map(_key, *(ours[name] for name in _KEY)))
    kept = np.array(
        [
            not (triangles[a] or triangles[b]) or _key(a, b, *place) in known
            for a, b, *place in zip(*(theirs[name] for name in _KEY), strict=True)
        ],
        dtype=bool,
    )
    assert (~kept).sum() <= 0.4 * len(kept)
    return {name: values[kept] for name, values in theirs.items()}


_KEY = ("shape0", "shape1", "normal")


def _key(shape0, shape1, normal):
    return int(shape0), int(shape1), normal.astype(np.float32).round(5).tobytes()
