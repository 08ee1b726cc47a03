"""Every edit of post_build, every selector and every form of a range, by its effect in the model."""

import math

import newton
import numpy as np
import pytest

import sap_warp
from tests.support.scene_files import BOX, boxes, chain, load, package, problem_of, with_shape

FLAGS = newton.ShapeFlags


def edited(*operations, **sections):
    """The model of the chain after some edits: coordinates 0 to 6, 7, 8; dofs 0 to 5, 6, 7; shapes 0, 1, 2, ground."""
    return load(chain(post_build=list(operations), **sections)).sap_model


def armatures(selector):
    values = edited({"op": "set_joint_armature", "value": 1, **selector}).joint_armature.numpy()
    return np.flatnonzero(values).tolist()


# Ranges and selectors


@pytest.mark.parametrize(
    "selector, dofs",
    [
        ({"index": 0}, [0]),
        ({"index": 6}, [6]),
        ({"index": -1}, [7]),
        ({"index": -8}, [0]),
        ({"range": "all"}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"range": "head:2"}, [0, 1]),
        ({"range": "head:8"}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"range": "tail:3"}, [5, 6, 7]),
        ({"range": "from:6"}, [6, 7]),
        ({"range": [2, 4]}, [2, 3]),
        ({"range": [6, None]}, [6, 7]),
        ({"range": [-2, None]}, [6, 7]),
        ({"range": [0, -6]}, [0, 1]),
        ({"joint": "hinge"}, [6]),
        ({"joint": "robot/left/hinge"}, [6]),
        ({"joint": "left/hinge"}, [6]),
        ({"joint": "base_free"}, [0, 1, 2, 3, 4, 5]),
        ({"joint_label": "robot/right/slider"}, [7]),
        ({"joint_label": "slider"}, [7]),
        ({"joints": ["slider", "hinge"]}, [6, 7]),
        ({"joint_labels": ["robot/left/hinge"]}, [6]),
        ({"label_prefix": "robot/"}, [6, 7]),
        ({"label_prefix": "robot/r"}, [7]),
        ({"match": "left"}, [6]),
        ({"match": "e"}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_selectors_and_ranges(selector, dofs):
    assert armatures(selector) == dofs


def test_a_suffix_matches_after_a_slash_only():
    assert problem_of(chain(post_build=[{"op": "set_joint_armature", "joint": "inge", "value": 1}])).startswith(
        "post_build[0].joint: unknown joint 'inge'; did you mean 'hinge'?"
    )


def test_selectors_find_the_joints_of_imported_assets():
    scene = {"assets": [{"type": "mjcf", "source": package("nv_ant.xml"), "label_prefix": "robot"}], "ground": False}
    loaded = load({**scene, "post_build": [{"op": "set_joint_armature", "joint": "hip_1", "value": 3}]})
    names = [label.rsplit("/", 1)[-1] for label in loaded.joint_labels]
    dof = loaded.sap_model.joint_qd_start.numpy()[names.index("hip_1")]
    assert np.flatnonzero(loaded.sap_model.joint_armature.numpy() == 3.0).tolist() == [dof]
    loaded = load({**scene, "post_build": [{"op": "set_joint_armature", "match": "ankle", "value": 3}]})
    assert np.count_nonzero(loaded.sap_model.joint_armature.numpy() == 3.0) == 4


# Arrays

MODEL_ARRAY = {"joint_target_pos": "joint_target_q", "joint_target_vel": "joint_target_qd"}


def array_of(model, name):
    return getattr(model, MODEL_ARRAY.get(name, name)).numpy()


SHAPE_ARRAYS = ["shape_margin", "shape_gap", "shape_material_ke", "shape_material_tau", "shape_material_mu"]
SHAPE_ARRAYS += ["shape_material_restitution", "shape_material_mu_torsional", "shape_material_mu_rolling"]
SHAPE_ARRAYS += ["shape_material_kh"]
JOINT_ARRAYS = ["joint_qd", "joint_target_vel", "joint_target_ke", "joint_target_kd", "joint_armature"]
JOINT_ARRAYS += ["joint_friction", "joint_damping", "joint_effort_limit", "joint_velocity_limit"]
COORDINATE_ARRAYS = ["joint_q", "joint_target_pos"]


@pytest.mark.parametrize("array", SHAPE_ARRAYS + JOINT_ARRAYS + COORDINATE_ARRAYS)
def test_every_array_is_set_by_value_values_and_copy(array):
    last = {"op": "set_array", "array": array, "range": "tail:1", "value": 0.25}
    count = 3 if array in SHAPE_ARRAYS else 8 if array in JOINT_ARRAYS else 9
    before = array_of(edited(), array)[:count]
    after = array_of(edited(last), array)[:count]
    assert after[-1] == 0.25 and np.array_equal(after[:-1], before[:-1])
    pair = {"op": "set_array", "array": array, "range": [count - 2, None], "values": [0.5, "1/8"]}
    assert array_of(edited(pair), array)[:count][-2:].tolist() == [0.5, 0.125]


@pytest.mark.parametrize(
    "array, value, index", [("shape_collision_group", -5, 1), ("shape_flags", 2, 0), ("joint_target_mode", 3, 7)]
)
def test_whole_number_arrays(array, value, index):
    values = array_of(edited({"op": "set_array", "array": array, "index": index, "value": value}), array)
    assert values[index] == value and np.count_nonzero(values == value) == 1


@pytest.mark.parametrize(
    "selector, shapes", [({"match": "arm"}, [1]), ({"label_prefix": "h"}, [2]), ({"index": -1}, [2])]
)
def test_shapes_are_selected_by_their_labels(selector, shapes):
    scene = chain(post_build=[{"op": "set_array", "array": "shape_margin", "value": 0.5, **selector}])
    for body in scene["bodies"]:
        body["shapes"][0]["label"] = body["id"] + " box"
    assert np.flatnonzero(load(scene).sap_model.shape_margin.numpy()).tolist() == shapes


def test_from_array_takes_the_same_entries():
    targets = {"op": "set_array", "array": "joint_target_pos", "range": "from:7", "from_array": "joint_q"}
    positions = {"op": "set_array", "array": "joint_q", "range": "tail:2", "values": [0.5, 0.25]}
    model = edited(positions, targets)
    assert model.joint_target_q.numpy()[7:].tolist() == [0.5, 0.25]
    gains = {"op": "set_array", "array": "joint_target_ke", "range": "all", "values": list(range(8))}
    model = edited(
        gains, {"op": "set_array", "array": "joint_armature", "joint": "slider", "from_array": "joint_target_ke"}
    )
    assert model.joint_armature.numpy().tolist() == [0, 0, 0, 0, 0, 0, 0, 7]


def test_between_coordinates_and_dofs_joints_are_matched_not_numbers():
    start = {"op": "set_array", "array": "joint_q", "range": "from:7", "values": [0.5, 0.25]}
    for copy in (
        {"op": "set_array", "array": "joint_qd", "joints": ["slider", "hinge"], "from_array": "joint_q"},
        {"op": "copy_array", "to_array": "joint_qd", "joints": ["slider", "hinge"], "from_array": "joint_q"},
        {
            "op": "copy_array",
            "to_array": "joint_qd",
            "range": "from:6",
            "from_array": "joint_q",
            "from_range": "from:7",
        },
    ):
        assert edited(start, copy).joint_qd.numpy().tolist() == [0, 0, 0, 0, 0, 0, 0.5, 0.25]


@pytest.mark.parametrize(
    "keys", [("from_array", "to_array"), ("source", "target"), ("from_array", "array"), ("source", "to_array")]
)
def test_copy_array(keys):
    gains = {"op": "set_array", "array": "joint_target_ke", "range": "all", "values": list(range(8))}
    whole = {"op": "copy_array", keys[0]: "joint_target_ke", keys[1]: "joint_target_kd"}
    assert edited(gains, whole).joint_target_kd.numpy().tolist() == list(range(8))
    part = {**whole, "range": "head:3"}
    assert edited(gains, part).joint_target_kd.numpy().tolist() == [0, 1, 2, 0, 0, 0, 0, 0]
    shifted = {**whole, "range": "head:2", "from_range": "tail:2"}
    assert edited(gains, shifted).joint_target_kd.numpy().tolist() == [6, 7, 0, 0, 0, 0, 0, 0]


def test_copies_read_before_they_write():
    values = {"op": "set_array", "array": "joint_armature", "range": "all", "values": list(range(8))}
    shift = {"op": "copy_array", "from_array": "joint_armature", "to_array": "joint_armature"}
    model = edited(values, {**shift, "range": [1, None], "from_range": [0, -1]})
    assert model.joint_armature.numpy().tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


def test_an_unset_tau_is_read_as_what_the_solver_would_take():
    copy = {"op": "copy_array", "from_array": "shape_material_tau", "to_array": "shape_margin"}
    assert edited(copy).shape_margin.numpy()[:3].tolist() == pytest.approx([0.01] * 3)
    solver = {"solver": {"contact_tau_d": 0.5}}
    assert edited(copy, simulation=solver).shape_margin.numpy()[:3].tolist() == [0.5] * 3


@pytest.mark.parametrize("array", ["restitution", "mu_torsional", "mu_rolling", "kh"])
def test_arrays_that_sap_does_not_use_are_reported(array):
    scene = chain(post_build=[{"op": "set_array", "array": f"shape_material_{array}", "range": "all", "value": 0.5}])
    loaded = load(scene)
    assert len(loaded.unsupported_features) == 1
    assert loaded.unsupported_features[0].startswith(
        f"scene: post_build[0]: shape_material_{array} is stored in the model"
    )
    with pytest.raises(sap_warp.SapUnsupportedSceneFeature):
        load(scene, strict=True)
    scene["post_build"][0]["value"] = 0
    assert load(scene, strict=True).unsupported_features == []


# Shapes


@pytest.mark.parametrize("body, index", [("arm", 1), ("base", 0), (2, 2), (-1, 2), ("world", -1), (None, -1)])
def test_add_shape(body, index):
    shape = {"type": "sphere", "radius": 0.5, "label": "extra", "mu": 0.25, "transform": {"p": [1, 2, 3]}}
    operation = {"op": "add_shape", "shape": shape, **({} if body is None else {"body": body})}
    loaded = load(chain(post_build=[operation], builder={"defaults": {"shape": {"tau": 0.125}}}))
    model = loaded.sap_model
    added = loaded.shape_labels.index("extra")
    assert model.shape_body.numpy()[added] == index and model.shape_type.numpy()[added] == newton.GeoType.SPHERE
    assert model.shape_transform.numpy()[added].tolist() == [1, 2, 3, 0, 0, 0, 1]
    assert (model.shape_material_mu.numpy()[added], model.shape_material_tau.numpy()[added]) == (0.25, 0.125)
    mass = 48 + (1000 * 4 / 3 * math.pi / 8 if index >= 0 else 0)
    assert model.body_mass.numpy()[index if index >= 0 else 0] == pytest.approx(mass, rel=1e-4)


def test_add_shape_by_label_of_an_imported_body():
    scene = {"assets": [{"type": "urdf", "source": package("cartpole.urdf")}], "ground": False}
    operation = {"op": "add_shape", "body": "pole1", "shape": {**BOX, "label": "extra", "density": 0}}
    loaded = load({**scene, "post_build": [operation]})
    body = loaded.sap_model.shape_body.numpy()[loaded.shape_labels.index("extra")]
    assert loaded.body_labels[body] == "cartpole/pole1"


def test_edits_run_in_their_order():
    add = {"op": "add_shape", "body": "arm", "shape": BOX}
    margin = {"op": "set_array", "array": "shape_margin", "range": "all", "value": 0.5}
    assert edited(add, margin).shape_margin.numpy().tolist() == [0.5, 0.5, 0.5, 0.5, 0.0]
    assert edited(margin, add).shape_margin.numpy().tolist() == [0.5, 0.5, 0.5, 0.0, 0.0]


def test_scale_sphere_shapes():
    scene = with_shape({"type": "sphere", "radius": 0.5}, post_build=[{"op": "scale_sphere_shapes", "factor": "1/4"}])
    scene["bodies"][0]["shapes"] += [
        BOX,
        {"type": "sphere", "radius": 2},
        {"type": "capsule", "radius": 1, "half_height": 1},
    ]
    model = load(scene).sap_model
    assert model.shape_scale.numpy()[[0, 2]].tolist() == [[0.125, 0, 0], [0.5, 0, 0]]
    assert model.shape_scale.numpy()[[1, 3]].tolist() == pytest.approx(np.array([[0.1, 0.2, 0.3], [1, 1, 0]]))
    assert model.shape_collision_radius.numpy()[[0, 2]].tolist() == [0.125, 0.5]


WEDGE = {
    "type": "mesh",
    "vertices": [[x, y, z] for x in (-1, 1) for y in (-2, 2) for z in (-3, 3)],
    "indices": [
        0,
        1,
        3,
        0,
        3,
        2,
        4,
        6,
        7,
        4,
        7,
        5,
        0,
        4,
        5,
        0,
        5,
        1,
        2,
        3,
        7,
        2,
        7,
        6,
        0,
        2,
        6,
        0,
        6,
        4,
        1,
        5,
        7,
        1,
        7,
        3,
    ],
}


@pytest.mark.parametrize(
    "method, kind", [("bounding_box", "BOX"), ("bounding_sphere", "SPHERE"), ("convex_hull", "CONVEX_MESH")]
)
def test_approximate_meshes(method, kind):
    scene = with_shape({**WEDGE, "label": "one", "transform": {"p": [0, 0, 5]}})
    scene["bodies"][0]["shapes"] += [
        {**WEDGE, "label": "two"},
        {**WEDGE, "label": "seen", "has_shape_collision": False},
    ]
    mass = load(scene).sap_model.body_mass.numpy()[0]
    model = load({**scene, "post_build": [{"op": "approximate_meshes", "method": method}]}).sap_model
    kinds = [newton.GeoType(int(t)).name for t in model.shape_type.numpy()]
    assert kinds == [kind, kind, "MESH", "PLANE"]
    assert model.body_mass.numpy()[0] == mass
    if method == "bounding_box":
        assert sorted(model.shape_scale.numpy()[0].tolist()) == pytest.approx([1, 2, 3], rel=1e-4)
        assert model.shape_transform.numpy()[0][:3].tolist() == pytest.approx([0, 0, 5], abs=1e-4)
    elif method == "bounding_sphere":
        assert model.shape_scale.numpy()[0][0] == pytest.approx(math.sqrt(14), rel=1e-3)


@pytest.mark.parametrize("selector", [{"label_prefix": "tw"}, {"match": "wo"}])
def test_approximate_meshes_of_some_labels(selector):
    scene = with_shape({**WEDGE, "label": "one"})
    scene["bodies"][0]["shapes"].append({**WEDGE, "label": "two"})
    scene["post_build"] = [{"op": "approximate_meshes", "method": "bounding_box", **selector}]
    kinds = [newton.GeoType(int(t)).name for t in load(scene).sap_model.shape_type.numpy()]
    assert kinds == ["MESH", "BOX", "PLANE"]


# Attributes


@pytest.mark.parametrize("key", ["attr", "name", "attribute"])
@pytest.mark.parametrize(
    "value, expected", [(-1.5, [0, 0, -1.5]), ([1, "pi", 0], [1, math.pi, 0]), ("-9.81 / 6", [0, 0, -1.635])]
)
def test_gravity(key, value, expected):
    scene = boxes(post_build=[{"op": "set_attr", key: "gravity", "value": value}], simulation={"num_worlds": 2})
    assert np.allclose(load(scene).sap_model.gravity.numpy(), expected)
    assert load(boxes()).sap_model.gravity.numpy()[0].tolist() == pytest.approx([0, 0, -9.81])


def test_rigid_gap_is_that_of_shapes_added_later():
    gap = {"op": "set_attr", "attr": "rigid_gap", "value": 0.5}
    model = edited(
        {"op": "add_shape", "shape": BOX}, gap, {"op": "add_shape", "shape": BOX}, builder={"rigid_gap": 0.25}
    )
    assert model.shape_gap.numpy().tolist() == [0.25, 0.25, 0.25, 0.25, 0.5, 0.5]  # the ground is last


# Joints


def test_set_joint_targets():
    operation = {"op": "set_joint_targets", "range": "from:6", "mode": "position", "ke": 500, "kd": 10}
    model = edited({**operation, "target_pos": 0.25, "target_vel": 0.5})
    assert model.joint_target_mode.numpy().tolist() == [0] * 6 + [1, 1]
    assert model.joint_target_ke.numpy().tolist() == [0] * 6 + [500, 500]
    assert model.joint_target_kd.numpy().tolist() == [0] * 6 + [10, 10]
    assert model.joint_target_q.numpy().tolist() == [0, 0, 0, 0, 0, 0, 1, 0.25, 0.25]
    assert model.joint_target_qd.numpy().tolist() == [0] * 6 + [0.5, 0.5]
    only = edited({"op": "set_joint_targets", "joint": "hinge", "kd": 3})
    assert only.joint_target_kd.numpy().tolist() == [0] * 6 + [3, 0] and only.joint_target_mode.numpy()[6] == 0


@pytest.mark.parametrize(
    "mode, number",
    [("none", 0), ("position", 1), ("velocity", 2), ("position_velocity", 3), ("effort", 4), ("POSITION", 1), (3, 3)],
)
@pytest.mark.parametrize("key", ["mode", "target_mode"])
def test_target_modes(mode, number, key):
    model = edited({"op": "set_joint_targets", "joint": "hinge", key: mode})
    assert model.joint_target_mode.numpy()[6] == number
    assert newton.JointTargetMode(number).name.lower() == str(mode).lower() or isinstance(mode, int)


@pytest.mark.parametrize(
    "alias, array",
    [
        ("target_ke", "joint_target_ke"),
        ("target_kd", "joint_target_kd"),
        ("pos", "joint_target_q"),
        ("vel", "joint_target_qd"),
    ],
)
def test_aliases_of_set_joint_targets(alias, array):
    assert getattr(edited({"op": "set_joint_targets", "joint": "slider", alias: 0.5}), array).numpy()[-1] == 0.5


def test_set_joint_q():
    operations = [
        {"op": "set_joint_q", "index": 2, "value": 0.67},
        {"op": "set_joint_q", "index": -1, "value": 0.5},
        {"op": "set_joint_q", "joint": "left/hinge", "value": "pi / 4"},
        {"op": "set_joint_q", "joint_label": "base_free", "offset": 1, "value": 3},
    ]
    loaded = load(chain(post_build=operations))
    expected = [0, 3, 0.67, 0, 0, 0, 1, math.pi / 4, 0.5]
    assert loaded.sap_model.joint_q.numpy().tolist() == pytest.approx(expected)
    assert loaded.sap_state.body_q.numpy()[0][:3].tolist() == pytest.approx([0, 3, 0.67])


def test_copy_joint_q_to_joint_targets():
    start = {"op": "set_array", "array": "joint_q", "range": "from:7", "values": [0.5, 0.25]}
    copy = {"op": "copy_joint_q_to_joint_targets"}
    base = {"op": "set_joint_q", "index": 2, "value": 2}
    model = edited(start, base, copy)
    assert model.joint_target_q.numpy().tolist() == [0, 0, 2, 0, 0, 0, 1, 0.5, 0.25]
    assert edited(start, base, {**copy, "joint": "slider"}).joint_target_q.numpy().tolist() == [
        0,
        0,
        0,
        0,
        0,
        0,
        1,
        0,
        0.25,
    ]
    assert edited(start, base, {**copy, "range": "from:7"}).joint_target_q.numpy()[[2, 7]].tolist() == [0, 0.5]
    assert edited(copy, start).joint_target_q.numpy()[7:].tolist() == [0, 0]


@pytest.mark.parametrize("key", ["value", "armature"])
def test_set_joint_armature(key):
    assert edited({"op": "set_joint_armature", "range": "tail:2", key: 0.5}).joint_armature.numpy()[5:].tolist() == [
        0,
        0.5,
        0.5,
    ]
    model = edited({"op": "set_joint_armature", "range": "tail:2", "values": [1, 2]})
    assert model.joint_armature.numpy()[5:].tolist() == [0, 1, 2]


def test_quaternions_have_length_one_after_all_edits():
    edit = {"op": "set_array", "array": "joint_q", "range": [3, 7], "values": [0, 0, 0.9, 0.9]}
    assert edited(edit).joint_q.numpy()[3:7].tolist() == pytest.approx([0, 0, math.sqrt(0.5), math.sqrt(0.5)])


def test_the_examples_of_the_documentation():
    operations = [
        {"op": "set_array", "array": "joint_q", "range": [0, 3], "values": [0.0, 0.0, 0.67]},
        {"op": "set_joint_targets", "range": "from:6", "mode": "position", "ke": 500.0, "kd": 10.0},
        {"op": "set_joint_targets", "label_prefix": "robot/left", "mode": "position", "ke": 1000.0, "kd": 20.0},
    ]
    model = edited(*operations)
    assert model.joint_q.numpy()[:3].tolist() == pytest.approx([0, 0, 0.67])
    assert model.joint_target_ke.numpy().tolist() == [0] * 6 + [1000, 500]
    assert model.joint_target_kd.numpy().tolist() == [0] * 6 + [20, 10]
