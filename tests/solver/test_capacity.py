"""A world that has more contacts than places keeps the deepest, says so once, and takes nothing from its neighbours."""

import warnings

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from tests.support.oracle import Contact, fill_newton_contacts

WORLDS = 3


@pytest.fixture(scope="module")
def model():
    """One ball per world above a common ground plane."""
    ball = newton.ModelBuilder()
    ball.add_shape_sphere(ball.add_body(xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity())), radius=0.1)
    scene = newton.ModelBuilder()
    scene.replicate(ball, WORLDS)
    scene.add_ground_plane()
    return scene.finalize(device="cpu")


def ground_contacts(model, depths_by_world):
    """Contacts of each world's ball with the ground, as deep as given [m]."""
    records = []
    for world, depths in enumerate(depths_by_world):
        for depth in depths:
            up = np.array([0.0, 0.0, 1.0])
            records.append(
                Contact(WORLDS, world, np.zeros(3), np.zeros(3), np.zeros(3), -0.1 * up, up, 0.0, 0.1 + depth)
            )
    return fill_newton_contacts(model, records, capacity=len(records))


def step(model, contacts, **options):
    solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64", **options)
    state = model.state()
    solver.step(state, state, None, contacts, 0.005)
    return solver


def kept_depths(solver, world):
    data, capacity = solver.contact_jacobian.data, solver.contact_jacobian.capacity
    rows = slice(world * capacity, world * capacity + int(data.count.numpy()[world]))
    return sorted(-data.phi0.numpy()[rows] - 0.1)


def test_full_world_keeps_its_deepest_contacts(model):
    """Whatever their order in the buffer; worlds that are not full keep all of theirs."""
    rng = np.random.default_rng(0)
    depths = rng.permutation(np.arange(1, 11)) * 0.001
    solver = step(model, ground_contacts(model, [[0.002], depths, [0.003, 0.001]]), max_rigid_contact=4)
    offset = kept_depths(solver, 0)[0] - 0.002  # the ball's own overlap, the same for all
    np.testing.assert_allclose(np.array(kept_depths(solver, 1)) - offset, [0.007, 0.008, 0.009, 0.010], atol=1e-6)
    assert len(kept_depths(solver, 0)) == 1 and len(kept_depths(solver, 2)) == 2


def test_dropped_contacts_are_told_once(model):
    """One warning with the worlds and the number to set, however often statistics are read and steps taken."""
    contacts = ground_contacts(model, [[0.001] * 2, [0.001] * 7, [0.001] * 6])
    solver = step(model, contacts, max_rigid_contact=4)
    state = model.state()
    with pytest.warns(UserWarning, match=r"5 contacts were dropped in 2 worlds \(1, 2\); set max_rigid_contact to 7"):
        assert solver.last_truncated_contact_count == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver.step(state, state, None, contacts, 0.005)
        assert solver.last_truncated_contact_count == 5 and solver.last_contact_count == 10
        assert solver.last_converged


def test_strict_solver_raises_at_the_next_host_access(model):
    """The step itself does not raise, reading a statistic does; without overflow nothing happens."""
    contacts = ground_contacts(model, [[0.001] * 5, [], []])
    solver = step(model, contacts, max_rigid_contact=4, strict_capacity=True)
    for read in ("last_truncated_contact_count", "last_contact_count", "status", "last_converged"):
        with pytest.raises(sap_warp.ContactCapacityError, match="max_rigid_contact to 5"):
            getattr(solver, read)
    roomy = step(model, contacts, max_rigid_contact=5, strict_capacity=True)
    assert roomy.last_truncated_contact_count == 0 and roomy.last_contact_count == 5
