"""Cameras show what they should, and say what is wrong with settings."""

import numpy as np
import pytest

from sap_warp.look.pictures import Camera, as_camera
from sap_warp.look.pictures.cameras import DIRECTIONS, MARGIN, place_camera


def project(points, eye, axes):
    """Slopes to the right and up of points as a camera sees them, and their distance in front of it."""
    seen = (points - eye) @ axes
    return seen[:, :2] / -seen[:, 2:], -seen[:, 2]


@pytest.mark.parametrize("preset", DIRECTIONS)
@pytest.mark.parametrize("aspect", [0.5, 1.78])
def test_everything_is_in_the_picture_and_fills_it(preset, aspect, rng):
    """All points are inside, and some are at the margin of the narrower direction."""
    points = rng.uniform(-1.0, 1.0, (40, 3)) * rng.uniform(0.1, 5.0, 3) + rng.normal(size=3)
    camera = Camera(preset)
    eye, axes, _ = place_camera(camera, points, aspect)
    slopes, depth = project(points, eye, axes)
    half = np.tan(np.radians(camera.fov / 2.0))
    used = np.abs(slopes / (half * aspect, half)).max()
    assert (depth > 0.0).all()
    assert 1.0 / MARGIN - 0.1 < used < 1.0
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-12)
    assert axes[2, 1] > 0.0 or preset == "top"  # it stands upright


def test_presets_look_from_where_they_say():
    """Robots look along x: the front camera is there; the one above looks down with y up in the picture."""
    box = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    front, _, _ = place_camera(Camera("front"), box, 1.0)
    top, axes, _ = place_camera(Camera("top"), box, 1.0)
    assert front[0] > 2.0 and abs(front[1]) < 1e-9
    assert top[2] > 2.0 and np.allclose(top[:2], 0.0, atol=1e-9)
    np.testing.assert_allclose(axes[:, 1], [0.0, 1.0, 0.0], atol=1e-12)


def test_given_places_follow_and_azimuth():
    """An eye is used as it is, moves with what it follows, and is turned about its target."""
    camera = Camera(eye=(3.0, 0.0, 1.0), target=(0.0, 0.0, 1.0))
    eye, axes, distance = place_camera(camera, np.zeros((0, 3)), 1.0)
    np.testing.assert_allclose(eye, [3.0, 0.0, 1.0])
    np.testing.assert_allclose(axes[:, 2], [1.0, 0.0, 0.0])
    assert distance == pytest.approx(3.0)
    moved, _, _ = place_camera(camera, np.zeros((0, 3)), 1.0, anchor=np.array([10.0, 0.0, 0.0]))
    np.testing.assert_allclose(moved, [13.0, 0.0, 1.0])
    turned, _, _ = place_camera(camera.turned(90.0), np.zeros((0, 3)), 1.0)
    np.testing.assert_allclose(turned, [0.0, 3.0, 1.0], atol=1e-12)


def test_settings_as_text():
    """What the command line takes."""
    assert as_camera(None) == Camera()
    assert as_camera("side") == Camera("side")
    assert as_camera("side,follow=torso,fov=30") == Camera("side", follow="torso", fov=30.0)
    assert as_camera("eye=2/-2/1,target=0/0/0.5") == Camera(eye=(2.0, -2.0, 1.0), target=(0.0, 0.0, 0.5))
    assert as_camera({"preset": "top", "zoom": 2}) == Camera("top", zoom=2)
    box = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    _, axes, _ = place_camera(as_camera("front,elevation=30"), box, 1.0)
    np.testing.assert_allclose(axes[:, 2], [np.sqrt(0.75), 0.0, 0.5], atol=1e-12)


@pytest.mark.parametrize(
    "given, words",
    [
        ("sideways", "'sideways' is not known; there is: auto"),
        ("fov=wide", "camera fov is 'wide'"),
        ("fov=500", "between 1 and 170"),
        ("eye=1/2", "three finite numbers"),
        ({"eyes": (1, 2, 3)}, "camera setting 'eyes' is not known"),
        ({"eye": (1, 1, 1), "target": (1, 1, 1)}, "same point"),
        ({"eye": (1, 1, float("nan"))}, "three finite numbers"),
    ],
)
def test_wrong_settings_are_named(given, words):
    """Each with what would be right."""
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        as_camera(given)
    with pytest.raises(TypeError, match="camera is 3"):
        as_camera(3)
