"""What random robots (`tests.support.random_mjcf`) found to differ from MuJoCo, each in a small model."""
# ruff: noqa: E501 - MJCF on long lines

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest

from sap_warp.scene.assets.mjcf import read_mjcf, translate_actuators
from tests.support import beside_mujoco as beside
from tests.support.states import equality_differences, state_differences

ARMS = """<mujoco><compiler angle="radian" {compiler}/>{top}<worldbody>
<body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0"/><geom name="ga" type="box" size=".1 .1 .2"/>
 <site name="sa" pos=".1 .2 -.3" euler=".3 .2 0"/><site name="sb" pos=".1 .1 0"/>
 <body name="b" pos=".3 0 .1" euler=".4 0 .2"><joint name="jb" axis="1 0 .2"/><geom name="gb" type="box" size=".1 .1 .1"/></body></body>
<body name="c" pos="0 .5 1" euler="0 .7 .3"><joint name="jc" type="slide" axis="0 0 1"/><joint name="jd" axis="0 0 1"/>
 <geom name="gc" type="box" size=".1 .1 .1"/><site name="sc" pos="-.1 .1 .2" euler="0 .5 .1"/></body></worldbody>{end}</mujoco>"""
"""Two trees whose bodies have different axes."""


def arms(compiler="", top="", end=""):
    return ARMS.format(compiler=compiler, top=top, end=end)


def in_states(text, rng, count=2):
    """Differences in random states, without constraints."""
    reference, files = beside.compile_mujoco(text), beside.Files(text)
    keys = [f"state_{i}" for i in range(count)]
    extra = "".join(beside.random_key(reference, rng, name=key) for key in keys)
    source = files.changed(beside.NO_CONSTRAINTS + extra)
    return state_differences(beside.compile_mujoco(source), beside.load(source, 0.002), keys)


EQUALITIES = {
    "connect of sites that are apart": '<connect site1="sa" site2="sc"/>',
    "weld of sites": '<weld site1="sa" site2="sc"/>',
    "weld of bodies with different axes": '<weld body1="a" body2="c"/>',
    "anchor of a weld is the second body's": '<weld body1="b" body2="c" anchor=".1 .2 .3" relpose=".1 0 .2 1 .2 0 .3"/>',
    "weld to the world": '<weld body1="c" relpose="0 .1 0 1 0 .3 0" anchor=".1 0 0"/>',
    "weld that lets turn": '<weld body1="a" body2="c" torquescale="0" relpose=".1 .2 .3 1 0 0 0"/>',
    "joint alone": '<joint joint1="ja" polycoef=".2 0 0 0 0"/>',
    "polynomial": '<joint joint1="jb" joint2="ja" polycoef=".1 .5 .2 .1 0"/>',
}


@pytest.mark.parametrize("name", EQUALITIES)
def test_equality_ties_what_mujoco_ties(name):
    text = arms(end=f"<equality>{EQUALITIES[name]}</equality>")
    reference, loaded = beside.compile_mujoco(text), beside.load(text, 0.002)
    assert loaded.unsupported_features == []
    assert equality_differences(reference, loaded) == []


def test_equality_of_a_body_with_itself_is_listed():
    loaded = beside.load(arms(end='<equality><connect site1="sa" site2="sb"/></equality>'), 0.002)
    assert [str(feature).partition(": <")[2] for feature in loaded.unsupported_features] == [
        "connect>: ties a body to itself; it does not act"
    ]


def test_bodies_that_an_equality_ties_still_collide():
    """Newton keeps the shapes of bodies apart that a joint connects, one that closes a loop too."""
    text = arms(end='<equality><connect body1="b" body2="c" anchor="0 0 0"/><weld body1="a"/></equality>')
    assert beside.pair_differences(beside.compile_mujoco(text), beside.load(text, 0.002)) == []


CORNERS = "-.08 -.02 -.03 .09 -.02 -.02 .07 .05 -.03 -.09 .04 -.02 -.06 -.03 .04 .08 -.02 .05 .06 .04 .06 -.05 .05 .03"


@pytest.mark.parametrize(
    ("kind", "around"), list(itertools.product(("sphere", "capsule", "cylinder", "ellipsoid", "box"), (False, True)))
)
def test_shape_fitted_to_a_mesh_is_mujocos(kind, around):
    """Its mass was that of MuJoCo before, but it was turned the wrong way, and mass= was an error."""
    mesh = f'<asset><mesh name="m" vertex="{CORNERS}" scale="1 2 1" refpos=".01 .02 0" refquat="1 .2 .1 0"/></asset>'
    geom = f'<geom name="g" type="{kind}" mesh="m" fitscale=".9" mass="2" pos=".1 0 0" euler="10 20 30"/>'
    text = f'<mujoco><compiler fitaabb="{str(around).lower()}"/>{mesh}<worldbody><body name="b"><joint name="j"/>{geom}</body></worldbody></mujoco>'
    reference, loaded = beside.compile_mujoco(text), beside.load(text, 0.002)
    assert loaded.unsupported_features == []
    assert beside.structure(reference, loaded) == []
    model, shape = loaded.sap_model.newton_model, beside.find(list(loaded.shape_labels), "g")
    size = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
    np.testing.assert_allclose(model.shape_scale.numpy()[shape, :size], reference.geom_size[0, :size], atol=1e-6)
    np.testing.assert_allclose(model.shape_transform.numpy()[shape, :3], reference.geom_pos[0], atol=1e-6)


