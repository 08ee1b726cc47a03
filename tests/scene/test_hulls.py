"""Colliding meshes as their convex hulls, as MuJoCo and most URDF tools take them."""

from __future__ import annotations

import mujoco
import newton
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from sap_warp.scene import SapSceneError, load_sap_scene
from sap_warp.scene.assets.hulls import TOLERANCE, VERTICES, convex_hull

STAR = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1], [0.1, 0.1, 0.1]]) * 0.2
FACES = "0 2 6 2 4 6 4 0 6 2 1 4 1 3 4 3 0 4 2 0 5 1 2 5 3 1 5 0 3 5"
"""An octahedron with one face pushed in."""
TEXT = f"""<mujoco><asset><mesh name="m" vertex="{" ".join(map(str, STAR.ravel()))}" face="{FACES}"
{{mesh}} inertia="exact"/></asset><worldbody><body><freejoint/><geom type="mesh" mesh="m"/></body></worldbody>
</mujoco>"""


PLAIN = TEXT.format(mesh="")


def load(text=PLAIN, **options):
    scene = {"assets": [{"type": "mjcf", "source": text, **options}], "ground": False}
    return load_sap_scene(scene, device="cpu")


def shape(loaded):
    model = loaded.sap_model.newton_model
    return newton.GeoType(int(model.shape_type.numpy()[0])), model.shape_source[0]


def outside(points, hull):
    """How far the furthest of ``points`` lies outside of a hull."""
    planes = ConvexHull(hull).equations
    return (points @ planes[:, :3].T + planes[:, 3]).max()


def test_mesh_geom_is_its_hull_and_keeps_its_own_mass():
    kind, mesh = shape(load())
    assert kind == newton.GeoType.CONVEX_MESH and len(mesh.vertices) == 6
    hulled, raw = load().sap_model, load(meshes="raw").sap_model
    for name in ("body_mass", "body_com", "body_inertia"):
        np.testing.assert_array_equal(getattr(hulled, name).numpy(), getattr(raw, name).numpy())
    reference = mujoco.MjModel.from_xml_string(TEXT.format(mesh=""))
    np.testing.assert_allclose(hulled.body_mass.numpy()[0], reference.body_mass[1], rtol=1e-5)


def test_raw_meshes_on_request():
    kind, mesh = shape(load(meshes="raw"))
    assert kind == newton.GeoType.MESH and len(mesh.vertices) == 7


def test_urdf_meshes_are_hulls_too(tmp_path):
    lines = "\n".join(f"v {x} {y} {z}" for x, y, z in STAR)
    faces = np.array(FACES.split(), int).reshape(-1, 3) + 1
    (tmp_path / "m.obj").write_text(lines + "\n" + "\n".join("f " + " ".join(map(str, f)) for f in faces))
    link = '<link name="l"><collision><geometry><mesh filename="m.obj"/></geometry></collision></link>'
    (tmp_path / "r.urdf").write_text(f'<robot name="r">{link}</robot>')
    for meshes, expected in (("hull", newton.GeoType.CONVEX_MESH), ("raw", newton.GeoType.MESH)):
        asset = {"type": "urdf", "source": str(tmp_path / "r.urdf"), "meshes": meshes, "floating": True}
        assert shape(load_sap_scene({"assets": [asset], "ground": False}, device="cpu"))[0] == expected


def test_maxhullvert_of_the_file_is_kept(rng):
    points = rng.normal(size=(60, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    text = f"""<mujoco><asset><mesh name="m" maxhullvert="20" vertex="{" ".join(map(str, points.ravel()))}"/></asset>
    <worldbody><body><freejoint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    assert len(shape(load(text))[1].vertices) <= 20


@pytest.mark.parametrize("count", [40, 3000])
def test_hull_holds_all_points(count, rng):
    """Exactly if it is small, else within the tolerance; triangles look outwards."""
    points = rng.normal(size=(count, 3))
    points *= 0.1 / np.linalg.norm(points, axis=1)[:, None]
    vertices, faces = convex_hull(points)
    lacking = outside(points, vertices)
    assert lacking <= (1e-12 if count <= VERTICES else TOLERANCE * np.ptp(points, axis=0).max())
    assert len(vertices) == count if count <= VERTICES else len(vertices) < 0.6 * count
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.sum(normals * corners.mean(axis=1), axis=1) > 0).all()
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()


@pytest.mark.parametrize("error", [0.0, 0.01, 0.05])
def test_error_of_a_hull_can_be_chosen(error, rng):
    """Whatever the number of vertices, nothing stands out further than asked for, and larger errors need fewer."""
    points = rng.normal(size=(200, 3)) * [1.0, 0.5, 0.05]
    points /= np.linalg.norm(points / [1.0, 0.5, 0.05], axis=1)[:, None]
    text = f"""<mujoco><asset><mesh name="m" vertex="{" ".join(map(str, points.ravel()))}"/></asset>
    <worldbody><body><freejoint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    exact = np.asarray(shape(load(text))[1].vertices)
    vertices = np.asarray(shape(load(text, hull_error=error))[1].vertices)
    lacking = outside(exact, vertices) / np.ptp(exact, axis=0).max()
    assert len(exact) == 200 and lacking <= error + 1e-6
    assert len(vertices) == 200 if error == 0.0 else len(vertices) < 100 - 1000 * error
    assert error < 0.05 or lacking > TOLERANCE, "a coarse hull begins with few vertices"


@pytest.mark.parametrize(
    "options, message",
    [({"hull_error": -0.1}, "not negative"), ({"hull_error": 0.1, "meshes": "raw"}, "acts with meshes: hull only")],
)
def test_errors_of_hulls_that_mean_nothing_are_refused(options, message):
    with pytest.raises(SapSceneError, match=message):
        load(**options)


def test_flat_mesh_stays_as_it_is_and_is_named(tmp_path):
    assert convex_hull(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])) is None
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 4 3")
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    link = f'<link name="l"><inertial><mass value="1"/>{inertia}</inertial>'
    shapes = '<collision name="sheet"><geometry><mesh filename="m.obj"/></geometry></collision></link>'
    (tmp_path / "r.urdf").write_text(f'<robot name="r">{link}{shapes}</robot>')
    asset = {"type": "urdf", "source": str(tmp_path / "r.urdf"), "floating": True}
    loaded = load_sap_scene({"assets": [asset], "ground": False}, device="cpu")
    assert shape(loaded)[0] == newton.GeoType.MESH
    assert any("flat meshes have no convex hull" in feature for feature in loaded.unsupported_features)
