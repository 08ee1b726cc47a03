"""The expanded document against the original one: MuJoCo compiles both to the same model."""

from __future__ import annotations

import glob
from pathlib import Path

import mujoco
import mujoco_warp
import newton.examples
import numpy as np
import pytest

from sap_warp.scene.assets.mjcf import read_mjcf
from sap_warp.scene.text.errors import Complaint

NOT_COMPARED = (
    *("name", "names", "nnames", "paths", "npaths", "key", "nkey", "tex", "ntex", "mat"),
    *("nbuffer", "narena", "signature", "bvh"),
)
"""Fields of a compiled model that hold names, files, pictures, keyframes (read apart), sizes or search trees."""
NOT_UNIQUE = ("body_iquat", "body_inertia", "actuator_ctrlspec")
"""Principal axes, compared as inertia tensors; and what an input of an actuator is called."""
SWITCH_OF = {
    "jnt_range": "jnt_limited",
    "jnt_actfrcrange": "jnt_actfrclimited",
    "actuator_ctrlrange": "actuator_ctrllimited",
    "actuator_forcerange": "actuator_forcelimited",
    "tendon_range": "tendon_limited",
}

KID = """<mujoco model="kid"><compiler angle="radian" autolimits="false" eulerseq="XYZ"/>
<default><geom friction="0.3"/><default class="big"><geom size=".3"/></default></default>
<asset><mesh name="tet" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
<worldbody><geom name="floor" type="plane" size="1 1 1"/>
<frame name="fr" pos="0 0 5" euler="0.1 0.2 0.3"><body name="arm" pos="0 0 1" euler="0.3 0.2 0.1">
  <joint name="j" range="-1 1" limited="true"/><joint name="k" range="-1 1" limited="false" axis="1 0 0"/>
  <geom name="g" class="big"/><geom name="m" type="mesh" mesh="tet"/><site name="tip"/></body></frame>
<body name="other"><freejoint name="fj"/><geom size=".1" name="og"/></body></worldbody>
<contact><exclude body1="arm" body2="other"/><pair geom1="g" geom2="floor"/><pair geom1="g" geom2="m"/></contact>
<equality><connect body1="arm" body2="other" anchor="0 0 0"/></equality>
<tendon><fixed name="t"><joint joint="j" coef="2"/></fixed></tendon>
<actuator><position name="a" joint="j" kp="3"/><motor name="at" tendon="t"/></actuator>
<sensor><jointpos joint="j"/></sensor>
<keyframe><key name="home" qpos="0.5 0.6 1 2 3 1 0 0 0" ctrl="0.7 0"/></keyframe>
</mujoco>"""


def mujoco_of(text):
    return mujoco.MjModel.from_xml_string(text)


def inertias(model):
    """Inertia tensors in body frames."""
    axes = np.zeros((model.nbody, 9))
    for row, quaternion in zip(axes, model.body_iquat, strict=True):
        mujoco.mju_quat2Mat(row, quaternion)
    R = axes.reshape(-1, 3, 3)
    return R @ (model.body_inertia[:, :, None] * R.transpose(0, 2, 1))


def compare(original, expanded):
    """Every number of two compiled models."""
    for name in dir(original):
        if name.startswith("_") or name.split("_")[0] in NOT_COMPARED or name in NOT_UNIQUE:
            continue
        a, b = getattr(original, name), getattr(expanded, name)
        if name in SWITCH_OF:  # a range that does not limit anything is not kept
            a = a * getattr(original, SWITCH_OF[name])[:, None]
        if name.endswith("quat") and a.shape == b.shape:
            a = a * np.where((a * b).sum(axis=-1, keepdims=True) < 0.0, -1.0, 1.0)
        if isinstance(a, np.ndarray):
            assert a.shape == b.shape, name
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)
        elif isinstance(a, (int, float)):
            assert a == b, name
    np.testing.assert_allclose(inertias(original), inertias(expanded), rtol=1e-9, atol=1e-12)
    for kind, count in (("body", original.nbody), ("joint", original.njnt), ("geom", original.ngeom)):
        for i in range(count):
            assert getattr(original, kind)(i).name == getattr(expanded, kind)(i).name


