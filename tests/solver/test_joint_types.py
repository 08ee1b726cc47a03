"""The table of joint types says of each what Newton's builder makes of it."""

import newton
import numpy as np
import pytest

from sap_warp.model.joint_types import FLOATING_JOINTS, JOINT_TYPES, QUATERNION_JOINTS, SCALAR_JOINTS
from sap_warp.solver.model.initial_poses import reference_coordinates
from tests.support.joint_types import add_all_joint_types


@pytest.fixture(scope="module")
def model():
    builder = newton.ModelBuilder()
    add_all_joint_types(builder, np.random.default_rng(0))
    return builder.finalize(device="cpu")


def test_every_type_is_in_the_model(model):
    """So that what follows is about all of them."""
    assert set(model.joint_type.numpy()) == set(JOINT_TYPES)


def test_names_are_as_many_as_the_numbers(model):
    """Coordinates and dofs with names are all there are; a scalar joint has one of each per axis."""
    coordinates, dofs = np.diff(model.joint_q_start.numpy()), np.diff(model.joint_qd_start.numpy())
    axes = model.joint_dof_dim.numpy().sum(axis=1)
    for joint, number in enumerate(model.joint_type.numpy()):
        joint_type = JOINT_TYPES[number]
        if joint_type.is_scalar:
            assert coordinates[joint] == dofs[joint] == axes[joint], joint_type.name
        else:
            assert (coordinates[joint], dofs[joint]) == (len(joint_type.coordinates), len(joint_type.dofs))


def test_rotations_are_quaternions(model):
    """At rest Newton's joints have the coordinates of the table."""
    start, q = model.joint_q_start.numpy(), reference_coordinates(model)
    for joint, number in enumerate(model.joint_type.numpy()):
        if number in QUATERNION_JOINTS:
            first = start[joint] + JOINT_TYPES[number].quaternion
            np.testing.assert_allclose(np.linalg.norm(q[first : first + 4]), 1.0, rtol=1e-6)
            assert JOINT_TYPES[number].at_rest[-1] == 1.0


def test_groups():
    """Floating joints have a rotation too; no scalar joint has one."""
    assert set(FLOATING_JOINTS) < set(QUATERNION_JOINTS)
    assert not set(SCALAR_JOINTS) & set(QUATERNION_JOINTS)
