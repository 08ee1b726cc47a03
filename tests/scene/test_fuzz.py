"""Random scenes: each loads or raises the scene error; nothing else escapes and nothing hangs."""
# ruff: noqa: E501 - tables

import copy
import json
import random
import re
import warnings

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sap_warp
from sap_warp.scene.text.document import read_document
from sap_warp.scene.text.section import Section
from sap_warp.scene.text.yaml_text import _Reader, resolve_plain
from tests.support.random_scenes import (
    SCALAR_FIELDS,
    expected_fields,
    expected_filters,
    expected_poses,
    make_scene,
    matrix_of,
)
from tests.support.scene_files import BOX, boxes, chain, load, with_joint, with_shape

URDF = """<robot name="r"><link name="a"><collision><geometry><box size="1 1 1"/></geometry></collision></link>
<link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><limit lower="-1" upper="1"/></joint></robot>"""
ONE_LINK = """<robot name="r"><link name="{name}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link></robot>"""
MJCF = "<mujoco><worldbody><body><freejoint/><geom type='sphere' size='0.1'/></body></worldbody></mujoco>"

SEEDS = [
    boxes("a", "b", simulation={"dt": 0.01, "max_rigid_contact": 32}, replicate={"spacing": [1.0, 0.0, 0.0]}),
    chain(
        schema_version=1,
        name="n",
        builder={
            "rigid_gap": 0.01,
            "default_body_armature": 0.1,
            "defaults": {"shape": {"mu": 0.5, "tau": 0.01}, "joint": {"armature": 0.1, "limit_ke": 100.0}},
        },
        articulations=[{"id": "robot", "joints": ["base_free", "hinge", "slider"]}],
        initial_joint_q=[{"joint": "hinge", "value": "pi / 4"}, {"index": 2, "value": 1.0}],
        post_build=[
            {"op": "set_joint_targets", "range": "from:6", "mode": "position", "ke": 10.0, "kd": 1.0},
            {"op": "copy_joint_q_to_joint_targets"},
        ],
    ),
    chain(
        ground={"enabled": True, "height": -1.0, "cfg": {"mu": 0.3}},
        post_build=[
            {"op": "set_array", "array": "joint_q", "range": [0, 3], "values": [0.0, 0.0, 1.0]},
            {"op": "set_array", "array": "shape_margin", "match": "shape", "value": 0.01},
            {"op": "copy_array", "from_array": "joint_target_ke", "to_array": "joint_target_kd", "range": "tail:2"},
            {"op": "set_joint_armature", "joints": ["hinge", "slider"], "values": [0.1, 0.2]},
            {"op": "add_shape", "body": "arm", "shape": {"type": "sphere", "radius": 0.2}},
            {"op": "scale_sphere_shapes", "factor": 2.0},
            {"op": "set_attr", "attr": "gravity", "value": [0.0, 0.0, -1.0]},
            {"op": "set_joint_q", "joint": "slider", "offset": 0, "value": 0.5},
        ],
    ),
    with_shape(
        {
            "type": "mesh",
            "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
            "indices": [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3],
            "scale": [1.0, 2.0, 1.0],
        },
        post_build=[{"op": "approximate_meshes", "method": "bounding_box"}],
    ),
    with_shape({"type": "capsule", "radius": 0.1, "half_height": 0.2, "transform": {"p": [0, 0, 1], "q": [0, 0, 0, 1]}}),
    with_shape({"type": "ellipsoid", "a": 0.1, "b": 0.2, "c": 0.3, "physics": {"density": 10.0, "gap": 0.1}}),
    with_joint("d6", linear_axes=[{"axis": "x", "target_ke": 5.0}], angular_axes=[{"axis": [0, 1, 0], "limit_upper": 1.0}]),
    with_joint("ball", armature=0.1, parent_xform={"q": {"axis_angle": {"axis": "z", "angle": "pi"}}}),
    {"bodies": [{"id": "a", "mass": 1.0, "inertia": [1.0, 1.0, 1.0], "com": [0, 0, 0.1], "shapes": [BOX]}],
     "joints": [{"id": "j", "type": "prismatic", "child": "a", "axis": "z", "limit_lower": -1.0, "limit_upper": 1.0}]},
    {"assets": [{"type": "urdf", "source": URDF, "floating": True, "cfg": {"mu": 0.5}, "label_prefix": "p"}]},
    {"assets": [{"type": "mjcf", "source": MJCF, "xform": {"p": [0, 0, 1]}}], **boxes()},
]  # fmt: skip