def body(content, name="b", **attributes):
    given = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f'<body name="{name}" {given}>{content}<geom size=".1"/></body>'


TEXTS = {
    "classes": """<mujoco><default><geom size=".2 .3 .4" friction="0.5 0.1"/><joint damping="2" range="-10 20"/>
        <default class="a"><geom type="box" friction="0.7"/><default class="b"><joint type="slide"/></default></default>
        </default><worldbody><body childclass="a"><joint/><geom/><geom class="b" size="1"/>
        <body><joint class="b"/><geom type="sphere"/><body childclass="b"><joint/><geom/></body></body></body>
        </worldbody></mujoco>""",
    "classes in several sections": """<mujoco><default><geom size=".2"/></default><default><geom density="7"/>
        <default class="x"><geom size=".3"/></default></default><worldbody>
        <body><freejoint/><geom/><geom class="x"/></body></worldbody></mujoco>""",
    "orientations": """<mujoco><compiler eulerseq="zYx"/><default><geom euler="10 20 30"/></default><worldbody>
        <geom size="1"/><geom size="1" quat="0 1 0 0"/><geom size="1" zaxis="1 2 3"/>
        <geom size="1" xyaxes="1 1 0 0 1 1"/><geom size="1" axisangle="1 2 3 40"/><geom size="1" zaxis="0 0 -1"/>
        <geom type="capsule" size=".1" fromto="0 0 0 1 2 3"/><geom type="box" size=".1" fromto="0 0 0 0 0 3"/>
        <geom type="ellipsoid" size=".1" fromto="0 0 1 2 0 0"/><site type="cylinder" size=".1" fromto="0 1 0 0 0 0"/>
        </worldbody></mujoco>""",
    "degrees": "<mujoco><worldbody>"
    + body('<joint range="-10 20" ref="5" springref="30" stiffness="2"/>')
    + body('<joint type="slide" range="-10 20" ref="5"/>', "c")
    + body('<joint type="ball" range="0 20"/>', "d")
    + "</worldbody></mujoco>",
    "limits": "<mujoco><worldbody>"
    + body('<joint name="j" limited="false" range="-10 20"/>')
    + body('<joint name="k" limited="true" range="-10 20" actuatorfrcrange="-1 2" actuatorfrclimited="false"/>', "c")
    + """</worldbody><actuator><position joint="j" ctrlrange="-1 1" ctrllimited="false" forcerange="-2 2"/>
        <motor joint="k" ctrlrange="-1 1" forcelimited="true" forcerange="-3 3"/></actuator></mujoco>""",
    "no autolimits": '<mujoco><compiler autolimits="false"/><worldbody>'
    + body('<joint limited="true" range="-10 20"/>')
    + "</worldbody></mujoco>",
    "frames": """<mujoco><worldbody><frame pos="1 2 3" euler="10 20 30"><body name="a" pos="1 0 0">
        <frame euler="0 90 0" pos="0 0 1"><joint axis="1 0 0" pos="1 0 0"/><geom size=".1" pos="1 1 1"/>
        <geom type="capsule" size=".1" fromto="0 0 0 1 1 1"/><site pos="1 0 0"/><camera name="c"/><light/>
        <frame pos="1 1 1"><body name="in"><joint/><inertial mass="1" pos="1 2 3" fullinertia="2 3 4 .1 .2 .3"/></body>
        </frame></frame></body></frame><body name="z"><geom size="1"/></body></worldbody></mujoco>""",
    "inertial in a frame": """<mujoco><worldbody><body><joint/><frame pos="1 2 3" euler="10 20 30">
        <inertial mass="1" pos="1 2 3" fullinertia="2 3 4 .1 .2 .3"/></frame></body></worldbody></mujoco>""",
    "replicas": """<mujoco><worldbody><body name="o"><joint name="oj"/><geom size="1"/></body>
        <replicate count="11" offset="1 0 .2" euler="0 10 20" sep="_"><body name="a"><joint name="j"/>
        <joint name="k" axis="1 0 0"/><geom name="g" size="1"/>
        <replicate count="2" offset="0 1 0"><site name="s"/></replicate></body></replicate></worldbody>
        <actuator><motor name="m1" joint="j"/><motor name="mo" joint="oj"/><motor name="m3" joint="k"/></actuator>
        <contact><exclude body1="o" body2="a"/></contact></mujoco>""",
    "defaults of actuators": """<mujoco><default><general forcerange="-12 12" gear="3" ctrlrange="0 2"/>
        <position kp="77" kv="4"/><default class="g"><general gainprm="5" biasprm="1 -5 -2" biastype="affine"/>
        </default></default><worldbody><body><joint name="j" range="-90 90"/><geom size=".1"/></body></worldbody>
        <actuator><position joint="j"/><motor joint="j"/><general joint="j"/><velocity joint="j" kv="2"/>
        <damper joint="j"/><general class="g" joint="j"/><position class="g" joint="j"/><velocity class="g" joint="j"/>
        <motor class="g" joint="j"/></actuator></mujoco>""",
    "kinds of actuators in one class": """<mujoco><default><position kp="9" kv="2" forcerange="-1 1"/>
        <default class="v"><velocity kv="4"/><default class="m"><motor gear="2"/></default></default></default>
        <worldbody><body><joint name="j" range="-90 80"/><geom size=".1"/></body></worldbody><actuator>
        <position joint="j" class="v"/><velocity joint="j" class="v"/><general joint="j" class="v"/>
        <position joint="j" class="m"/><velocity joint="j" class="m"/><general joint="j" class="m"/>
        <motor joint="j"/><position joint="j" inheritrange="0.5"/><intvelocity joint="j" inheritrange="1"/></actuator>
        </mujoco>""",
    "defaults of other sections": """<mujoco><default><pair friction="2 2 .1 .1 .1" condim="4"/>
        <equality solref=".1 1"/><tendon stiffness="3" range="0 1"/><mesh scale="2 2 2"/></default>
        <asset><mesh name="tet" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>
        <body name="a"><joint name="j"/><geom name="g" type="mesh" mesh="tet"/></body>
        <body name="b"><joint name="k"/><geom name="h" size=".1"/></body></worldbody>
        <contact><pair geom1="g" geom2="h"/></contact><equality><joint joint1="j" joint2="k"/></equality>
        <tendon><fixed><joint joint="j" coef="1"/></fixed></tendon></mujoco>""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_expanded_document_compiles_to_the_same_model(name):
    compare(mujoco_of(TEXTS[name]), mujoco_of(read_mjcf(TEXTS[name]).text))


ASSETS = [
    *glob.glob(f"{Path(mujoco_warp.__file__).parent}/test_data/**/*.xml", recursive=True),
    *glob.glob(f"{newton.examples.get_asset_directory()}/*.xml"),
]


def test_installed_models_compile_to_the_same_model(tmp_path, monkeypatch):
    """All MJCF files that other packages bring, with their includes, meshes, attached models and replicas."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log of its warnings into the working directory
    compared = 0
    for file in ASSETS:
        try:
            original = mujoco.MjModel.from_xml_path(file)
        except ValueError:
            continue  # a part of another model
        compare(original, mujoco_of(read_mjcf(Path(file)).text))
        compared += 1
    assert compared >= 10


@pytest.mark.parametrize("part", ['body="arm"', 'frame="fr"', ""])
def test_attached_model_is_what_mujoco_makes_of_it(part, tmp_path):
    (tmp_path / "kid.xml").write_text(KID)
    around = ("", "") if not part else ('<body name="base" pos="1 0 0"><joint name="bj"/><geom size=".2"/>', "</body>")
    main = tmp_path / "main.xml"
    main.write_text(
        f"""<mujoco><default><geom condim="6"/></default><asset><model name="kid" file="kid.xml"/></asset>
        <worldbody><body name="first"><joint name="fj"/><geom size="1"/></body>{around[0]}
        <frame pos="0 1 0" euler="10 20 30"><attach model="kid" {part} prefix="p-"/></frame>{around[1]}</worldbody>
        <actuator><motor joint="fj"/></actuator></mujoco>"""
    )
    original, document = mujoco.MjModel.from_xml_path(str(main)), read_mjcf(main)
    compare(original, mujoco_of(document.text))
    (key,) = document.keys
    assert key.name == original.key(0).name == "p-home"
    for joint, values in key.q.items():
        address = original.jnt_qposadr[original.joint(joint.get("name")).id]
        np.testing.assert_array_equal(original.key_qpos[0, address : address + len(values)], values)
    for actuator, value in key.ctrl.items():
        assert original.key_ctrl[0, original.actuator(actuator.get("name")).id] == value


def test_includes_are_found_as_mujoco_does(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "arm.xml").write_text(
        "<mujoco><worldbody><body name='arm'><joint/><geom size='.1'/><include file='tip.xml'/></body></worldbody>"
        "</mujoco>"
    )
    (tmp_path / "tip.xml").write_text("<mujocoinclude><site name='tip'/></mujocoinclude>")
    main = tmp_path / "main.xml"
    main.write_text("<mujoco><include file='parts/arm.xml'/><worldbody><geom size='1'/></worldbody></mujoco>")
    document = read_mjcf(main)
    compare(mujoco.MjModel.from_xml_path(str(main)), mujoco_of(document.text))
    places = {node.tag: node.location() for node in document.root.iter()}
    assert places["joint"] == "arm.xml:1" and places["site"] == "tip.xml:1"


def test_expanded_documents_compile_to_the_same_model_in_any_combination(rng):
    """Random trees of bodies, frames, classes and actuators."""
    for _ in range(30):
        text = random_model(rng)
        compare(mujoco_of(text), mujoco_of(read_mjcf(text).text))


def random_model(rng):
    numbers = iter(range(10_000))

    def orientation():
        kind = rng.choice(["", "euler", "quat", "axisangle", "zaxis", "xyaxes"])
        if not kind:
            return ""
        count = {"euler": 3, "quat": 4, "axisangle": 4, "zaxis": 3, "xyaxes": 6}[kind]
        return f'{kind}="' + " ".join(f"{value:.3f}" for value in rng.uniform(-2, 2, count)) + '"'

    def pose():
        return f'pos="{rng.uniform():.2f} {rng.uniform():.2f} 0" {orientation()}'

    def maybe_class(word="class"):
        return f'{word}="{rng.choice(["main", "a", "b", "c"])}"' if rng.random() < 0.5 else ""

    def joints():
        kind = rng.choice(["hinge", "slide"])
        number = next(numbers)
        limits = rng.choice(["", 'range="-20 30"', 'range="-20 30" limited="false"'])
        return f'<joint name="j{number}" type="{kind}" {limits} {maybe_class()} axis="0 1 {rng.uniform():.2f}"/>'

    def inside(depth, jointed):
        parts = [f'<geom size=".1 .2 .3" {pose()} {maybe_class()}/>', f"<site {pose()} {maybe_class()}/>"]
        if jointed:
            parts.append(joints())
        if depth:
            parts += [tree(depth - 1) for _ in range(rng.integers(1, 3))]
        if rng.random() < 0.5:
            parts.append(f"<frame {pose()} {maybe_class('childclass')}>{inside(max(depth - 1, 0), False)}</frame>")
        return "".join(parts)

    def tree(depth):
        name = next(numbers)
        content = f'<body name="b{name}" {pose()} {maybe_class("childclass")}>{inside(depth, True)}</body>'
        return f'<replicate count="2" offset=".1 0 0" sep="_">{content}</replicate>' if rng.random() < 0.2 else content

    classes = """<default><geom friction="0.4 0.1"/><joint damping="1"/><default class="a"><geom density="3"/>
    <joint range="-5 6"/><default class="b"><geom type="box" friction="0.9"/></default></default>
    <default class="c"><joint stiffness="3" springref="10"/><motor ctrlrange="-1 1" gear="2"/></default></default>"""
    compiler = f'<compiler eulerseq="{rng.choice(["xyz", "ZYX", "xZy"])}" angle="{rng.choice(["degree", "radian"])}"/>'
    world = inside(2, False)
    names = sorted({part.split('"')[0] for part in world.split('<joint name="')[1:]})
    motors = "".join(f'<motor joint="{name}" {maybe_class()}/>' for name in names if rng.random() < 0.5)
    return f"<mujoco>{compiler}{classes}<worldbody>{world}</worldbody><actuator>{motors}</actuator></mujoco>"


WRONG = {
    "<mujoco><worldbody><body>\n</worldbody></mujoco>": "line 2: not valid XML: mismatched tag",
    "<robot/>": "starts with <robot>",
    "<mujoco><worldbody>\n<geom class='x' size='1'/></worldbody></mujoco>": "line 2: <geom> has the default class 'x'",
    "<mujoco><worldbody>\n<body childclass='x'/></worldbody></mujoco>": "line 2: <body> has the childclass 'x'",
    "<mujoco><worldbody>\n<attach model='x'/></worldbody></mujoco>": "line 2: attaches the model 'x', which is",
    "\n<mujoco><actuator>\n<motor/></actuator></mujoco>": "line 3: <motor> does not say what it acts on",
    "<mujoco><actuator>\n<motor joint='x'/></actuator></mujoco>": "line 2: <motor> refers to the joint 'x'",
    "<mujoco><contact>\n<pair geom1='x' geom2='y'/></contact></mujoco>": "line 2: <pair> refers to the geom 'x'",
    "<mujoco><contact>\n<exclude body1='x' body2='y'/></contact></mujoco>": "line 2: <exclude> refers to the body 'x'",
    "<mujoco><worldbody>\n<geom type='mesh' mesh='x'/></worldbody></mujoco>": "line 2: <geom> refers to the mesh 'x'",
    "<mujoco><worldbody><frame pos='1 a 2'>\n<geom size='1'/></frame></worldbody></mujoco>": "pos of <frame> is '1 a",
    "<mujoco><keyframe>\n<key name='k' qpos='1'/></keyframe></mujoco>": "keyframe 'k' has 1 numbers in qpos; the",
    "<mujoco><include file='x.xml'/></mujoco>": "the text refers to the file 'x.xml'",
    "<mujoco><worldbody><replicate count='0'/></worldbody></mujoco>": "<replicate> makes 0 copies",
    "<mujoco><compiler coordinate='global'/></mujoco>": "no longer part of MJCF",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_name_line_and_cause(text):
    with pytest.raises(Complaint) as error:
        read_mjcf(text)
    assert WRONG[text] in error.value.message


def test_files_that_include_or_attach_each_other_end(tmp_path):
    file = tmp_path / "a.xml"
    for text, message in (
        ("<mujoco><include file='a.xml'/></mujoco>", "a second time"),
        (
            "<mujoco><asset><model name='a' file='a.xml'/></asset><worldbody><attach model='a'/></worldbody></mujoco>",
            "without end",
        ),
        (
            "<mujoco><asset><model name='a' file='b.xml'/></asset><worldbody><attach model='a'/></worldbody></mujoco>",
            "there is no file",
        ),
    ):
        file.write_text(text)
        with pytest.raises(Complaint) as error:
            read_mjcf(file)
        assert message in error.value.message
