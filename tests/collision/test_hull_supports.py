"""Lists of low vertices by direction: contacts are those of a search of all vertices, to the last bit."""

import newton
import numpy as np
import pytest

from sap_warp.collision import SapCollisionPipeline
from sap_warp.collision.narrow.hulls import supports as hull_supports
from sap_warp.collision.narrow.hulls.ground import BAND
from sap_warp.scene.assets.hulls import convex_hull
from tests.support.contact_rows import turns

WORLDS = 150
NAMES = ("shape0", "shape1", "point0", "point1", "normal", "margin0", "margin1")


@pytest.fixture
def rng():
    return np.random.default_rng(31)


def rounded(rng, count=300):
    """A flat brick with rounded edges, and a can: vertices of hulls with and without large faces."""
    angle = 2.0 * np.pi * np.arange(40) / 40
    ring = 0.08 * np.column_stack([np.cos(angle), np.sin(angle)])
    can = np.vstack([np.c_[ring, np.full(40, z)] for z in (-0.05, 0.05)])
    corners = rng.normal(size=(count, 3))
    corners *= 0.02 / np.linalg.norm(corners, axis=1, keepdims=True)
    return [corners + np.sign(corners) * [0.1, 0.06, 0.03], can]


def meshes(rng):
    found = [convex_hull(points) for points in rounded(rng)]
    return [newton.Mesh(v.astype(np.float32), f.ravel(), compute_inertia=False) for v, f in found]


def cell_of(up):
    """The cell of a direction, as `hull_supports.cell_of`."""
    axis = int(np.argmax(np.abs(up)))
    slopes = up[[(axis + 1) % 3, (axis + 2) % 3]] / abs(up[axis])
    side = int(hull_supports.SIDE)
    u, v = np.minimum((slopes + 1.0) * (0.5 * side), side - 1).astype(int)
    return ((2 * axis + (up[axis] < 0.0)) * side + u) * side + v


def test_lists_have_all_vertices_of_the_band(rng):
    """Directions all over the sphere, also along edges and corners of the cells, in fp32 as in a kernel."""
    for points in rounded(rng):
        lists = hull_supports.lowest_by_cell(points)
        band = float(BAND) * 0.5 * np.linalg.norm(np.ptp(points, axis=0))
        directions = [rng.normal(size=(500, 3)), rng.integers(-4, 5, size=(500, 3)) / 4.0]
        for up in np.vstack(directions).astype(np.float32):
            if not up.any():
                continue
            heights = points @ (up / np.linalg.norm(up))
            needed = np.flatnonzero(heights <= heights.min() + band)
            assert set(needed) <= set(lists[cell_of(up)])
        assert np.mean([len(cell) for cell in lists]) < 0.4 * len(points)


@pytest.mark.parametrize("below", ["ground", "box"])
def test_contacts_do_not_depend_on_the_lists(rng, below, monkeypatch):
    """Hulls of 300 and 80 vertices lie, stand and lean on the ground or on a box, scaled unevenly."""
    world = newton.ModelBuilder()
    for mesh in meshes(rng):
        world.add_shape_convex_hull(world.add_body(), mesh=mesh, scale=(1.0, 0.8, 1.3))
    if below == "box":
        world.add_shape_box(-1, hx=0.5, hy=0.5, hz=0.1, xform=((0.0, 0.0, -0.1), (0.0, 0.0, 0.0, 1.0)))
    builder = newton.ModelBuilder()
    builder.replicate(world, WORLDS)
    if below == "ground":
        builder.add_ground_plane()
    model = builder.finalize("cpu")
    model.shape_gap.fill_(0.002)
    poses = np.zeros((2 * WORLDS, 7))
    poses[:, 2] = rng.uniform(0.03, 0.12, 2 * WORLDS)
    poses[:, 3:] = turns(rng, 2 * WORLDS)
    poses[: WORLDS // 2, 3:] = 0.05 * poses[: WORLDS // 2, 3:] + [0.0, 0.0, 0.0, 1.0]
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    found = []
    for large in (hull_supports.SMALL_HULL, 1000):
        monkeypatch.setattr(hull_supports, "SMALL_HULL", large)
        pipeline, state = SapCollisionPipeline(model, rigid_contact_max=16 * WORLDS), model.state()
        contacts = pipeline.contacts()
        state.body_q.assign(poses.astype(np.float32))
        pipeline.collide(state, contacts)
        count = pipeline.last_contact_count
        found.append([getattr(contacts, f"rigid_contact_{name}").numpy()[:count] for name in NAMES])
    assert len(found[0][0]) > 2 * WORLDS
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