def vocabulary():
    words, pending = {"identity", "world", "axis_angle", "axis", "angle", "p", "q"}, [Section]
    while pending:
        section = pending.pop()
        words.update(section.accepted_keys())
        pending += section.__subclasses__()
    return sorted(words)


WORDS = vocabulary()
JUNK = [None, True, False, 0, 1, -1, 2, 7, 0.5, -0.5, 1e-30, 1e-300, 1e20, 1e300, -1e300, 10**40, 2**31, -(2**31)]
JUNK += [
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "y",
    "-z",
    "pi",
    "1/0",
    "identity",
    "world",
    "all",
    "head:1",
]
JUNK += [
    "tail:99",
    "from:0",
    "a" * 300,
    "\ud800",
    "ü\n\x00",
    "1e400",
    "base",
    "hinge",
    "free",
    "box",
    "sphere",
    "set_array",
]
JUNK += [
    [],
    {},
    [1],
    [0, 0, 0],
    [1, 2, 3],
    [0, 0, 0, 1],
    [0, 0, 0, 0],
    [[]],
    [None],
    {"p": [0, 0, 0]},
    {1: 2},
    {None: None},
]
JUNK += [
    {"type": "box"},
    {"enabled": False},
    [0, None],
    (1, 2, 3),
    b"bytes",
    {1, 2},
    object,
    1 + 2j,
    np.float32(2),
    np.ones(3),
]


class Rude:
    """An object that raises when it is looked at."""

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = object.__hash__

    def tolist(self):
        raise RuntimeError("no")


# What looks like something else to YAML 1.1, what terminals obey, magnitudes at and beyond the bounds, empty choices.
WORDS_1_1 = ["1:30", "1_000", "010", "0o10", "0b1", "yes", "off", "2020-01-01", "1e3", "+.5", "0x_f", "-0", "~", "NO"]
JUNK += [*WORDS_1_1, "\x1b[31m", "a\x9bb", "\u202e", "a\nb", "../x", "/dev/zero", "~/x", Rude(), type, iter(())]
JUNK += [-0.0, 1e7, 1e8, 1e-7, 1e-8, 1e-9, 1e15, 1e16, 1e29, -1e29, 1e-31, 5e-324, 101, 1e-10]
JUNK += ["head:0", "tail:0", [5, 5], [-1, -1], {"joints": []}, [{}], {"": ""}]


def places(value, path=()):
    """Paths of everything inside ``value``."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def part_at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate(scene, choose, kinds=("replace", "delete", "rename", "insert", "copy", "number")):
    """Change one thing; ``choose`` picks from a list."""
    numbers = kinds == ("number",)
    path = choose([p for p in places(scene) if not numbers or type(part_at(scene, p)) in (int, float)] or [()])
    kind = choose(kinds)
    parent = part_at(scene, path[:-1]) if path else None
    value = part_at(scene, path)
    if kind == "insert" and isinstance(value, dict):
        value[choose(WORDS)] = copy.deepcopy(choose(JUNK))
    elif kind == "insert" and isinstance(value, list):
        value.insert(choose(range(len(value) + 1)), copy.deepcopy(choose(JUNK)))
    elif parent is None:
        return
    elif kind == "delete":
        del parent[path[-1]]
    elif kind == "rename" and isinstance(parent, dict):
        key = str(path[-1])
        parent[choose([key + "x", key[1:], key.upper(), choose(WORDS)])] = parent.pop(path[-1])
    elif kind == "copy":
        parent[path[-1]] = copy.deepcopy(part_at(scene, choose(list(places(scene)))))
    elif kind == "number" and isinstance(value, (int, float)) and np.isfinite(float(min(value, 1e300))):
        parent[path[-1]] = choose(
            [0, -value, value * 1e6, value * 1e-6, value + 0.5, str(value), int(value) + 1, 1e30, -0.0]
        )
    else:
        parent[path[-1]] = copy.deepcopy(choose(JUNK))


def try_to_load(scene):
    """The loaded scene, or None if it is refused as it should be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load(scene, num_worlds=2)  # or the fuzz would ask for millions of worlds
    except sap_warp.SapSceneError as error:
        refusal = error
    assert refusal.problems and str(refusal).encode()  # says something that can be printed
    assert all(line.isprintable() for line in str(refusal).split("\n"))
    return None


