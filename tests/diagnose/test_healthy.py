"""Nothing is found where nothing is wrong."""

import pytest

from sap_warp import Simulation
from tests.support.staged import arm, boxes, gripper


@pytest.mark.parametrize(
    "make",
    [
        lambda: boxes(3),
        lambda: gripper(worlds=2, options={"contact_weight_mode": "diag_delassus"}),
        lambda: arm(effort_limit=20.0),
    ],
    ids=["stack", "grip", "arm"],
)
def test_nothing_is_found_in_a_healthy_model(make):
    """A settled stack, a grip with good parameters, an arm whose drive is strong enough."""
    report = make().diagnose(0.6)
    assert report.findings == (), report


@pytest.mark.parametrize("scene", ["free_cube", "box_stack", "cartpole", "unitree_g1"])
def test_nothing_but_information_is_found_in_shipped_scenes(scene):
    """A falling cube, a stack, a swinging pole, and a humanoid that stands."""
    sim = Simulation.from_scene(scene, num_worlds=2, notes=False)
    report = sim.diagnose(0.8)
    assert report.ok, report
