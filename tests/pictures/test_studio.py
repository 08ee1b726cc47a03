"""What pictures, depths and segmentations show, against geometry by hand."""

import newton
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.look.pictures import Camera
from sap_warp.look.pictures.shade import srgb_to_linear, to_bytes
from tests.support.balls import make_balls

LEVEL = Camera(eye=(0.0, -4.0, 1.0), target=(0.0, 0.0, 1.0), fov=40.0)


def rays(width, height, fov):
    """Directions of the pixels of a camera that looks along y, in world frame, with 1 along y."""
    half = np.tan(np.radians(fov / 2.0))
    x = ((np.arange(width) + 0.5) / width * 2.0 - 1.0) * half * width / height
    z = (1.0 - (np.arange(height) + 0.5) / height * 2.0) * half
    return np.stack(np.broadcast_arrays(x[None, :], 1.0, z[:, None]), axis=-1)


def ball_depth(direction, center, radius):
    """Depth along y of where rays from the camera meet a ball, infinite if they miss it."""
    to_center = np.array(center) - (0.0, -4.0, 1.0)
    a, b = (direction**2).sum(-1), direction @ to_center
    root = b**2 - a * (to_center @ to_center - radius**2)
    return np.where(root >= 0.0, (b - np.sqrt(np.maximum(root, 0.0))) / a, np.inf)


def test_depth_and_segmentation_are_those_of_geometry(sim):
    """A ball above a plane, pixel by pixel."""
    depth = sim.render(LEVEL, width=96, height=64, kind="depth")
    body = sim.render(LEVEL, width=96, height=64, kind="segmentation")
    direction = rays(96, 64, 40.0)
    ball = ball_depth(direction, (0.0, 0.0, 1.0), 0.3)
    ground = np.where(direction[..., 2] < 0.0, 1.0 / np.maximum(-direction[..., 2], 1e-9), np.inf)
    expected = np.minimum(ball, ground)
    expected[np.linalg.norm(direction, axis=-1) * expected > 1000.0] = np.inf  # the ray tracer sees no farther
    inner, outer = (ball_depth(direction, (0.0, 0.0, 1.0), radius) for radius in (0.298, 0.302))
    sure = np.isfinite(inner) | ~np.isfinite(outer)
    np.testing.assert_allclose(depth[sure], expected[sure], rtol=2e-4)
    np.testing.assert_array_equal(body[sure], np.where(ball < ground, 0, np.where(np.isfinite(expected), -1, -2))[sure])


def test_pictures_follow_the_simulation_and_worlds_are_their_own(sim):
    """The tree of the shapes is brought up to date, and a world shows its own bodies only."""
    sim.step(20)
    sim.reset(world_mask=[True, False])
    height = sim.body_q.numpy()[:, 0, 2]
    assert height[0] == pytest.approx(1.0) and height[1] < 0.85
    both = sim.render(LEVEL, width=64, height=64, worlds=[0, 1], kind="segmentation")
    rows = [np.mean(np.nonzero(picture == 0)[0]) for picture in both]
    scale = 64 / (2.0 * np.tan(np.radians(20.0)) * 4.0)
    assert rows[0] == pytest.approx(31.5, abs=0.6)
    assert rows[1] == pytest.approx(31.5 + (1.0 - height[1]) * scale, abs=0.6)
    np.testing.assert_array_equal(both[0], sim.render(LEVEL, width=64, height=64, worlds=0, kind="segmentation"))


def test_colors_light_and_shadow(sim):
    """The ball is red, lighter where the light comes from, and casts a shadow on a floor that is lighter than it."""
    picture = sim.render(Camera(eye=(0.0, -4.0, 2.5), target=(0.0, 0.0, 0.8)), width=160, height=120)
    body = sim.render(Camera(eye=(0.0, -4.0, 2.5), target=(0.0, 0.0, 0.8)), width=160, height=120, kind="segmentation")
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
    ball = picture[body == 0].astype(float)
    assert (ball[:, 0] > 2.0 * ball[:, 1]).mean() > 0.9
    rows, _ = np.nonzero(body == 0)
    upper = rows < np.median(rows)
    assert ball[upper, 0].mean() > ball[~upper, 0].mean() + 20.0
    floor = picture.astype(float).mean(axis=-1)
    floor[body != -1] = np.nan
    assert np.nanmin(floor) < 0.75 * np.nanmedian(floor)


