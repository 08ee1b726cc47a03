"""Properties of the converters that hold for every pair of systems, their input checks, and the documentation.

Whether the table itself is right is decided in test_engines.py, against the engines.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sap_warp import conventions
from sap_warp.conventions import (
    ALIASES,
    SYSTEMS,
    SpatialLayout,
    cone_center_of_mass,
    convert_pose,
    convert_quaternion,
    convert_shape,
    convert_twist,
    convert_up_axis,
    convert_wrench,
    get_convention,
    up_axis_rotation,
)
from sap_warp.conventions.systems import SHAPE_KINDS
from tests.support.oracle.kinematics import matrix_from_quat

TWIST_SYSTEMS = [name for name, s in SYSTEMS.items() if s.twist]
WRENCH_SYSTEMS = [name for name, s in SYSTEMS.items() if s.wrench]
DUAL_SYSTEMS = [name for name, s in SYSTEMS.items() if s.twist and s.wrench]
POSE_SYSTEMS = [name for name, s in SYSTEMS.items() if s.pose]


def random_body(rng: np.random.Generator, *batch: int) -> dict[str, np.ndarray]:
    """Random poses and centres of mass, some metres from the world origin."""
    rotation = rng.normal(size=(*batch, 4))
    rotation /= np.linalg.norm(rotation, axis=-1, keepdims=True)
    position = 3.0 * rng.normal(size=(*batch, 3))
    return {"pose": np.concatenate([position, rotation], axis=-1), "com": rng.normal(size=(*batch, 3))}


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal up to a few roundings of the largest entry (float64)."""
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize(
    ("convert", "source", "target"),
    [(convert_twist, *pair) for pair in itertools.product(TWIST_SYSTEMS, repeat=2)]
    + [(convert_wrench, *pair) for pair in itertools.product(WRENCH_SYSTEMS, repeat=2)],
)
def test_twists_and_wrenches_return_unchanged_from_every_system(convert, source, target):
    """Converting there and back gives the same numbers again."""
    rng = np.random.default_rng(2)
    body, vectors = random_body(rng, 5), rng.normal(size=(5, 6))
    there = convert(vectors, source, target, **body)
    assert_close(convert(there, target, source, **body), vectors)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(DUAL_SYSTEMS, repeat=2)))
def test_power_is_the_same_in_every_system(source, target):
    """The dot product of wrench and twist does not depend on the system."""
    rng = np.random.default_rng(4)
    body, twist, wrench = random_body(rng, 20), rng.normal(size=(20, 6)), rng.normal(size=(20, 6))
    twist_out = convert_twist(twist, source, target, **body)
    wrench_out = convert_wrench(wrench, source, target, **body)
    scale = np.linalg.norm(twist_out, axis=-1) * np.linalg.norm(wrench_out, axis=-1)
    error = np.sum(twist * wrench, axis=-1) - np.sum(twist_out * wrench_out, axis=-1)
    assert np.all(np.abs(error) <= 1e-12 * np.maximum(scale, 1.0))


@pytest.mark.parametrize("middle", TWIST_SYSTEMS)
def test_a_detour_changes_nothing(middle):
    """Going to the public twist through any system equals going there directly."""
    rng = np.random.default_rng(5)
    body, twist = random_body(rng, 4), rng.normal(size=(4, 6))
    for source in TWIST_SYSTEMS:
        detour = convert_twist(convert_twist(twist, source, middle, **body), middle, "public", **body)
        assert_close(detour, convert_twist(twist, source, "public", **body))


def test_hand_calculation_of_the_boundary():
    """A body turning about world Z whose centre of mass lies 2 m along X from its origin, and a push there."""
    at_rest_at_origin = [0.0, 6.0, 0.0, 0.0, 0.0, 3.0]  # v_C = w x r = 3 e_z x 2 e_x
    body = {"rotation": [0.0, 0.0, 0.0, 1.0], "com": [2.0, 0.0, 0.0]}
    assert_close(convert_twist(at_rest_at_origin, "public", "sap", **body), np.array([0, 0, 3.0, 0, 0, 0]))
    push = [0.0, 5.0, 0.0, 0.0, 0.0, 0.0]  # through the centre of mass: moment 2 * 5 about the origin
    assert_close(convert_wrench(push, "public", "sap", **body), np.array([0, 0, 10.0, 0, 5.0, 0]))


