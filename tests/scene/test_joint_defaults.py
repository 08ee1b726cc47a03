"""`builder.defaults.joint`: every field fills what inline joints, URDF, MJCF and USD leave open, and nothing else."""

import itertools

import newton
import pytest

from sap_warp.scene.shipped.scene_files import runs_offline, shipped_scenes
from tests.support.scene_files import ALL_JOINT_FIELDS, load, package, with_joint

DEFAULTS = {name: value for name, value in ALL_JOINT_FIELDS.items() if name != "axis"} | {"actuator_mode": 3}
ARRAYS = {"target_pos": "target_q", "target_vel": "target_qd", "actuator_mode": "target_mode"}

URDF = """<robot name="r">
<link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
<link name="link"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
<joint name="elbow" type="{kind}"><parent link="base"/><child link="link"/>{said}</joint></robot>"""

MJCF = """<mujoco><compiler angle="radian"/><worldbody><body name="base"><geom type="sphere" size="0.1"/>
<body name="link"><joint name="elbow" type="{kind}" {said}/><geom type="sphere" size="0.1"/></body></body></worldbody>
{more}</mujoco>"""

USD = """#usda 1.0
(
    upAxis = "Z"
    metersPerUnit = 1
)
def Xform "robot" (
    prepend apiSchemas = ["PhysicsArticulationRootAPI"]
)
{{
    def Xform "base" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]
    )
    {{
        float physics:mass = 1
        float3 physics:diagonalInertia = (1, 1, 1)
    }}
    def Xform "link" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]
    )
    {{
        float physics:mass = 1
        float3 physics:diagonalInertia = (1, 1, 1)
    }}
    def PhysicsFixedJoint "root"
    {{
        rel physics:body1 = </robot/base>
    }}
    def {kind} "elbow" {schemas}
    {{
        rel physics:body0 = </robot/base>
        rel physics:body1 = </robot/link>
        {said}
    }}
}}
"""
PER_DEGREE = 57.29577951308232

KINDS = {
    "inline": ["revolute", "prismatic", "d6"],
    "urdf": ["revolute", "prismatic", "planar"],
    "mjcf": ["hinge", "slide"],
    "usd": ["PhysicsRevoluteJoint", "PhysicsPrismaticJoint", "PhysicsJoint"],
}
CASES = [(source, kind) for source, kinds in KINDS.items() for kind in kinds]

SAID = {
    "urdf": {
        "limit_lower": ('<limit lower="-0.5"/>', -0.5),
        "limit_upper": ('<limit upper="0.5"/>', 0.5),
        "effort_limit": ('<limit effort="0.5"/>', 0.5),
        "velocity_limit": ('<limit velocity="0.5"/>', 0.5),
        "friction": ('<dynamics friction="0"/>', 0.0),
        "damping": ('<dynamics damping="0"/>', 0.0),
    },
    "mjcf": {
        "limit_lower": ('range="-0.5 0.75"', -0.5),
        "limit_upper": ('range="-0.5 0.75"', 0.75),
        "armature": ('armature="0"', 0.0),
        "effort_limit": ('actuatorfrcrange="-3 3"', 3.0),
        "friction": ('frictionloss="0"', 0.0),
        "damping": ('damping="0"', 0.0),
    },
    "usd": {
        "limit_lower": ("float {limit}:low = -20", -20 / PER_DEGREE),
        "limit_upper": ("float {limit}:high = 20", 20 / PER_DEGREE),
        "target_pos": ("float {drive}:targetPosition = 10", 10 / PER_DEGREE),
        "target_vel": ("float {drive}:targetVelocity = 0", 0.0),
        "target_ke": ("float {drive}:stiffness = 3", 3 * PER_DEGREE),
        "target_kd": ("float {drive}:damping = 2", 2 * PER_DEGREE),
        "effort_limit": ("float {drive}:maxForce = 4", 4.0),
    },
}
"""What a file can say: the text and the value that it means."""


