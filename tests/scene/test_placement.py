"""Where bodies of a scene start: their transforms, the frames of their joints, and what is said when these disagree."""

import numpy as np
import pytest
import yaml

from tests.support.scene_files import BOX, boxes, load

TURNED = [0.0, 0.6, 0.0, 0.8]
POSE = {"p": [0.5, -0.25, 1.0], "q": TURNED}
FRAME = {"p": [0.1, 0.2, -0.3], "q": [0.0, 0.0, 0.28, 0.96]}
KINDS = {
    "fixed": {},
    "revolute": {"axis": "y"},
    "prismatic": {"axis": [1, 2, 3]},
    "ball": {},
    "d6": {"linear_axes": [{"axis": "x"}], "angular_axes": [{"axis": "y"}, {"axis": "z"}]},
    "free": {},
    "distance": {"max_distance": -1.0},
}


def product(first, second):
    """Poses (p, quaternion xyzw) one after the other; plain NumPy, from the definition of the quaternion product."""
    (p, a), (r, b) = [(np.array(pose[:3], float), np.array(pose[3:], float)) for pose in (first, second)]
    turned = r + 2.0 * np.cross(a[:3], np.cross(a[:3], r) + a[3] * r)
    q = np.append(a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3]), a[3] * b[3] - a[:3] @ b[:3])
    return np.concatenate([p + turned, q])


def inverse(pose):
    conjugate = np.array(pose[3:], float) * [-1, -1, -1, 1]
    return product([0, 0, 0, *conjugate], [*(-np.array(pose[:3], float)), 0, 0, 0, 1])


def flat(pose):
    return [*pose.get("p", [0.0, 0.0, 0.0]), *pose.get("q", [0.0, 0.0, 0.0, 1.0])]


def assert_same_pose(pose, expected, atol=2e-6):
    """Positions and rotations agree to fp32; a quaternion and its negative are one rotation."""
    pose, expected = np.array(pose, float), np.array(expected, float)
    sign = np.sign(pose[3:] @ expected[3:])
    np.testing.assert_allclose(pose, [*expected[:3], *(sign * expected[3:])], rtol=0, atol=atol)


def hanging(kind, body=None, **fields):
    """A body on a joint of this kind to the world, and a free box, as a scene needs a dof."""
    scene = boxes("other", ground=False)
    scene["bodies"].append({"id": "thing", "shapes": [dict(BOX)], **(body or {})})
    scene["joints"].append({"id": "hold", "type": kind, "child": "thing", **KINDS[kind], **fields})
    return scene


def on_arm(kind, body=None, **fields):
    """A body on a joint of this kind to an arm, which a hinge holds at (0, 0, 2)."""
    scene = hanging(kind, body, parent="arm", **fields)
    scene["bodies"].insert(1, {"id": "arm", "shapes": [dict(BOX)]})
    hinge = {"id": "hinge", "type": "revolute", "child": "arm", "axis": "x", "parent_xform": {"p": [0, 0, 2]}}
    scene["joints"].insert(1, hinge)
    return scene


def pose_and_notes(scene, **options):
    loaded = load(scene, **options)
    body = loaded.body_labels.index("thing")
    return loaded.sap_state.body_q.numpy()[body], [str(note) for note in loaded.notes if note.id == "placement"]


@pytest.mark.parametrize("child", [None, FRAME])
@pytest.mark.parametrize("kind", KINDS)
def test_a_joint_to_the_world_starts_at_the_transform_of_its_body(kind, child):
    fields = {} if child is None else {"child_xform": child}
    pose, notes = pose_and_notes(hanging(kind, {"transform": POSE}, **fields))
    assert_same_pose(pose, flat(POSE))
    assert notes == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_parent_frame_decides_over_a_transform_that_is_not_given(kind):
    pose, notes = pose_and_notes(hanging(kind, parent_xform=POSE, child_xform=FRAME))
    frames = product(flat(POSE), inverse(flat(FRAME)))
    assert_same_pose(pose, [0, 0, 0, 0, 0, 0, 1] if kind in ("free", "distance") else frames)
    assert notes == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_transform_that_the_frames_of_a_joint_overrule_is_told_with_both_poses(kind):
    body = {"transform": {"p": [0.0, 0.0, 3.0]}}
    for scene, base in ((hanging, [0, 0, 0, 0, 0, 0, 1]), (on_arm, [0, 0, 2, 0, 0, 0, 1])):
        pose, notes = pose_and_notes(scene(kind, body, parent_xform=POSE))
        if kind in ("free", "distance"):
            assert_same_pose(pose, [0, 0, 3, 0, 0, 0, 1])
            assert notes == []
            continue
        assert_same_pose(pose, product(base, flat(POSE)))
        (note,) = notes
        assert "'thing' is at p = [0, 0, 3], q = [0, 0, 0, 1] by its transform" in note and "'hold'" in note
        assert f"p = [0.5, -0.25, {base[2] + 1}], q = [0, 0.6, 0, 0.8]" in note
        agreeing = {"transform": {"p": [0.5, -0.25, base[2] + 1.0], "q": TURNED}}
        assert pose_and_notes(scene(kind, agreeing, parent_xform=POSE))[1] == []