def test_spatial_twist_is_the_adjoint_of_the_body_twist():
    """V_s = Ad_T V_b with the textbook's 6x6 matrix, and its transpose maps F_s to F_b."""
    rng = np.random.default_rng(6)
    body, twist = random_body(rng), rng.normal(size=6)
    p, q = body["pose"][:3], body["pose"][3:]
    rotation = matrix_from_quat(q)
    skew = np.array([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]])
    adjoint = np.block([[rotation, np.zeros((3, 3))], [skew @ rotation, rotation]])
    assert_close(convert_twist(twist, "mr_body", "mr_spatial", pose=body["pose"]), adjoint @ twist)
    assert_close(convert_wrench(twist, "mr_spatial", "mr_body", pose=body["pose"]), adjoint.T @ twist)


def test_usd_angular_velocity_is_in_degrees():
    """Half a turn per second is 180 in USD."""
    twist = convert_twist([0, 0, 0, 0, 0, np.pi], "public", "usd", rotation=[0, 0, 0, 1])
    assert_close(twist, np.array([0, 0, 0, 0, 0, 180.0]))


# --- Batches, types, arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("convert,names", [(convert_twist, TWIST_SYSTEMS), (convert_wrench, WRENCH_SYSTEMS)])
def test_a_batch_equals_a_loop(convert, names):
    """Arrays of worlds give, entry by entry, what single values give."""
    rng = np.random.default_rng(7)
    body, values = random_body(rng, 2, 3), rng.normal(size=(2, 3, 6))
    for source, target in itertools.product(names, repeat=2):
        batch = convert(values, source, target, **body)
        assert batch.shape == (2, 3, 6)
        for index in np.ndindex(2, 3):
            one = convert(values[index], source, target, **{name: array[index] for name, array in body.items()})
            assert one.shape == (6,)
            np.testing.assert_array_equal(batch[index], one)


def test_arguments_broadcast():
    """One centre of mass serves all worlds; one twist serves all poses."""
    rng = np.random.default_rng(8)
    body, com = random_body(rng, 4), np.array([0.1, 0.2, 0.3])
    out = convert_twist(np.ones(6), "public", "mujoco", pose=body["pose"], com=com)
    assert out.shape == (4, 6)
    assert_close(out[2], convert_twist(np.ones(6), "public", "mujoco", pose=body["pose"][2], com=com))
    assert convert_twist(np.ones(6), "public", "public", pose=body["pose"]).shape == (4, 6)


def test_types_follow_the_converted_array():
    """float32 stays float32; everything else becomes float64; the result never aliases the input."""
    single, double = np.ones(6, dtype=np.float32), np.ones(6)
    body = random_body(np.random.default_rng(9))
    assert convert_twist(single, "public", "sap", **body).dtype == np.float32
    assert convert_twist([1, 2, 3, 4, 5, 6], "public", "sap", **body).dtype == np.float64
    assert convert_quaternion(np.float32([0, 0, 0, 1]), "newton", "mujoco").dtype == np.float32
    assert convert_up_axis(single, "Y", "Z", kind="twist").dtype == np.float32
    assert not np.shares_memory(convert_twist(double, "public", "physx"), double)


def test_pose_may_be_given_in_parts():
    """One array, a pair, and separate position and rotation mean the same."""
    rng = np.random.default_rng(10)
    pose = random_body(rng)["pose"]
    twist = rng.normal(size=6)
    whole = convert_twist(twist, "mr_body", "mr_spatial", pose=pose)
    np.testing.assert_array_equal(convert_twist(twist, "mr_body", "mr_spatial", pose=(pose[:3], pose[3:])), whole)
    parts = convert_twist(twist, "mr_body", "mr_spatial", position=pose[:3], rotation=pose[3:])
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize(
    "source,target,given",
    [
        ("public", "physx", ()),
        ("sap", "drake", ()),
        ("drake", "mr_spatial", ("position",)),
        ("drake", "mujoco", ("rotation",)),
        ("public", "usd", ("rotation",)),
        ("public", "sap", ("rotation", "com")),
        ("public", "mr_spatial", ("position", "rotation", "com")),
    ],
)
def test_only_needed_information_is_asked_for(source, target, given):
    """A conversion works with what it uses and names exactly what it lacks."""
    values = {"position": [1.0, 2.0, 3.0], "rotation": [0.0, 0.0, 0.0, 1.0], "com": [0.1, 0.0, 0.0]}
    convert_twist(np.ones(6), source, target, **{name: values[name] for name in given})
    for lacking in given:
        with pytest.raises(ValueError, match=rf"from {source} to {target} needs {lacking} \("):
            convert_twist(np.ones(6), source, target, **{n: values[n] for n in given if n != lacking})


