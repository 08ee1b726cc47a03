"""Advice about scenes that load: which notes there are, where they point, and where they are shown."""

import json
import logging
import math

import newton
import numpy as np
import pytest

from sap_warp import SapSceneError, Simulation, cli
from sap_warp.core.notes import ENVIRONMENT
from sap_warp.judge.advice import advise
from sap_warp.judge.advice.weights import link_weights
from sap_warp.scene.edits import worlds
from sap_warp.scene.shipped.scene_files import runs_offline, shipped_scenes
from tests.support.scene_files import free, load

ARM = """\
bodies:
  - {id: arm, mass: 1.0, transform: {p: [0, 0, 2]}, shapes: [{type: sphere, radius: 0.1}]}
joints:
  - {id: hinge, type: revolute, child: arm, axis: y, parent_xform: {p: [0, 0, 2]}}
post_build:
  - {op: set_joint_targets, joint: hinge, mode: position}
"""
"""A drive without gains."""
HINGE = {"id": "hinge", "type": "revolute", "child": "arm", "axis": "y", "parent_xform": {"p": [0, 0, 2]}}


def ids(scene, **options):
    return [note.id for note in load(scene, **options).notes]


def arm(**fields):
    """A hinge that carries a ball."""
    body = {"id": "arm", "mass": 1.0, "transform": {"p": [0, 0, 2]}, "shapes": [{"type": "sphere", "radius": 0.1}]}
    return {"bodies": [body], "joints": [{**HINGE, **fields}]}


@pytest.fixture
def arm_file(tmp_path):
    file = tmp_path / "arm.yaml"
    file.write_text(ARM, encoding="utf-8")
    return file


def odd_models():
    """Models that leave out what most have."""

    def make(add):
        builder = newton.ModelBuilder()
        add(builder)
        return builder

    yield make(lambda b: None)
    yield make(lambda b: b.add_ground_plane())
    yield make(lambda b: (b.add_shape_box(-1), b.add_shape_box(-1)))
    yield make(lambda b: b.add_body(mass=1.0, inertia=np.eye(3)))
    yield make(lambda b: b.add_shape_sphere(b.add_link(mass=1.0)))
    massless = newton.ModelBuilder.ShapeConfig(density=0.0)
    yield make(lambda b: b.add_shape_sphere(b.add_body(), cfg=massless))
    yield make(lambda b: (b.add_shape_cone(b.add_body()), b.add_shape_ellipsoid(b.add_body())))
    flat = newton.Mesh(np.eye(3, dtype=np.float32), np.arange(3, dtype=np.int32), compute_inertia=False)
    yield make(lambda b: [b.add_shape_mesh(b.add_body(mass=1.0, inertia=np.eye(3)), mesh=flat) for _ in range(2)])
    poisoned = make(lambda b: b.add_shape_sphere(b.add_body()))
    poisoned.joint_q[2] = math.nan
    yield poisoned


def test_advice_has_nothing_to_say_about_odd_models():
    """Without joints, shapes or mass, flat, or with a position that is no number."""
    assert [advise(builder.finalize(device="cpu")) for builder in odd_models()] == 9 * [[]]


# Where notes are shown.


def test_note_names_kind_and_place(arm_file):
    """One line: file, line, path inside, what to do, and a name that stays."""
    (note,) = load(arm_file).notes
    assert (note.id, note.path, note.line) == ("drive-without-gains", "post_build[0]", 6)
    assert str(note).startswith(f"{arm_file}:6: post_build[0]: ")
    assert str(note).endswith("[drive-without-gains]") and "\n" not in str(note)


