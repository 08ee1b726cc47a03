"""The schema: every key of the specification is there, described, and known to editors."""

import json
import re

import pytest

import sap_warp
from sap_warp.scene import schema
from sap_warp.scene.edits import operations
from sap_warp.scene.json_schema import scene_json_schema
from sap_warp.scene.objects import fields, objects
from sap_warp.scene.text.section import Section
from sap_warp.solver.settings.options import _PRESET_ALIASES, PRESETS
from tests.support.scene_files import BOX, boxes, chain, package, with_joint, with_shape

SHAPE = "density ke tau mu margin gap collision_group has_shape_collision has_particle_collision is_hydroelastic"
SHAPE += " is_visible is_site contact_margin shape_margin shape_gap shape_mu shape_ke shape_tau relaxation_time"
JOINT = "axis target_pos target_vel target_ke target_kd limit_lower limit_upper limit_ke limit_kd armature effort_limit"
JOINT += " velocity_limit friction actuator_mode"
ENDS = "id type parent child parent_xform child_xform collision_filter_parent"
IMPORTED = "id type source xform cfg shape physics enable_self_collisions hide_collision_shapes force_show_colliders"
SELECTOR = "index range joint joint_label joints joint_labels label_prefix match"

KEYS = {
    schema.Scene: "schema_version name simulation builder ground assets bodies joints articulations initial_joint_q "
    "post_build replicate control",
    schema.Simulation: "dt num_worlds max_rigid_contact solver",
    schema.Builder: "rigid_gap default_body_armature defaults",
    schema.Defaults: "joint shape",
    fields.ShapeFields: SHAPE,
    fields.JointFields: JOINT,
    objects.Ground: "enabled label " + SHAPE,
    objects.UsdAsset: f"{IMPORTED} skip_mesh_approximation ignore_paths",
    objects.UrdfAsset: f"{IMPORTED} floating load_visual_shapes parse_visuals_as_colliders",
    objects.MjcfAsset: f"{IMPORTED} floating load_visual_shapes parse_visuals_as_colliders",
    objects.Source: "path git package xml",
    objects.GitSource: "repo rev sparse path",
    objects.PackageSource: "name path",
    objects.Body: f"id label transform mass shape physics shapes {SHAPE}",
    objects.Box: f"type hx hy hz transform cfg {SHAPE}",
    objects.Sphere: "type radius transform cfg",
    objects.Capsule: "type radius half_height transform cfg",
    objects.Cylinder: "type radius half_height transform cfg",
    objects.Cone: "type radius half_height transform cfg",
    objects.Ellipsoid: "type a b c transform cfg",
    objects.MeshShape: "type source vertices indices scale transform cfg",
    objects.FixedJoint: ENDS,
    objects.FreeJoint: ENDS,
    objects.RevoluteJoint: f"{ENDS} {JOINT}",
    objects.PrismaticJoint: f"{ENDS} {JOINT}",
    objects.Articulation: "id joints",
    objects.InitialJointQ: "index joint joint_label offset value",
    objects.Replicate: "num_worlds spacing",
    objects.Control: "source loop",
    operations.AddShape: "op body shape",
    operations.SetArray: f"op array value values from_array {SELECTOR}",
    operations.CopyArray: f"op from_array to_array {SELECTOR}",
    operations.ScaleSphereShapes: "op factor",
    operations.ApproximateMeshes: "op method",
    operations.SetAttr: "op attr value",
    operations.SetJointTargets: f"op mode ke kd {SELECTOR}",
    operations.SetJointQ: "op index joint value",
    operations.CopyJointQToJointTargets: f"op {SELECTOR}",
    operations.SetJointArmature: f"op value values {SELECTOR}",
}
"""What the specification names."""

ARRAYS = """
shape_margin, shape_gap, shape_material_ke, shape_material_tau, shape_material_mu, shape_material_restitution,
shape_material_mu_torsional, shape_material_mu_rolling, shape_material_kh, shape_collision_group, shape_flags, joint_q,
joint_qd, joint_target_pos, joint_target_vel, joint_target_ke, joint_target_kd, joint_target_mode, joint_armature
"""


def sections():
    pending, found = [Section], []
    while pending:
        section = pending.pop()
        pending += section.__subclasses__()
        if not section.__name__.startswith("_") and section is not Section:
            found.append(section)
    return sorted(set(found), key=lambda section: section.__name__)