def test_what_does_not_matter_may_be_nan():
    """Position never enters a change of point within the body, nor the centre of mass a change of axes."""
    body = {"rotation": [0.0, 0.0, 0.0, 1.0], "com": [0.1, 0.2, 0.3]}
    assert np.all(np.isfinite(convert_twist(np.ones(6), "public", "sap", position=[np.nan] * 3, **body)))
    mixed = convert_twist(np.ones(6), "drake", "mujoco", rotation=body["rotation"], com=[np.nan] * 3)
    assert np.all(np.isfinite(mixed))


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"twist": np.ones(5)}, r"twist: expected shape \(\.\.\., 6\).*got \(5,\)"),
        ({"com": np.ones(4)}, r"com: expected shape \(\.\.\., 3\)"),
        ({"rotation": np.ones(3)}, r"rotation: expected shape \(\.\.\., 4\)"),
        ({"rotation": [1.0, 1.0, 0.0, 0.0]}, "rotation: expected unit quaternions"),
        ({"rotation": [np.nan, 0.0, 0.0, 1.0]}, "rotation: expected unit quaternions"),
        ({"pose": np.ones(6), "rotation": None}, r"pose: expected shape \(\.\.\., 7\)"),
        ({"pose": np.eye(7)[6]}, "either pose or position and rotation"),
        ({"twist": np.ones((2, 6)), "com": np.ones((3, 3))}, r"do not broadcast: twist \(2,\), .*com \(3,\)"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    """Errors name the argument and what was expected."""
    defaults = {"twist": np.ones(6), "rotation": [0.0, 0.0, 0.0, 1.0], "com": np.zeros(3)}
    call = defaults | arguments
    with pytest.raises(ValueError, match=message):
        convert_twist(call.pop("twist"), "public", "sap", **call)


def test_systems_without_twist_or_wrench_say_so():
    """xfrc_applied is no velocity, and USD has no force."""
    with pytest.raises(ValueError, match="MuJoCo xfrc_applied defines no twist"):
        convert_twist(np.ones(6), "mujoco_xfrc", "public")
    with pytest.raises(ValueError, match=r"USD .* defines no wrench"):
        convert_wrench(np.ones(6), "public", "usd")


def test_warp_arrays_are_refused():
    """A Warp array is a TypeError that tells what to do instead, in every function."""
    wp = pytest.importorskip("warp")
    array = wp.zeros(6, dtype=wp.float32, device="cpu")
    with pytest.raises(TypeError, match=r"twist\.numpy\(\)"):
        convert_twist(array, "public", "physx")
    with pytest.raises(TypeError, match=r"com\.numpy\(\)"):
        convert_twist(np.ones(6), "public", "sap", com=wp.zeros(3, device="cpu"), rotation=[0, 0, 0, 1])
    with pytest.raises(TypeError, match=r"quaternion\.numpy\(\)"):
        convert_quaternion(wp.zeros(4, device="cpu"), "public", "mujoco")
    with pytest.raises(TypeError, match=r"radius\.numpy\(\)"):
        convert_shape("sphere", {"radius": wp.zeros(4, device="cpu")}, "newton", "usd")
    assert convert_quaternion(wp.quat(1.0, 2.0, 3.0, 4.0), "public", "mujoco").tolist() == [4.0, 1.0, 2.0, 3.0]


def test_text_is_no_number():
    """Data that is not numeric is refused by name."""
    with pytest.raises(TypeError, match="twist: numbers expected"):
        convert_twist(list("abcdef"), "public", "physx")


# --- Names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["isaac_lab", "isaac-lab", "IsaacLab", "Isaac Sim", "isaac_sim"])
def test_names_are_forgiving(name):
    """Case, dash and space do not matter."""
    assert get_convention(name) is SYSTEMS["isaac_lab"]


def test_newton_is_public():
    """The public convention is Newton's."""
    assert get_convention("newton") is SYSTEMS["public"]


def test_aliases_are_sound():
    """Every alias leads to a system and hides none."""
    assert set(ALIASES.values()) <= set(SYSTEMS)
    assert not set(ALIASES) & set(SYSTEMS)


def test_unknown_names_list_the_valid_ones():
    """A typing mistake is answered with the choice."""
    with pytest.raises(ValueError, match="unknown system 'mujocco'; valid names: public, sap, drake, mujoco"):
        convert_twist(np.ones(6), "mujocco", "public")
    with pytest.raises(TypeError, match="expected a name"):
        get_convention(3)


def test_a_record_of_ones_own_works():
    """A convention that is not in the table converts as well: here twists in body axes at the centre of mass."""
    layout = SpatialLayout("angular_first", "com", "body", "body")
    own = replace(SYSTEMS["public"], name="own", twist=layout, wrench=layout)
    rng = np.random.default_rng(11)
    body, twist = random_body(rng), rng.normal(size=6)
    assert_close(convert_twist(convert_twist(twist, "mujoco", own, **body), own, "mujoco", **body), twist)


def test_duality_is_in_the_table():
    """Systems with both a twist and a wrench use one layout for both, in radians; all are right-handed."""
    for name in DUAL_SYSTEMS:
        assert SYSTEMS[name].wrench == SYSTEMS[name].twist
        assert SYSTEMS[name].wrench.angle_unit == "rad"
    assert {s.handedness for s in SYSTEMS.values()} == {"right"}


# --- Quaternions, poses, up axis -------------------------------------------------------------------------------


def test_quaternions_keep_their_components():
    """Only the order changes, and batches keep their shape."""
    np.testing.assert_array_equal(convert_quaternion([1, 2, 3, 4], "newton", "mujoco"), [4, 1, 2, 3])
    np.testing.assert_array_equal(convert_quaternion([4, 1, 2, 3], "isaac_lab", "isaac_gym"), [1, 2, 3, 4])
    q = np.random.default_rng(12).normal(size=(2, 3, 4))
    for source, target in itertools.product(SYSTEMS, repeat=2):
        np.testing.assert_array_equal(convert_quaternion(convert_quaternion(q, source, target), target, source), q)


def test_pose_layouts():
    """Newton [p, xyzw], MuJoCo [p, wxyz], Drake [wxyz, p], PhysX [xyzw, p]."""
    pose = [10, 20, 30, 1, 2, 3, 4]
    np.testing.assert_array_equal(convert_pose(pose, "newton", "mujoco"), [10, 20, 30, 4, 1, 2, 3])
    np.testing.assert_array_equal(convert_pose(pose, "newton", "drake"), [4, 1, 2, 3, 10, 20, 30])
    np.testing.assert_array_equal(convert_pose(pose, "newton", "physx"), [1, 2, 3, 4, 10, 20, 30])
    poses = np.random.default_rng(13).normal(size=(2, 3, 7))
    for source, target in itertools.product(POSE_SYSTEMS, repeat=2):
        np.testing.assert_array_equal(convert_pose(convert_pose(poses, source, target), target, source), poses)
    with pytest.raises(ValueError, match=r"USD .* defines no pose layout"):
        convert_pose(pose, "newton", "usd")


@pytest.mark.parametrize(("source", "target"), list(itertools.product(range(3), repeat=2)))
def test_up_axis_rotation_carries_up_to_up(source, target):
    """The up vector of one world becomes the up vector of the other, and back again undoes it."""
    up = np.eye(3)
    assert_close(convert_up_axis(up[source], source, target), up[target])
    v = np.random.default_rng(14).normal(size=(5, 3))
    assert_close(convert_up_axis(convert_up_axis(v, source, target), target, source), v)


def test_y_up_to_z_up_is_a_quarter_turn_about_x():
    """X stays, Y becomes Z, Z becomes -Y."""
    half = np.sqrt(0.5)
    assert_close(up_axis_rotation("Y", "Z"), np.array([half, 0, 0, half]))
    assert_close(up_axis_rotation("y", 2), np.array([half, 0, 0, half]))
    assert_close(convert_up_axis(np.eye(3), "Y", "Z"), np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]))
    with pytest.raises(ValueError, match="source_axis: expected 'X', 'Y', 'Z'"):
        up_axis_rotation("up", "Z")
    with pytest.raises(ValueError, match="target_axis"):
        up_axis_rotation("X", True)


