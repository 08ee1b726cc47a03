"""What importers of URDF and USD files drop without a word is listed, or acts."""

from __future__ import annotations

import numpy as np
import pytest

from sap_warp.scene import SapUnsupportedSceneFeature, load_sap_scene

URDF = """<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
iyz="0"/></inertial><collision><geometry><sphere radius="0.1"/>{geometry}</geometry></collision>{link}</link>
<link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="2" effort="12" velocity="3"/><dynamics damping="0.5" friction="0.25"/>{joint}</joint>
{robot}</robot>"""
PARTS = dict.fromkeys(("geometry", "link", "joint", "robot"), "")
TRANSMISSION = "<transmission><actuator><mechanicalReduction>{}</mechanicalReduction></actuator></transmission>"
DROPPED = {
    "safety_controller": (
        {"joint": '\n<safety_controller k_velocity="1" soft_lower_limit="-0.9" soft_upper_limit="2"/>'},
        "line 6: <safety_controller>: its soft limits",
    ),
    "reduction": ({"robot": TRANSMISSION.format(50)}, "<transmission>: reductions"),
    "gazebo": ({"robot": '<gazebo reference="a"><mu1>2</mu1><kp>9</kp></gazebo>'}, "<gazebo>: kp, mu1 of another"),
    "contact": ({"link": '<contact><lateral_friction value="2"/></contact>'}, "<contact>: contact parameters"),
    "geometry": ({"geometry": '<cone radius="1"/>'}, "<cone>: not a shape"),
}


def load(strict=False, **parts):
    text = URDF.format(**(PARTS | parts))
    return load_sap_scene({"assets": [{"type": "urdf", "source": text}]}, device="cpu", strict=strict)


@pytest.mark.parametrize("name", DROPPED)
def test_what_newton_drops_of_a_urdf_is_listed(name):
    parts, message = DROPPED[name]
    (feature,) = load(**parts).unsupported_features
    assert message in feature
    with pytest.raises(SapUnsupportedSceneFeature):
        load(strict=True, **parts)


def test_what_a_urdf_says_of_a_joint_acts():
    loaded = load(
        robot=TRANSMISSION.format("1.0") + '<gazebo reference="a"><material>Red</material></gazebo>',
        joint='<safety_controller k_velocity="1" soft_lower_limit="-1" soft_upper_limit="2"/>',
    )
    assert loaded.unsupported_features == []
    model = loaded.sap_model
    dof = int(model.joint_qd_start.numpy()[loaded.joint_labels.index("r/j")])
    values = {
        name: float(getattr(model, f"joint_{name}").numpy()[dof])
        for name in ("limit_lower", "limit_upper", "effort_limit", "velocity_limit", "damping", "friction")
    }
    assert list(values.values()) == [-1.0, 2.0, 12.0, 3.0, 0.5, 0.25]


USD = """#usda 1.0
(
    upAxis = "Z"
    metersPerUnit = 1
)
def PhysicsScene "Physics"
{{
    vector3f physics:gravityDirection = (0, 0, -1)
    float physics:gravityMagnitude = {}
}}
def Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"])
{{
    double radius = 0.1
}}
"""


def test_gravity_of_a_stage_acts_in_world_axes(tmp_path):
    """Newton turns it with the asset; a robot on a wall would fall sideways."""
    for i, magnitude in enumerate((3.0, 4.0)):
        (tmp_path / f"{i}.usda").write_text(USD.format(magnitude))
    turned = {"q": {"axis_angle": {"axis": [1, 0, 0], "angle": "pi / 2"}}}
    assets = [{"type": "usd", "source": str(tmp_path / f"{i}.usda"), "xform": turned} for i in range(2)]
    one = load_sap_scene({"assets": assets[:1]}, device="cpu")
    np.testing.assert_allclose(one.sap_model.gravity.numpy()[0], [0, 0, -3], atol=1e-5)
    assert one.unsupported_features == []
    both = load_sap_scene({"assets": assets}, device="cpu")
    np.testing.assert_allclose(both.sap_model.gravity.numpy()[0], [0, 0, -3], atol=1e-5)
    (feature,) = both.unsupported_features
    assert "1.usda: /Physics: gravity is [0, 0, -4], but [0, 0, -3] by 0.usda: /Physics, which acts" in feature
