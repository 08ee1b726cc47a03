"""Joint arrays that `set_array` edits beyond those that the format lists: losses and limits of the drives."""

from __future__ import annotations

import pytest

from sap_warp.scene import SapSceneError, load_sap_scene

NAMES = ["joint_friction", "joint_damping", "joint_effort_limit", "joint_velocity_limit"]


def scene(*operations):
    """Two hinges in a row."""
    bodies = [{"id": name, "mass": 1.0, "inertia": [0.1, 0.1, 0.1]} for name in ("upper", "lower")]
    joints = [
        {"id": "shoulder", "type": "revolute", "parent": "world", "child": "upper", "axis": "y"},
        {"id": "elbow", "type": "revolute", "parent": "upper", "child": "lower", "axis": "y"},
    ]
    return {"bodies": bodies, "joints": joints, "post_build": list(operations)}


@pytest.mark.parametrize("name", NAMES)
def test_set_array_sets_one_dof_in_every_world(name):
    before = getattr(load_sap_scene(scene(), device="cpu").sap_model, name).numpy()
    edit = {"op": "set_array", "array": name, "joint": "elbow", "value": "pi / 2"}
    values = getattr(load_sap_scene(scene(edit), num_worlds=2, device="cpu").sap_model, name).numpy()
    assert values.tolist() == pytest.approx([before[0], 1.5707963, before[0], 1.5707963])


@pytest.mark.parametrize("name", NAMES)
def test_negative_values_are_refused(name):
    edit = {"op": "set_array", "array": name, "range": "all", "value": -0.1}
    with pytest.raises(SapSceneError, match=f"entries of {name} are not negative"):
        load_sap_scene(scene(edit), device="cpu")