def test_edges_are_smooth_and_the_rest_is_not_touched(sim):
    """More rays change pixels at edges only, towards the mean of both sides."""
    rough, smooth = (sim.render(LEVEL, width=96, height=64, samples=n).astype(int) for n in (1, 4))
    body = sim.render(LEVEL, width=96, height=64, kind="segmentation")
    inside = np.zeros_like(body, bool)
    inside[2:-2, 2:-2] = np.all(
        [body[2 + dy : 62 + dy, 2 + dx : 94 + dx] == 0 for dy in (-2, 0, 2) for dx in (-2, 0, 2)], axis=0
    )
    np.testing.assert_allclose(rough[inside], smooth[inside], atol=6)  # the highlight has a soft edge
    changed = np.abs(rough - smooth).max(axis=-1) > 8
    assert 20 < changed.sum() < 0.1 * changed.size


def test_precision_threads_and_followed_bodies(sim):
    """fp64 and several threads give the same pictures; a camera that follows keeps the body where it is."""
    with make_balls(precision="fp64", threads=2) as other:
        expected = sim.render(LEVEL, width=48, height=32, worlds=1)
        np.testing.assert_array_equal(other.render(LEVEL, width=48, height=32, worlds=1), expected)
    follow = Camera(eye=(0.0, -3.0, 0.0), target=(0.0, 0.0, 0.0), follow="ball")
    before = sim.render(follow, width=48, height=48, kind="segmentation")
    sim.step(20)
    after = sim.render(follow, width=48, height=48, kind="segmentation")
    np.testing.assert_array_equal(before == 0, after == 0)
    with pytest.raises(ValueError, match="follows 'torso'; there is no such body, but: ball"):
        sim.render("follow=torso")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"width": 0}, "width is 0"),
        ({"height": 2.5}, "height is 2.5"),
        ({"width": 20000, "height": 20000}, "too large"),
        ({"kind": "rgb"}, "kind is 'rgb'"),
        ({"samples": 0}, "samples is 0"),
        ({"worlds": 2}, "there are worlds 0 to 1"),
        ({"worlds": []}, "there are worlds 0 to 1"),
    ],
)
def test_impossible_pictures_are_refused(sim, options, words):
    """With the reason."""
    with pytest.raises(ValueError, match=words):
        sim.render(**options)


def test_tones():
    """Linear values and bytes are each other's inverse below the bright end, and never fall."""
    byte = np.arange(0, 200)
    np.testing.assert_allclose(to_bytes(srgb_to_linear(byte / 255.0)).astype(int), byte, atol=2)
    assert (np.diff(to_bytes(np.linspace(0.0, 5.0, 200)).astype(int)) >= 0).all()
    assert to_bytes(np.array([-1.0, 1e9])).tolist()[0] == 0


URDF = """<robot name="r"><link name="base"><inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0"
ixz="0" iyz="0"/></inertial>
<visual><geometry><box size="0.2 0.2 0.9"/></geometry>
<material name="m"><color rgba="0.1 0.7 0.2 1"/></material></visual>
<collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision>
<collision><geometry><sphere radius="0.05"/></geometry></collision></link></robot>"""


def test_shapes_for_the_eye_are_loaded_for_pictures_only():
    """A scene that leaves them out shows them all the same, and its own shapes keep their names for post_build."""
    scene = {
        "schema_version": 1,
        "simulation": {"dt": 0.01},
        "replicate": {"spacing": [3.0, 0.0, 0.0]},
        "assets": [
            {
                "id": "a",
                "type": "urdf",
                "source": {"xml": URDF},
                "floating": True,
                "load_visual_shapes": False,
                "xform": {"p": [0.0, 0.0, 1.0]},
            }
        ],
    }
    sim = Simulation.from_scene(scene, num_worlds=2, notes=False)
    try:
        assert sim.model.shape_count == 2 * 2 + 1
        x = float(sim.body_q.numpy()[1, 0, 0])
        camera = Camera(eye=(x, -4.0, 1.0), target=(x, 0.0, 1.0))
        picture = sim.render(camera, width=64, height=64, worlds=1, kind="segmentation")
        rows = np.nonzero(picture == 0)[0]
        assert len(np.unique(rows)) == pytest.approx(0.9 * 64 / (2.0 * np.tan(np.radians(20.0)) * 3.9), abs=1.5)
        color = sim.render(camera, width=64, height=64, worlds=1)[picture == 0].mean(axis=0)
        assert color[1] > 1.5 * color[0]
        display = sim.studio.display
        collides = (display.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
        names = [label for label, physical in zip(display.shape_label, collides, strict=True) if physical]
        assert names == [*sim.model.shape_label[:2], sim.model.shape_label[-1]]  # scenes refer to them
    finally:
        sim.close()