@pytest.mark.parametrize("system", POSE_SYSTEMS)
def test_up_axis_moves_material_points_with_the_world(system):
    """A body point placed by a converted pose is the converted point, in every pose layout."""
    rng = np.random.default_rng(15)
    pose, point = random_body(rng)["pose"], rng.normal(size=3)

    def place(pose: np.ndarray) -> np.ndarray:
        return pose[:3] + matrix_from_quat(pose[3:]) @ point

    turned = convert_up_axis(convert_pose(pose, "public", system), "Y", "Z", kind="pose", system=system)
    assert_close(place(convert_pose(turned, system, "public")), convert_up_axis(place(pose), "Y", "Z"))
    q = convert_up_axis(convert_quaternion(pose[3:], "public", system), "Y", "Z", kind="quaternion", system=system)
    assert_close(convert_quaternion(q, system, "public"), convert_pose(turned, system, "public")[3:])


@pytest.mark.parametrize("system", DUAL_SYSTEMS)
def test_turning_the_world_and_changing_the_system_commute(system):
    """Twists and wrenches can be turned in any layout; blocks in body axes stay."""
    rng = np.random.default_rng(16)
    body, value = random_body(rng), rng.normal(size=6)
    turned_body = {"pose": convert_up_axis(body["pose"], "Y", "Z", kind="pose"), "com": body["com"]}
    for kind, convert in (("twist", convert_twist), ("wrench", convert_wrench)):
        direct = convert_up_axis(convert(value, "public", system, **body), "Y", "Z", kind=kind, system=system)
        detour = convert(convert_up_axis(value, "Y", "Z", kind=kind), "public", system, **turned_body)
        assert_close(direct, detour)
    with pytest.raises(ValueError, match="kind: expected vector"):
        convert_up_axis(value, "Y", "Z", kind="screw")


