"""What bodies, shapes, joints and assets of a scene become in the model."""
# ruff: noqa: E501 - tables

import copy
import json
import math

import newton
import numpy as np
import pytest

import sap_warp
from tests.support.scene_files import (
    ALL_JOINT_FIELDS,
    BOX,
    SINGLE_BOX,
    boxes,
    chain,
    free,
    load,
    package,
    problem_of,
    with_joint,
    with_shape,
)

FLAGS = newton.ShapeFlags
HALF = math.sqrt(0.5)


def shape_values(loaded, shape=0):
    model = loaded.sap_model
    names = ("ke", "kd", "kf", "ka", "mu", "restitution", "mu_torsional", "mu_rolling", "kh", "tau")
    values = {name: float(getattr(model, f"shape_material_{name}").numpy()[shape]) for name in names}
    values |= {"margin": float(model.shape_margin.numpy()[shape]), "gap": float(model.shape_gap.numpy()[shape])}
    values |= {"collision_group": int(model.shape_collision_group.numpy()[shape])}
    flags = int(model.shape_flags.numpy()[shape])
    values |= {"has_shape_collision": bool(flags & FLAGS.COLLIDE_SHAPES), "is_visible": bool(flags & FLAGS.VISIBLE)}
    values |= {"has_particle_collision": bool(flags & FLAGS.COLLIDE_PARTICLES), "is_site": bool(flags & FLAGS.SITE)}
    return values


def dof_values(loaded, dof=0):
    model = loaded.sap_model
    names = ("target_ke", "target_kd", "limit_lower", "limit_upper", "limit_ke", "limit_kd", "armature")
    names += ("effort_limit", "velocity_limit", "friction", "damping")
    values = {name: float(getattr(model, f"joint_{name}").numpy()[dof]) for name in names}
    values |= {"actuator_mode": int(model.joint_target_mode.numpy()[dof])}
    values |= {"target_pos": float(model.joint_target_q.numpy()[dof])}
    values |= {"target_vel": float(model.joint_target_qd.numpy()[dof])}
    return values | {"axis": model.joint_axis.numpy()[dof].tolist()}


# The example of the documentation


def test_the_minimal_scene_has_all_it_says(tmp_path):
    file = tmp_path / "single_box.yaml"
    file.write_text(SINGLE_BOX)
    loaded = load(file)
    model = loaded.sap_model
    assert (loaded.name, loaded.path, loaded.dt, loaded.num_worlds) == ("single_box", file, 0.003, 1)
    assert (loaded.max_rigid_contact, loaded.rigid_contact_max) == (64, 64)
    assert loaded.solver_options == {
        "max_rigid_contact": 64,
        "contact_preset_variant": "approx32",
        "line_search_variant": "monotone_decay",
    }
    assert loaded.body_labels == ["box"] and loaded.joint_labels == ["box_free"]
    assert loaded.shape_labels[-1] == "DEFAULT_GROUND" and len(loaded.shape_labels) == 2
    assert model.articulation_label == ["box_articulation"]
    assert model.body_mass.numpy()[0] == pytest.approx(1001.0)
    assert model.joint_q.numpy().tolist() == [0, 0, 1, 0, 0, 0, 1]
    expected = {"ke": 1e6, "tau": 0.01, "mu": 0.5, "gap": 0.002}
    for shape in (0, 1):
        assert {name: shape_values(loaded, shape)[name] for name in expected} == pytest.approx(expected)
    assert loaded.unsupported_features == []
    assert isinstance(loaded.sap_model, sap_warp.SapModel) and isinstance(loaded.sap_state, sap_warp.SapState)
    assert loaded.collision_state.body_q.ptr == loaded.sap_state.body_q.ptr


def test_a_scene_needs_no_name_and_no_settings():
    loaded = load(boxes())
    assert (loaded.name, loaded.description, loaded.dt, loaded.num_worlds) == ("scene", "", 0.003, 1)
    assert loaded.max_rigid_contact >= 8 and loaded.rigid_contact_max == loaded.max_rigid_contact
    assert shape_values(loaded)["ke"] == 1e6 and shape_values(loaded)["tau"] < 0.0


def test_settings_of_a_run_and_sections_without_content():
    scene = boxes(name="n", description="d", simulation={"dt": 0.01, "duration": 2.5}, assets=None, post_build=None)
    loaded = load(scene | {"replicate": None, "articulations": None, "ground": None, "builder": None})
    assert (loaded.name, loaded.description, loaded.dt, loaded.duration, loaded.frames) == ("n", "d", 0.01, 2.5, None)
    assert load(boxes(simulation={"frames": 30})).frames == 30
    assert len(loaded.shape_labels) == 2  # a ground without content is the default one


# Shape fields

ALL_SHAPE_FIELDS = {
    "ke": 2e5,
    "kd": 3.0,
    "kf": 4.0,
    "ka": 0.001,
    "mu": 0.7,
    "restitution": 0.25,
    "mu_torsional": 0.125,
    "mu_rolling": 0.0625,
    "kh": 5e6,
    "tau": 0.03125,
    "margin": 0.015625,
    "gap": 0.0078125,
    "collision_group": -3,
    "is_visible": False,
    "has_particle_collision": False,
}


@pytest.mark.parametrize("where", ["defaults", "body", "body.shape", "body.physics", "body.cfg"])
@pytest.mark.parametrize("block", ["shape", "shape.cfg", "none"])
def test_all_shape_fields_reach_the_model_from_every_place(where, block):
    scene = with_shape(copy.deepcopy(BOX))
    fields = dict(ALL_SHAPE_FIELDS)
    own = {"mu": 0.9, "gap": 0.001} if block != "none" else {}
    if block == "shape":
        scene["bodies"][0]["shapes"][0].update(own)
    elif block == "shape.cfg":
        scene["bodies"][0]["shapes"][0]["cfg"] = own
    if where == "defaults":
        scene["builder"] = {"defaults": {"shape": fields}}
    elif where == "body":
        scene["bodies"][0].update(fields)
    else:
        scene["bodies"][0][where.split(".")[1]] = fields
    values = shape_values(load(scene))
    assert {name: values[name] for name in fields} == pytest.approx({**fields, **own})


