"""Bodies that fixed joints connect become one body with the mass properties of all of them."""

import numpy as np
import pytest

from sap_warp import load_sap_scene
from tests.support.oracle.kinematics import matrix_from_quat

LINK = """<link name='{name}'><inertial><origin xyz='{com}' rpy='{rpy}'/><mass value='{mass}'/>
<inertia ixx='{i}' iyy='0.2' izz='0.3' ixy='0' ixz='0' iyz='0'/></inertial>
<collision><geometry><sphere radius='0.1'/></geometry></collision></link>"""
FIXED = """<joint name='{name}' type='fixed'><parent link='{parent}'/><child link='{child}'/>
<origin xyz='{p}' rpy='{rpy}'/></joint>"""
HINGE = """<joint name='{name}' type='revolute'><parent link='{parent}'/><child link='{child}'/><origin xyz='0 0 1'/>
<axis xyz='0 1 0'/><limit lower='-1' upper='1' effort='1' velocity='1'/></joint>"""


def robot():
    links = [("base", 1.0, "0 0 0", "0 0 0"), ("arm", 2.0, "0.1 0 0", "0.3 0 0"), ("tool", 0.5, "0 0.2 0", "0 0.4 0")]
    links += [("tip", 0.25, "0 0 0.1", "0 0 0.7")]
    text = "".join(LINK.format(name=n, mass=m, com=c, rpy=r, i=0.25) for n, m, c, r in links)
    text += HINGE.format(name="hinge", parent="base", child="arm")
    text += FIXED.format(name="one", parent="arm", child="tool", p="2 0 0", rpy="0 0 1.2")
    text += FIXED.format(name="two", parent="tool", child="tip", p="0 0.5 0", rpy="0.5 0 0")
    return f"<robot name='r'>{text}</robot>"


def load(collapse):
    asset = {"type": "urdf", "source": robot(), "floating": True, "collapse_fixed_joints": collapse}
    return load_sap_scene({"assets": [asset], "ground": False}, device="cpu").sap_model


def test_merged_body_has_the_inertia_of_its_parts():
    """Mass, centre of mass and inertia of three links together, summed in the world frame from the separate ones."""
    parts, merged = load(False), load(True)
    assert [label.split("/")[-1] for label in merged.body_label] == ["base", "arm"]
    poses, masses = parts.body_q.numpy().astype(float), parts.body_mass.numpy().astype(float)
    rotations = np.array([matrix_from_quat(pose[3:]) for pose in poses])
    centres = poses[:, :3] + np.einsum("bij,bj->bi", rotations, parts.body_com.numpy())
    chosen = [1, 2, 3]
    total = masses[chosen].sum()
    com = masses[chosen] @ centres[chosen] / total
    inertia = np.zeros((3, 3))
    for b in chosen:
        arm = centres[b] - com
        inertia += rotations[b] @ parts.body_inertia.numpy()[b] @ rotations[b].T
        inertia += masses[b] * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    pose = merged.body_q.numpy()[1].astype(float)
    R = matrix_from_quat(pose[3:])
    assert merged.body_mass.numpy()[1] == pytest.approx(total)
    np.testing.assert_allclose(pose[:3] + R @ merged.body_com.numpy()[1], com, atol=1e-6)
    np.testing.assert_allclose(R @ merged.body_inertia.numpy()[1] @ R.T, inertia, rtol=1e-5, atol=1e-6)


def test_only_the_asset_that_asks_is_merged():
    """Fixed joints of another asset stay."""
    first = {"type": "urdf", "source": robot(), "floating": True, "label_prefix": "a"}
    second = {**first, "label_prefix": "b", "collapse_fixed_joints": True}
    model = load_sap_scene({"assets": [first, second]}, device="cpu").sap_model
    assert [sum(label.startswith(p) for label in model.body_label) for p in ("a/", "b/")] == [4, 2]
    assert model.shape_count == 9