def test_simulation_prints_each_note_once_and_can_be_quiet(arm_file, caplog, monkeypatch):
    """To the logger of the package: `notes=False`, the environment and the logger silence it."""
    with caplog.at_level(logging.WARNING, "sap_warp"):
        sim = Simulation.from_scene(arm_file, device="cpu")
        assert [record.getMessage() for record in caplog.records] == [f"note: {note}" for note in sim.notes]
        caplog.clear()
        assert Simulation.from_scene(arm_file, device="cpu", notes=False).notes == sim.notes
        monkeypatch.setenv(ENVIRONMENT, "0")
        Simulation.from_scene(arm_file, device="cpu")
        monkeypatch.delenv(ENVIRONMENT)
        logging.getLogger("sap_warp").setLevel(logging.ERROR)
        Simulation.from_scene(arm_file, device="cpu")
        assert not caplog.records


def test_simulation_of_a_model_gives_notes_too(caplog):
    """Without a scene there is no place, but the same advice."""
    model = load(arm(actuator_mode=1)).sap_model
    with caplog.at_level(logging.WARNING, "sap_warp"):
        sim = Simulation(model, dt=0.005)
    assert [(note.id, note.subject, note.file) for note in sim.notes] == [("drive-without-gains", ("joint", 0), None)]
    assert len(caplog.records) == 1
    assert Simulation(model, dt=0.005, notes=False).notes == []


