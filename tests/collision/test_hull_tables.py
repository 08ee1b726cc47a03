"""Faces and edges of convex hulls, by what holds for every convex polyhedron."""

import numpy as np
import pytest

from sap_warp.collision.narrow.hulls.tables import MAX_FACES, topology


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def prism(sides):
    """A right prism with regular ends, whose faces with more than three corners have to be put together."""
    angle = 2.0 * np.pi * np.arange(sides) / sides
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.vstack([np.c_[ring, np.full(sides, z)] for z in (-0.5, 0.5)]).astype(np.float32).astype(float)


def check(points, part, corners):
    """All points are behind every face, its corners on it, and corners - edges + faces is 2."""
    behind = points @ part.normals.T - part.offsets
    assert behind.max() <= 1e-6
    np.testing.assert_allclose(np.linalg.norm(part.normals, axis=1), 1.0, atol=1e-9)
    for normal, offset, loop in zip(part.normals, part.offsets, part.loops, strict=True):
        np.testing.assert_allclose(loop @ normal, offset, atol=1e-6)
        sides = np.roll(loop, -1, axis=0) - loop
        turns = np.cross(sides, np.roll(sides, -1, axis=0)) @ normal
        assert (turns > 0.0).all(), "corners go around anticlockwise, seen from outside"
    sides = [(face, other) for face, others in enumerate(part.sides) for other in others]
    assert {(b, a) for a, b in sides} == set(sides), "each face of an edge knows the other one"
    assert corners - len(sides) // 2 + len(part.normals) == 2
    assert list(map(len, part.loops)) == list(map(len, part.sides))
    center, radius = part.ball[:3], part.ball[3]
    assert radius > 0.0
    assert (part.normals @ center + radius <= part.offsets).all(), "the ball lies behind all faces"


def test_heights_between_two_faces_are_bounded(rng):
    """No direction between the normals of two faces leads higher above the hull than `stretches` says."""
    points = rng.normal(size=(12, 3))
    part = topology(points)
    at = points.max() * rng.normal(size=(200, 3))
    heights = at @ part.normals.T - part.offsets
    for face, (others, stretches) in enumerate(zip(part.sides, part.stretches(), strict=True)):
        for other, stretch in zip(others, stretches, strict=True):
            share = rng.uniform(size=(len(at), 1))
            axis = share * part.normals[face] + (1.0 - share) * part.normals[other]
            height = (share[:, 0] * heights[:, face] + (1.0 - share[:, 0]) * heights[:, other]) / np.linalg.norm(
                axis, axis=1
            )
            highest = np.maximum(heights[:, face], heights[:, other])
            assert (height <= np.where(highest > 0.0, stretch * highest, highest) + 1e-12).all()


def test_random_points(rng):
    """Points on a sphere: all are corners, all faces are triangles."""
    points = rng.normal(size=(40, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    part = topology(points)
    assert len(part.normals) == 2 * 40 - 4
    check(points, part, 40)


@pytest.mark.parametrize("sides", [4, 5, 12])
def test_flat_faces_are_put_together(sides):
    """Rounded to fp32 as in a model, with a point inside that is no corner."""
    points = prism(sides)
    part = topology(np.vstack([points, [[0.1, 0.0, 0.0]]]))
    assert sorted(map(len, part.loops)) == sorted([4] * sides + [sides] * 2)
    check(points, part, 2 * sides)


def test_what_is_too_fine_or_flat_has_no_table(rng):
    """More faces than are kept, a face with too many corners, and points in a plane."""
    points = rng.normal(size=(int(MAX_FACES), 3))
    assert topology(points / np.linalg.norm(points, axis=1, keepdims=True)) is None
    assert topology(prism(80)) is None
    assert topology(np.c_[prism(8)[:, :2], np.zeros(16)]) is None
