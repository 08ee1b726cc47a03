"""Poses by NumPy against Newton's forward kinematics."""

import newton
import numpy as np
import pytest

from sap_warp.solver.model.initial_poses import body_poses, place_bodies
from tests.support.joint_types import add_all_joint_types
from tests.support.oracle import random_model, random_state


def all_types(rng):
    builder = newton.ModelBuilder()
    add_all_joint_types(builder, rng)
    return builder.finalize(device="cpu")


@pytest.mark.parametrize("make", [all_types, lambda rng: random_model(rng, 4)], ids=["all types", "random"])
def test_poses_are_newtons(make, rng):
    """Every joint type on the world and on others, several worlds."""
    model = make(rng)
    q, _ = random_state(rng, model)
    model.joint_q.assign(q)
    model.joint_qd.zero_()
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    expected = state.body_q.numpy()
    poses = body_poses(model, model.joint_q.numpy())
    np.testing.assert_allclose(poses[:, :3], expected[:, :3], atol=2e-5)
    same = np.sign(np.sum(poses[:, 3:] * expected[:, 3:], axis=1, keepdims=True))
    np.testing.assert_allclose(poses[:, 3:] * same, expected[:, 3:], atol=1e-5)


def test_a_model_that_moves_gets_its_twists(rng):
    """Positions and velocities of the model's own initial state."""
    model = all_types(rng)
    q, qd = random_state(rng, model)
    model.joint_q.assign(q)
    model.joint_qd.assign(qd)
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    place_bodies(model)
    np.testing.assert_allclose(model.body_qd.numpy(), state.body_qd.numpy(), rtol=1e-6)
    np.testing.assert_allclose(model.body_q.numpy()[:, :3], state.body_q.numpy()[:, :3], atol=2e-5)