OF_CLASS = {
    "gains of general": '<general gainprm="7" biasprm="0.1 -3 -0.6"/>',
    "gain of general": '<general gainprm="7"/>',
    "bias of general": '<general biasprm="0.1 -3 -0.6" biastype="affine"/>',
    "position": '<position kp="5" kv="0.4"/>',
    "velocity": '<velocity kv="0.14"/>',
    "motor": '<motor gear="2"/>',
    "intvelocity": '<intvelocity kp="6" kv="0.2"/>',
    "cylinder": '<cylinder area="3" bias="1 2 3" timeconst="0.5"/>',
    "filtered position": '<position kp="5" timeconst="0.3"/>',
}
DYNAMICS = ("none", "integrator", "filter", "filterexact")


@pytest.mark.parametrize("name", OF_CLASS)
def test_class_gives_its_gains_to_every_kind_of_actuator(name):
    for kind in ("general", "position", "velocity", "motor", "intvelocity", "cylinder"):
        text = arms(
            top=f'<default><default class="c">{OF_CLASS[name]}</default></default>',
            end=f'<actuator><{kind} joint="ja" class="c"{" actrange=" + repr("-1 1") if kind == "intvelocity" else ""}/></actuator>',
        )
        reference, document = beside.compile_mujoco(text), read_mjcf(text)
        translate_actuators(document)
        gain, bias, dynamics = linear(document.elements("actuator")[0])
        assert gain == pytest.approx(reference.actuator_gainprm[0, 0]), kind
        if reference.actuator_biastype[0] != mujoco.mjtBias.mjBIAS_NONE:
            np.testing.assert_allclose(bias, reference.actuator_biasprm[0, :3], err_msg=kind)
        assert dynamics == DYNAMICS[int(reference.actuator_dyntype[0])], kind


def linear(node):
    """Gain, bias and dynamics of an actuator as Newton gets it."""
    kp, kv = node.number("kp", 1.0), node.number("kv", 0.0)
    if node.tag == "general":
        gain = node.numbers("gainprm")[0] if node.get("gainprm") is not None else 1.0
        bias = np.zeros(3) if node.get("biasprm") is None else np.resize([*node.numbers("biasprm"), 0.0, 0.0, 0.0], 3)
        return gain, bias, node.get("dyntype", "none")
    if node.tag == "velocity":
        return node.number("kv", 1.0), np.array([0.0, 0.0, -node.number("kv", 1.0)]), "none"
    if node.tag == "motor":
        return 1.0, np.zeros(3), "none"
    return kp, np.array([0.0, -kp, -kv]), "integrator" if node.tag == "intvelocity" else "none"


ACTUATORS = {
    "damping ratio in the parent's axes": ("", '<position jointinparent="ja" kp="20" dampratio="0.7"/>'),
    "damping ratio of an integrator": ("", '<intvelocity joint="jb" kp="9" dampratio="0.5" actrange="-1 1"/>'),
    "range of a damper acts by itself": ('autolimits="false"', '<damper joint="ja" kv="3" ctrlrange="0 2"/>'),
}


@pytest.mark.parametrize("name", ACTUATORS)
def test_actuator_pushes_as_in_mujoco(name, rng):
    compiler, actuator = ACTUATORS[name]
    assert in_states(arms(compiler, end=f"<actuator>{actuator}</actuator>"), rng) == []


def test_damping_ratio_of_a_tendon_is_refused_beside_a_joint_without_a_name():
    """It once took the inertia of the joint without a name."""
    tendon = '<tendon><fixed name="t"><joint joint="ja" coef="1"/></fixed></tendon>'
    text = arms(end=f'{tendon}<actuator><position name="p" tendon="t" kp="3" dampratio="1"/></actuator>')
    text = text.replace("</worldbody>", '<body name="d"><freejoint/><geom size=".1"/></body></worldbody>')
    listed, feature = beside.load(text, 0.002).unsupported_features
    assert '<position dampratio="1">' in str(listed)
    assert "damping ratio that do not act on a joint" in str(feature) and "'p'" in str(feature)


def test_tendon_keeps_its_name():
    """Newton does not know -, so names go through another one."""
    text = arms(end='<tendon><fixed name="my-tendon"><joint joint="ja" coef="1"/></fixed></tendon>')
    assert list(beside.load(text, 0.002).sap_model.newton_model.mujoco.tendon_label) == ["my-tendon"]


@pytest.mark.parametrize("groups", ["0 1", "0 5", "4 5"])
def test_inertial_counts_where_no_geom_does(rng, groups):
    """With inertiafromgeom="true" geoms of some groups make the mass of a body; one without such keeps its own."""
    text = f"""<mujoco><compiler inertiafromgeom="true" inertiagrouprange="{groups}"/><default><default class="far">
<geom group="3"/></default></default><worldbody><body name="a" pos="0 0 1">
<inertial pos=".1 0 0" mass="2" diaginertia=".1 .2 .25"/><joint axis="0 1 0"/><geom class="far" size=".1"/>
<frame pos="0 0 .1"><body name="b" pos="0 0 .5"><inertial pos=".1 0 0" mass="5" diaginertia=".1 .2 .25"/><joint axis="1 1 0"/>
<frame><geom size=".1" group="1"/></frame><geom class="far" size=".2"/></body></frame></body></worldbody></mujoco>"""
    assert in_states(text, rng) == []
