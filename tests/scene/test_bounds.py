"""Numbers that no simulation can mean are refused with the value, the bound and the place."""
# ruff: noqa: E501 - texts of other formats and messages on one line

import json
import re
from pathlib import Path

import numpy as np
import pytest

import sap_warp
from sap_warp.core.kernels.precision import MAX_TIME_STEP, MIN_TIME_STEP
from sap_warp.model.model import check_time_step
from sap_warp.scene.text import bounds
from tests.support.scene_files import BOX, boxes, chain, load, problem_of, with_joint, with_shape

DOCS = Path(__file__).resolve().parents[2] / "docs"
HUGE = 1e29


def with_body(**fields):
    return {
        "bodies": [{"id": "box", "shapes": [BOX], **fields}],
        "joints": [{"id": "j", "type": "free", "child": "box"}],
    }


def edit(**operation):
    return chain(post_build=[operation])


@pytest.mark.parametrize(
    "scene, message",
    [
        (boxes(simulation={"dt": 1e29}), "simulation.dt: found 1e+29; a time step is 1e-09 to 100 s"),
        (boxes(simulation={"dt": 1e-12}), "simulation.dt: found 1e-12; a time step is 1e-09 to 100 s"),
        (boxes(simulation={"dt": 1e-320}), "simulation.dt: found 1e-320; expected 0, or a number of magnitude 1e-30 or more"),
        (boxes(simulation={"dt": -0.0}), "simulation.dt: found 0; expected a positive number"),
        (boxes(simulation={"duration": HUGE}), "simulation.duration: found 1e+29; a duration is 1e-09 to 1e+09 s"),
        (boxes(simulation={"solver": {"contact_tau_d": HUGE}}), "simulation.solver.contact_tau_d: found 1e+29; a dissipation time is at most 1e+06 s"),
        (boxes(builder={"rigid_gap": HUGE}), "builder.rigid_gap: found 1e+29; a position or distance is at most 1e+07 m"),
        (boxes(builder={"default_body_armature": HUGE}), "builder.default_body_armature: found 1e+29; an inertia is"),
        (boxes(replicate={"spacing": [HUGE, 0, 0]}), "replicate.spacing[0]: found 1e+29; a position or distance is"),
        (boxes(ground={"height": HUGE}), "ground.height: found 1e+29; a position or distance is"),
        (with_body(mass=HUGE), "bodies[0].mass: found 1e+29; a mass is 1e-12 to 1e+15 kg"),
        (with_body(mass=1e-20), "bodies[0].mass: found 1e-20; a mass is 1e-12 to 1e+15 kg"),
        (with_body(inertia=[HUGE] * 3), "bodies[0].inertia: found 1e+29; an inertia is at most 1e+12 kg or kg m^2"),
        (with_body(com=[0, 0, HUGE]), "bodies[0].com[2]: found 1e+29; a position or distance is"),
        (with_body(transform={"p": [0, -HUGE, 0]}), "bodies[0].transform.p[1]: found -1e+29; a position or distance is"),
        (with_body(transform={"q": {"axis_angle": {"axis": "x", "angle": HUGE}}}), "bodies[0].transform.q.axis_angle.angle: found 1e+29;"),
        (with_shape({**BOX, "hx": HUGE}), "bodies[0].shapes[0].hx: found 1e+29; a size is 1e-07 to 1e+07 m"),
        (with_shape({**BOX, "hx": 1e-9}), "bodies[0].shapes[0].hx: found 1e-09; a size is 1e-07 to 1e+07 m"),
        (with_shape({**BOX, "density": HUGE}), "bodies[0].shapes[0].density: found 1e+29; a density is"),
        (with_shape({**BOX, "ke": HUGE}), "bodies[0].shapes[0].ke: found 1e+29; a stiffness is 1e-09 to 1e+15 N/m"),
        (with_shape({**BOX, "ke": 1e-20}), "bodies[0].shapes[0].ke: found 1e-20; a stiffness is 1e-09 to 1e+15 N/m"),
        (with_shape({**BOX, "tau": HUGE}), "bodies[0].shapes[0].tau: found 1e+29; a dissipation time is at most"),
        (with_shape({**BOX, "mu": HUGE}), "bodies[0].shapes[0].mu: found 1e+29; a coefficient is at most 1e+06"),
        (with_shape({**BOX, "margin": HUGE}), "bodies[0].shapes[0].margin: found 1e+29;"),
        (with_joint("revolute", armature=HUGE), "joints[0].armature: found 1e+29; an inertia is"),
        (with_joint("revolute", target_ke=HUGE), "joints[0].target_ke: found 1e+29; a stiffness is"),
        (with_joint("revolute", target_kd=HUGE), "joints[0].target_kd: found 1e+29; a damping is"),
        (with_joint("revolute", target_pos=HUGE), "joints[0].target_pos: found 1e+29; a joint position or target is at most 1e+07 m or rad"),
        (with_joint("revolute", target_vel=HUGE), "joints[0].target_vel: found 1e+29; a speed is at most 1e+07 m/s or rad/s"),
        (with_joint("revolute", friction=HUGE), "joints[0].friction: found 1e+29; a friction force is"),
        (with_joint("revolute", parent_xform={"p": [HUGE, 0, 0]}), "joints[0].parent_xform.p[0]: found 1e+29;"),
        (with_joint("distance", max_distance=HUGE), "joints[0].max_distance: found 1e+29;"),
        (chain(initial_joint_q=[{"index": 0, "value": HUGE}]), "initial_joint_q[0].value: found 1e+29; a joint position"),
        (chain(initial_joint_q=[{"index": 0, "values": [0, HUGE]}]), "initial_joint_q[0].values[1]: found 1e+29;"),
        (edit(op="set_attr", attr="gravity", value=[0, 0, HUGE]), "post_build[0].value: found 1e+29; a gravity is at most 1e+06 m/s^2"),
        (edit(op="set_attr", attr="gravity", value=-HUGE), "post_build[0].value: found -1e+29; a gravity is"),
        (edit(op="set_attr", attr="rigid_gap", value=HUGE), "post_build[0].value: found 1e+29; a position or distance is"),
        (edit(op="set_joint_q", index=0, value=HUGE), "post_build[0].value: found 1e+29; a joint position"),
        (edit(op="set_joint_armature", range="all", value=HUGE), "post_build[0].value: found 1e+29; an inertia is"),
        (edit(op="set_joint_armature", range="head:1", values=[HUGE]), "post_build[0].values[0]: found 1e+29; an inertia is"),
        (edit(op="set_joint_targets", joint="hinge", ke=HUGE), "post_build[0].ke: found 1e+29; a stiffness is"),
        (edit(op="scale_sphere_shapes", factor=HUGE), "post_build[0].factor: found 1e+29; a factor is 1e-09 to 1e+09"),
        *[
            (edit(op="set_array", array=array, range="all", value=HUGE), "post_build[0].value: found 1e+29; a")
            for array in ("joint_q", "joint_qd", "joint_target_pos", "joint_target_vel", "joint_target_ke", "joint_target_kd", "joint_armature",
                          "joint_friction", "joint_damping", "shape_margin", "shape_gap", "shape_material_ke", "shape_material_tau", "shape_material_mu")
        ],
    ],
)  # fmt: skip
def test_an_absurd_number_is_refused_with_its_bound(scene, message):
    assert problem_of(scene).startswith(message)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, "1e400"])