@pytest.fixture
def make(tmp_path):
    """``make(source, kind, field)``: a scene with one joint, whose file says something about one field, or nothing."""
    numbers = itertools.count()

    def scene(source, kind, field=None, defaults=DEFAULTS):
        said = SAID.get(source, {}).get(field, ("", None))[0]
        if source == "inline":
            own = {} if field is None else {field: 0.125 if field != "actuator_mode" else 1}
            fields = {"linear_axes": [{"axis": "y", **own}]} if kind == "d6" else own
            result = with_joint(kind, **fields)
        elif source == "urdf":
            result = {"assets": [{"type": source, "source": URDF.format(kind=kind, said=said), "floating": False}]}
        elif source == "mjcf":
            result = {"assets": [{"type": source, "source": MJCF.format(kind=kind, said=said, more="")}]}
        else:
            result = {"assets": [{"type": source, "source": str(usd_file(kind, said))}]}
        return {**result, "ground": False, "builder": {"defaults": {"joint": defaults}}}

    def usd_file(kind, said):
        axis = {"PhysicsRevoluteJoint": "angular", "PhysicsPrismaticJoint": "linear", "PhysicsJoint": "rotX"}[kind]
        said = said.format(limit=f"limit:{axis}:physics", drive=f"drive:{axis}:physics")
        schemas = [f"PhysicsDriveAPI:{axis}"] if "drive:" in said else []
        if kind == "PhysicsJoint":  # all other axes are locked
            schemas += [f"PhysicsLimitAPI:{name}" for name in ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")]
            for name in ("transX", "transY", "transZ", "rotY", "rotZ"):
                said += f"\n float limit:{name}:physics:low = 1\n float limit:{name}:physics:high = -1"
        else:
            said = said.replace(f"limit:{axis}:physics:low", "physics:lowerLimit")
            said = said.replace(f"limit:{axis}:physics:high", "physics:upperLimit")
        file = tmp_path / f"robot_{next(numbers)}.usda"  # layers are cached by name
        listed = ", ".join(f'"{name}"' for name in schemas)
        header = f"(\n prepend apiSchemas = [{listed}]\n )" if schemas else ""
        file.write_text(USD.format(kind=kind, schemas=header, said=said))
        return file

    return scene


def dof_values(loaded):
    """Fields of every dof, as the model has them."""
    model = loaded.sap_model
    arrays = {name: getattr(model, f"joint_{ARRAYS.get(name, name)}").numpy() for name in DEFAULTS}
    return [{name: float(array[dof]) for name, array in arrays.items()} for dof in range(model.joint_dof_count)]


@pytest.mark.parametrize("source, kind", CASES)
def test_defaults_fill_all_fields_of_every_source(make, source, kind):
    for values in dof_values(load(make(source, kind))):
        assert values == pytest.approx(DEFAULTS)


@pytest.mark.parametrize("source, kind", CASES)
@pytest.mark.parametrize("field", DEFAULTS)
def test_what_is_said_wins_and_all_else_is_filled(make, source, kind, field):
    if source == "inline":
        value = 1 if field == "actuator_mode" else 0.125
    elif field in SAID[source]:
        value = SAID[source][field][1]
        if kind == "PhysicsPrismaticJoint":  # no degrees there
            value = {"limit_lower": -20, "limit_upper": 20, "target_pos": 10, "target_ke": 3, "target_kd": 2}.get(
                field, value
            )
    else:
        value = DEFAULTS[field]  # a field that such a file cannot have
    if (source, kind) == ("urdf", "planar") and field in ("effort_limit", "velocity_limit"):
        value = 1e6  # Newton leaves them out: they mean little for two slides at once
    expected = {**DEFAULTS, field: value}
    if (source, field) == ("mjcf", "limit_lower") or (source, field) == ("mjcf", "limit_upper"):
        expected |= {"limit_lower": -0.5, "limit_upper": 0.75}
    if source == "usd" and field in ("target_ke", "target_kd"):
        expected["actuator_mode"] = 1.0  # as the gains of the file say
    for values in dof_values(load(make(source, kind, field))):
        assert values == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("source, kind", CASES)
@pytest.mark.parametrize("gains, mode", [({"target_ke": 5.0}, 1), ({"target_kd": 5.0}, 2)])
def test_default_gains_make_a_drive_that_acts(make, source, kind, gains, mode):
    for values in dof_values(load(make(source, kind, defaults=gains))):
        assert values["actuator_mode"] == mode


@pytest.mark.parametrize(
    "source, kind, mode", [(*case, 1 if case[0] == "urdf" else 0) for case in CASES if case[0] != "inline"]
)
def test_without_defaults_files_are_as_newton_reads_them(make, source, kind, mode):
    plain = newton.ModelBuilder.JointDofConfig()
    for values in dof_values(load(make(source, kind, defaults={}))):
        expected = {name: getattr(plain, name) for name in DEFAULTS} | {"actuator_mode": mode}
        if kind == "PhysicsJoint":  # no limits there
            for name in ("limit_lower", "limit_upper", "effort_limit"):
                assert abs(values.pop(name)) > 1e6 and expected.pop(name)
        assert values == pytest.approx(expected)


@pytest.mark.parametrize(
    "actuator, fields",
    [
        ("<position joint='elbow' kp='7' kv='2'/>", {"target_ke": 7.0, "target_kd": 2.0, "actuator_mode": 1.0}),
        ("<velocity joint='elbow' kv='3'/>", {"target_kd": 3.0, "actuator_mode": 2.0}),
        ("<motor joint='elbow'/>", {"actuator_mode": 0.0}),
    ],
)
def test_actuators_of_mjcf_win_over_default_drives(actuator, fields):
    text = MJCF.format(kind="hinge", said="", more=f"<actuator>{actuator}</actuator>")
    scene = {"assets": [{"type": "mjcf", "source": text}], "builder": {"defaults": {"joint": DEFAULTS}}}
    (values,) = dof_values(load(scene))
    assert values == pytest.approx({**DEFAULTS, **fields})


def test_friction_of_a_class_in_mjcf_is_said_by_the_file():
    text = MJCF.format(kind="hinge", said="class='stiff'", more="")
    for classes, friction in (
        ("<default><default class='stiff'><joint frictionloss='0.5'/></default></default>", 0.5),
        ("<default><joint frictionloss='0'/><default class='stiff'/></default>", 0.0),
        ("<default><default class='stiff'><joint damping='1'/></default></default>", 0.0625),
    ):
        source = text.replace("<worldbody>", classes + "<worldbody>")
        scene = {"assets": [{"type": "mjcf", "source": source}], "builder": {"defaults": {"joint": DEFAULTS}}}
        loaded = load(scene)
        assert dof_values(loaded)[0]["friction"] == friction
        assert not hasattr(loaded.sap_model.newton_model, "file")  # what was noted during the import is gone


@pytest.mark.parametrize("said, friction", [("", 0.0625), ("frictionloss='0'", 0.0)])
def test_friction_of_ball_joints_of_mjcf(said, friction):
    scene = {"assets": [{"type": "mjcf", "source": MJCF.format(kind="ball", said=said, more="")}]}
    values = dof_values(load({**scene, "builder": {"defaults": {"joint": {"friction": 0.0625}}}}))
    assert [value["friction"] for value in values] == [friction] * 3


def test_wheels_of_a_urdf_turn_without_end_whatever_the_default_limits(make):
    (values,) = dof_values(load(make("urdf", "continuous")))
    assert values == pytest.approx({**DEFAULTS, "limit_lower": -newton.MAXVAL, "limit_upper": newton.MAXVAL})


def floating(source):
    """A body on a free joint; the dofs of that joint come first."""
    if source in ("free", "distance"):
        return with_joint(source)
    if source == "usd":
        return {"assets": [{"type": "usd", "source": package("ant.usda"), "floating": True}]}
    text = URDF.format(kind="revolute", said="") if source == "urdf" else ""
    text = text or "<mujoco><worldbody><body><freejoint/><geom size='0.1'/></body></worldbody></mujoco>"
    return {"assets": [{"type": source, "source": text, "floating": True}]}


@pytest.mark.parametrize("source", ["free", "distance", "urdf", "mjcf", "usd"])
def test_the_default_armature_is_that_of_floating_joints_too(source):
    scene = {**floating(source), "builder": {"defaults": {"joint": DEFAULTS}}}
    for values in dof_values(load(scene))[:6]:
        assert (values["armature"], values["friction"], values["damping"]) == (0.125, 0.0, 0.0)
    if source in ("free", "distance"):
        scene["joints"][0] |= {"armature": 0.0, "damping": 0.5}
        for values in dof_values(load(scene))[:6]:
            assert (values["armature"], values["friction"], values["damping"]) == (0.0, 0.0, 0.5)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_the_default_axis_is_that_of_joints_that_give_none(kind):
    builder = {"defaults": {"joint": {"axis": "z"}}}
    for own, axis in (({}, [0, 0, 1]), ({"axis": "y"}, [0, 1, 0])):
        model = load({**with_joint(kind, **own), "builder": builder}).sap_model
        assert model.joint_axis.numpy()[0].tolist() == axis


def test_a_target_outside_of_the_limits_stays_where_it_was_put():
    limits = {"limit_lower": 1.0, "limit_upper": 2.0}
    for target, expected in ({"target_pos": 3.0}, 3.0), ({}, 1.5):
        assert dof_values(load(with_joint("revolute", **limits, **target)))[0]["target_pos"] == expected
        scene = {**with_joint("revolute"), "builder": {"defaults": {"joint": {**limits, **target}}}}
        assert dof_values(load(scene))[0]["target_pos"] == expected


def test_limits_of_the_defaults_do_not_move_targets_of_joints_with_other_limits():
    scene = with_joint("revolute", limit_lower=-1.0, limit_upper=1.0)
    scene["builder"] = {"defaults": {"joint": {"limit_lower": 0.5, "limit_upper": 0.75}}}
    assert dof_values(load(scene))[0]["target_pos"] == 0.0


def notes_of(scene, *kinds):
    return [str(note) for note in load(scene).notes if note.id in kinds]


def test_a_default_armature_that_slows_free_bodies_is_told():
    """A box of 48 kg does not feel 1 g and 1 g m^2, but 1 kg; one that was given its armature was meant to have it."""
    scene = with_joint("free")
    assert notes_of({**scene, "builder": {"defaults": {"joint": {"armature": 0.001}}}}, "floating-armature") == []
    heavy = {**scene, "builder": {"defaults": {"joint": {"armature": 1.0}}}}
    (note,) = notes_of(heavy, "floating-armature")
    assert "1 kg and kg m^2" in note and "'hinge'" in note and "armature: 0" in note
    edit = {"op": "set_joint_armature", "range": "all", "value": 0.0}
    assert notes_of({**heavy, "post_build": [edit]}, "floating-armature") == []
    scene["joints"][0]["armature"] = 0.0
    assert notes_of(heavy, "floating-armature") == []


def test_shipped_scenes_need_no_note_on_where_bodies_start_and_how_they_float():
    for name, file in shipped_scenes().items():
        if runs_offline(file):
            assert notes_of(file, "floating-armature", "placement") == [], name