@pytest.mark.parametrize("where", ["shape", "cfg", "physics"])
def test_the_nearer_place_wins(where):
    scene = with_shape({**BOX, "mu": 0.4, "cfg": {"mu": 0.3}, "shape": {"mu": 0.2}, "physics": {"mu": 0.1}})
    scene["builder"] = {"defaults": {"shape": {"mu": 0.6, "ke": 7e5, "tau": 0.5}}}
    scene["bodies"][0] |= {"mu": 0.5, "ke": 8e5, where: {"mu": 0.45, "tau": 0.25}}
    shape = scene["bodies"][0]["shapes"][0]
    assert shape_values(load(scene))["mu"] == pytest.approx(0.4)
    for name, left in (("mu", 0.3), ("cfg", 0.2), ("shape", 0.1), ("physics", 0.5)):
        del shape[name]
        values = shape_values(load(scene))
        assert values["mu"] == pytest.approx(left)
        assert (values["ke"], values["tau"]) == (8e5, 0.25)
    del scene["bodies"][0]["mu"]
    assert shape_values(load(scene))["mu"] == pytest.approx(0.45)
    del scene["bodies"][0][where]
    values = shape_values(load(scene))
    assert (values["mu"], values["tau"]) == (pytest.approx(0.6), 0.5)


@pytest.mark.parametrize(
    "alias, name",
    [
        ("contact_margin", "margin"),
        ("shape_margin", "margin"),
        ("margin", "margin"),
        ("shape_gap", "gap"),
        ("gap", "gap"),
        ("mu", "mu"),
        ("shape_mu", "mu"),
        ("ke", "ke"),
        ("shape_ke", "ke"),
        ("tau", "tau"),
        ("shape_tau", "tau"),
        ("relaxation_time", "tau"),
    ],
)
def test_aliases_of_shape_fields(alias, name):
    assert shape_values(load(with_shape({**BOX, alias: 0.125})))[name] == 0.125
    assert shape_values(load(with_shape({**BOX, "cfg": {alias: 0.125}})))[name] == 0.125
    scene = with_shape(BOX, builder={"defaults": {"shape": {alias: 0.125}}})
    assert shape_values(load(scene))[name] == 0.125


def test_gap_comes_from_the_builder_unless_a_shape_has_its_own():
    scene = with_shape(BOX, builder={"rigid_gap": 0.25})
    scene["bodies"][0]["shapes"].append({**BOX, "gap": 0.5})
    assert load(scene).sap_model.shape_gap.numpy().tolist() == [0.25, 0.5, 0.25]
    assert load(with_shape(BOX)).sap_model.shape_gap.numpy().tolist() == pytest.approx([0.005, 0.005])


def test_flags_and_sites():
    off = shape_values(load(with_shape({**BOX, "has_shape_collision": False})))
    assert not off["has_shape_collision"] and off["is_visible"]
    on = shape_values(load(with_shape(BOX)))
    assert on["has_shape_collision"] and on["is_visible"] and on["has_particle_collision"] and not on["is_site"]
    scene = with_shape(BOX)
    scene["bodies"][0]["shapes"].append({"type": "sphere", "radius": 1, "density": 1e6, "is_site": True})
    loaded = load(scene)
    site = shape_values(loaded, 1)
    assert site["is_site"] and not site["has_shape_collision"]
    assert loaded.sap_model.body_mass.numpy()[0] == pytest.approx(1000 * 8 * 0.1 * 0.2 * 0.3)


def test_density_and_hollow_shapes_give_the_mass():
    solid = load(with_shape({**BOX, "density": 500})).sap_model.body_mass.numpy()[0]
    assert solid == pytest.approx(500 * 8 * 0.1 * 0.2 * 0.3, rel=1e-5)
    hollow = load(with_shape({**BOX, "density": 500, "is_solid": False, "margin": 0.05})).sap_model
    assert hollow.body_mass.numpy()[0] == pytest.approx(solid - 500 * 8 * 0.05 * 0.15 * 0.25, rel=1e-5)


def test_default_density_is_that_of_water():
    assert load(boxes()).sap_model.body_mass.numpy()[0] == pytest.approx(1000 * 8 * 0.1 * 0.2 * 0.3)


# Shapes


SPHERE_VOLUME = 4 / 3 * math.pi
TETRAHEDRON = {"vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]}
FACES = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]


@pytest.mark.parametrize(
    "shape, kind, size, volume",
    [
        ({"type": "box", "hx": 0.1, "hy": 0.2, "hz": 0.3}, "BOX", [0.1, 0.2, 0.3], 8 * 0.006),
        ({"type": "sphere", "radius": 0.5}, "SPHERE", [0.5, 0, 0], SPHERE_VOLUME / 8),
        ({"type": "capsule", "radius": 0.1, "half_height": 0.4}, "CAPSULE", [0.1, 0.4, 0], SPHERE_VOLUME * 1e-3 + math.pi * 8e-3),
        ({"type": "cylinder", "radius": 0.1, "half_height": 0.4}, "CYLINDER", [0.1, 0.4, 0], math.pi * 8e-3),
        ({"type": "cone", "radius": 0.1, "half_height": 0.4}, "CONE", [0.1, 0.4, 0], math.pi * 8e-3 / 3),
        ({"type": "ellipsoid", "a": 0.1, "b": 0.2, "c": 0.3}, "ELLIPSOID", [0.1, 0.2, 0.3], SPHERE_VOLUME * 6e-3),
        ({"type": "mesh", **TETRAHEDRON, "indices": FACES}, "MESH", [1, 1, 1], 1 / 6),
        ({"type": "mesh", **TETRAHEDRON, "indices": FACES, "scale": 2}, "MESH", [2, 2, 2], 8 / 6),
        ({"type": "mesh", **TETRAHEDRON, "indices": [FACES[i : i + 3] for i in range(0, 12, 3)], "scale": [1, 2, 3]}, "MESH", [1, 2, 3], 1),
        ({"type": "mesh", **TETRAHEDRON, "indices": FACES, "convex": True}, "CONVEX_MESH", [1, 1, 1], 1 / 6),
    ],
)  # fmt: skip
def test_every_shape_has_its_size_and_mass(shape, kind, size, volume):
    pose = {"p": [1, 2, 3], "q": {"axis_angle": {"axis": "z", "angle": "pi / 2"}}}
    loaded = load(with_shape({**shape, "label": "the shape", "xform": pose, "color": [0.25, 0.5, 0.75], "density": 10}))
    model = loaded.sap_model
    assert model.shape_type.numpy()[0] == newton.GeoType[kind]
    assert model.shape_scale.numpy()[0].tolist() == pytest.approx(size)
    assert model.shape_transform.numpy()[0].tolist() == pytest.approx([1, 2, 3, 0, 0, HALF, HALF], abs=1e-6)
    assert loaded.shape_labels[0] == "the shape"
    assert model.shape_color.numpy()[0].tolist() == pytest.approx([0.25, 0.5, 0.75], abs=0.01)
    assert model.body_mass.numpy()[0] == pytest.approx(10 * volume, rel=1e-4)


