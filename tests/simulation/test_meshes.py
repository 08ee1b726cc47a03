"""Triangle meshes and heightfields are as reproducible as boxes: over runs, threads, worlds and places in the batch."""

import re
from pathlib import Path

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SapCollisionPipeline, Simulation
from sap_warp.collision.pipeline import needs_sorting
from tests.support.simulations import new_builder

WORLDS, STEPS = 12, 120


def tetrahedron():
    corners = 0.15 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], np.float32)
    return newton.Mesh(corners, np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]))


def pile(worlds, ground):
    """Meshes, a hull and a box that fall onto each other and onto a plane or a heightfield."""
    one, scene = new_builder(), new_builder()
    shapes = {
        "plane": [one.add_shape_mesh, one.add_shape_mesh, one.add_shape_convex_hull, one.add_shape_box],
        "heightfield": [one.add_shape_mesh, one.add_shape_convex_hull, one.add_shape_sphere],
    }
    for i, add in enumerate(shapes[ground]):
        body = one.add_body(xform=wp.transform((0.02 * i, 0.03 * (i % 2), 0.25 + 0.3 * i), wp.quat_identity()))
        is_mesh = add in (one.add_shape_mesh, one.add_shape_convex_hull)
        add(body, **({"mesh": tetrahedron()} if is_mesh else {}))
    if ground == "plane":
        scene.add_ground_plane()
    else:
        x = np.linspace(-1.0, 1.0, 8)
        heights = (0.05 * np.sin(5.0 * x)[:, None] * np.cos(4.0 * x)).astype(np.float32)
        scene.add_shape_heightfield(heightfield=newton.Heightfield(heights, 8, 8, 1.0, 1.0))
    scene.replicate(one, worlds)
    return scene.finalize(device="cpu")


def final_poses(ground, starts, threads=1, poison=None, **options):
    """Coordinates after `STEPS` steps of worlds that begin a bit beside their places, by ``starts``."""
    model = pile(len(starts), ground)
    with Simulation(model, dt=0.005, threads=threads, max_rigid_contact=96, contact_tau_d=0.02, **options) as sim:
        q = sim.joint_q.numpy()
        q += starts
        if poison is not None:
            q[poison] = np.nan
        sim.update_bodies()
        sim.step(STEPS)
        assert sim.statistics.truncated_contacts == 0
        return sim.joint_q.numpy().copy()


def starts_of(rng, ground):
    offsets = np.zeros((WORLDS, 7 * (4 if ground == "plane" else 3)))
    offsets[:, np.arange(offsets.shape[1]) % 7 < 3] = rng.uniform(-0.03, 0.03, (WORLDS, offsets.shape[1] // 7 * 3))
    return offsets


@pytest.mark.parametrize("ground", ["plane", "heightfield"])
def test_a_world_depends_on_nothing_but_itself(rng, ground):
    """The same bits alone and among others, in any order, in any thread, and beside a world that is not a number."""
    starts = starts_of(rng, ground)
    usual = final_poses(ground, starts)
    assert np.isfinite(usual).all()
    assert len(np.unique(usual[:, 2])) == WORLDS
    np.testing.assert_array_equal(final_poses(ground, starts[5:6]), usual[5:6], "alone")
    order = rng.permutation(WORLDS)
    np.testing.assert_array_equal(final_poses(ground, starts[order], threads=3), usual[order], "in another order")
    others = np.arange(WORLDS) != 7
    with pytest.warns(RuntimeWarning):
        poisoned = final_poses(ground, starts, threads=2, poison=7)
    np.testing.assert_array_equal(poisoned[others], usual[others], "beside a bad world")


@pytest.mark.parametrize("ground", ["plane", "heightfield"])
def test_threads_do_not_share_code_that_uses_tiles(ground):
    """Warp keeps the memory of tiles on the CPU behind one pointer in the code: each thread needs its own copy."""
    with Simulation(pile(2, ground), dt=0.005, threads=2, max_rigid_contact=96) as sim:
        sim.prepare()
        runs = [shard.run for shard in sim.shards]
        graphs = [[run._last, *(graph for group in run._graphs for _, graph in group.further)] for run in runs]
        codes = [{code for graph in captured for code in graph.module_execs} for captured in graphs]
    uses_tiles = [{c for c in found if tile_calls(c)} for found in codes]
    assert all(uses_tiles), "nothing to look at: Newton has changed"
    assert not uses_tiles[0] & uses_tiles[1]
    assert codes[0] & codes[1], "code without tiles is shared"


def tile_calls(code):
    """Functions on tiles that a loaded Warp module calls, by its source in the kernel cache."""
    (source,) = Path(code.binary_path).parent.glob("*.cpp")
    return set(re.findall(r"\b(?:tile_alloc|tile_stack|tile_mesh_query)\w*\(", source.read_text(encoding="utf-8")))


def test_cuda_sorts_contacts_where_meshes_may_meet():
    """By default, and not where there are none, where nothing meets them, or where Newton cannot number them."""
    model = pile(1, "plane")
    mesh, hull, box = 1, 3, 4  # after the plane; by the order of `pile`
    assert needs_sorting(model, None, {})
    assert needs_sorting(model, np.array([[0, box], [mesh, box]]), {})
    assert not needs_sorting(model, np.array([[0, box], [hull, box]]), {})
    assert not needs_sorting(model, None, {"max_triangle_pairs": 1 << 20})
    assert not SapCollisionPipeline(model).deterministic, "on the CPU the order is reproducible without"
