"""What Newton's importer leaves out of an MJCF file, against the model that MuJoCo compiles from it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sap_warp.scene import load_sap_scene

GRAVITY = "<mujoco><option {}/><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"


def load(*texts, scene=None, **options):
    assets = [{"type": "mjcf", "source": text, "label_prefix": f"a{i}", **options} for i, text in enumerate(texts)]
    return load_sap_scene({"assets": assets, "ground": False, **(scene or {})}, device="cpu")


def gravity(loaded):
    return loaded.sap_model.gravity.numpy().reshape(-1, 3)[0].tolist()


# Gravity


@pytest.mark.parametrize("attributes", ["", "gravity='1 2 -3'", "gravity='0 0 0'", "gravity='0 0 -1.62' density='0'"])
def test_gravity_is_that_of_mujoco(attributes):
    text = GRAVITY.format(attributes)
    expected = mujoco.MjModel.from_xml_string(text).opt.gravity
    np.testing.assert_allclose(gravity(load(text)), expected, rtol=1e-6)


def test_last_option_has_the_last_word_and_the_flag_takes_gravity_away():
    text = GRAVITY.format("gravity='0 0 -3'").replace("<worldbody>", "<option gravity='0 0 -4'/><worldbody>")
    assert gravity(load(text)) == [0, 0, -4] == mujoco.MjModel.from_xml_string(text).opt.gravity.tolist()
    off = text.replace("<worldbody>", "<option><flag gravity='disable'/></option><worldbody>")
    assert gravity(load(off)) == [0, 0, 0]


def test_gravity_of_the_scene_wins():
    scene = {"post_build": [{"op": "set_attr", "attr": "gravity", "value": [0, 0, -5]}]}
    loaded = load(GRAVITY.format("gravity='0 0 -3'"), GRAVITY.format("gravity='0 0 -4'"), scene=scene)
    assert gravity(loaded) == [0, 0, -5] and loaded.unsupported_features == []


def test_assets_that_disagree_about_gravity_are_named():
    loaded = load(*(GRAVITY.format(f"gravity='0 0 {value}'") for value in (-3, -3, -4)), GRAVITY.format(""))
    assert gravity(loaded) == [0, 0, -3]
    (feature,) = loaded.unsupported_features
    assert "assets[2].source: line 1: gravity is [0, 0, -4], but [0, 0, -3] by line 1, which acts" in feature


# Which shapes meet


def met_in_mujoco(text):
    """Pairs of geoms that touch where all geoms are at one point."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return {frozenset(model.geom(int(g)).name for g in contact.geom) for contact in data.contact}


def may_meet(loaded):
    labels = [label.rsplit("/", 1)[-1] for label in loaded.shape_labels]
    return {frozenset((labels[a], labels[b])) for a, b in loaded.sap_model.shape_contact_pairs.numpy().reshape(-1, 2)}


def random_robots(rng):
    """Trees of spheres at one point, with and without joints, masks, pairs and excluded bodies."""
    names = []

    def geom():
        names.append(f"g{len(names)}")
        masks = rng.choice(["", 'contype="2"', 'conaffinity="2"', 'contype="0" conaffinity="0"', 'contype="3"'])
        return f'<geom name="{names[-1]}" size=".1" {masks}/>'

    bodies = []

    def body(depth, root=False):
        bodies.append(name := f"b{len(bodies)}")
        kinds = ["", '<joint type="slide"/>', "<joint/>", *(["<freejoint/>"] if root else [])]
        inside = "".join(body(depth - 1) for _ in range(rng.integers(0, 3))) if depth else ""
        shapes = "".join(geom() for _ in range(rng.integers(1, 3)))
        return f'<body name="{name}">{rng.choice(kinds)}{shapes}{inside}</body>'

    world = geom() + "".join(body(2, root=True) for _ in range(2)) + f'<body name="free"><freejoint/>{geom()}</body>'
    pairs = [tuple(rng.choice(names, 2, replace=False)) for _ in range(2)]
    contact = "".join(f'<pair geom1="{a}" geom2="{b}"/>' for a, b in {tuple(sorted(pair)) for pair in pairs})
    excluded = [tuple(rng.choice([*bodies, "world"], 2, replace=False)) for _ in range(2)]
    contact += "".join(f'<exclude body1="{a}" body2="{b}"/>' for a, b in {tuple(sorted(pair)) for pair in excluded})
    flags = rng.choice(
        ["", '<flag filterparent="disable"/>', '<flag contact="disable"/>', '<flag constraint="disable"/>']
    )
    return f"<mujoco><option>{flags}</option><worldbody>{world}</worldbody><contact>{contact}</contact></mujoco>"


