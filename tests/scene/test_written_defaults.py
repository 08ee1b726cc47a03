"""A default that is written out is as good as one that is left out: for every key of the schema that has one."""

import copy
import json
from dataclasses import fields, is_dataclass

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp.scene.objects.fields import JointFields, ShapeFields
from sap_warp.scene.objects.materials import DEFAULT_KE
from sap_warp.scene.objects.objects import GitSource
from sap_warp.scene.schema import DEFAULT_GAP
from sap_warp.scene.text.section import Section
from sap_warp.scene.text.values import Transform
from sap_warp.solver.settings.options import OPTION_NAMES, SapOptions, expand_options
from tests.support.scene_files import BOX, free, load, package

POSE = {"p": [0.5, -0.25, 1.0], "q": [0.0, 0.6, 0.0, 0.8]}
SHAPES = [
    BOX,
    {"type": "sphere", "radius": 0.1},
    {"type": "capsule", "radius": 0.1, "half_height": 0.2},
    {"type": "cylinder", "radius": 0.1, "half_height": 0.2},
    {"type": "cone", "radius": 0.1, "half_height": 0.2},
    {"type": "ellipsoid", "a": 0.1, "b": 0.2, "c": 0.3},
    {
        "type": "mesh",
        "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "indices": [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3],
    },
]
JOINTS = [
    {"id": "fixed", "type": "fixed"},
    {"id": "free", "type": "free"},
    {"id": "revolute", "type": "revolute"},
    {"id": "prismatic", "type": "prismatic"},
    {"id": "ball", "type": "ball"},
    {"id": "distance", "type": "distance"},
    {"id": "slides", "type": "d6", "linear_axes": [{"axis": "x"}]},
    {"id": "turns", "type": "d6", "angular_axes": [{"axis": "x"}]},
]
URDF = """<robot name="r"><link name="base"><collision><geometry><box size="1 1 1"/></geometry></collision>
<visual><geometry><sphere radius="1"/></geometry></visual></link>
<link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<collision><geometry><sphere radius="0.1"/></geometry></collision></link>
<link name="tip"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>
<collision><geometry><sphere radius="0.1"/></geometry></collision></link>
<joint name="elbow" type="revolute"><parent link="base"/><child link="arm"/><limit lower="-1" upper="1"/></joint>
<joint name="mount" type="fixed"><parent link="arm"/><child link="tip"/></joint></robot>"""
MJCF = """<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom size="0.1"/><site name="s"/>
<geom size="0.2" contype="0" conaffinity="0"/><body><joint range="-10 10"/><geom size="0.1"/></body>
</body></worldbody></mujoco>"""


def make_scenes(folder):
    """Scenes with every block of the schema, each key with a default left out, and more than defaults around it."""
    targets = {"dt": 0.1, "joint_labels": ["hinge"], "joint_target_pos": [[0.0], [0.5]]}
    (folder / "targets.json").write_text(json.dumps(targets))
    shapes = {
        "bodies": [{"id": shape["type"], "transform": POSE, "shapes": [shape]} for shape in SHAPES],
        "joints": [free(shape["type"]) for shape in SHAPES],
        "ground": {},
        "replicate": {"num_worlds": 2},
    }
    joints = {
        "bodies": [{"id": joint["id"], "transform": POSE, "shapes": [BOX]} for joint in JOINTS],
        "joints": [{**joint, "child": joint["id"]} for joint in JOINTS],
        "builder": {"defaults": {}},
        "simulation": {},
        "initial_joint_q": [{"joint": "free", "value": 1.0}],
        "post_build": [
            {"op": "set_joint_q", "joint": "revolute", "value": 0.5},
            {"op": "add_shape", "shape": {**BOX, "transform": {"p": [0, 0, 3]}}},
        ],
        "articulations": [{"id": joint["id"], "joints": [joint["id"]]} for joint in JOINTS],
    }
    chain = {
        "bodies": [{"id": "base", "mass": 1.0, "inertia": [1, 1, 1]}, {"id": "arm", "shapes": [BOX]}],
        "joints": [free("base"), {"id": "hinge", "type": "revolute", "parent": "base", "child": "arm"}],
        "builder": {},
        "ground": {"terrain": {"kind": "steps"}},
        "control": {"source": {"path": str(folder / "targets.json")}},
    }
    usd = {"type": "usd", "source": package("cartpole.usda"), "decomposition": {}}
    files = [{"type": "urdf", "source": {"xml": URDF}}, {"type": "mjcf", "source": {"xml": MJCF}}, usd]
    return [shapes, joints, chain, *({"assets": [asset]} for asset in files)]