@pytest.mark.parametrize("section", KEYS, ids=lambda section: section.__name__)
def test_every_key_of_the_specification_is_accepted(section):
    missing = set(KEYS[section].split()) - set(section.accepted_keys())
    assert not missing


def test_every_array_of_the_specification_can_be_edited():
    assert set(operations.ARRAYS) >= set(re.findall(r"\w+", ARRAYS))


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_key_is_described(section):
    for name, field in section.model_fields.items():
        assert field.description or name in ("type", "op"), f"{section.__name__}.{name}"
    assert section.__doc__


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_aliases_stand_for_keys_that_exist_and_shadow_none(section):
    for alias, name in section.all_aliases().items():
        assert name in section.model_fields and alias not in section.model_fields


# The JSON schema for editors

GOOD = [
    boxes(),
    boxes(ground=False),
    boxes(ground={"enabled": True, "height": 1, "shape_mu": 0.5}),
    boxes(simulation={"dt": "1/400", "solver": {"contact_preset_variant": "drake"}}, replicate={"spacing": [1, 0, 0]}),
    chain(initial_joint_q=[{"joint": "hinge", "value": "pi/2"}, {"index": -1, "value": 0}]),
    with_shape({**BOX, "xform": {"q": {"axis_angle": {"axis": "z", "angle": "pi"}}}, "relaxation_time": 0.1}),
    with_shape({"type": "mesh", "vertices": [[0, 0, 0]], "indices": [[0, 0, 0]], "scale": 2}),
    with_joint("revolute", axis=2, limit_lower=-1, target_q=0.5),
    with_joint("d6", linear_axes=[{"axis": "-x"}], angular_axes=[{"axis": [0, 1, 0]}]),
    {"assets": [{"type": "urdf", "source": "robot.urdf", "transform": "identity"}]},
    {"assets": [{"type": "mjcf", "source": package("nv_ant.xml"), "cfg": {"mu": 0.5}}]},
    {"assets": [{"type": "usd", "source": {"git": {"repo": "r", "rev": "v", "path": "p"}}, "ignore_paths": ["/a"]}]},
    chain(
        post_build=[
            {"op": "add_shape", "body": "arm", "shape": BOX},
            {"op": "set_array", "array": "joint_q", "range": "head:2", "values": [0, "pi"]},
            {"op": "copy_array", "source": "joint_target_ke", "target": "joint_target_kd", "range": [0, None]},
            {"op": "set_attr", "name": "gravity", "value": [0, 0, -1]},
            {"op": "set_joint_targets", "match": "hinge", "mode": "position", "target_ke": 1},
            {"op": "set_joint_armature", "range": "all", "armature": 1},
        ]
    ),
]
BAD = [
    {"bodis": []},
    boxes(simulation={"dt": [1]}),
    with_shape({**BOX, "hx": None}),
    with_shape({"type": "torus"}),
    with_joint("fixed", limit_lower=1),
    boxes(post_build=[{"op": "set_array", "array": "body_q", "index": 0, "value": 1}]),
    boxes(replicate={"spacing": [1, 2]}),
    boxes(simulation={"solver": {"nonsense": 1}}),
]


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    text = scene_json_schema()
    jsonschema.Draft202012Validator.check_schema(text)
    return jsonschema.Draft202012Validator(text)


@pytest.mark.parametrize("scene", GOOD, ids=range(len(GOOD)))
def test_editors_accept_what_the_loader_accepts(validator, scene):
    sap_warp.load_sap_scene_config(scene)
    errors = [error.message for error in validator.iter_errors(json.loads(json.dumps(scene)))]
    assert not errors


@pytest.mark.parametrize("preset", [*PRESETS, *_PRESET_ALIASES])
def test_editors_know_every_spelling_of_a_preset(validator, preset):
    scene = boxes(simulation={"solver": {"contact_preset_variant": preset}})
    sap_warp.load_sap_scene_config(scene)
    assert validator.is_valid(scene)
    assert not validator.is_valid(boxes(simulation={"solver": {"contact_preset_variant": preset + "x"}}))


@pytest.mark.parametrize("scene", BAD, ids=range(len(BAD)))
def test_editors_mark_what_the_loader_refuses(validator, scene):
    with pytest.raises(sap_warp.SapSceneError):
        sap_warp.load_sap_scene_config(scene)
    assert not validator.is_valid(json.loads(json.dumps(scene)))
