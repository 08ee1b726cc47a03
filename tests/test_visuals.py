"""What is to be seen of a model: geometry, colours, bodies and poses, against Newton and against trimesh."""

import newton
import numpy as np
import pytest
import trimesh
import warp as wp

from sap_warp.look.visuals import GREY, find_colliders, find_visuals, make_geometry
from sap_warp.scene import load_sap_scene
from sap_warp.scene.shipped.scene_files import find_scene_file


class Loaded:
    """What `find_visuals` looks at in a simulation."""

    def __init__(self, scene):
        self.sap_model, self.read_visuals = scene.sap_model, scene.read_visuals


@pytest.fixture(scope="module")
def pick():
    return Loaded(load_sap_scene(find_scene_file("franka_pick_cube"), num_worlds=2))


def test_visual_meshes_replace_the_hulls_of_an_arm_whose_scene_leaves_them_out(pick):
    visuals, colliders = find_visuals(pick), find_colliders(pick)
    assert "convex_mesh" in {batch.kind for batch in colliders}
    assert "convex_mesh" not in {batch.kind for batch in visuals}
    bodies = set(np.concatenate([batch.body for batch in visuals]).tolist())
    assert bodies == {-1, *range(pick.sap_model.newton_model.body_count)}  # -1: the base of the arm is fixed
    white = sum(len(batch.geometry.faces) for batch in visuals if batch.color.min() > 0.9)
    assert white > 50_000  # a Panda is white


def test_shapes_of_the_scene_keep_their_colour(pick):
    (cube,) = [batch for batch in find_visuals(pick) if batch.kind == "box"]
    assert cube.color == pytest.approx(np.tile([0.8, 0.3, 0.2], (2, 1)), abs=1e-6)
    assert cube.world.tolist() == [0, 1] and cube.geometry.vertices.max() == pytest.approx(0.025)


def test_visual_meshes_lie_where_the_hulls_are(pick):
    """Each hull was made of the collision mesh of the same link, which is about as large as the visual one."""
    body_q = pick.sap_model.newton_model.body_q.numpy()

    def bounds(batches):
        found = {}
        for batch in batches:
            position, wxyz = batch.world_poses(body_q)
            for body, p, q in zip(batch.body, position, wxyz, strict=True):
                turned = trimesh.transformations.quaternion_matrix(q)[:3, :3]
                found.setdefault(int(body), []).append(batch.geometry.vertices @ turned.T + p)
        return {body: np.concatenate(parts) for body, parts in found.items()}

    seen, solid = bounds(find_visuals(pick)), bounds(find_colliders(pick))
    for body in range(8):  # the arm
        assert seen[body].min(axis=0) == pytest.approx(solid[body].min(axis=0), abs=0.03)
        assert seen[body].max(axis=0) == pytest.approx(solid[body].max(axis=0), abs=0.03)


def test_a_subset_of_worlds(pick):
    assert {int(w) for batch in find_visuals(pick, [1]) for w in batch.world} == {1}


def test_world_poses_are_newtons(rng):
    builder = newton.ModelBuilder()
    body = builder.add_body(mass=1.0)
    local = wp.transform(wp.vec3(*rng.normal(size=3)), wp.normalize(wp.quat(*rng.normal(size=4))))
    builder.add_shape_sphere(body, xform=local, radius=0.1)
    builder.add_shape_box(-1, xform=local, hx=0.1, hy=0.1, hz=0.1)
    moving, fixed = find_visuals(builder.finalize("cpu"))
    q = rng.normal(size=4)
    at = np.concatenate([rng.normal(size=3), q / np.linalg.norm(q)])
    expected = wp.transform(at[:3], at[3:]) * local
    position, wxyz = moving.world_poses(at[None])
    assert position[0] == pytest.approx(list(expected.p), abs=1e-5)
    assert wxyz[0] == pytest.approx([expected.q[3], *expected.q[:3]], abs=1e-5)
    position, _ = fixed.world_poses(at[None])
    assert position[0] == pytest.approx(list(local.p), abs=1e-6)


@pytest.mark.parametrize(
    "kind, scale, volume",
    [
        ("SPHERE", (0.5, 0, 0), np.pi / 6),
        ("ELLIPSOID", (0.5, 0.3, 0.2), 4 / 3 * np.pi * 0.03),
        ("CAPSULE", (0.1, 0.5, 0), np.pi * 0.01 * (1 + 0.4 / 3)),
        ("CYLINDER", (0.1, 0.5, 0), np.pi * 0.01),
        ("CONE", (0.1, 0.5, 0), np.pi * 0.01 / 3),
        ("BOX", (0.1, 0.2, 0.3), 0.048),
    ],
)
def test_primitives_enclose_their_volume(kind, scale, volume):
    geometry = make_geometry(newton.GeoType[kind], scale, segments=96)
    assert trimesh.Trimesh(geometry.vertices, geometry.faces).volume == pytest.approx(volume, rel=0.01)


def test_mirrored_meshes_are_not_inside_out():
    box = trimesh.creation.box()
    source = newton.Mesh(box.vertices, box.faces.ravel(), compute_inertia=False)
    geometry = make_geometry(newton.GeoType.MESH, (1.0, -2.0, 1.0), source)
    assert trimesh.Trimesh(geometry.vertices, geometry.faces).volume == pytest.approx(2.0)


def test_height_fields_have_their_heights_at_their_places():
    field = newton.Heightfield(np.arange(6.0).reshape(2, 3), nrow=2, ncol=3, hx=1.0, hy=2.0)
    geometry = make_geometry(newton.GeoType.HFIELD, (1.0, 1.0, 1.0), field)
    at = {tuple(v[:2].round(3)): v[2] for v in geometry.vertices}
    assert at[-1.0, -2.0] == pytest.approx(0.0) and at[1.0, -2.0] == pytest.approx(2.0)
    assert at[-1.0, 2.0] == pytest.approx(3.0) and at[1.0, 2.0] == pytest.approx(5.0)
    edges = geometry.vertices[geometry.faces]
    assert (np.cross(edges[:, 1] - edges[:, 0], edges[:, 2] - edges[:, 0])[:, 2] > 0).all()


def test_shapes_without_colour_get_one_by_articulation():
    scene = {
        "schema_version": 1,
        "simulation": {"dt": 0.01},
        "bodies": [
            {"id": name, "shapes": [{"type": "sphere", "radius": 0.1}], "transform": {"p": [x, 0, 1]}}
            for name, x in (("a", 0.0), ("b", 1.0))
        ],
        "joints": [{"id": f"{n}_free", "type": "free", "parent": "world", "child": n} for n in "ab"],
        "articulations": [{"id": f"{n}_tree", "joints": [f"{n}_free"]} for n in "ab"],
    }
    (spheres,) = find_visuals(Loaded(load_sap_scene(scene, num_worlds=2)))
    colours = spheres.color.round(3).tolist()
    assert colours[0] == colours[2] != colours[1] == colours[3]
    assert GREY not in map(tuple, colours)
