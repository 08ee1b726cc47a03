"""Labels of assets: several copies of one robot are told apart, and what is left out by name is there."""
# ruff: noqa: E501 - texts of other formats and messages on one line

import numpy as np

from tests.support.scene_files import load, problem_of, problems_of

LINK = "<link name='{}'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link>"
ARM = (
    "<robot name='arm'>"
    + LINK.format("base")
    + LINK.format("hand")
    + "<joint name='elbow' type='revolute'><parent link='base'/><child link='hand'/><axis xyz='0 0 1'/>"
    + "<limit lower='-1' upper='1' effort='1' velocity='1'/></joint></robot>"
)


def arms(*assets, **sections):
    return {"assets": [{"type": "urdf", "source": ARM, **asset} for asset in assets], **sections}


def test_one_robot_keeps_its_labels():
    assert load(arms({"id": "left"})).joint_labels[-1] == "arm/elbow"


def test_two_robots_are_told_apart_by_their_ids_and_both_can_be_edited():
    edits = [
        {"op": "set_joint_targets", "joint": "left/arm/elbow", "mode": "position", "ke": 10.0},
        {"op": "set_joint_targets", "label_prefix": "right/", "mode": "position", "ke": 20.0},
        {"op": "set_joint_q", "joint": "right/arm/elbow", "value": 0.5},
    ]
    loaded = load(arms({"id": "left"}, {"id": "right", "xform": {"p": [1, 0, 0]}}, post_build=edits))
    assert loaded.body_labels == ["left/arm/base", "left/arm/hand", "right/arm/base", "right/arm/hand"]
    dofs = dict(zip(loaded.joint_labels, loaded.sap_model.joint_qd_start.numpy(), strict=False))
    ke = loaded.sap_model.joint_target_ke.numpy()
    assert (ke[dofs["left/arm/elbow"]], ke[dofs["right/arm/elbow"]]) == (10.0, 20.0)
    q, starts = loaded.sap_model.joint_q.numpy(), loaded.sap_model.joint_q_start.numpy()
    np.testing.assert_allclose(
        [q[starts[loaded.joint_labels.index(f"{s}/arm/elbow")]] for s in ("left", "right")], [0, 0.5]
    )


def test_a_name_that_two_robots_share_is_ambiguous_and_the_message_lists_both():
    scene = arms({"id": "left"}, {"id": "right"}, initial_joint_q=[{"joint": "elbow", "value": 0.1}])
    assert problem_of(scene) == (
        "initial_joint_q[0].joint: 'elbow' stands for 2 joints: 'left/arm/elbow', 'right/arm/elbow'; give more of the label"
    )


def test_robots_without_ids_are_numbered_and_a_prefix_stays():
    labels = load(arms({}, {}, {"label_prefix": "third"})).joint_labels
    assert [label for label in labels if label.endswith("elbow")] == [
        "asset_0/arm/elbow",
        "asset_1/arm/elbow",
        "third/arm/elbow",
    ]


def test_prefixes_that_do_not_tell_robots_apart_are_refused():
    lines = problems_of(arms({"label_prefix": "a"}, {"label_prefix": "a"}))
    assert [line.split(" has ")[0] for line in lines] == ["scene: assets[0]:", "scene: assets[1]:"]
    assert lines[1].endswith("which assets[0] has too; give it another label_prefix")
    load(arms({"label_prefix": "a"}, {"label_prefix": "b"}))


MJCF = "<mujoco><worldbody><body name='box'><freejoint name='root'/><geom name='skin' size='1'/></body></worldbody></mujoco>"
USD = """#usda 1.0
(upAxis = "Z")
def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    def Sphere "s" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    def Sphere "t" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
}
"""


def test_patterns_of_what_is_left_out_match_something(tmp_path):
    (tmp_path / "b.usda").write_text(USD)
    usd = {"type": "usd", "source": str(tmp_path / "b.usda"), "floating": True}
    assert load({"assets": [{**usd, "ignore_paths": ["/b/t"]}]}).sap_model.shape_count == 2
    for key, asset, good in (("ignore_paths", usd, "/b/t"), ("ignore_names", {"type": "mjcf", "source": MJCF}, "skin")):
        for pattern, message in (("knee", "'knee' matches nothing; "), ("(", "'(' is not a regular expression: ")):
            line = problem_of({"assets": [{**asset, key: [good, pattern]}]})
            assert line.startswith(f"assets[0].{key}[1]: {message}")


def test_patterns_are_looked_for_in_included_files_too(tmp_path):
    (tmp_path / "part.xml").write_text(MJCF)
    (tmp_path / "all.xml").write_text("<mujoco><include file='part.xml'/></mujoco>")
    asset = {"type": "mjcf", "source": str(tmp_path / "all.xml"), "ignore_names": ["skin"]}
    line = problem_of({"assets": [{**asset, "ignore_names": ["skin", "knee"]}]})
    assert line.startswith("assets[0].ignore_names[1]: 'knee' matches nothing; ")
    box = {"type": "box", "hx": 1, "hy": 1, "hz": 1}
    scene = {
        "assets": [asset],
        "bodies": [{"id": "b", "shapes": [box]}],
        "joints": [{"id": "j", "type": "free", "child": "b"}],
    }
    assert load({**scene, "ground": False}).sap_model.shape_count == 1


def test_two_robots_of_an_mjcf_file_keep_their_contact_rules_and_share_keyframes():
    """Labels are told apart after the import, which is when pairs and keys have found what they name."""
    arm = """<mujoco><worldbody><body name='a'><freejoint/><geom name='g' size='.1' contype='0' conaffinity='0'/>
    <body name='b' pos='1 0 0'><joint name='j'/><geom name='h' size='.1' contype='0' conaffinity='0'/></body></body>
    </worldbody><contact><pair geom1='g' geom2='h'/></contact>
    <keyframe><key name='home' qpos='0 0 2 1 0 0 0 .5'/></keyframe></mujoco>"""
    assets = [{"type": "mjcf", "source": arm, "id": name} for name in ("left", "right")]
    loaded = load({"assets": assets, "ground": False})
    assert [label.split("/")[0] for label in loaded.body_labels] == ["left", "left", "right", "right"]
    assert loaded.sap_model.newton_model.shape_contact_pairs.numpy().tolist() == [[0, 1], [2, 3]]
    key = loaded.keyframes["home"].joint_q
    np.testing.assert_allclose(key, [0, 0, 2, 0, 0, 0, 1, 0.5] * 2)