def test_a_mesh_from_a_file_is_the_mesh_itself(tmp_path):
    lines = [f"v {x} {y} {z}" for x, y, z in TETRAHEDRON["vertices"]]
    lines += ["f " + " ".join(str(1 + i) for i in FACES[j : j + 3]) for j in range(0, 12, 3)]
    (tmp_path / "mesh.obj").write_text("\n".join(lines))
    file = tmp_path / "scene.json"
    file.write_text(json.dumps(with_shape({"type": "mesh", "source": {"path": "mesh.obj"}, "scale": 0.5})))
    model = load(file).sap_model
    assert model.body_mass.numpy()[0] == pytest.approx(1000 / 6 / 8, rel=1e-4)
    assert model.body_com.numpy()[0].tolist() == pytest.approx([0.125] * 3, abs=1e-5)


# Transforms


@pytest.mark.parametrize(
    "pose, expected",
    [
        ("identity", [0, 0, 0, 0, 0, 0, 1]),
        ({}, [0, 0, 0, 0, 0, 0, 1]),
        ({"p": [1, 2, 3]}, [1, 2, 3, 0, 0, 0, 1]),
        ({"q": "identity"}, [0, 0, 0, 0, 0, 0, 1]),
        ({"p": ["pi", 0, 0], "q": [0, 0, 1, 0]}, [math.pi, 0, 0, 0, 0, 1, 0]),
        ({"q": [0.6, 0, 0, 0.8]}, [0, 0, 0, 0.6, 0, 0, 0.8]),
        ({"q": [0, 0.7071, 0, 0.7071]}, [0, 0, 0, 0, HALF, 0, HALF]),
        ({"q": {"axis_angle": {"axis": [0, 0, 2], "angle": "pi * 0.5"}}}, [0, 0, 0, 0, 0, HALF, HALF]),
        ({"q": {"axis_angle": {"axis": "-x", "angle": "pi/2"}}}, [0, 0, 0, -HALF, 0, 0, HALF]),
        ({"q": {"axis_angle": {"axis": 1, "angle": 0}}}, [0, 0, 0, 0, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize("key", ["transform", "xform"])
def test_transforms(pose, expected, key):
    scene = boxes()
    scene["bodies"][0][key] = pose
    model = load(scene).sap_model
    assert model.body_q.numpy()[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert model.joint_q.numpy().tolist() == pytest.approx(expected, abs=1e-6)


# Bodies


def test_mass_inertia_and_com_of_a_body():
    body = {
        "id": "a",
        "label": "runtime/a",
        "mass": 2,
        "com": [0.1, 0, 0],
        "inertia": [1, 2, 2.5],
        "lock_inertia": True,
    }
    loaded = load({"bodies": [{**body, "shapes": [BOX]}], "joints": [free("a")]})
    model = loaded.sap_model
    assert loaded.body_labels == ["runtime/a"]
    assert model.body_mass.numpy()[0] == 2.0
    assert model.body_com.numpy()[0].tolist() == pytest.approx([0.1, 0, 0])
    assert np.allclose(model.body_inertia.numpy()[0], np.diag([1, 2, 2.5]))
    rows = [[2, 0.5, 0], [0.5, 2, 0], [0, 0, 1]]
    model = load({"bodies": [{"id": "a", "mass": 1, "inertia": rows}], "joints": [free("a")]}).sap_model
    assert np.allclose(model.body_inertia.numpy()[0], rows)
    unlocked = load({"bodies": [{**body, "lock_inertia": False, "shapes": [BOX]}], "joints": [free("a")]}).sap_model
    assert unlocked.body_mass.numpy()[0] == pytest.approx(2 + 48)


def test_body_armature_adds_to_the_diagonal_of_the_inertia_only():
    plain = load(boxes("a", "b")).sap_model.body_inertia.numpy()
    scene = boxes("a", "b", builder={"default_body_armature": 0.25})
    scene["bodies"][1]["armature"] = 1.5
    model = load(scene).sap_model
    assert np.allclose(model.body_inertia.numpy() - plain, [0.25 * np.eye(3), 1.5 * np.eye(3)], atol=1e-5)
    assert np.allclose(np.linalg.inv(model.body_inertia.numpy()), model.body_inv_inertia.numpy(), atol=1e-6)
    assert np.all(model.joint_armature.numpy() == 0.0)
    scene["bodies"][1]["armature"] = 0
    assert np.allclose(load(scene).sap_model.body_inertia.numpy()[1], plain[1])


def test_an_inertia_that_newton_replaces_is_reported():
    scene = {"bodies": [{"id": "a", "mass": 1.0}], "joints": [free("a")]}
    loaded = load(scene)
    assert loaded.unsupported_features == [
        "scene: bodies[0]: 'a' has moments of inertia (0, 0, 0), which no body of its mass has; "
        "(1e-06, 1e-06, 1e-06) are used [kg m^2]"
    ]
    with pytest.raises(sap_warp.SapUnsupportedSceneFeature, match=r"bodies\[0\]: 'a' has moments"):
        load(scene, strict=True)


# Joints


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_all_joint_fields_reach_the_model(kind):
    assert dof_values(load(with_joint(kind, **ALL_JOINT_FIELDS))) == ALL_JOINT_FIELDS


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_all_joint_fields_are_defaults_too_and_a_joint_wins(kind):
    scene = with_joint(kind, target_ke=7, axis="x")
    scene["builder"] = {"defaults": {"joint": ALL_JOINT_FIELDS}}
    assert dof_values(load(scene)) == {**ALL_JOINT_FIELDS, "target_ke": 7, "axis": [1.0, 0.0, 0.0]}


def test_joint_defaults_reach_d6_and_ball_joints():
    builder = {"defaults": {"joint": {"armature": 0.125, "friction": 0.25, "damping": 0.5, "limit_upper": 2}}}
    for kind, fields in (("ball", {}), ("d6", {"angular_axes": [{"axis": "x"}, {"axis": "y"}, {"axis": "z"}]})):
        values = [dof_values(load({**with_joint(kind, **fields), "builder": builder}), dof) for dof in range(3)]
        assert all((v["armature"], v["friction"], v["damping"]) == (0.125, 0.25, 0.5) for v in values)
        if kind == "d6":
            assert all(v["limit_upper"] == 2.0 for v in values)


def test_unlimited_joints_have_newtons_large_number():
    loaded = load(with_joint("revolute", limit_lower=-math.inf, limit_upper=1e300, effort_limit=math.inf))
    values = dof_values(loaded)
    assert (values["limit_lower"], values["limit_upper"]) == (-newton.MAXVAL, newton.MAXVAL)
    assert values["effort_limit"] == newton.MAXVAL


@pytest.mark.parametrize("alias, name", [("target_q", "target_pos"), ("target_qd", "target_vel")])
def test_aliases_of_joint_fields(alias, name):
    assert dof_values(load(with_joint("revolute", **{alias: 0.5})))[name] == 0.5


@pytest.mark.parametrize(
    "axis, expected",
    [("x", [1, 0, 0]), ("Y", [0, 1, 0]), ("z", [0, 0, 1]), ("-x", [-1, 0, 0]), ("+y", [0, 1, 0]), ("-Z", [0, 0, -1])]
    + [(0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1]), ([0, 3, 4], [0, 0.6, 0.8]), (["0", "-pi", "0"], [0, -1, 0])],
)
@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_axes(axis, expected, kind):
    assert dof_values(load(with_joint(kind, axis=axis)))["axis"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "fields, mode",
    [({}, 0), ({"target_ke": 1}, 1), ({"target_kd": 1}, 2), ({"target_ke": 1, "target_kd": 1}, 1)]
    + [({"target_ke": 1, "actuator_mode": m}, m) for m in range(5)],
)
def test_the_drive_mode_is_given_or_found_from_the_gains(fields, mode):
    assert dof_values(load(with_joint("revolute", **fields)))["actuator_mode"] == mode


@pytest.mark.parametrize(
    "kind, fields, coordinates, dofs",
    [
        ("free", {}, 7, 6),
        ("revolute", {}, 1, 1),
        ("prismatic", {}, 1, 1),
        ("ball", {}, 4, 3),
        ("distance", {"min_distance": 0.5, "max_distance": 2}, 7, 6),
        ("d6", {"linear_axes": [{"axis": "x"}], "angular_axes": [{"axis": "y"}, {"axis": "z"}]}, 3, 3),
    ],
)
def test_joint_types_have_their_coordinates(kind, fields, coordinates, dofs):
    model = load(with_joint(kind, **fields)).sap_model
    assert model.joint_type.numpy().tolist() == [newton.JointType[kind.upper()]]
    assert (model.joint_coord_count, model.joint_dof_count) == (coordinates, dofs)


def test_fixed_joints_hold_bodies_to_others():
    scene = boxes("a", "b")
    scene["joints"][1] = {"id": "weld", "type": "fixed", "parent": "a", "child": "b", "parent_xform": {"p": [0, 0, 2]}}
    loaded = load(scene)
    assert loaded.sap_model.joint_type.numpy().tolist() == [newton.JointType.FREE, newton.JointType.FIXED]
    assert loaded.sap_state.body_q.numpy()[1].tolist() == pytest.approx([0, 0, 2, 0, 0, 0, 1])


def test_fields_of_ball_distance_and_d6_joints():
    ball = load(with_joint("ball", armature=0.5, friction=0.25, damping=0.125))
    assert [dof_values(ball, i)["armature"] for i in range(3)] == [0.5] * 3
    assert [dof_values(ball, i)["friction"] for i in range(3)] == [0.25] * 3
    assert [dof_values(ball, i)["damping"] for i in range(3)] == [0.125] * 3
    distance = load(with_joint("distance", min_distance=0.5, max_distance=2)).sap_model
    assert (distance.joint_limit_lower.numpy()[0], distance.joint_limit_upper.numpy()[0]) == (0.5, 2.0)
    d6 = load(with_joint("d6", linear_axes=[ALL_JOINT_FIELDS], angular_axes=[{"axis": "-z", "armature": 3}]))
    assert dof_values(d6, 0) == ALL_JOINT_FIELDS
    assert (dof_values(d6, 1)["axis"], dof_values(d6, 1)["armature"]) == ([0, 0, -1], 3)


@pytest.mark.parametrize("suffix", ["xform", "transform"])
def test_joint_frames(suffix):
    frames = {
        f"parent_{suffix}": {"p": [1, 0, 0], "q": [0, 0, 1, 0]},
        f"child_{suffix}": {"p": [0, 0, -0.5]},
    }
    loaded = load(with_joint("revolute", **frames))
    model = loaded.sap_model
    assert model.joint_X_p.numpy()[0].tolist() == pytest.approx([1, 0, 0, 0, 0, 1, 0])
    assert model.joint_X_c.numpy()[0].tolist() == pytest.approx([0, 0, -0.5, 0, 0, 0, 1])
    assert loaded.sap_state.body_q.numpy()[0].tolist() == pytest.approx([1, 0, 0.5, 0, 0, 1, 0])


def filtered(loaded, one=0, other=1):
    return (one, other) in loaded.sap_model.shape_collision_filter_pairs


def test_connected_bodies_ignore_each_other_unless_told_otherwise():
    scene = chain()
    assert filtered(load(scene), 0, 1) and filtered(load(scene), 1, 2) and not filtered(load(scene), 0, 2)
    scene["joints"][1]["collision_filter_parent"] = False
    assert not filtered(load(scene), 0, 1) and filtered(load(scene), 1, 2)
    for fields in ({"collision_filter_parent": False}, {"cfg": {"collision_filter_parent": False}}):
        scene = chain()
        scene["bodies"][1]["shapes"][0] |= fields
        assert not filtered(load(scene), 0, 1) and not filtered(load(scene), 1, 2)
    scene = chain()
    scene["bodies"][2]["collision_filter_parent"] = False
    assert filtered(load(scene), 0, 1) and not filtered(load(scene), 1, 2)
    scene = chain(builder={"defaults": {"shape": {"collision_filter_parent": False}}})
    assert not filtered(load(scene), 0, 1)
    scene = chain()
    scene["post_build"] = [{"op": "add_shape", "body": "arm", "shape": {**BOX, "collision_filter_parent": False}}]
    loaded = load(scene)
    assert not filtered(loaded, 0, 3)
    del scene["post_build"][0]["shape"]["collision_filter_parent"]
    assert filtered(load(scene), 0, 3)


@pytest.mark.parametrize("kind", ["free", "revolute", "prismatic", "ball", "distance"])
@pytest.mark.parametrize("told", [{}, {"collision_filter_parent": True}, {"collision_filter_parent": False}])
def test_a_joint_to_the_world_lets_its_body_touch_the_ground_and_the_world(kind, told):
    wall = {"op": "add_shape", "body": "world", "shape": BOX}
    loaded = load(with_joint(kind, **told) | {"post_build": [wall]})
    assert loaded.shape_labels[2] == "DEFAULT_GROUND"
    assert not filtered(loaded, 0, 1) and not filtered(loaded, 0, 2)


def test_a_body_that_is_fixed_to_the_world_ignores_shapes_of_the_world():
    wall = {"op": "add_shape", "body": "world", "shape": BOX}
    held = boxes("a", "b", post_build=[wall])
    held["joints"][1] = {"id": "weld", "type": "fixed", "child": "b"}
    assert filtered(load(held), 1, 2)
    held["joints"][1]["collision_filter_parent"] = False
    assert not filtered(load(held), 1, 2)


# Articulations


def test_joints_without_articulation_form_one_for_each_tree():
    scene = chain()
    scene["bodies"].append({"id": "ball", "shapes": [BOX]})
    scene["joints"].append(free("ball"))
    model = load(scene).sap_model
    assert model.articulation_label == ["base_free", "ball_free"]
    assert model.joint_articulation.numpy().tolist() == [0, 0, 0, 1]
    scene["articulations"] = [{"id": "thing", "joints": ["ball_free"]}]
    model = load(scene).sap_model
    assert model.articulation_label == ["base_free", "thing"]
    scene["articulations"] = [
        {"id": "thing", "joints": ["ball_free"]},
        {"id": "robot", "joints": ["base_free", "hinge", "slider"]},
    ]
    model = load(scene).sap_model
    assert model.articulation_label == ["robot", "thing"]
    assert model.joint_articulation.numpy().tolist() == [0, 0, 0, 1]


# Initial positions


def test_initial_positions_by_index_joint_label_and_offset():
    edits = [
        {"index": 0, "value": 1},
        {"index": -1, "value": "pi / 10"},
        {"joint": "base_free", "offset": 2, "value": 1.25},
        {"joint": "hinge", "value": 0.5},
        {"joint_label": "robot/left/hinge", "value": 0.75},
        {"joint": "base_free", "offset": 3, "values": [0, 0, 1.5, 0]},
    ]
    loaded = load(chain(initial_joint_q=edits))
    expected = [1, 0, 1.25, 0, 0, 1, 0, 0.75, math.pi / 10]
    assert loaded.sap_model.joint_q.numpy().tolist() == pytest.approx(expected)
    assert loaded.sap_state.joint_q.numpy().tolist() == pytest.approx(expected)


def test_bodies_start_where_the_initial_positions_put_them():
    scene = with_joint("prismatic", axis="z")
    scene["initial_joint_q"] = [{"joint": "hinge", "value": 3}]
    loaded = load(scene)
    assert loaded.sap_state.body_q.numpy()[0].tolist() == pytest.approx([0, 0, 3, 0, 0, 0, 1])
    assert loaded.sap_model.state().body_q.numpy()[0][2] == 3.0


def test_joint_labels_match_by_their_end_after_a_slash():
    scene = chain(initial_joint_q=[{"joint": "left/hinge", "value": 1}])
    assert load(scene).sap_model.joint_q.numpy()[7] == 1.0
    scene["joints"][2]["label"] = "other/hinge"
    scene["joints"][1]["id"] = "h"
    scene["initial_joint_q"] = [{"joint": "hinge", "value": 1}]
    assert problem_of(scene) == (
        "initial_joint_q[0].joint: 'hinge' stands for 2 joints: 'robot/left/hinge', 'other/hinge'; give more of the label"
    )


# Assets

URDF = """\
<robot name="arm">
  <link name="base">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><sphere radius="0.3"/></geometry></visual>
    <collision><geometry><box size="0.2 0.4 0.6"/></geometry></collision>
  </link>
  <link name="link">
    <inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.1"/></geometry></collision>
  </link>
  <link name="tool">
    <inertial><mass value="4"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="elbow" type="revolute">
    <parent link="base"/><child link="link"/><origin xyz="0 0 1"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="2" effort="30" velocity="4"/><dynamics damping="0.5" friction="0.25"/>
  </joint>
  <joint name="mount" type="fixed"><parent link="link"/><child link="tool"/></joint>
</robot>
"""


def arm(**options):
    return {"assets": [{"id": "arm", "type": "urdf", "source": URDF, **options}], "ground": False}


def test_inline_urdf_text_is_the_robot_it_describes():
    loaded = load(arm(xform={"p": [0, 0, 5]}))
    model = loaded.sap_model
    assert loaded.body_labels == ["arm/base", "arm/link", "arm/tool"]
    assert loaded.joint_labels == ["arm/fixed_base", "arm/elbow", "arm/mount"]
    assert model.body_mass.numpy().tolist() == [1, 2, 4]
    values = dof_values(loaded)
    expected = {"limit_lower": -1, "limit_upper": 2, "effort_limit": 30, "velocity_limit": 4, "friction": 0.25}
    assert {name: values[name] for name in expected} == expected
    assert (values["damping"], values["target_kd"], values["axis"]) == (0.5, 0.0, [0, 1, 0])
    assert loaded.sap_state.body_q.numpy()[1].tolist() == pytest.approx([0, 0, 6, 0, 0, 0, 1])
    xml = {"xml": URDF}
    assert load({"assets": [{"type": "urdf", "source": xml}], "ground": False}).body_labels == loaded.body_labels


def test_source_may_be_a_path_or_a_mapping_with_path(tmp_path):
    (tmp_path / "robots").mkdir()
    (tmp_path / "robots" / "arm.urdf").write_text(URDF)
    for source in ("robots/arm.urdf", "{path: robots/arm.urdf}", str(tmp_path / "robots" / "arm.urdf")):
        file = tmp_path / "scene.yaml"
        file.write_text(f"assets:\n  - type: urdf\n    source: {source}\n")
        assert load(file).body_labels == ["arm/base", "arm/link", "arm/tool"]


@pytest.mark.parametrize("floating, dofs", [(None, 1), (False, 1), (True, 7)])
def test_floating_base(floating, dofs):
    options = {} if floating is None else {"floating": floating}
    assert load(arm(**options)).sap_model.joint_dof_count == dofs


def test_visual_shapes_can_be_left_out_or_made_to_collide():
    def shapes(**options):
        model = load(arm(**options)).sap_model
        collides = model.shape_flags.numpy() & int(FLAGS.COLLIDE_SHAPES) != 0
        return [(newton.GeoType(int(t)).name, bool(c)) for t, c in zip(model.shape_type.numpy(), collides, strict=True)]

    assert shapes() == [("SPHERE", False), ("BOX", True), ("SPHERE", True)]
    assert shapes(load_visual_shapes=False) == [("BOX", True), ("SPHERE", True)]
    # Colliders of links that have visuals give way to them; other links have none then.
    assert ("SPHERE", True) in shapes(parse_visuals_as_colliders=True)
    assert ("BOX", True) not in shapes(parse_visuals_as_colliders=True)
    assert shapes(parse_visuals_as_colliders=True, load_visual_shapes=False)[0] == ("SPHERE", True)


def test_visibility_options_touch_only_the_visible_flag():
    def visible(**options):
        flags = load(arm(**options)).sap_model.shape_flags.numpy()
        return [(bool(f & FLAGS.COLLIDE_SHAPES), bool(f & FLAGS.VISIBLE)) for f in flags]

    assert visible() == [(False, True), (True, False), (True, False)]
    assert visible(force_show_colliders=True) == [(False, True), (True, True), (True, True)]
    assert visible(load_visual_shapes=False) == [(True, True), (True, True)]
    hidden = {**arm(force_show_colliders=True), "builder": {"defaults": {"shape": {"is_visible": False}}}}
    assert all(f & FLAGS.VISIBLE for f in load(hidden).sap_model.shape_flags.numpy() if f & FLAGS.COLLIDE_SHAPES)
    assert problem_of(arm(force_show_colliders=True, cfg={"is_visible": False})) == (
        "assets[0].cfg.is_visible: is_visible: false and force_show_colliders exclude each other"
    )
    assert visible(load_visual_shapes=False, hide_collision_shapes=True) == [(True, False), (True, False)]


def test_self_collisions():
    # link and tool hang on the base: they collide unless the whole asset does not.
    siblings = URDF.replace('<parent link="link"/>', '<parent link="base"/>').replace(
        '<link name="tool">', '<link name="tool"><collision><geometry><sphere radius="0.05"/></geometry></collision>'
    )
    for enabled in (True, False):
        scene = arm(enable_self_collisions=enabled)
        scene["assets"][0]["source"] = siblings
        loaded = load(scene)
        bodies = loaded.sap_model.shape_body.numpy().tolist()
        link, tool = (bodies.index(loaded.body_labels.index(f"arm/{name}")) for name in ("link", "tool"))
        assert filtered(loaded, *sorted((link, tool))) is not enabled


def test_connected_links_of_an_asset_collide_if_told_to():
    assert filtered(load(arm()), 1, 2)
    assert not filtered(load(arm(cfg={"collision_filter_parent": False})), 1, 2)
    assert filtered(load(arm(cfg={"collision_filter_parent": False}, enable_self_collisions=False)), 1, 2)


def test_collapsing_fixed_joints_leaves_other_assets_alone():
    scene = arm()
    scene["assets"].append({"type": "urdf", "source": URDF, "collapse_fixed_joints": True, "label_prefix": "second"})
    scene["assets"][1]["cfg"] = {"mu": 0.125}
    loaded = load(scene)
    assert loaded.joint_labels[:3] == ["arm/fixed_base", "arm/elbow", "arm/mount"]
    # The base of the second is fixed to the world and becomes part of it.
    assert loaded.joint_labels[3:] == ["second/arm/elbow"]
    assert loaded.body_labels == ["arm/base", "arm/link", "arm/tool", "second/arm/link"]
    assert loaded.sap_model.body_mass.numpy()[-1] == pytest.approx(6)
    assert loaded.sap_model.shape_material_mu.numpy().tolist() == [1, 1, 1, 0.125, 0.125, 0.125]


def test_scale_and_ignored_inertia():
    model = load(arm(scale=2)).sap_model
    assert model.shape_scale.numpy()[1].tolist() == pytest.approx([0.2, 0.4, 0.6])
    computed = load(arm(ignore_inertial_definitions=True, cfg={"density": 100})).sap_model.body_mass.numpy()
    assert computed.tolist() == pytest.approx([100 * 0.048, 100 * SPHERE_VOLUME * 1e-3, 0], rel=1e-3)


def test_label_prefix_and_two_copies_of_one_asset():
    scene = arm(label_prefix="left")
    scene["assets"].append({**scene["assets"][0], "id": "two", "label_prefix": "right", "transform": {"p": [1, 0, 0]}})
    scene["post_build"] = [{"op": "set_joint_targets", "label_prefix": "right/", "ke": 5}]
    loaded = load(scene)
    assert loaded.body_labels[::3] == ["left/arm/base", "right/arm/base"]
    assert loaded.joint_labels[1::3] == ["left/arm/elbow", "right/arm/elbow"]
    assert loaded.sap_model.joint_target_ke.numpy().tolist() == [0, 5]
    assert loaded.sap_state.body_q.numpy()[3][0] == 1.0


ASSETS = {
    "urdf": ["cartpole.urdf", "quadruped.urdf"],
    "mjcf": ["nv_ant.xml", "nv_humanoid.xml"],
    "usd": ["cartpole.usda", "ant.usda", "humanoid.usda"],
}
ASSET_CASES = [(kind, file) for kind, files in ASSETS.items() for file in files]


@pytest.mark.parametrize("kind, file", ASSET_CASES)
@pytest.mark.parametrize("block", ["cfg", "shape", "physics"])
def test_shape_overrides_win_over_the_file(kind, file, block):
    fields = {name: value for name, value in ALL_SHAPE_FIELDS.items() if name not in ("kf", "ka", "kd")}
    scene = {"assets": [{"type": kind, "source": package(file), block: fields, "label_prefix": "p"}], "ground": False}
    loaded = load(scene)
    assert loaded.sap_model.shape_count > 0
    for shape in range(loaded.sap_model.shape_count):
        values = shape_values(loaded, shape)
        assert {name: values[name] for name in fields} == pytest.approx(fields)
    assert all(label.startswith("p/") and "//" not in label for label in loaded.body_labels + loaded.joint_labels)


@pytest.mark.parametrize("kind, file", ASSET_CASES)
def test_default_tau_and_gap_reach_imported_shapes(kind, file):
    builder = {"rigid_gap": 0.25, "defaults": {"shape": {"tau": 0.125}}, "default_body_armature": 0.5}
    scene = {"assets": [{"type": kind, "source": package(file)}], "ground": False}
    plain = load(scene).sap_model
    model = load({**scene, "builder": builder}).sap_model
    assert set(model.shape_material_tau.numpy().tolist()) == {0.125}
    assert set(model.shape_gap.numpy().tolist()) == {0.25}
    added = model.body_inertia.numpy() - plain.body_inertia.numpy()
    assert np.allclose(added, 0.5 * np.eye(3), atol=1e-4)
    assert set(plain.shape_material_tau.numpy().tolist()) == {-1.0}


def test_overrides_of_an_asset_win_in_the_order_physics_shape_cfg():
    blocks = {"physics": {"mu": 0.1, "ke": 1, "tau": 0.1}, "shape": {"mu": 0.2, "ke": 2}, "cfg": {"mu": 0.3}}
    values = shape_values(load(arm(**blocks)))
    assert (values["mu"], values["ke"], values["tau"]) == pytest.approx((0.3, 2, 0.1))


def test_defaults_of_joints_fill_what_a_urdf_leaves_open():
    joint = {"armature": 0.125, "limit_ke": 13.0, "limit_kd": 14.0, "target_ke": 15.0, "target_kd": 16.0}
    values = dof_values(
        load({**arm(), "builder": {"defaults": {"joint": {**joint, "friction": 9, "limit_lower": -9}}}})
    )
    assert {name: values[name] for name in joint} == joint
    assert (values["friction"], values["limit_lower"]) == (0.25, -1.0)


def test_options_of_mjcf():
    def ant(**options):
        return load({"assets": [{"type": "mjcf", "source": package("nv_ant.xml"), **options}], "ground": False})

    plain = ant()
    assert plain.sap_model.joint_dof_count == 14
    without = ant(ignore_names=["floor"])
    assert len(without.shape_labels) == len(plain.shape_labels) - 1
    assert ant(scale=2).sap_model.shape_scale.numpy()[0][0] == 2 * plain.sap_model.shape_scale.numpy()[0][0]
    text = """<mujoco><worldbody><body pos='0 0 1'>
    <freejoint/><geom type='sphere' size='0.1'/><site name='s'/>
    </body></worldbody></mujoco>"""
    for sites, count in ((True, 2), (False, 1)):
        scene = {"assets": [{"type": "mjcf", "source": text, "parse_sites": sites}], "ground": False}
        assert load(scene).sap_model.shape_count == count
    moved = load({"assets": [{"type": "mjcf", "source": text, "xform": {"p": [0, 0, 2]}}]})
    assert moved.sap_state.body_q.numpy()[0][2] == pytest.approx(3.0)


def test_visual_and_collision_geoms_of_mjcf():
    text = """<mujoco><worldbody><body><freejoint/>
    <geom type='sphere' size='0.1' class='collision'/>
    <geom type='box' size='0.1 0.1 0.1' contype='0' conaffinity='0' class='visual'/>
    </body></worldbody><default><default class='visual'/><default class='collision'/></default></mujoco>"""

    def kinds(**options):
        model = load({"assets": [{"type": "mjcf", "source": text, **options}], "ground": False}).sap_model
        flags = model.shape_flags.numpy()
        return {
            newton.GeoType(int(t)).name: (bool(f & FLAGS.COLLIDE_SHAPES), bool(f & FLAGS.VISIBLE))
            for t, f in zip(model.shape_type.numpy(), flags, strict=True)
        }

    assert kinds() == {"SPHERE": (True, False), "BOX": (False, True)}
    assert kinds(load_visual_shapes=False) == {"SPHERE": (True, True)}
    assert kinds(load_visual_shapes=False, hide_collision_shapes=True) == {"SPHERE": (True, False)}
    assert kinds(force_show_colliders=True) == {"SPHERE": (True, True), "BOX": (False, True)}
    assert kinds(parse_visuals_as_colliders=True)["BOX"][0] is True


def test_options_of_usd():
    def ant(**options):
        return load({"assets": [{"type": "usd", "source": package("ant.usda"), **options}], "ground": False})

    plain = ant()
    assert plain.sap_model.joint_dof_count == 14 and len(plain.shape_labels) == 26
    assert len(ant(load_visual_shapes=False).shape_labels) == 13
    fewer = ant(ignore_paths=[".*/visuals/.*"])
    assert not [label for label in fewer.shape_labels if "visuals" in label]
    assert ant(floating=False).sap_model.joint_dof_count == 8
    moved = ant(xform={"p": [0, 0, 7]})
    assert moved.sap_state.body_q.numpy()[0][2] - plain.sap_state.body_q.numpy()[0][2] == pytest.approx(7)
    flags = ant(hide_collision_shapes=True).sap_model.shape_flags.numpy()
    assert not any(f & FLAGS.COLLIDE_SHAPES and f & FLAGS.VISIBLE for f in flags)
    flags = ant(force_show_colliders=True).sap_model.shape_flags.numpy()
    assert all(f & FLAGS.VISIBLE for f in flags)


USD = """\
#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "{up}"
)
def Xform "World"
{{
    def Mesh "Wedge" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"])
    {{
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        uniform token physics:approximation = "convexHull"
    }}
    def Sphere "Ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
    {{
        double radius = 0.5
    }}
}}
"""


def test_a_usd_stage_that_is_not_z_up_is_an_unsupported_feature(tmp_path):
    for up, notes in (("Z", 0), ("Y", 1)):
        (tmp_path / f"{up}.usda").write_text(USD.format(up=up))
        scene = {"assets": [{"type": "usd", "source": str(tmp_path / f"{up}.usda")}]}
        loaded = load(scene)
        assert len(loaded.unsupported_features) == notes
        if notes:
            assert loaded.unsupported_features[0].startswith("scene: assets[0].source: the stage is Y-up")
            with pytest.raises(sap_warp.SapUnsupportedSceneFeature, match="Y-up"):
                load(scene, strict=True)
        else:
            load(scene, strict=True)


def test_mesh_approximation_root_path_and_ignored_paths_of_usd(tmp_path):
    file = tmp_path / "scene.usda"
    file.write_text(USD.format(up="Z"))

    def kinds(**options):
        scene = {"assets": [{"type": "usd", "source": str(file), **options}], "ground": False}
        model = load(scene).sap_model
        shapes = zip(model.shape_type.numpy(), model.shape_flags.numpy(), strict=True)
        return sorted(newton.GeoType(int(kind)).name for kind, flags in shapes if flags & FLAGS.COLLIDE_SHAPES)

    assert kinds() == ["CONVEX_MESH", "SPHERE"]
    assert kinds(skip_mesh_approximation=True) == ["MESH", "SPHERE"]
    assert kinds(ignore_paths=["/World/Ball"]) == ["CONVEX_MESH"]
    assert kinds(root_path="/World/Ball") == ["SPHERE"]


def test_order_assets_come_before_bodies():
    scene = {**boxes("box"), **arm()}
    loaded = load(scene)
    assert loaded.body_labels == ["arm/base", "arm/link", "arm/tool", "box"]
    assert loaded.sap_model.articulation_label[-1] == "box_free"


# Unsupported features


def test_unsupported_features_are_listed_with_their_place_and_strict_raises(tmp_path):
    file = tmp_path / "scene.yaml"
    file.write_text(
        """\
builder:
  defaults:
    shape: {kd: 5}
ground: {restitution: 0.5}
bodies:
  - id: a
    physics: {mu_rolling: 0.1}
    shapes:
      - type: sphere
        radius: 1
        cfg:
          is_hydroelastic: true
          sdf_max_resolution: 64
joints: [{id: j, type: free, child: a}]
post_build:
  - {op: set_array, array: shape_material_kh, range: all, value: 3}
  - {op: add_shape, shape: {type: sphere, radius: 1, mu_torsional: 1}}
  - {op: set_array, array: shape_flags, range: all, value: 23}
"""
    )
    loaded = load(file)
    places = [feature.replace(str(file), "FILE").split(": ")[:2] for feature in loaded.unsupported_features]
    assert places == [
        ["FILE:3", "builder.defaults.shape.kd"],
        ["FILE:7", "bodies[0].physics.mu_rolling"],
        ["FILE:12", "bodies[0].shapes[0].cfg.is_hydroelastic"],
        ["FILE:13", "bodies[0].shapes[0].cfg.sdf_max_resolution"],
        ["FILE:16", "post_build[0]"],
        ["FILE:17", "post_build[1].shape.mu_torsional"],
        ["FILE:18", "post_build[2]"],
        ["FILE:4", "ground.restitution"],
    ]
    assert not any(loaded.sap_model.shape_flags.numpy() & int(FLAGS.HYDROELASTIC))
    assert loaded.sap_model.shape_material_kd.numpy()[0] == 5.0
    with pytest.raises(sap_warp.SapUnsupportedSceneFeature) as caught:
        load(file, strict=True)
    assert len(caught.value.problems) == 8 and isinstance(caught.value, sap_warp.SapSceneError)
    assert [problem.line for problem in caught.value.problems] == [3, 4, 7, 12, 13, 16, 17, 18]


@pytest.mark.parametrize("name", ["kd", "kf", "ka", "restitution", "mu_torsional", "mu_rolling", "kh"])
def test_materials_that_sap_does_not_use_are_reported_unless_zero(name):
    assert load(with_shape({**BOX, name: 0})).unsupported_features == []
    features = load(with_shape({**BOX, name: 0.5})).unsupported_features
    assert features == [f"scene: bodies[0].shapes[0].{name}: is stored in the model, but SAP contact does not use it"]


def test_switched_off_features_are_not_reported():
    assert load(with_shape({**BOX, "is_hydroelastic": False})).unsupported_features == []


def test_kinematic_bodies_have_their_flag():
    scene = boxes("a", "b")
    scene["bodies"][1]["is_kinematic"] = True
    flags = load(scene, strict=True).sap_model.body_flags.numpy()
    assert [bool(f & int(newton.BodyFlags.KINEMATIC)) for f in flags] == [False, True]


def test_what_the_solver_refuses_is_known_after_loading():
    scene = boxes("a", "b")
    scene["bodies"][1]["density"] = 0
    (feature,) = load(scene).unsupported_features
    assert feature.startswith("scene: bodies[1]: SolverSAP cannot simulate bodies without mass") and ": 'b'" in feature
    with pytest.raises(sap_warp.SapUnsupportedSceneFeature, match="without mass"):
        load(scene, strict=True)
