"""Rollouts: candidates go where simulations of their own go, and bad requests say what is wrong."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sap_warp import Rollouts, Simulation, rollout

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
CART = {"joint_f": ["slider_to_cart"]}


@pytest.fixture(scope="module")
def rollouts():
    return Rollouts("cartpole", 3, inputs=CART, hold=4)


def test_candidates_go_where_simulations_of_their_own_go(rollouts, rng):
    """Each candidate, to the bit: one world that gets the same forces at the same steps."""
    controls = rng.normal(0.0, 20.0, (3, 5, 1))
    q, qd = np.array([0.1, 0.4, -0.2], np.float32), np.array([0.0, 1.0, 0.0], np.float32)
    found = rollouts(q, qd, controls)
    again = rollouts(q, qd, controls)
    np.testing.assert_array_equal(found["joint_q"], again["joint_q"])
    np.testing.assert_allclose(found.time, 0.02 * np.arange(1, 6))
    for candidate in range(3):
        sim = Simulation.from_scene("cartpole")
        sim.reset(joint_q=q, joint_qd=qd)
        for k in range(5):
            sim.joint_f.numpy()[0, 0] = controls[candidate, k, 0]
            sim.step(4)
            np.testing.assert_array_equal(found["joint_q"][candidate, k], sim.joint_q.numpy()[0])
            np.testing.assert_array_equal(found["joint_qd"][candidate, k], sim.joint_qd.numpy()[0])
    assert not found.failed.any()


def test_torch_in_and_out(rollouts, rng):
    """Tensors for tensors, with the same bits."""
    torch = pytest.importorskip("torch")
    controls = rng.normal(0.0, 20.0, (3, 4, 1))
    expected = rollouts(np.zeros(3), np.zeros(3), controls)
    found = rollouts(torch.zeros(3), torch.zeros(3), torch.from_numpy(controls))
    assert all(isinstance(value, torch.Tensor) for value in (found.time, found.failed, *found.values.values()))
    np.testing.assert_array_equal(found["joint_q"].numpy(), expected["joint_q"])
    assert found["joint_q"].dtype == torch.float32 and not found.failed.any()


@pytest.mark.filterwarnings("ignore:Worlds could not take a step")
def test_a_candidate_that_fails_is_named_and_alone(rollouts):
    """A force that is not finite stops its own candidate; the others are what they are without it."""
    state = np.zeros(3, np.float32), np.zeros(3, np.float32)
    controls = np.ones((3, 2, 1))
    good = rollouts(*state, controls)
    controls[1] = np.nan
    found = rollouts(*state, controls)
    np.testing.assert_array_equal(found.failed, [False, True, False])
    np.testing.assert_array_equal(found["joint_q"][[0, 2]], good["joint_q"][[0, 2]])


def test_one_call_equals_kept_worlds(rollouts):
    """`rollout` builds the worlds, runs once, and takes a simulation too."""
    state, controls = (np.zeros(3), np.zeros(3)), np.full((3, 2, 1), 5.0)
    expected = rollouts(*state, controls)["joint_q"]
    np.testing.assert_array_equal(rollout(rollouts.sim, state, controls, inputs=CART, hold=4)["joint_q"], expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": 0}, "candidates is 0; it must be a whole number"),
        ({"hold": 0}, "hold is 0; it must be a whole number of steps"),
        ({"inputs": "joint_q"}, "inputs names .'joint_q'.; there is joint_f"),
        ({"record": ("energy",)}, "record names .'energy'.; there is joint_q"),
        ({"inputs": {"joint_f": ["slider"]}}, "slider_to_cart"),
        ({"workers": 3}, "workers is 3; it must be from 1 to the number of candidates, 2"),
        ({"address": "auto"}, "address and gpus_per_worker are for workers"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    """The message names the argument and what there is."""
    with pytest.raises((ValueError, KeyError), match=message):
        Rollouts("cartpole", **{"candidates": 2, **options})


def test_controls_of_another_shape_are_refused(rollouts):
    """The message says which shape is wanted and what the entries are."""
    with pytest.raises(ValueError, match=r"controls has shape \(3, 5\); expected \(3, 'time', 1\): slider_to_cart"):
        rollouts(np.zeros(3), np.zeros(3), np.zeros((3, 5)))


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def test_example_swings_the_pole_up():
    """The planner of the example brings the pole up within a second and a half."""
    assert load_example("plan_cart_pole").main(seconds=1.6) > 0.7


def test_example_pushes_the_box_towards_its_goal():
    """The pusher has to go around the box first; after two seconds the box has come a quarter of the way."""
    first, last = load_example("plan_push_box").main(seconds=2.0)
    assert last < 0.75 * first
