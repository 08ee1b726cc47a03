"""Colliding meshes as convex parts (`meshes: parts`), found by CoACD and kept on disk."""

from __future__ import annotations

import sys

import newton
import numpy as np
import pytest

from sap_warp import Simulation
from sap_warp.scene import SapSceneError, load_sap_scene
from sap_warp.scene.assets.decomposition import DecompositionError, PartOptions, cache_folder, decompose

coacd = pytest.importorskip("coacd", reason="sap-warp[decompose] is not installed")

OUTLINE = np.array(
    [[-0.2, 0], [0.2, 0], [0.2, 0.2], [0.15, 0.2], [0.15, 0.05], [-0.15, 0.05], [-0.15, 0.2], [-0.2, 0.2]]
)
"""A trough in the plane x z [m]: 4 cm of room for a ball of 3 cm between walls of 5 cm."""
FRONT = [(0, 1, 4), (0, 4, 5), (1, 2, 3), (1, 3, 4), (0, 5, 6), (0, 6, 7)]
DEPTH = 0.1


def trough():
    """Vertices and triangles."""
    n = len(OUTLINE)
    vertices = np.array([(x, side * DEPTH, z) for side in (-1.0, 1.0) for x, z in OUTLINE])
    round_ = [t for i in range(n) for j in [(i + 1) % n] for t in ((i, i + n, j), (j, i + n, j + n))]
    return vertices, np.array([*FRONT, *((c + n, b + n, a + n) for a, b, c in FRONT), *round_])


VERTICES, FACES = trough()
VOLUME = 2.0 * DEPTH * (0.4 * 0.05 + 2 * 0.05 * 0.15)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Parts of all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("meshes")
        patch.setenv("SAP_WARP_MESH_CACHE", str(path))
        yield path


@pytest.fixture
def no_coacd(monkeypatch):
    """As if it were not installed."""
    monkeypatch.setitem(sys.modules, "coacd", None)


def mjcf(extra=""):
    numbers = " ".join(map(str, VERTICES.ravel())), " ".join(map(str, FACES.ravel()))
    return f"""<mujoco><asset><mesh name="u" vertex="{numbers[0]}" face="{numbers[1]}" inertia="exact"/></asset>
    <worldbody><body name="trough"><freejoint/><geom name="u" type="mesh" mesh="u" friction="0.3"/></body>
    <body name="ball" pos="0 0 0.09"><freejoint/><geom name="ball" type="sphere" size="0.03"/></body>
    <body name="other" pos="0 0 3"><freejoint/><geom name="o" type="mesh" mesh="u"/></body></worldbody>{extra}
    </mujoco>"""


def scene(text=None, **asset):
    asset = {"type": "mjcf", "source": text or mjcf(), **asset}
    return {"simulation": {"dt": 0.005}, "assets": [asset], "ground": True}


def load(*arguments, **asset):
    return load_sap_scene(scene(*arguments, **asset), device="cpu")


def volume(parts):
    from scipy.spatial import ConvexHull

    return sum(ConvexHull(vertices).volume for vertices, _ in parts)


def test_parts_fill_the_mesh_and_no_more(folder):
    """Their hulls have the volume of the trough, not that of its hull; a second time they come from the folder."""
    parts = decompose(VERTICES, FACES, PartOptions())
    assert len(parts) >= 3
    assert volume(parts) == pytest.approx(VOLUME, rel=0.03)
    assert all((vertices >= VERTICES.min(axis=0) - 1e-3).all() for vertices, _ in parts)
    assert [p.suffix for p in folder.iterdir()] == [".npz"]


def test_parts_from_the_folder_need_no_coacd(no_coacd):
    again = decompose(VERTICES, FACES, PartOptions())
    assert volume(again) == pytest.approx(VOLUME, rel=0.03)
    with pytest.raises(DecompositionError, match=r"pip install 'sap-warp\[decompose\]'"):
        decompose(VERTICES, FACES, PartOptions(threshold=0.5))
    with pytest.raises(DecompositionError):
        decompose(2.0 * VERTICES, FACES, PartOptions())


def test_a_missing_extra_is_an_error_with_its_place(no_coacd):
    text = mjcf().replace("0.15", "0.14")
    with pytest.raises(SapSceneError, match=r"assets\[0\]\.meshes.*(?s:.)*sap-warp\[decompose\]"):
        load(text, meshes="parts")


def test_a_broken_file_is_made_again(monkeypatch, tmp_path):
    """Convex pieces need no CoACD: they are parts as they are, each connected piece by itself."""
    import trimesh

    monkeypatch.setenv("SAP_WARP_MESH_CACHE", str(tmp_path))
    two = trimesh.util.concatenate(
        [trimesh.creation.box((1, 1, 1)), trimesh.creation.box((1, 1, 1)).apply_translation((3, 0, 0))]
    )
    first = decompose(two.vertices, two.faces, PartOptions())
    assert len(first) == 2 and volume(first) == pytest.approx(2.0)
    assert cache_folder() == tmp_path
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:50])
    with pytest.warns(UserWarning, match="cannot be read"):
        again = decompose(two.vertices, two.faces, PartOptions())
    assert len(again) == 2