def test_numbers_that_are_none_are_refused_everywhere(value):
    """Every number of a scene that has all kinds of them."""
    scene = chain(simulation={"dt": 0.01}, ground={"height": 0.0, "mu": 0.5}, replicate={"spacing": [1.0, 0.0, 0.0]})
    scene["bodies"][0] |= {"mass": 1.0, "com": [0.0, 0.0, 0.0], "transform": {"p": [0.0, 0.0, 1.0], "q": [0, 0, 0, 1]}}
    scene["joints"][1] |= {"target_ke": 1.0, "armature": 0.1, "friction": 0.1}
    places = list(_numbers(scene))
    assert len(places) > 20
    for path in places:
        changed = json.loads(json.dumps(scene))
        _set(changed, path, value)
        with pytest.raises(sap_warp.SapSceneError) as caught:
            sap_warp.load_sap_scene_config(changed)
        assert caught.value.problems[0].path == path


def _numbers(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            yield (*path, key)
        yield from _numbers(part, (*path, key))


def _set(scene, path, value):
    for key in path[:-1]:
        scene = scene[key]
    scene[path[-1]] = value


def test_limits_may_be_infinite_or_as_large_as_people_write_them():
    limits = {"limit_lower": float("-inf"), "limit_upper": 1e30, "effort_limit": float("inf"), "velocity_limit": 1e30}
    loaded = load(with_joint("revolute", **limits))
    assert loaded.sap_model.joint_limit_upper.numpy()[0] >= 1e10


def test_generous_numbers_load():
    """The bounds leave room: an asteroid, a grain of dust, a stiff drive."""
    load(with_body(mass=1e12, transform={"p": [1e6, 0.0, 0.0]}))
    load(with_shape({"type": "sphere", "radius": 1e-5, "density": 2000.0}))
    load(with_joint("revolute", target_ke=1e10, target_kd=1e8, armature=1e3))
    load(boxes(simulation={"dt": 1e-6}))


def test_worlds_in_a_row_stay_within_the_bound_of_positions():
    scene = boxes(replicate={"spacing": [1e6, 0.0, 0.0]})
    assert load(scene, num_worlds=4).num_worlds == 4
    assert problem_of(scene, num_worlds=1000).startswith("replicate.spacing: 1000 worlds would cover 1e+09 m;")


def test_negative_zero_is_zero():
    scene = sap_warp.load_sap_scene_config(with_body(mass=-0.0, transform={"p": [-0.0, 0, 0]}))
    assert np.signbit([scene.bodies[0].mass, scene.bodies[0].transform.p[0]]).tolist() == [False, False]


URDF = """<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0'
iyz='0'/></inertial><collision><origin xyz='{at} 0 0'/><geometry><sphere radius='{radius}'/></geometry></collision>
</link></robot>"""


@pytest.mark.parametrize(
    "numbers, message",
    [
        ({"radius": "1e20"}, "the size of shape 'shape_0' has the entry 1e+20; a size is 1e-07 to 1e+07 m"),
        ({"at": "1e20"}, "the pose of shape 'shape_0' has the entry 1e+20; a position or distance is at most"),
    ],
)
def test_absurd_numbers_of_an_asset_are_refused_too(numbers, message):
    text = URDF.format(**{"radius": "0.1", "at": "0", **numbers})
    line = problem_of({"assets": [{"type": "urdf", "source": text, "floating": True}]})
    assert line.startswith(f"assets[0].source: {message}")


@pytest.mark.parametrize("dt", [0.0, -0.0, -1.0, 1e30, 1e-320, 1e-10, 101.0, float("nan"), float("inf"), -float("inf")])
def test_a_time_step_out_of_bounds_is_refused_by_the_api(dt):
    with pytest.raises(ValueError, match=r"dt is .*seconds|dt is .* a time step is 1e-09 to 100 s"):
        check_time_step(dt)
    model = load(boxes()).sap_model
    with pytest.raises(ValueError, match="dt is"):
        sap_warp.Simulation(model, dt=dt)


@pytest.mark.parametrize("dt", [None, "0.01", True, 1j, [0.01]])
def test_a_time_step_that_is_no_number_is_a_type_error(dt):
    with pytest.raises(TypeError, match=r"dt is .*; it must be a number of seconds"):
        check_time_step(dt)


def test_bounds_themselves_are_accepted():
    assert [check_time_step(dt) for dt in (MIN_TIME_STEP, MAX_TIME_STEP)] == [MIN_TIME_STEP, MAX_TIME_STEP]
    for quantity in bounds.QUANTITIES:
        assert quantity.check(-quantity.largest) == -quantity.largest
        assert quantity.check(quantity.smallest) == quantity.smallest


def test_the_documentation_lists_every_bound():
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| *([^|]*?) *\|$", (DOCS / "loader.md").read_text(), re.MULTILINE)
    listed = {name: (limits, unit) for name, limits, unit in rows}
    for quantity in bounds.QUANTITIES:
        assert listed[quantity.name] == (quantity.range.removesuffix(f" {quantity.unit}"), quantity.unit)


# Selections that select nothing


@pytest.mark.parametrize(
    "selector, message",
    [
        ({"joints": []}, ".joints: selects nothing; name at least one joint"),
        ({"joint_labels": []}, ".joint_labels: selects nothing; name at least one joint"),
        ({"range": "head:0"}, ".range: selects nothing: entries 0 to 0 of an array that has 8"),
        ({"range": "tail:0"}, ".range: selects nothing: entries 8 to 8 of an array that has 8"),
        ({"range": "from:8"}, ".range: selects nothing: entries 8 to 8 of an array that has 8"),
        ({"range": [5, 5]}, ".range: selects nothing: entries 5 to 5 of an array that has 8"),
        ({"range": [-1, -1]}, ".range: selects nothing: entries 7 to 7 of an array that has 8"),
        ({"match": "knee"}, ".match: no label of the joints contains 'knee'"),
        ({"label_prefix": "knee"}, ".label_prefix: no label of the joints starts with 'knee'"),
    ],
)
def test_an_edit_of_nothing_is_refused(selector, message):
    for operation in ({"op": "set_joint_targets", "ke": 1.0}, {"op": "set_array", "array": "joint_qd", "value": 1.0}):
        assert problem_of(edit(**operation, **selector)).startswith("post_build[0]" + message)


def test_joints_without_degrees_of_freedom_are_nothing_to_edit():
    scene = chain()
    scene["joints"][2] = {"id": "weld", "type": "fixed", "parent": "arm", "child": "hand"}
    scene["post_build"] = [{"op": "set_joint_targets", "joint": "weld", "ke": 1.0}]
    assert problem_of(scene) == (
        "post_build[0].joint: selects nothing: the joints that it names have no degrees of freedom"
    )


def test_edits_of_a_scene_without_coordinates_are_refused():
    scene = {**with_joint("fixed"), "post_build": [{"op": "copy_joint_q_to_joint_targets"}]}
    assert problem_of(scene) == "post_build[0]: there is nothing to edit: the scene has no coordinates"


def test_initial_positions_without_values_are_refused():
    assert problem_of(chain(initial_joint_q=[{"index": 0, "values": []}])) == (
        "initial_joint_q[0].values: found no values; give at least one"
    )
