"""Nothing in an MJCF file is dropped in silence: the table of features against MuJoCo's schema, and each report."""

from __future__ import annotations

import re

import mujoco
import pytest

from sap_warp.scene import SapSceneError, SapUnsupportedSceneFeature, load_sap_scene
from sap_warp.scene.assets.mjcf.defaults import ACTUATORS
from sap_warp.scene.assets.mjcf.features import ELEMENTS, covering, path_of

ROW = re.compile(r"^( *)([\w()]+) \([!?*R]\) *(.*)$")
OF_DEFAULT = {"equality": ["connect", "weld", "joint"], "tendon": ["fixed", "spatial"]}
SECTION_OF = {
    **dict.fromkeys(("mesh", "texture", "material"), "asset"),
    **dict.fromkeys(("joint", "geom", "site", "camera", "light"), "body"),
    **dict.fromkeys(ACTUATORS, "actuator"),
    "pair": "contact",
}


def schema():
    """Path and attributes of every element that MuJoCo knows."""
    rows, stack = [], []
    for line in mujoco.mj_printSchema(False, False).splitlines():
        if match := ROW.match(line):
            stack = [*stack[: len(match[1]) // 3], match[2].replace("(world)body", "body")]
            rows.append((tuple(stack[1:]), match[3].split()))
        elif line.strip():
            rows[-1][1].extend(line.split())
    return [(path, attributes) for path, attributes in rows if path]


def test_every_element_and_attribute_of_mujocos_schema_is_classified():
    rows = schema()
    assert len(rows) > 150 and sum(len(attributes) for _, attributes in rows) > 1000
    missing = []
    for path, attributes in rows:
        if path[0] == "default":
            continue
        key = path_of(path)
        speaker = covering(key)
        if speaker is None:
            missing.append(key)
        elif speaker == key and ELEMENTS[key].attributes:
            missing += [f"{key} {name}" for name in attributes if name not in ELEMENTS[key].attributes]
    assert missing == []


def test_every_default_is_for_an_element_that_has_the_attribute():
    """Defaults are written into elements, where the table speaks of them."""
    for path, attributes in schema():
        if path[0] != "default" or len(path) == 1:
            continue
        kind = path[1]
        for tag in OF_DEFAULT.get(kind, [kind]):
            key = path_of((kind if kind in OF_DEFAULT else SECTION_OF[kind], tag, *path[2:]))
            speaker = covering(key)
            assert speaker is not None, key
            known = ELEMENTS[speaker].attributes
            lacking = [name for name in attributes if known and name not in known]
            assert not lacking, (key, lacking)


def test_table_has_nothing_that_mujoco_does_not_know():
    rows = {path_of(path): set(attributes) for path, attributes in schema()}
    shared = {"body", "class", "gear", "jointinparent", "refsite", "site", "slidersite", "tendon", "cranklength"}
    shared |= {"cranksite", "joint", "lengthrange", "armature", "damping", "ctrllimited", "forcelimited", "forcerange"}
    for key, element in ELEMENTS.items():
        assert key in rows
        unknown = set(element.attributes) - rows[key]
        looks = {"material", "rgba", "width"} if key == "tendon/fixed" else set()  # of the class that both kinds share
        assert not unknown - (shared if key.startswith("actuator/") else looks), key


MODEL = """<mujoco>{top}<worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="a"><joint name="j" range="-90 90" {joint}/><geom name="g" size=".1" {geom}/>
<body name="b" {body}><joint name="k"/><geom name="h" size=".1" pos="1 0 0"/><site name="s"/>{inside}</body></body>
</worldbody>{end}</mujoco>"""
PARTS = dict.fromkeys(("top", "joint", "geom", "body", "inside", "end"), "")

REPORTED = {
    "friction of a free joint": (
        {
            "top": '<default><default class="c"><joint frictionloss="2"/></default></default>',
            "inside": '</body></body><body><joint type="free" class="c"/><geom size=".1"/><body>',
        },
        '<joint frictionloss="2">',
    ),
    "spring of a free joint": (
        {"inside": '</body></body><body><joint type="free" stiffness="2"/><geom size=".1"/><body>'},
        '<joint stiffness="2">',
    ),
    "override": ({"top": '<option><flag override="enable"/></option>'}, '<flag override="enable">'),
    "condim 1": ({"geom": 'condim="1"'}, '<geom condim="1">'),
    "condim 4": ({"geom": 'condim="4"'}, "torsional friction is not simulated"),
    "condim 6": ({"geom": 'condim="6"'}, "torsional and rolling friction"),
    "condim of a class": ({"top": '<default>\n<geom condim="6"/></default>'}, "line 2 and 2 more: <geom condim"),
    "priority": ({"geom": 'priority="1"'}, "priority"),
    "fluidshape": ({"geom": 'fluidshape="ellipsoid"'}, "fluidshape"),
    "shellinertia": ({"geom": 'shellinertia="true"'}, "shellinertia"),
    "surfacevel": ({"geom": 'surfacevel="1 0 0 0 0 0"'}, "surfacevel"),
    "springdamper": ({"joint": 'springdamper="1 1"'}, "springdamper"),
    "joint margin": ({"joint": 'margin="0.1"'}, "limits act where the range ends"),
    "actuatorgravcomp": ({"joint": 'actuatorgravcomp="true" actuatorfrcrange="-1 1"'}, "actuatorgravcomp"),
    "adhesion": ({"end": '<actuator><adhesion body="b" ctrlrange="0 1"/></actuator>'}, "<adhesion>: actuators"),
    "pid": ({"end": '<actuator><pid joint="j" kp="1"/></actuator>'}, "<pid>: actuators of this kind"),
    "dcmotor": ({"end": '<actuator><dcmotor joint="j"/></actuator>'}, "<dcmotor>: actuators of this kind"),
    "orientation": (
        {
            "inside": '<body><joint name="o" type="ball"/><geom size=".1"/></body>',
            "end": '<actuator><orientation joint="o"/></actuator>',
        },
        "<orientation>: actuators of this kind",
    ),
    "actuator of a plugin": (
        {"end": '<actuator><plugin joint="j" plugin="mujoco.pid"/></actuator>'},
        "<plugin>: plugins are not loaded",
    ),
    "dynamics of a DC motor": (
        {"end": '<actuator><general joint="j" dyntype="dcmotor"/></actuator>'},
        '<general dyntype="dcmotor">: such gains',
    ),
    "gain of a PID": ({"end": '<actuator><general joint="j" gaintype="pid"/></actuator>'}, '<general gaintype="pid">'),
    "delay": ({"end": '<actuator><motor joint="j" delay="0.1" nsample="9"/></actuator>'}, "delays of actuators"),
    "damping of an actuator": (
        {"end": '<actuator><motor joint="j" damping="1 2"/></actuator>'},
        "give it to the joint",
    ),
    "uneven range of a joint": (
        {"joint": 'actuatorfrcrange="-1 2"', "end": '<actuator><position joint="j"/></actuator>'},
        "actuatorfrcrange -1 to 2",
    ),
    "pair condim": ({"end": '<contact><pair geom1="g" geom2="h" condim="1"/></contact>'}, '<pair condim="1">'),
    "pair margin": ({"end": '<contact><pair geom1="g" geom2="h" margin="1"/></contact>'}, "<pair margin"),
    "pair friction": ({"end": '<contact><pair geom1="g" geom2="h" friction="0.2"/></contact>'}, "friction (0.2)"),
    "margin of a tendon": (
        {"end": '<tendon><fixed name="t" range="0 1" margin="1"><joint joint="j" coef="1"/></fixed></tendon>'},
        "<fixed margin",
    ),
    "muscle": (
        {"end": '<actuator><muscle name="m" joint="j"/></actuator>'},
        "line 4: <muscle>: the solver refuses muscles without lengthrange",
    ),
    "actuator on a body": ({"end": '<actuator><general body="a"/></actuator>'}, 'line 4: <general body="a">'),
    "damping ratio off a joint": (
        {"end": '<actuator><position site="s" kp="3" dampratio="1"/></actuator>'},
        'line 4: <position dampratio="1">',
    ),
    "skin": (
        {"end": '<deformable><skin vertex="0 0 0" face="0 0 0"><bone body="a"/></skin></deformable>'},
        "<skin>: skins are not drawn",
    ),
    "flex": ({"inside": '<flexcomp name="f" count="2 2 1"/>'}, "<flexcomp>: flexible bodies"),
    "plugin": ({"top": '<extension><plugin plugin="mujoco.pid"/></extension>'}, "<plugin>: plugins are not loaded"),
    "time of a key": ({"end": '<keyframe><key qpos="0 0" time="3"/></keyframe>'}, "the clock starts at 0"),
    "unknown element": ({"inside": "<composite/>"}, "<composite>: not known here"),
    "unknown attribute": ({"geom": 'colour="red"'}, "<geom colour>: not known here"),
    "mesh with a hollow": (
        {
            "top": '<asset><mesh name="m" vertex="0 0 0 3 0 0 0 3 0 .3 .3 .1 0 0 1" '
            'face="0 2 1 0 1 4 1 2 3 2 0 4 1 3 4 3 2 4"/></asset>',
            "inside": '<geom name="bowl" type="mesh" mesh="m"/>',
        },
        "geoms 'bowl' have the mass of their volume",
    ),
    "mesh that MuJoCo makes": (
        {"top": '<asset><mesh name="m" builtin="sphere" params="1"/></asset>'},
        "meshes that MuJoCo makes itself",
    ),
}


def load(strict=False, **parts):
    text = MODEL.format(**(PARTS | parts))
    return load_sap_scene({"assets": [{"type": "mjcf", "source": text}], "ground": False}, device="cpu", strict=strict)


def test_plain_model_has_nothing_unsupported():
    assert load().unsupported_features == []


@pytest.mark.parametrize("name", REPORTED)
def test_what_does_not_act_is_listed_with_its_place(name):
    parts, message = REPORTED[name]
    features = load(**parts).unsupported_features
    hits = [feature for feature in features if message in feature]
    assert len(hits) == 1, features
    refused = [feature for feature in features if "SolverSAP cannot simulate" in feature]  # says it too, by its name
    assert len(features) == 1 + len(refused), features
    with pytest.raises(SapUnsupportedSceneFeature):
        load(strict=True, **parts)


_TENDON = '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
NOT_REPORTED = {
    "tendon and its actuators": {"end": _TENDON + '<actuator><motor tendon="t"/><motor tendon="t"/></actuator>'},
    "tendon equality": {"end": _TENDON + '<equality><tendon tendon1="t" polycoef="0.1"/></equality>'},
    "muscle with a lengthrange": {"end": '<actuator><muscle joint="j" lengthrange="0 1"/></actuator>'},
    "cylinder": {"end": '<actuator><cylinder joint="j"/></actuator>'},
    "filtered position": {"end": '<actuator><position joint="j" timeconst="1"/></actuator>'},
    "site actuator": {"end": '<actuator><motor site="s"/></actuator>'},
    "two positions": {"end": '<actuator><position joint="j"/><position joint="j"/></actuator>'},
    "gravcomp": {"body": 'gravcomp="1"', "joint": 'actuatorgravcomp="true"'},
    "condim of a geom that meets nothing": {"geom": 'condim="6" contype="0" conaffinity="0"'},
    "uneven force range": {"end": '<actuator><position joint="j" forcerange="-1 2"/></actuator>'},
    "medium": {"top": '<option density="1.2" viscosity="0.1" wind="1 0 0" solver="PGS"/>'},
    "zero wind": {"top": '<option wind="0 0 0" timestep="0.001" integrator="implicit"/>'},
    "margin of a joint without limits": {"joint": 'margin="0.1" limited="false"'},
    "for the eye": {"top": '<visual><map znear="1"/></visual><statistic extent="1"/>', "inside": "<camera/><light/>"},
    "sensors": {"end": '<sensor><jointpos joint="j"/></sensor>'},
    "custom data": {"end": '<custom><numeric name="n" data="1"/></custom>'},
}


@pytest.mark.parametrize("name", NOT_REPORTED)
def test_what_has_no_effect_is_not_listed(name):
    assert load(**NOT_REPORTED[name]).unsupported_features == []


def test_masses_of_shapes_are_those_of_mujoco():
    """Boxes and ellipsoids given by two ends, of which Newton's importer would make small ones."""
    shapes = (
        '<geom type="box" size=".1" fromto="0 0 0 1 1 0"/>',
        '<geom type="ellipsoid" size=".1" fromto="0 0 0 0 1 2"/>',
        '<geom type="capsule" size=".1" fromto="0 0 0 0 1 2"/>',
        '<geom type="cylinder" size=".1 .3"/>',
    )
    for shape in shapes:
        text = MODEL.format(**(PARTS | {"inside": shape}))
        expected = mujoco.MjModel.from_xml_string(text).body("b").mass[0]
        assert load(inside=shape).sap_model.body_mass.numpy()[1] == pytest.approx(expected, rel=1e-5)


def test_condim_1_is_listed_only_where_the_geoms_meet_each_other():
    text = MODEL.format(**(PARTS | {"geom": 'condim="1"'}))
    asset = {"type": "mjcf", "source": text, "enable_self_collisions": False}
    assert load_sap_scene({"assets": [asset], "ground": False}, device="cpu").unsupported_features == []


def test_joints_that_no_body_of_mujoco_has_are_refused():
    with pytest.raises(SapSceneError, match=r"line 3: body 'b' has a free joint beside another one"):
        load(inside='<joint type="free"/>')
    with pytest.raises(SapSceneError, match=r"line 3: body 'b' has a ball joint with a rotation after it"):
        load(inside='<joint type="ball"/><joint axis="1 0 0"/>')


def test_model_that_cannot_be_built_names_what_was_not_loaded():
    """Nothing but a flexible body leaves no dofs, which is not the cause."""
    text = '<mujoco><worldbody><geom size="1"/><flexcomp name="f" count="2 2 1"/></worldbody></mujoco>'
    with pytest.raises(SapSceneError, match=r"(?s)no joint degrees of freedom.*<flexcomp>: flexible bodies are not"):
        load_sap_scene({"assets": [{"type": "mjcf", "source": text}]}, device="cpu")