def test_a_note_names_the_lines_of_both(tmp_path):
    file = tmp_path / "scene.yaml"
    file.write_text(yaml.safe_dump(hanging("fixed", {"transform": {"p": [0.0, 0.0, 3.0]}}, parent_xform=POSE)))
    lines = file.read_text().splitlines()
    (note,) = pose_and_notes(file)[1]
    place = [1 + i for i, line in enumerate(lines) if line.strip() == "transform:"]
    frame = [1 + i for i, line in enumerate(lines) if line.strip() == "parent_xform:"]
    assert note.startswith(f"{file}:{place[0]}: bodies[1].transform: ") and f"(line {frame[0]})" in note


def test_without_a_frame_between_two_bodies_they_coincide_and_a_transform_that_says_otherwise_is_told():
    pose, notes = pose_and_notes(on_arm("revolute"))
    assert_same_pose(pose, [0, 0, 2, 0, 0, 0, 1])
    assert notes == []
    pose, (note,) = pose_and_notes(on_arm("revolute", {"transform": {"p": [0, 0, 2.5]}}))
    assert_same_pose(pose, [0, 0, 2, 0, 0, 0, 1])
    assert "p = [0, 0, 2.5]" in note and "starts at p = [0, 0, 2]" in note


@pytest.mark.parametrize("distance, told", [(5e-5, 0), (2e-4, 1)])
def test_poses_closer_than_a_tenth_of_a_millimetre_are_the_same(distance, told):
    body = {"transform": {"p": [distance, 0.0, 0.5]}}
    assert len(pose_and_notes(hanging("revolute", body, parent_xform={"p": [0.0, 0.0, 0.5]}))[1]) == told


@pytest.mark.parametrize("kind", ["free", "distance"])
def test_floating_joints_below_a_body_start_at_the_transform_wherever_joints_put_that_body(kind):
    for child in ({}, {"child_xform": FRAME, "parent_xform": POSE}):
        pose, notes = pose_and_notes(on_arm(kind, {"transform": POSE}, **child))
        assert_same_pose(pose, flat(POSE))
        assert notes == []


def test_transforms_may_tell_the_pose_before_or_after_edits_of_joint_q():
    """Half a turn about x below (0, 0, 2); the body hangs on the arm at (0, 0, -0.5) of its frame."""
    edit = [{"joint": "hinge", "value": "pi"}]
    for z, turned in ((1.5, [0, 0, 0, 1]), (2.5, [1, 0, 0, 0])):
        body = {"transform": {"p": [0, 0, z], "q": turned}}
        scene = on_arm("fixed", body, parent_xform={"p": [0, 0, -0.5]})
        pose, notes = pose_and_notes({**scene, "initial_joint_q": edit})
        assert_same_pose(pose, [0, 0, 2.5, 1, 0, 0, 0])
        assert notes == []
    body = {"transform": {"p": [0, 0, 2.0]}}
    assert len(pose_and_notes(on_arm("fixed", body, parent_xform={"p": [0, 0, -0.5]}))[1]) == 1


def test_one_note_for_a_chain_and_the_same_in_worlds_side_by_side():
    scene = hanging("fixed", {"transform": {"p": [0, 0, 3]}}, parent_xform={"p": [0, 0, 1]})
    scene["bodies"].append({"id": "hand", "transform": {"p": [0, 0, 3.5]}, "shapes": [dict(BOX)]})
    mount = {"id": "mount", "type": "fixed", "parent": "thing", "child": "hand", "parent_xform": {"p": [0, 0, 0.5]}}
    scene["joints"].append(mount)
    spread = {"replicate": {"num_worlds": 4, "spacing": [5.0, 5.0, 0.0]}}
    for sections in ({}, spread):
        (note,) = pose_and_notes({**scene, **sections})[1]
        assert "starts at p = [0, 0, 1]" in note
    del mount["parent_xform"]
    scene["bodies"][1]["transform"] = {"p": [0, 0, 1]}
    (note,) = pose_and_notes({**scene, **spread})[1]
    assert "'hand' is at p = [0, 0, 3.5]" in note and "starts at p = [0, 0, 1]" in note


def test_a_table_held_at_its_transform_carries_a_box():
    """The box rests on the table at 0.5 + 0.3 m, less what its contacts give way."""
    import sap_warp

    scene = boxes("box")
    scene["bodies"][0] |= {"transform": {"p": [0.0, 0.0, 0.801]}}
    scene["bodies"].append({"id": "table", "transform": {"p": [0, 0, 0.25]}})
    scene["bodies"][1]["shapes"] = [{"type": "box", "hx": 1, "hy": 1, "hz": 0.25}]
    scene["joints"].append({"id": "hold", "type": "fixed", "child": "table"})
    with sap_warp.Simulation.from_scene(scene, device="cpu") as simulation:
        simulation.step(200)
        assert simulation.body_q.numpy()[0, 0, 2] == pytest.approx(0.8, abs=2e-3)