def test_parts_take_everything_but_shape_and_mass_from_their_mesh():
    loaded = load(mjcf('<contact><exclude body1="trough" body2="other"/></contact>'), meshes="parts")
    raw = load(meshes="raw").sap_model
    model, labels = loaded.sap_model.newton_model, loaded.sap_model.newton_model.shape_label
    kinds, bodies = model.shape_type.numpy(), model.shape_body.numpy()
    trough = [i for i, body in enumerate(bodies) if body == 0]
    other = [i for i, body in enumerate(bodies) if body == 2]
    assert len(trough) == len(other) >= 3
    assert {newton.GeoType(int(kinds[i])) for i in (*trough, *other)} == {newton.GeoType.CONVEX_MESH}
    assert all(labels[i].endswith(f"_part_{k}") for k, i in enumerate(trough[1:], 1))
    np.testing.assert_allclose(model.shape_material_mu.numpy()[trough], 0.3)
    for name in ("shape_transform", "shape_gap", "shape_flags", "shape_collision_group"):
        values = getattr(model, name).numpy()
        np.testing.assert_array_equal(values[trough], np.repeat(values[trough[:1]], len(trough), axis=0))
    for name in ("body_mass", "body_com", "body_inertia"):
        np.testing.assert_array_equal(getattr(loaded.sap_model, name).numpy(), getattr(raw, name).numpy())
    pairs = {tuple(sorted(map(int, bodies[list(pair)]))) for pair in model.shape_contact_pairs.numpy()}
    assert (0, 1) in pairs and (1, 2) in pairs and (0, 2) not in pairs and (0, 0) not in pairs
    found = {tuple(sorted(map(int, pair))) for pair in model.shape_contact_pairs.numpy()}
    ball = list(bodies).index(1)
    assert all(tuple(sorted((ball, part))) in found for part in (*trough, *other))


@pytest.mark.parametrize(("meshes", "height"), [("parts", 0.08), ("hull", 0.23)])
def test_a_ball_lies_inside_of_a_trough(meshes, height):
    """On its floor of 5 cm with the radius of 3 cm; the hull of the trough is a solid block of 20 cm."""
    text = mjcf() if meshes == "parts" else mjcf().replace('pos="0 0 0.09"', 'pos="0 0 0.24"')
    sim = Simulation.from_scene(scene(text, meshes=meshes), device="cpu")
    sim.step(80)
    assert sim.body_q.numpy()[0, 1, 2] == pytest.approx(height, abs=0.01)


def test_a_post_build_edit_takes_inline_meshes_apart():
    shape = {"type": "mesh", "vertices": VERTICES.tolist(), "indices": FACES.tolist()}
    joint = {"id": "j", "type": "free", "parent": "world", "child": "u"}
    inline = {"bodies": [{"id": "u", "shapes": [shape]}], "joints": [joint], "ground": False}
    inline["articulations"] = [{"id": "a", "joints": ["j"]}]
    edit = {"op": "approximate_meshes", "method": "convex_parts"}
    count = load_sap_scene({**inline, "post_build": [edit]}, device="cpu").sap_model.newton_model.shape_count
    assert count >= 3
    with pytest.raises(SapSceneError, match="meshes: parts in the asset"):
        load_sap_scene({**scene(), "post_build": [edit]}, device="cpu")
    with pytest.raises(SapSceneError, match="convex_parts only"):
        load_sap_scene({**inline, "post_build": [edit | {"method": "convex_hull", "decomposition": {}}]}, device="cpu")


def write_stage(path, approximation):
    """A trough whose stage says how it collides."""
    from pxr import Gf, Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.RigidBodyAPI.Apply(UsdGeom.Xform.Define(stage, "/u").GetPrim())
    mesh = UsdGeom.Mesh.Define(stage, "/u/mesh")
    mesh.CreatePointsAttr([Gf.Vec3f(*map(float, v)) for v in VERTICES])
    mesh.CreateFaceVertexCountsAttr([3] * len(FACES))
    mesh.CreateFaceVertexIndicesAttr(FACES.ravel().tolist())
    UsdPhysics.CollisionAPI.Apply(mesh.GetPrim())
    UsdPhysics.MeshCollisionAPI.Apply(mesh.GetPrim()).CreateApproximationAttr(approximation)
    stage.Save()
    return {"type": "usd", "source": str(path), "load_visual_shapes": False}


def parts_in(asset):
    loaded = load_sap_scene({"assets": [asset], "ground": False}, device="cpu")
    return loaded, loaded.sap_model.newton_model.shape_count


def test_usd_stages_get_parts_on_request_and_if_they_ask_themselves(tmp_path):
    hull = write_stage(tmp_path / "hull.usda", "convexHull")
    assert parts_in(hull)[1] == 1
    assert parts_in(hull | {"meshes": "parts"})[1] >= 3
    asking = write_stage(tmp_path / "parts.usda", "convexDecomposition")
    assert parts_in(asking)[1] >= 3
    assert parts_in(asking | {"meshes": "hull"})[1] == 1
    with pytest.raises(SapSceneError, match="give one of them"):
        parts_in(asking | {"meshes": "parts", "skip_mesh_approximation": True})


def test_a_stage_that_asks_for_parts_is_loaded_without_coacd(tmp_path, no_coacd, monkeypatch):
    monkeypatch.setenv("SAP_WARP_MESH_CACHE", str(tmp_path / "empty"))
    loaded, count = parts_in(write_stage(tmp_path / "parts.usda", "convexDecomposition"))
    assert count == 1
    assert any("sap-warp[decompose]" in text for text in loaded.unsupported_features)


def test_options_without_effect_are_refused():
    with pytest.raises(SapSceneError, match="acts with meshes: parts only"):
        load(decomposition={"threshold": 0.1})
    with pytest.raises(SapSceneError, match=r"0\.01 to 1"):
        load(meshes="parts", decomposition={"threshold": 2.0})