@settings(max_examples=300, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_scenes_load_or_raise_the_scene_error(data):
    scene = copy.deepcopy(data.draw(st.sampled_from(SEEDS)))
    # Half of the scenes only have other numbers: most of these are valid and get further.
    kinds = data.draw(st.sampled_from([("number",), ("replace", "delete", "rename", "insert", "copy", "number")]))
    for _ in range(data.draw(st.integers(1, 4))):
        mutate(scene, lambda options: data.draw(st.sampled_from(options)), kinds)
    try_to_load(scene)


values = st.recursive(
    st.sampled_from([junk for junk in JUNK if not isinstance(junk, (dict, list))]) | st.text(max_size=8) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=15,
)


@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(list(sap_warp.scene.schema.Scene.model_fields)), values, max_size=5))
def test_random_mappings_load_or_raise_the_scene_error(scene):
    try_to_load(scene)


yaml_text = st.lists(
    st.sampled_from(
        [
            "bodies:",
            "joints:",
            "ground: ",
            "- ",
            "  ",
            "\n",
            "id: a",
            "{",
            "}",
            "[",
            "]",
            ", ",
            ": ",
            "&a ",
            "*a",
            "<<: ",
            "!!",
        ]
        + [
            "!!int ",
            "!!bool x",
            "|",
            ">",
            "'",
            '"',
            "#",
            "---",
            "...",
            "%YAML 1.1\n",
            "\t",
            "0x1F",
            "1e5",
            ".inf",
            "~",
            "? ",
        ]
        + [
            "2020-01-01",
            "é",
            "\\",
            "\\x",
            "@",
            "`",
            "\0",
            "\ufeff",
            "\U0001f600",
            "1_000",
            "yes",
            "=",
            "!",
            "\u2028",
            "<<: *a",
        ]
        + [
            "!x ",
            "!!set ",
            "!!seq ",
            "! ",
            "<<: [*a]",
            "&b ",
            "*b",
            "'<<': ",
            "\n- ",
            "\n  ",
            "[a]: ",
            "name: ",
            "dt: ",
        ]
        + WORDS_1_1
    ),
    max_size=25,
).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def problems_in(file):
    try:
        sap_warp.load_sap_scene_config(file)
    except sap_warp.SapSceneError as error:
        return error.problems
    return ()


@settings(max_examples=600, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=yaml_text | st.text(max_size=60))
def test_random_text_is_a_document_or_the_scene_error(folder, text):
    for name in ("scene.yaml", "scene.json"):
        file = folder / name
        file.write_text(text, encoding="utf-8", errors="replace")
        for problem in problems_in(file):
            assert problem.file == str(file) and problem.message


@settings(max_examples=400, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=yaml_text)
def test_both_parsers_of_yaml_read_the_same(folder, text):
    """The parser in C, and the one in Python where that is missing: the same data, or the text is refused."""
    found = []
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        try:
            found.append(_Reader(folder / "x.yaml").read(yaml.parse(text, Loader=loader)))
        except Exception:
            return
    assert repr(found[0].data) == repr(found[1].data)
    assert {problem.message for problem in found[0].problems} == {problem.message for problem in found[1].problems}