# --- Shapes ----------------------------------------------------------------------------------------------------


def has(name: str, kind: str) -> bool:
    """Whether a system has a primitive."""
    layout = SYSTEMS[name].shapes.get(kind)
    return layout is not None and not layout.unsupported


def newton_params(kind: str, *batch: int) -> dict[str, np.ndarray]:
    """Sizes for a kind; planes are infinite, the only size all systems with planes share."""
    rng = np.random.default_rng(17)
    size = np.zeros if kind == "plane" else lambda shape: rng.uniform(0.1, 2.0, size=shape)
    return {name: size(batch) for name in SHAPE_KINDS[kind]}


@pytest.mark.parametrize("kind", SHAPE_KINDS)
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_shapes_return_unchanged_from_every_system(kind, batch):
    """Parameters survive any tour through two systems, single or as arrays of worlds."""
    params = newton_params(kind, *batch)
    systems = [name for name in SYSTEMS if has(name, kind)]
    for a, b in itertools.product(systems, repeat=2):
        in_a = convert_shape(kind, params, "newton", a).params
        in_b = convert_shape(kind, in_a, a, b).params
        back = convert_shape(kind, in_b, b, "newton").params
        for name, value in params.items():
            np.testing.assert_allclose(back[name], value, rtol=1e-14)
            # An infinite plane without parameters cannot remember for how many worlds it stood.
            assert np.shape(back[name]) == batch or kind == "plane"


def test_known_parameters():
    """The names and factors of each system, on one box and one capsule."""
    box, capsule = {"hx": 0.5, "hy": 1.0, "hz": 1.5}, {"radius": 0.25, "half_height": 1.0}
    assert convert_shape("box", box, "newton", "drake").params == {"width": 1.0, "depth": 2.0, "height": 3.0}
    assert convert_shape("box", box, "newton", "isaac_lab").params["size"].tolist() == [1.0, 2.0, 3.0]
    usd = convert_shape("box", box, "newton", "usd").params
    assert usd["size"] == 1.0
    assert usd["scale"].tolist() == [1.0, 2.0, 3.0]
    assert convert_shape("box", {"size": 2.0}, "usd", "newton").params == {"hx": 1.0, "hy": 1.0, "hz": 1.0}
    assert convert_shape("box", box, "newton", "usd_physics").params["halfExtents"].tolist() == [0.5, 1.0, 1.5]
    assert convert_shape("capsule", capsule, "newton", "mujoco").params["size"].tolist() == [0.25, 1.0, 0.0]
    assert convert_shape("capsule", capsule, "newton", "usd").params == {"radius": 0.25, "height": 2.0, "axis": "Z"}
    assert convert_shape("capsule", capsule, "newton", "drake").params == {"radius": 0.25, "length": 2.0}
    assert convert_shape("plane", {"width": 4.0, "length": 6.0}, "newton", "mujoco").params["size"].tolist() == [
        2,
        3,
        1,
    ]