def test_shapes_meet_that_meet_in_mujoco(rng):
    """Masks, fixed bodies, parents, pairs, excluded bodies and flags, in any combination."""
    met = 0
    for _ in range(60):
        text = random_robots(rng)
        expected = met_in_mujoco(text)
        found = may_meet(load(text))
        # MuJoCo never moves what is fixed to the world, but touches it where a pair says so
        static = {pair for pair in expected - found if both_fixed(text, pair)}
        assert found == expected - static, text
        met += len(expected)
    assert met > 300


def both_fixed(text, pair):
    model = mujoco.MjModel.from_xml_string(text)
    return len({int(model.body_weldid[model.geom_bodyid[model.geom(name).id]]) for name in pair}) == 1


PAIR_ONLY = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" contype="0" conaffinity="0"/>
<body name="ball" pos="0 0 .1"><freejoint/><geom name="g" size=".1" contype="0" conaffinity="0" {geom}/></body>
</worldbody><contact><pair geom1="floor" geom2="g" {pair}/></contact></mujoco>"""


def test_pairs_meet_in_every_world():
    loaded = load(
        PAIR_ONLY.format(geom="", pair=""), PAIR_ONLY.format(geom="", pair=""), scene={"replicate": {"num_worlds": 3}}
    )
    pairs = loaded.sap_model.shape_contact_pairs.numpy().reshape(-1, 2).tolist()
    assert sorted(map(sorted, pairs)) == [[2 * i, 2 * i + 1] for i in range(6)]
    assert loaded.unsupported_features == []


@pytest.mark.parametrize(
    ("geom", "pair"), [('friction="0.3"', ""), ("", 'friction="0.25"'), ('friction="1.5"', 'friction="0.4 0.4 0 0 0"')]
)
def test_friction_of_a_pair_is_that_of_mujoco(geom, pair):
    text = PAIR_ONLY.format(geom=geom, pair=pair)
    model = mujoco.MjModel.from_xml_string(text)
    loaded = load(text)
    np.testing.assert_allclose(loaded.sap_model.shape_material_mu.numpy(), model.pair_friction[0, 0], rtol=1e-6)
    assert loaded.unsupported_features == []
    assert (load(text, cfg={"mu": 0.7}).sap_model.shape_material_mu.numpy() == np.float32(0.7)).all()


def test_scene_without_self_collisions_has_no_pairs():
    assert may_meet(load(PAIR_ONLY.format(geom="", pair=""), enable_self_collisions=False)) == set()


# Flags


ARM = """<mujoco>{top}<worldbody><body><joint name="j" range="-30 40" damping="2" frictionloss="3" stiffness="4"/>
<geom size=".1"/><body><joint name="k" type="slide"/><geom size=".1" pos="1 0 0"/></body></body></worldbody>
<equality><joint joint1="j" joint2="k"/></equality>
<actuator><motor joint="j" ctrlrange="-1 1"/></actuator></mujoco>"""


def arm(flag):
    return load(ARM.format(top=f"<option><flag {flag}/></option>")).sap_model.newton_model


def test_flags_take_away_what_they_name():
    plain, off = arm('energy="enable"'), '="disable"'
    assert plain.joint_damping.numpy()[0] == 2 and arm("damper" + off).joint_damping.numpy()[0] == 0
    assert plain.joint_friction.numpy()[0] == 3
    assert plain.mujoco.dof_passive_stiffness.numpy()[0] == 4
    assert arm("spring" + off).mujoco.dof_passive_stiffness.numpy()[0] == 0
    for flag in ("frictionloss", "constraint"):
        assert arm(flag + off).joint_friction.numpy()[0] == 0
    for flag in ("limit", "constraint"):
        assert arm(flag + off).joint_limit_upper.numpy()[0] > 1e3
    for flag in ("equality", "constraint"):
        assert arm(flag + off).constraint_mimic_count == 0 and plain.constraint_mimic_count == 1
    assert plain.custom_frequency_counts["mujoco:actuator"] == 1
    assert arm("actuation" + off).custom_frequency_counts.get("mujoco:actuator", 0) == 0
    assert plain.mujoco.actuator_ctrlrange.numpy()[0].tolist() == [-1, 1]
    assert arm("clampctrl" + off).mujoco.actuator_has_ctrlrange.numpy()[0] == 0


def test_ranges_that_do_not_limit_are_no_limits():
    text = ARM.format(top="").replace('range="-30 40"', 'range="-30 40" limited="false"')
    assert load(text).sap_model.joint_limit_upper.numpy()[0] > 1e3
    limits = load(ARM.format(top="")).sap_model
    np.testing.assert_allclose(limits.joint_limit_upper.numpy()[0], np.deg2rad(40), rtol=1e-6)


# Drives


DRIVES = [
    '<position joint="j" kp="50" kv="3" forcerange="-12 12"/>',
    '<position joint="j" kp="50" gear="3" forcerange="-12 12"/>',
    '<position joint="j" class="weak"/>',
    '<position joint="j" class="general"/>',
    '<position joint="j" kp="50" dampratio="0.7" gear="-2"/>',
    '<position joint="j" kp="50" dampratio="1" forcerange="-4 4" forcelimited="false"/>',
    '<velocity joint="j" kv="7" gear="2" forcerange="-5 5"/>',
    '<velocity joint="j" class="weak"/>',
    '<position joint="j" kp="50" ctrlrange="0.2 1" gear="2"/>',
    '<position joint="j" kp="50" inheritrange="1"/>',
]
DRIVEN = """<mujoco><default><default class="weak"><velocity kv="4"/><position kp="9" kv="2" forcerange="-1.5 1.5"/>
</default><default class="general"><general forcerange="-2.5 2.5" gear="2" gainprm="8" biasprm="0 -8 -1"/></default>
</default><worldbody><body pos="0 0 1">{base}<geom size=".2"/><body pos=".1 .2 .3" euler="10 20 30">
<joint name="j" {joint}/><geom size=".1 .2 .3" type="box" pos=".1 .2 .3"/>
<body pos="1 0 0"><joint name="k" type="ball" armature=".1"/><geom size=".1" pos=".2 .1 0"/></body></body></body>
</worldbody><actuator>{actuator}</actuator></mujoco>"""


@pytest.mark.parametrize("base", ["", "<freejoint/>", '<joint armature=".2"/><joint type="slide"/>'])
@pytest.mark.parametrize(
    "joint", ['range="-90 60"', 'type="slide" axis="1 2 3"', 'range="10 60" ref="20" actuatorfrcrange="-3 3"']
)
@pytest.mark.parametrize("actuator", DRIVES)
def test_drives_are_mujocos_position_and_velocity_actuators(actuator, joint, base):
    if "inheritrange" in actuator and "slide" in joint:
        pytest.skip("there is no range to inherit")
    text = DRIVEN.format(base=base, joint=joint, actuator=actuator)
    model = mujoco.MjModel.from_xml_string(text)
    loaded = load(text)
    assert loaded.unsupported_features == []
    sap, j = loaded.sap_model, model.joint("j").id
    labels = [label.rsplit("/", 1)[-1] for label in loaded.joint_labels]
    dof = int(sap.joint_qd_start.numpy()[labels.index("j")])
    coordinate = int(sap.joint_q_start.numpy()[labels.index("j")])
    gear, bias = model.actuator_gear[0, 0], model.actuator_biasprm[0]
    np.testing.assert_allclose(sap.joint_target_ke.numpy()[dof], -(gear**2) * bias[1], rtol=1e-5)
    np.testing.assert_allclose(sap.joint_target_kd.numpy()[dof], -(gear**2) * bias[2], rtol=1e-5, atol=1e-9)
    limits = [1e6]
    if model.actuator_forcelimited[0]:
        limits.append(abs(gear) * model.actuator_forcerange[0, 1])
    if model.jnt_actfrclimited[j]:
        limits.append(model.jnt_actfrcrange[j, 1])
    np.testing.assert_allclose(sap.joint_effort_limit.numpy()[dof], min(limits), rtol=1e-6)
    ctrl = np.clip(0.0, *model.actuator_ctrlrange[0]) if model.actuator_ctrllimited[0] else 0.0
    targets = sap.control()
    if "position" in actuator:
        expected = ctrl / gear - model.qpos0[model.jnt_qposadr[j]]
        np.testing.assert_allclose(targets.joint_target_pos.numpy()[coordinate], expected, rtol=1e-5, atol=1e-7)
    else:
        np.testing.assert_allclose(targets.joint_target_vel.numpy()[dof], ctrl / gear, atol=1e-7)


@pytest.mark.parametrize("joint", ['range="-90 60"', 'range="10 60" ref="20" actuatorfrcrange="-3 3"'])
@pytest.mark.parametrize("actuator", DRIVES)
def test_actuators_that_read_ctrl_have_mujocos_gains(actuator, joint):
    """With ctrl_direct also position and velocity actuators, among them those with a damping ratio."""
    from sap_warp.solver.model.motors import Motors

    text = DRIVEN.format(base="<freejoint/>", joint=joint, actuator=actuator)
    model, loaded = mujoco.MjModel.from_xml_string(text), load(text, ctrl_direct=True)
    assert loaded.unsupported_features == []
    sap = loaded.sap_model
    dof = int(sap.joint_qd_start.numpy()[[label.endswith("/j") for label in loaded.joint_labels].index(True)])
    assert not sap.joint_target_ke.numpy().any() and not sap.joint_target_kd.numpy().any()
    found = {name: array.numpy()[dof] for name, array in Motors(sap.newton_model).arrays.items()}
    # steps take the smaller of both, see `test_range_of_a_joint_limits_its_motor`
    found["motor_limit"] = min(found["motor_limit"], sap.joint_effort_limit.numpy()[dof])
    gear, bias = model.actuator_gear[0, 0], model.actuator_biasprm[0]
    expected = {"motor_kp": -(gear**2) * bias[1], "motor_kd": -(gear**2) * bias[2]}
    expected["motor_gain"] = gear * model.actuator_gainprm[0, 0]
    if model.actuator_ctrllimited[0]:
        expected["motor_low"], expected["motor_high"] = model.actuator_ctrlrange[0]
    limits = [1e6, abs(gear) * model.actuator_forcerange[0, 1] if model.actuator_forcelimited[0] else np.inf]
    limits.append(model.jnt_actfrcrange[model.joint("j").id, 1] if "actuatorfrcrange" in joint else np.inf)
    expected["motor_limit"] = min(limits)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-9, err_msg=name)


def test_force_range_of_the_file_wins_over_the_default_of_the_scene():
    text = DRIVEN.format(base="", joint="", actuator='<position joint="j" kp="50" forcerange="-12 12"/>')
    scene = {"builder": {"defaults": {"joint": {"effort_limit": 5.0}}}}
    assert load(text, scene=scene).sap_model.joint_effort_limit.numpy()[0] == 12.0
    open_range = text.replace('forcerange="-12 12"', "")
    assert load(open_range, scene=scene).sap_model.joint_effort_limit.numpy()[0] == 5.0


def test_range_of_a_joint_limits_its_motor():
    """MuJoCo clamps the sum of the actuator forces on a joint to its actuatorfrcrange; steps read it afresh."""
    from sap_warp import SolverSAP

    text = DRIVEN.format(base="", joint='actuatorfrcrange="-3 3"', actuator='<motor joint="j" gear="10"/>')
    model = load(text).sap_model
    model.mujoco.ctrl.fill_(1.0)
    solver = SolverSAP(model)
    for limit in (3.0, 8.0):
        rows = solver.compute_contacts(model.state(), None, None, 0.01)
        assert rows.terms.motor.limit.numpy().max() == limit
        model.joint_effort_limit.fill_(8.0)