def test_check_and_run_print_notes(arm_file, capsys, caplog):
    """Also as findings of `check --json`, which exits with 0: a note is no mistake."""
    for arguments in (["check"], ["run", "--num-worlds", "1", "--duration", "0.01", "--device", "cpu"]):
        caplog.clear()
        assert cli.main([*arguments, str(arm_file)]) == 0
        assert [record.getMessage() for record in caplog.records if record.name == "sap_warp"] == [
            f"note: {note}" for note in load(arm_file).notes
        ]
    capsys.readouterr()
    assert cli.main(["check", "--json", str(arm_file)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["valid"] and result["summary"]["worlds"] == "1"
    (finding,) = result["findings"]
    assert {**finding, "message": ""} == {
        "kind": "note", "id": "drive-without-gains", "message": "", "subject": None,
        "path": "post_build[0]", "file": str(arm_file), "line": 6,
    }  # fmt: skip


def test_check_json_lists_problems(tmp_path, capsys):
    """A scene that is not valid gives its problems as findings, and exit code 1."""
    file = tmp_path / "bad.yaml"
    file.write_text("simulation: {dt: -1}\n", encoding="utf-8")
    assert cli.main(["check", "--json", str(file)]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["valid"]
    assert [(f["kind"], f["path"], f["line"]) for f in result["findings"]] == [("error", "simulation.dt", 1)]


# What shipped scenes say.


@pytest.mark.parametrize("name", [name for name, file in shipped_scenes().items() if runs_offline(file)])
def test_shipped_scenes_deserve_no_note(name):
    """No false alarm on scenes that are known to be right."""
    assert [str(note) for note in load(shipped_scenes()[name], num_worlds=2).notes] == []


# Drives.


def test_drives_without_gains_are_noted_and_not_counted_as_driven():
    """By the scene's edit, by a joint's own mode; not where a later edit gives the gain."""
    from sap_warp.scene.summary import summarize_scene

    scene = load(arm(actuator_mode=1))
    assert [note.id for note in scene.notes] == ["drive-without-gains"]
    assert dict(summarize_scene(scene))["dofs"] == "1 per world, 0 driven"
    assert ids(arm(actuator_mode=1, target_kd=1.0)) == []
    assert ids(arm()) == []
    mode = {"op": "set_joint_targets", "joint": "hinge", "mode": "position"}
    gain = {"op": "set_array", "array": "joint_target_ke", "range": "all", "value": 5.0}
    assert ids({**arm(), "post_build": [mode]}) == ["drive-without-gains"]
    assert ids({**arm(), "post_build": [mode, gain]}) == []


def test_gains_without_a_mode_are_noted():
    """By the edit that sets them, by a joint's own mode, in a model without a scene; not where a mode follows."""
    (note,) = load(arm(actuator_mode=0, target_ke=50.0, target_kd=2.0)).notes
    assert (note.id, note.path) == ("gains-without-mode", "joints[0]")
    assert "target_ke 50 and target_kd 2 of 'hinge' do nothing" in note.message and "set mode position" in note.message
    gains = {"op": "set_joint_targets", "joint": "hinge", "ke": 50.0}
    (note,) = load({**arm(actuator_mode=0), "post_build": [gains]}).notes
    assert (note.id, note.path) == ("gains-without-mode", "post_build[0]") and "add mode: position" in note.message
    mode = {"op": "set_array", "array": "joint_target_mode", "range": "all", "value": 1}
    assert ids({**arm(), "post_build": [gains, mode]}) == []
    assert ids({**arm(), "post_build": [gains | {"mode": "position"}]}) == []
    model = load(arm(actuator_mode=1, target_ke=50.0)).sap_model.newton_model
    assert advise(model) == []
    model.joint_target_mode.zero_()
    assert [(note.id, note.subject) for note in advise(model)] == [("gains-without-mode", ("joint", 0))]


# Positions and limits.


@pytest.mark.parametrize(
    ("fields", "q", "expected"),
    [
        ({"limit_lower": -1.6, "limit_upper": 1.6}, 90.0, ["position-outside-limits"]),
        ({}, 90.0, ["position-outside-limits"]),
        ({"limit_lower": -90, "limit_upper": 90}, 0.0, ["limits-in-degrees"]),
        ({"limit_lower": -1.6, "limit_upper": 1.6}, 2.0, []),
        ({"limit_lower": 1.0, "limit_upper": 2.0}, 0.0, []),  # as many robots have it at their zero
        ({}, 6.0, []),
    ],
)
def test_angles_in_degrees_are_noted(fields, q, expected):
    """Far outside of the limits, many turns where there are none, limits of many turns."""
    assert ids({**arm(**fields), "initial_joint_q": [{"joint": "hinge", "value": q}]}) == expected


def test_targets_in_degrees_are_noted():
    """Of drives that follow them."""
    scene, edit = (
        arm(limit_lower=-1.6, limit_upper=1.6),
        {"op": "set_joint_targets", "joint": "hinge", "target_pos": 45},
    )
    assert ids({**scene, "post_build": [edit]}) == []
    assert ids({**scene, "post_build": [{**edit, "mode": "position", "ke": 10.0}]}) == ["target-outside-limits"]


def test_angle_note_tells_the_angle_in_radians():
    """And the line of the joint."""
    scene = {**arm(limit_lower=-1.6, limit_upper=1.6), "initial_joint_q": [{"joint": "hinge", "value": 90}]}
    (note,) = load(scene).notes
    assert note.path == "joints[0]"
    assert note.message == (
        "'hinge' starts at 90 rad, its limits are -1.6 to 1.6 rad; 90 degrees are 1.571 rad"
    )  # fmt: skip


def test_slides_in_millimetres_are_noted():
    """A finger with a travel of 4 cm that starts at 20."""
    scene = arm(type="prismatic", limit_lower=0.0, limit_upper=0.04)
    assert ids({**scene, "initial_joint_q": [{"joint": "hinge", "value": 20.0}]}) == ["position-outside-limits"]
    assert ids({**scene, "initial_joint_q": [{"joint": "hinge", "value": 0.06}]}) == []


# Sizes.


def robot(unit):
    """Two links of 0.3 m, in other units."""
    link = LINK.format(0.05 * unit)
    text = f"""<robot name="r"><link name="a">{link}</link><link name="b">{link}</link>
    <joint name="j" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0 0 {0.3 * unit}"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""
    asset = {"type": "urdf", "source": {"xml": text}, "enable_self_collisions": False}
    edits = [{"op": "set_joint_targets", "joint": "j", "mode": "position", "ke": 1.0}]
    return {"assets": [asset], "post_build": edits, "ground": False}


LINK = """<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="{}"/></geometry></collision>"""


def test_robots_in_the_wrong_unit_are_noted():
    """A thousandth or a thousand times of what was meant; not a robot of 40 cm."""
    assert ids(robot(1.0)) == []
    assert ids(robot(0.001)) == ["odd-size"]
    assert ids(robot(1000.0)) == ["odd-size"]
    assert "scale: 1000" in load(robot(0.001)).notes[0].message
    assert "scale: 0.001" in load(robot(1000.0)).notes[0].message


# Overlaps.


def two(first, second, apart, **fields):
    """Two free bodies with one shape each, along x, high above the ground."""
    bodies = [
        {"id": name, "transform": {"p": [x, 0, 5]}, "shapes": [shape], **fields}
        for name, x, shape in (("first", 0.0, first), ("second", apart, second))
    ]
    return {"bodies": bodies, "joints": [free("first"), free("second")]}


BALL = {"type": "sphere", "radius": 0.1}
CUBE = {"type": "box", "hx": 0.1, "hy": 0.1, "hz": 0.1}
PLATE = {"type": "box", "hx": 0.01, "hy": 1.0, "hz": 1.0}
ROD = {"type": "capsule", "radius": 0.02, "half_height": 1.0}
DISC = {"type": "cylinder", "radius": 0.2, "half_height": 0.02}
CORNERS = [[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
FACES = [0, 1, 3, 0, 3, 2, 4, 6, 7, 4, 7, 5, 0, 4, 5, 0, 5, 1, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 5, 7, 1, 7, 3]
HULL = {"type": "mesh", "vertices": CORNERS, "indices": FACES, "convex": True}
MESH = {"type": "mesh", "vertices": CORNERS, "indices": FACES}
OPEN = {"type": "mesh", "vertices": CORNERS, "indices": FACES[6:]}  # a box without a side


@pytest.mark.parametrize(
    ("first", "second", "apart", "depth"),
    [
        (BALL, BALL, 0.1, 0.1),
        (BALL, CUBE, 0.1, 0.1),
        (CUBE, CUBE, 0.15, 0.05),
        (CUBE, HULL, 0.15, 0.05),
        (BALL, HULL, 0.0, 0.2),
        (MESH, BALL, 0.0, 0.2),
        (MESH, CUBE, 0.1, 0.1),
        (OPEN, BALL, 0.0, None),  # no vertex is inside, and a mesh that is not convex contains nothing
        (OPEN, {"type": "sphere", "radius": 0.3}, 0.0, 0.3 - 0.1 * 3**0.5),
        (PLATE, CUBE, 0.0, 0.11),
        (ROD, CUBE, 0.05, 0.07),
        (DISC, CUBE, 0.2, 0.1),
        (BALL, BALL, 0.199, None),
        (CUBE, CUBE, 0.199, None),
        (BALL, CUBE, 0.3, None),
    ],
)
def test_bodies_that_start_inside_each_other_are_noted(first, second, apart, depth):
    """With the depth along x, which is the shortest way out; what contact settles is left alone."""
    notes = load(two(first, second, apart)).notes
    assert [note.id for note in notes] == ([] if depth is None else ["overlap"])
    if depth is not None:
        assert notes[0].message.startswith(f"'first' and 'second' start {100 * depth:.2g} cm inside each other")
        assert notes[0].path == "bodies[1]"


@pytest.mark.parametrize("shape", [BALL, CUBE, {"type": "capsule", "radius": 0.05, "half_height": 0.05}, HULL, MESH])
def test_bodies_in_the_ground_are_noted(shape):
    """All of them reach 0.1 m down; a millimetre is no matter."""
    for height, expected in ((0.0, ["overlap"]), (0.099, [])):
        body = {"id": "body", "transform": {"p": [0, 0, height]}, "shapes": [shape]}
        assert ids({"bodies": [body], "joints": [free("body")]}) == expected


def test_meshes_far_from_their_origin_are_noted():
    """A finger whose tip alone is in the ground, its origin well above."""
    finger = {**HULL, "vertices": [[x, y, z - 0.5] for x, y, z in CORNERS]}
    for height, expected in ((0.55, ["overlap"]), (0.599, [])):
        body = {"id": "body", "transform": {"p": [0, 0, height]}, "shapes": [finger]}
        assert ids({"bodies": [body], "joints": [free("body")]}) == expected


def test_bodies_that_do_not_collide_may_overlap():
    """By group, by filter of their joint, without collision, and in another world."""
    assert ids(two(BALL, {**BALL, "collision_group": 2}, 0.0)) == []
    assert ids(two(BALL, {**BALL, "has_shape_collision": False}, 0.0)) == []
    scene = two(BALL, BALL, 0.0)
    scene["joints"][1] = {"id": "held", "type": "revolute", "parent": "first", "child": "second", "axis": "z"}
    assert ids(scene) == []
    assert ids(two(BALL, BALL, 1.0), num_worlds=3) == []


def test_overlaps_are_found_where_pairs_are_not_listed(monkeypatch):
    """Among shapes and with the ground."""
    monkeypatch.setattr(worlds, "MAX_LISTED_PAIRS", 0)
    assert ids(two(BALL, BALL, 0.05)) == ["many-pairs", "overlap"]
    assert ids(two(BALL, BALL, 0.3)) == ["many-pairs"]
    body = {"id": "body", "transform": {"p": [0, 0, 0]}, "shapes": [BALL]}
    other = {"id": "other", "transform": {"p": [1, 0, 2]}, "shapes": [BALL]}
    assert ids({"bodies": [body, other], "joints": [free("body"), free("other")]}) == ["many-pairs", "overlap"]


# Masses.


def test_shape_that_makes_an_imported_body_heavier_is_noted():
    """Not one without density, and not one of an inline body, where it is meant."""
    scene = robot(1.0)
    edit = {"op": "add_shape", "body": "b", "shape": {"type": "box", "hx": 0.05, "hy": 0.05, "hz": 0.05}}
    (note,) = load({**scene, "post_build": [*scene["post_build"], edit]}).notes
    assert (note.id, note.path) == ("added-mass", "post_build[1]")
    assert "adds 1 kg to 'r/b'" in note.message
    edit = {**edit, "shape": {**edit["shape"], "density": 0.0}}
    assert ids({**scene, "post_build": [*scene["post_build"], edit]}) == []
    inline = {"op": "add_shape", "body": "arm", "shape": BALL}
    assert ids({**arm(), "post_build": [inline]}) == []


@pytest.mark.parametrize("mass", ["-1", "nan", "inf", "-1e-9"])
@pytest.mark.parametrize("kind", ["urdf", "mjcf", "geom", "density"])
def test_impossible_masses_of_assets_are_errors(kind, mass, tmp_path):
    """With the file and the line in it; they became 0 without a word."""
    body = "<body><joint type='hinge'/>{}\n<geom type='sphere' size='0.1' {}/></body>"
    mjcf = f"<mujoco><worldbody>\n{body}</worldbody></mujoco>"
    inertial = f"\n<inertial pos='0 0 0' mass='{mass}' diaginertia='1 1 1'/>"
    text = {
        "urdf": f"<robot name='r'>\n<link name='a'><inertial>\n<mass value='{mass}'/></inertial></link></robot>",
        "mjcf": mjcf.format(inertial, ""),
        "geom": mjcf.format("", f"mass='{mass}'"),
        "density": mjcf.format("", f"density='{mass}'"),
    }[kind]
    file = tmp_path / "asset.xml"
    file.write_text(text, encoding="utf-8")
    line = 3
    with pytest.raises(SapSceneError, match=rf"asset.xml:{line}: .*={mass}|asset.xml:{line}: .*\"{mass}\"") as error:
        load({"assets": [{"type": "urdf" if kind == "urdf" else "mjcf", "source": str(file)}]})
    assert len(error.value.problems) == 1


# Light links.


def gripper(finger_mass, object_mass, **solver):
    """Two fingers on slides above a ball that they could hold."""
    inertia = [finger_mass * 1e-4] * 3
    pad = {"type": "box", "hx": 0.01, "hy": 0.01, "hz": 0.01, "transform": {"p": [0, 0, -0.05]}, "density": 0.0}
    fingers = [
        {"id": f"finger{i}", "mass": finger_mass, "inertia": inertia, "transform": {"p": [x, 0, 0.3]}, "shapes": [pad]}
        for i, x in enumerate((-0.1, 0.1))
    ]
    ball = {"id": "ball", "mass": object_mass, "inertia": [0.01] * 3, "lock_inertia": True,
            "transform": {"p": [0, 0, 0.06]}, "shapes": [{"type": "sphere", "radius": 0.05}]}  # fmt: skip
    slides = [
        {"id": f"slide{i}", "type": "prismatic", "child": f"finger{i}", "axis": "x", "armature": 1.0,
         "parent_xform": {"p": fingers[i]["transform"]["p"]}}
        for i in range(2)
    ]  # fmt: skip
    return {"bodies": [*fingers, ball], "joints": [*slides, free("ball")], "simulation": {"solver": solver}}


def test_light_fingers_are_noted_where_the_weight_takes_them_for_free():
    """A finger of 15 g and a ball of 0.1 kg; not heavier ones, lighter objects or another weight."""
    (note,) = load(gripper(0.015, 0.1)).notes
    assert (note.id, note.path) == ("light-links", "bodies[0]")
    assert "'finger0', 'finger1'" in note.message and "diag_delassus" in note.message
    assert ids(gripper(0.015, 0.1, contact_weight_mode="diag_delassus")) == []
    assert ids(gripper(0.015, 0.1, contact_preset_variant="drake")) == []
    assert ids(gripper(0.015, 0.001)) == []
    assert ids(gripper(1.0, 0.1)) == []


def test_light_fingers_are_noted_for_the_preset_that_will_run():
    """One that is given beside the scene counts, for better and for worse; the other notes stay."""
    loaded = load(gripper(0.015, 0.1))
    assert loaded.notes_with(None, {"line_search_variant": "exact_root"}) == loaded.notes
    assert loaded.notes_with(None, {"contact_preset_variant": "robot"}) == []
    careful = load(gripper(0.015, 0.1, contact_preset_variant="drake"))
    assert [note.id for note in careful.notes_with(None, {"contact_preset_variant": "approx32"})] == ["light-links"]
    assert Simulation.from_loaded(careful, contact_weight_mode="body_inertia").notes[0].id == "light-links"
    assert Simulation.from_loaded(loaded, contact_preset_variant="robot").notes == []


def test_shipped_grasp_would_creep_with_body_inertia():
    """Which is why that scene asks for another weight."""
    model = load(shipped_scenes()["franka_pick_cube"]).sap_model.newton_model
    assert [note.id for note in advise(model, {})] == ["light-links"]
    assert advise(model, {"contact_preset_variant": "drake"}) == []


def test_weights_of_a_slide_by_hand():
    """1/m + x^2 / I of a free body with its arm along z; 1/(3 (m + armature)) of one that can only slide."""
    model = load(gripper(0.015, 0.1)).sap_model.newton_model
    shapes = np.flatnonzero(model.shape_body.numpy() == 1)
    free_weight, joined = link_weights(model, shapes)
    turning = 2.0 * 0.05**2 / (3.0 * 0.015e-4)  # the mean over three directions of x^2 / I
    np.testing.assert_allclose(free_weight, 1.0 / 0.015 + turning, rtol=1e-5)
    np.testing.assert_allclose(joined, 1.0 / (3.0 * 1.015), rtol=1e-5)