@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.text(alphabet="0123456789.eE+-_:xob ~nulTrueFasinfyo", min_size=1, max_size=8))
def test_plain_words_are_numbers_only_if_python_and_yaml_1_2_say_so(word):
    """Whatever is read as a number is the number that Python reads, apart from octal and hexadecimal ones."""
    value = resolve_plain(word)
    if isinstance(value, str):
        assert value == word
    elif isinstance(value, bool) or value is None:
        assert word.lower() in ("true", "false", "null", "~")
    elif word[:2] in ("0o", "0x"):
        assert value == int(word, 0)
    else:
        assert "_" not in word and repr(float(value)) == repr(
            float(re.sub(r"^([+-]?)\.(inf|nan)$", r"\1\2", word.lower()))
        )


@pytest.fixture(scope="module")
def fenced(tmp_path_factory):
    """A scene folder with links that lead out of it, and a secret beside it."""
    outside = tmp_path_factory.mktemp("outside")
    inside = outside / "scene"
    (inside / "robots").mkdir(parents=True)
    for folder, name in ((outside, "secret"), (inside, "own"), (inside / "robots", "own")):
        (folder / "robot.urdf").write_text(ONE_LINK.format(name=name))
    (inside / "out").symlink_to(outside)
    (inside / "robots" / "link.urdf").symlink_to(outside / "robot.urdf")
    return inside


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.lists(st.sampled_from(["..", ".", "robots", "out", "scene", "robot.urdf", "link.urdf", "", "~"]), max_size=6),
    st.sampled_from(["", "/", "{inside}/", "{outside}/", "./", "file://"]),
)
def test_no_path_leads_a_confined_scene_out_of_its_folder(fenced, parts, start):
    path = start.format(inside=fenced, outside=fenced.parent) + "/".join(parts)
    file = fenced / "scene.yaml"
    file.write_text(json.dumps({"assets": [{"type": "urdf", "source": {"path": path}, "floating": True}]}))
    try:
        loaded = load(file, confine=True)
    except sap_warp.SapSceneError:
        return
    assert loaded.body_labels == ["r/own"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(max_size=6), json_values, max_size=5), st.sampled_from([None, 1, "\t"]))
def test_json_is_read_as_python_reads_it_with_a_line_for_every_value(tmp_path_factory, data, indent):
    file = tmp_path_factory.getbasetemp() / "values.json"
    text = json.dumps(data, indent=indent)
    file.write_text(text)
    document = read_document(file)
    assert document.data == data
    lines = text.splitlines()
    for path in filter(None, places(data)):
        line = document.problem(path, "").line
        assert line is not None and 1 <= line <= len(lines)
        if indent and path and isinstance(path[-1], str):
            assert lines[line - 1].lstrip().startswith(json.dumps(path[-1]))


def test_scenes_that_load_also_step():
    """A few scenes with one harmless change each; whatever loads without reservations can be simulated."""
    generator = random.Random(7)
    stepped = 0
    for attempt in range(40):
        scene = copy.deepcopy(SEEDS[attempt % len(SEEDS)])
        mutate(scene, generator.choice, ("number",))
        loaded = try_to_load(scene)
        if loaded is None or loaded.unsupported_features:
            continue
        solver = sap_warp.SolverSAP(loaded.sap_model, **loaded.solver_options)
        pipeline = sap_warp.SapCollisionPipeline(
            loaded.collision_model, rigid_contact_max=min(loaded.rigid_contact_max, 4096)
        )
        contacts = pipeline.contacts()
        before, after = loaded.sap_state, loaded.sap_model.state()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipeline.collide(before, contacts)
            solver.step(before, after, loaded.sap_control, contacts, min(loaded.dt, 0.01))
        numbers = [
            array.numpy() for array in (before.joint_q, loaded.sap_model.body_inertia, loaded.sap_model.body_mass)
        ]
        if all(np.abs(array).max(initial=0.0) < 1e4 for array in numbers):
            assert np.isfinite(after.joint_q.numpy()).all(), scene
            assert np.isfinite(after.body_q.numpy()).all(), scene
        stepped += 1
        if stepped == 12:
            break
    assert stepped == 12


