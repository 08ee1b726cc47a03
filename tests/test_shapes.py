"""The table of shape types agrees with Newton and with itself."""

import inspect

import newton
import numpy as np
import pytest

from sap_warp.conventions.systems import SHAPE_KINDS
from sap_warp.model import shapes
from sap_warp.model.shapes import SHAPE_TYPES, shape_type, shape_type_named, types_where

SIZE = np.array([0.3, 0.2, 0.15])
PRIMITIVES = [shape for shape in SHAPE_TYPES if shape.is_primitive]


def each(condition):
    """Primitives of which the condition holds."""
    chosen = [shape for shape in PRIMITIVES if condition(shape)]
    return pytest.mark.parametrize("shape", chosen, ids=lambda shape: shape.name)


by_name = each(lambda shape: True)


def directions(count=200):
    """Unit vectors."""
    found = np.random.default_rng(0).normal(size=(count, 3))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_every_type_of_newton_has_an_entry():
    """With Newton's name, and each once."""
    assert {shape.type: shape.name for shape in SHAPE_TYPES} == {
        int(kind): kind.name.lower() for kind in newton.GeoType
    }
    for kind in newton.GeoType:
        assert shape_type(kind) is shape_type_named(kind.name.lower())


def test_device_constants_are_those_of_newton():
    """The names below `GeoType` are constants of kernels."""
    for kind in newton.GeoType:
        if hasattr(shapes, kind.name):
            assert getattr(shapes, kind.name) == int(kind)


def test_the_groups():
    """What the package treats alike."""
    named = lambda types: {shape_type(kind).name for kind in types}  # noqa: E731
    assert named(shapes.PRIMITIVES) == {"sphere", "box", "capsule", "cylinder", "cone", "ellipsoid"}
    assert named(shapes.WITH_VERTICES) == {"mesh", "convex_mesh"}
    assert named(shapes.TRIANGULATED) == {"mesh", "hfield"}
    assert named(shapes.PLANES) == {"plane"}
    assert named(types_where(lambda shape: shape.surface is None)) == {"none", "gaussian"}


@by_name
def test_newton_has_the_parameters_of_primitives(shape):
    """Both its builder and its meshes; fields of scenes have the same number."""
    for function in (
        getattr(newton.ModelBuilder, f"add_shape_{shape.name}"),
        getattr(newton.Mesh, f"create_{shape.name}"),
    ):
        assert set(shape.parameters) <= set(inspect.signature(function).parameters)
    assert shape.parameters == SHAPE_KINDS[shape.name]
    assert len(shape.scene_fields or shape.parameters) == len(shape.parameters)


@by_name
def test_extents_support_and_triangles_agree(shape):
    """The box around a shape is that around its support points, and triangles lie in it."""
    low, high = shape.bounds(SIZE)
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    points = np.array([shape.farthest_point(SIZE, None, axis) for axis in axes])
    np.testing.assert_allclose(np.einsum("ij,ij->i", axes, points), np.concatenate([high, -low]), rtol=1e-12)
    for vertices in (shape.triangles(SIZE, 48)[0], np.asarray(shape.fine_mesh(SIZE).vertices)):
        assert (np.abs(vertices) <= high + 1e-6).all()
        np.testing.assert_allclose(vertices.max(axis=0), high, rtol=0.01)
        reach = np.array([shape.farthest_point(SIZE, None, d) @ d for d in directions()])
        assert ((vertices @ directions().T).max(axis=0) <= reach + 1e-6).all()


@by_name
def test_triangles_enclose_the_shape(shape):
    """They look outwards: the volume is positive, and less than that of the box."""
    vertices, faces = shape.triangles(SIZE, 24)
    a, b, c = (vertices[faces[:, i]].astype(float) for i in range(3))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0
    assert 0.2 < volume / np.prod(2.0 * shape.bounds(SIZE)[1]) < 1.0 + 1e-6


@each(lambda shape: shape.inner_balls is not None)
def test_balls_lie_inside(shape):
    """By support: no ball reaches beyond the shape."""
    centres, radius = shape.inner_balls(SIZE)
    for d in directions():
        assert (centres @ d).max() + radius <= shape.farthest_point(SIZE, None, d) @ d + 1e-9
    if shape.distance is not None:
        assert shape.distance(SIZE, centres).max() <= -radius + 1e-9


@each(lambda shape: shape.distance is not None)
def test_distance_is_zero_on_the_surface(shape):
    """At farthest points, and positive beyond."""
    points = np.array([shape.farthest_point(SIZE, None, d) for d in directions()])
    np.testing.assert_allclose(shape.distance(SIZE, points), 0.0, atol=1e-12)
    assert (shape.distance(SIZE, points + 0.01 * directions()) > 0.0).all()


def test_planes():
    """Infinite without width or length; the distance is the height over the rectangle."""
    plane = shape_type_named("plane")
    assert not plane.is_finite((0.0, 0.0, 0.0)) and not plane.is_finite((1.0, 0.0, 0.0))
    assert plane.is_finite((1.0, 2.0, 0.0)) and plane.bounds(SIZE) is None
    points = np.array([[0.4, 0.9, 0.3], [0.6, 0.0, 0.1]])
    np.testing.assert_array_equal(plane.distance(np.array([1.0, 2.0, 0.0]), points), [0.3, np.inf])


def test_meshes_have_the_bounds_of_their_vertices():
    """Scaled, also by negative factors; without a source there are none."""
    mesh, shape = newton.Mesh.create_box(0.1, 0.2, 0.3), shape_type_named("mesh")
    low, high = shape.bounds(np.array([1.0, -2.0, 1.0]), mesh)
    np.testing.assert_allclose([low, high], [[-0.1, -0.4, -0.3], [0.1, 0.4, 0.3]], rtol=1e-6)
    assert shape.bounds(np.ones(3), None) is None and shape.farthest_point(np.ones(3), None, np.ones(3)) is None
    np.testing.assert_allclose(shape.farthest_point(np.ones(3), mesh, np.array([1.0, 0.5, 0.2])), [0.1, 0.2, 0.3])