def as_written(value):
    """A default as a scene file has it."""
    if isinstance(value, Transform):
        return {"p": list(value.p), "q": list(value.q)}
    if isinstance(value, Section):
        return {name: as_written(default) for name, default in defaults_of(type(value)).items()}
    return list(value) if isinstance(value, tuple) else value


def defaults_of(section):
    """Fields with a default other than 'not given'."""
    found = {}
    for name, field in section.model_fields.items():
        if not field.is_required():
            value = field.default if field.default_factory is None else field.default_factory()
            if value is not None:
                found[name] = value
    return found


def blocks(section, path=()):
    """Every block of a scene with its path."""
    yield path, section
    for name in section.model_fields_set:
        value = getattr(section, name)
        for i, part in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(part, Section):
                yield from blocks(part, (*path, name, i) if isinstance(value, list) else (*path, name))


def with_key(scene, path, name, value):
    scene = copy.deepcopy(scene)
    block = scene
    for part in path:
        block = block[part]
    block[name] = value
    return scene


ADDRESSES = ("shape_source_ptr", "bvh_shape_enabled", "provenance")
"""What differs between two loads of one scene, and where a value was written."""


def content(value):
    """Everything that a loaded scene holds, as plain data that can be compared."""
    if isinstance(value, wp.array):
        return content(value.numpy())
    if isinstance(value, np.ndarray):
        return content(value.tolist())
    if isinstance(value, newton.Mesh):
        return content([value.vertices, value.indices])
    if isinstance(value, dict):
        return {str(key): content(part) for key, part in value.items() if key not in ADDRESSES}
    if isinstance(value, (list, tuple)):
        return [content(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if is_dataclass(value):
        return {field.name: content(getattr(value, field.name)) for field in fields(value) if field.init}
    return None


def what_it_became(scene):
    loaded = load(scene)
    solver = {name: loaded.solver_options.pop(name) for name in list(loaded.solver_options)}
    return {
        "model": content(vars(loaded.sap_model.newton_model)),
        "state": content(vars(loaded.sap_state)),
        "control": content(vars(loaded.sap_control)),
        "options": content(vars(expand_options(**solver))),
        "scene": content({field.name: getattr(loaded, field.name) for field in fields(loaded)}),
    }


def differences(one, other, path=""):
    """Where two trees of plain data differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{path}.{key}")
    elif repr(one) != repr(other):  # nan is nan here
        yield f"{path}: {str(one)[:200]} became {str(other)[:200]}"


def assert_all_alike(scene, changes):
    """Load ``scene`` and each of its variants (a name and the scene) and compare everything."""
    plain = what_it_became(scene)
    assert len(plain["model"]) > 100 and plain["model"]["joint_X_p"] and plain["model"]["shape_transform"]
    found = [(name, list(differences(plain, what_it_became(variant)))) for name, variant in changes]
    assert found and [change for change in found if change[1]] == []


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return make_scenes(tmp_path_factory.mktemp("scenes"))


@pytest.mark.parametrize("i", range(6))
def test_every_default_of_the_schema_can_be_written_out(scenes, i):
    changes = []
    for path, block in blocks(sap_warp.load_sap_scene_config(scenes[i])):
        for name, default in defaults_of(type(block)).items():
            if name not in block.model_fields_set:
                changes.append(((*path, name), with_key(scenes[i], path, name, as_written(default))))
    assert_all_alike(scenes[i], changes)


def test_no_block_of_the_schema_is_forgotten(scenes):
    """All blocks with defaults are in one of the scenes above; fetching from a repository is left out."""
    pending, wanted = [Section], set()
    while pending:
        section = pending.pop()
        pending += section.__subclasses__()
        if defaults_of(section) and not section.__name__.startswith("_"):
            wanted |= {(section.__name__, name) for name in defaults_of(section)}
    covered = set()
    for scene in scenes:
        for _, block in blocks(sap_warp.load_sap_scene_config(scene)):
            covered |= {
                (type(block).__name__, name) for name in defaults_of(type(block)) if name not in block.model_fields_set
            }
    assert wanted - covered == {(GitSource.__name__, "sparse")}


# Fields without a default in the schema have one of Newton's, or of the enclosing block.

PLAIN_SHAPE = newton.ModelBuilder.ShapeConfig()
OF_SHAPES = {
    name: getattr(PLAIN_SHAPE, name)
    for name in ShapeFields.model_fields
    if getattr(PLAIN_SHAPE, name, None) is not None
} | {"ke": DEFAULT_KE, "gap": DEFAULT_GAP, "density": 1000.0}
del OF_SHAPES["sdf_narrow_band_range"]  # says that a distance field is wanted, which is told to be unsupported
for stored in ("kd", "kf", "ka", "restitution", "mu_torsional", "mu_rolling", "kh"):
    OF_SHAPES.pop(stored)  # stored for other solvers, which is told
PLAIN_JOINT = newton.ModelBuilder.JointDofConfig()
OF_JOINTS = {name: getattr(PLAIN_JOINT, name) for name in JointFields.model_fields if name != "actuator_mode"}
OF_JOINTS |= {"axis": "x", "limit_lower": float("-inf"), "limit_upper": float("inf")}


@pytest.mark.parametrize(
    "path", [("bodies", 0), ("bodies", 0, "shapes", 0), ("ground",), ("builder", "defaults", "shape")]
)
def test_shape_fields_can_be_written_out(path):
    scene = {"bodies": [{"id": "a", "transform": POSE, "shapes": [BOX]}], "joints": [free("a")], "ground": {}}
    scene["builder"] = {"defaults": {"shape": {}}}
    scene["post_build"] = [{"op": "add_shape", "shape": BOX}]
    assert_all_alike(scene, [(name, with_key(scene, path, name, value)) for name, value in OF_SHAPES.items()])


@pytest.mark.parametrize(
    "path", [("joints", 0), ("joints", 1), ("joints", 2, "linear_axes", 0), ("builder", "defaults", "joint")]
)
def test_joint_fields_can_be_written_out(path):
    kinds = [{"type": "revolute"}, {"type": "prismatic"}, {"type": "d6", "linear_axes": [{"axis": "x"}]}]
    kinds += [{"type": "ball"}, {"type": "free"}, {"type": "distance"}]
    scene = {"bodies": [{"id": str(i), "transform": POSE, "shapes": [BOX]} for i in range(len(kinds))]}
    scene["joints"] = [{"id": f"j{i}", "child": str(i), **kind} for i, kind in enumerate(kinds)]
    scene["builder"] = {"defaults": {"joint": {}}}
    assert_all_alike(scene, [(name, with_key(scene, path, name, value)) for name, value in OF_JOINTS.items()])


@pytest.mark.parametrize("kind, source", [("urdf", URDF), ("mjcf", MJCF), ("usd", package("cartpole.usda"))])
def test_defaults_of_joints_can_be_written_out_above_files(kind, source):
    scene = {"assets": [{"type": kind, "source": source}], "builder": {"defaults": {"joint": {}}}}
    place = ("builder", "defaults", "joint")
    assert_all_alike(scene, [(name, with_key(scene, place, name, value)) for name, value in OF_JOINTS.items()])


def test_options_of_the_solver_can_be_written_out():
    scene = {"bodies": [{"id": "a", "shapes": [BOX]}], "joints": [free("a")]}
    scene["simulation"] = {"max_rigid_contact": 16, "solver": {}}
    values = {name: getattr(SapOptions(), name) for name in OPTION_NAMES} | {"max_rigid_contact": 16}
    values |= {"contact_preset_variant": "approx32"}
    place = ("simulation", "solver")
    assert_all_alike(scene, [(name, with_key(scene, place, name, value)) for name, value in values.items()])


@pytest.mark.parametrize(
    "path, value",
    [
        (("bodies", 0, "label"), "a"),
        (("bodies", 0, "com"), [0.0, 0.0, 0.0]),
        (("bodies", 0, "armature"), 0.0),
        (("joints", 0, "label"), "a_free"),
        (("joints", 0, "armature"), 0.0),
        (("joints", 0, "damping"), 0.0),
        (("joints", 0, "parent_xform"), "identity"),
        (("joints", 1, "parent_xform"), "identity"),
        (("joints", 2, "parent_xform"), POSE),
        (("replicate", "num_worlds"), 1),
        (("simulation", "num_worlds"), 1),
        (("name",), "scene"),
    ],
)
def test_other_keys_can_be_written_out(path, value):
    """What a key is without being given, by its description."""
    scene = {"bodies": [{"id": name, "shapes": [BOX]} for name in ("a", "b", "c")], "replicate": {}, "simulation": {}}
    hinge = {"type": "revolute", "axis": "y"}
    scene["joints"] = [free("a"), {"id": "b", "parent": "a", "child": "b", **hinge}, {"id": "c", "child": "c", **hinge}]
    scene["bodies"][0]["transform"] = scene["bodies"][2]["transform"] = POSE
    assert_all_alike(scene, [(path, with_key(scene, path[:-1], path[-1], value))])