@pytest.mark.parametrize(
    "source,params,target",
    [
        ("newton", {"radius": 0.1, "half_height": 0.2}, "physx"),
        ("physx", {"radius": 0.1, "halfHeight": 0.2}, "mujoco"),
        ("usd", {"radius": 0.1, "height": 0.4, "axis": "Y"}, "newton"),
        ("usd_physics", {"radius": 0.1, "halfHeight": 0.2, "axis": "Y"}, "physx"),
        ("physx", {"radius": 0.1, "halfHeight": 0.2}, "usd"),
    ],
)
def test_the_rotation_lays_the_target_axis_on_the_source_axis(source, params, target):
    """Turned by the rotation, the axis of the target's capsule is the axis of the source's capsule."""
    out = convert_shape("capsule", params, source, target)
    axis = {name: np.eye(3)["XYZ".index(name)] for name in "XYZ"}
    from_axis = axis[params.get("axis", get_convention(source).shapes["capsule"].axis)]
    to_axis = axis[out.params.get("axis", get_convention(target).shapes["capsule"].axis)]
    assert_close(matrix_from_quat(out.rotation) @ to_axis, from_axis)


def test_shapes_without_an_axis_do_not_turn():
    """A PhysX box lies as a Newton box does, although a PhysX capsule does not."""
    for kind in ("box", "sphere"):
        np.testing.assert_array_equal(
            convert_shape(kind, newton_params(kind), "newton", "physx").rotation, [0, 0, 0, 1]
        )


@pytest.mark.parametrize(
    "kind,params,source,target,message",
    [
        ("cone", newton_params("cone"), "newton", "mujoco", "MuJoCo has no primitive 'cone': .*convex mesh"),
        ("plane", newton_params("plane"), "newton", "usd", "USD .* has no primitive 'plane'"),
        ("cylinder", newton_params("cylinder"), "newton", "physx", "PhysX has no primitive 'cylinder'"),
        ("sphere", {"radius": 1.0}, "newton", "mr_body", "defines no primitive shapes"),
        ("torus", {}, "newton", "usd", "kind: unknown primitive 'torus'; expected one of box"),
        ("capsule", {"radius": 1.0, "height": 1.0}, "newton", "usd", "has parameters radius, half_height; got height"),
        ("box", {"scale": (1, 1, 1)}, "usd", "newton", r"has parameters size \(optional: scale\)"),
        ("box", {"size": [1.0, 2.0]}, "mujoco", "newton", r"size: expected shape \(\.\.\., 3\); got \(2,\)"),
        ("sphere", {"radius": -1.0}, "newton", "usd", "radius of a sphere must be finite and positive"),
        ("sphere", {"radius": np.inf}, "newton", "usd", "radius of a sphere must be finite and positive"),
        ("plane", {"width": 2.0, "length": 2.0}, "newton", "drake", "Drake plane is infinite; width must be 0"),
        ("capsule", {"radius": 1.0, "height": 1.0, "axis": "W"}, "usd", "newton", "axis: expected 'X', 'Y', 'Z'"),
    ],
)
def test_impossible_shapes_are_explained(kind, params, source, target, message):
    """Missing primitives and wrong parameters are errors that say what would be right."""
    with pytest.raises(ValueError, match=message):
        convert_shape(kind, params, source, target)


def test_cone_center_of_mass():
    """A quarter of the full height above the base, for one cone or many."""
    np.testing.assert_array_equal(cone_center_of_mass(2.0), [0.0, 0.0, -1.0])
    assert cone_center_of_mass(np.ones((3, 2))).shape == (3, 2, 3)


# --- Package and documentation ---------------------------------------------------------------------------------


def test_importing_conventions_loads_numpy_only():
    """None of the heavy neighbours is imported along."""
    code = (
        "import sys, sap_warp.conventions; print([m for m in ('warp', 'newton', 'pxr', 'mujoco') if m in sys.modules])"
    )
    root = Path(conventions.__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_documentation_shows_the_table():
    """docs/conventions.md contains the tables that the code has; the failing case is fixed by the command it names."""
    from sap_warp.conventions.markdown import fill_in

    path = Path(__file__).parents[2] / "docs" / "conventions.md"
    text = path.read_text()
    assert fill_in(text) == text, "run: python -m sap_warp.conventions.markdown docs/conventions.md"


def test_public_names_are_exported_once():
    """__all__ names exist and are unique."""
    assert len(set(conventions.__all__)) == len(conventions.__all__)
    assert all(hasattr(conventions, name) for name in conventions.__all__)