# Random models against an oracle that only reads the scene.


@pytest.mark.parametrize("seed", range(40))
def test_random_models_are_what_their_scenes_say(seed, rng):
    """Poses to fp32, fields and filters exactly, in the first of two worlds and in the second."""
    scene = make_scene(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random transforms and frames disagree
        loaded = load(scene, num_worlds=2)
    model, bodies = loaded.sap_model, len(scene["bodies"])
    poses = [matrix_of({"p": pose[:3], "q": pose[3:]}) for pose in loaded.sap_state.body_q.numpy().astype(float)]
    np.testing.assert_allclose(poses, expected_poses(scene) * 2, rtol=0.0, atol=2e-5)
    names = {"target_pos": "target_q", "target_vel": "target_qd"}
    for name in SCALAR_FIELDS:
        got = getattr(model, f"joint_{names.get(name, name)}").numpy()
        for dof, row in enumerate(expected_fields(scene)):
            if row.get(name) is not None:
                entry = coordinate_of(scene, dof) if name == "target_pos" else dof
                assert got[entry] == np.float32(row[name]), (name, dof)
    filtered, telling = expected_filters(scene)
    ground = max(pair[1] for pair in telling)
    shapes = (model.shape_count - 1) // 2
    for world in range(2):
        own = {s: s + world * shapes for s in range(shapes)} | {ground: model.shape_count - 1}
        got = {pair for pair in telling if (own[pair[0]], own[pair[1]]) in model.shape_collision_filter_pairs}
        assert got == filtered
    assert bodies * 2 == model.body_count


def coordinate_of(scene, dof):
    """First entry of joint_q of the joint that has a dof; for scalar dofs the entry of that dof."""
    sizes = {"fixed": (0, 0), "free": (6, 7), "distance": (6, 7), "ball": (3, 4), "d6": (2, 2)}
    dofs = coordinates = 0
    for joint in scene["joints"]:
        size = sizes.get(joint["type"], (1, 1))
        if dof < dofs + size[0]:
            return coordinates + dof - dofs
        dofs, coordinates = dofs + size[0], coordinates + size[1]
    raise AssertionError(dof)


def test_random_boxes_rest_where_statics_puts_them(rng):
    """Boxes on tables of random height, turned about z, filters written out or not: half a height above, less sag.

    Four corners with stiffness ke in series to that of the table carry the weight.
    """
    ke, density, scene = 1e5, 500.0, {"bodies": [], "joints": []}
    heights = []
    for i in range(6):
        table, half, side = rng.uniform(0.1, 0.5, 3)
        turned = {"axis_angle": {"axis": "z", "angle": float(rng.uniform(-3, 3))}}
        box = {"type": "box", "hx": 0.5 * side, "hy": 0.5 * side, "hz": 0.25 * half}
        board = {"type": "box", "hx": 0.6, "hy": 0.6, "hz": 0.5 * table}
        at, top = [2.0 * i, 0.0], table + 0.25 * half
        scene["bodies"] += [
            {"id": f"table{i}", "transform": {"p": [*at, 0.5 * table], "q": turned}, "shapes": [board]},
            {"id": f"box{i}", "transform": {"p": [*at, top], "q": turned}, "shapes": [box]},
        ]
        told = [{}, {"collision_filter_parent": True}, {"collision_filter_parent": False}][i % 3]
        scene["joints"] += [
            {"id": f"hold{i}", "type": "fixed", "child": f"table{i}", **told},
            {"id": f"free{i}", "type": "free", "child": f"box{i}", **told},
        ]
        mass = density * side * side * 0.5 * half
        heights.append(top - 9.81 * mass / (4 * ke / 2))
    scene["builder"] = {"rigid_gap": 0.01, "defaults": {"shape": {"ke": ke, "density": density, "tau": 0.02}}}
    with sap_warp.Simulation.from_scene(scene, device="cpu", contact_preset_variant="drake") as simulation:
        simulation.step(400)
        np.testing.assert_allclose(simulation.body_q.numpy()[0, 1::2, 2], heights, atol=1e-4)
