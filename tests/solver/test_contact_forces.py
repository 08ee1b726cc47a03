"""Contact forces of a step: against gravity, against the oracle's impulses, and as Newton's observable."""

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp
from tests.support.solver_cases import DT, Case


@pytest.fixture(scope="module")
def case():
    """A random problem with contacts on the ground and between bodies, solved tightly."""
    return Case(2, contacts=8).step()


def centre_of_mass(case, body):
    pose = case.state.body_q.numpy()[body]
    q = wp.quatd(*(float(x) for x in pose[3:]))
    return pose[:3] + np.array(wp.quat_rotate(q, wp.vec3d(*(float(x) for x in case.model.body_com.numpy()[body]))))


def test_impulses_match_the_oracle(case):
    """Impulse and force of every contact in world axes, in the order of the contact buffer."""
    forces = case.solver.contact_forces()
    velocity = case.solver.contact_solve.velocity.numpy()
    offset = 0
    for w, world in enumerate(case.oracle):
        expected = world.contact_impulses_world(velocity[case.dofs(w)])
        scale = np.abs(expected).max()
        impulse = forces.impulse.numpy()[offset : offset + world.nc]
        np.testing.assert_allclose(impulse, expected, atol=1e-6 * scale)
        np.testing.assert_allclose(
            forces.force.numpy()[offset : offset + world.nc], expected / DT, atol=1e-6 * scale / DT
        )
        offset += world.nc


def test_body_wrench_gives_the_generalized_impulse_of_the_contacts(case):
    """The net wrench on each body, at its centre of mass, does the same work as J^T gamma."""
    wrench = case.solver.contact_forces().body_wrench.numpy().astype(np.float64)
    velocity = case.solver.contact_solve.velocity.numpy()
    for w, world in enumerate(case.oracle):
        expected = world.contact_generalized_impulse(velocity[case.dofs(w)])
        total = np.zeros(world.n)
        for body in np.flatnonzero(case.model.body_world.numpy() == w):
            total += DT * (world.com_jacobian(body).T @ wrench[body, :3] + world.poses.Jw[body].T @ wrench[body, 3:])
        np.testing.assert_allclose(total, expected, atol=2e-6 * np.abs(expected).max())


def test_spatial_force_acts_on_shape_0_about_its_centre_of_mass(case):
    """CONTACT_F: minus the force on shape 1, with the moment of the contact point."""
    forces = case.solver.contact_forces()
    spatial, force = forces.spatial_force.numpy(), forces.force.numpy()
    np.testing.assert_allclose(spatial[:, :3], -force, atol=1e-6 * np.abs(force).max())
    contacts, shape_body = case.contacts, case.model.shape_body.numpy()
    body0 = shape_body[contacts.rigid_contact_shape0.numpy()]
    index = 0
    for world in case.oracle:
        for x0, _ in world.points:
            pivot = centre_of_mass(case, body0[index]) if body0[index] >= 0 else np.zeros(3)
            moment = np.cross(x0 - pivot, spatial[index, :3])
            np.testing.assert_allclose(spatial[index, 3:], moment, atol=1e-5 * np.abs(spatial).max())
            index += 1
    assert index == int(contacts.rigid_contact_count.numpy()[0])


def resting_boxes(worlds=3):
    builder = newton.ModelBuilder()
    builder.rigid_gap = 0.01
    body = builder.add_body(xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()), mass=2.0)
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, ke=1e5, mu=0.5)
    builder.add_shape_box(body, hx=0.2, hy=0.1, hz=0.1, cfg=cfg)
    builder.body_inertia[body] = wp.mat33(0.02, 0, 0, 0, 0.03, 0, 0, 0, 0.04)
    scene = newton.ModelBuilder()
    scene.replicate(builder, worlds)
    scene.add_ground_plane(cfg=cfg)
    return scene.finalize(device="cpu")


def test_wrench_of_a_resting_box_balances_gravity():
    """Net contact force is m g to 0.1 %, and without moment; the observable, update_contacts and the forces agree."""
    model = resting_boxes()
    solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64")
    pipeline = newton.CollisionPipeline(model, broad_phase="explicit")
    contacts = pipeline.contacts()
    observables = solver.observables({solver.ObservableKind.CONTACT_F}, contacts=contacts)
    state = model.state()
    for _ in range(400):
        pipeline.collide(state, contacts)
        solver.step(state, state, None, contacts, 0.005, observables=observables)
    forces = solver.contact_forces()
    weight = 2.0 * 9.81
    wrench = forces.body_wrench.numpy()
    np.testing.assert_allclose(wrench[:, 2], weight, rtol=1e-3)
    np.testing.assert_allclose(np.delete(wrench, 2, axis=1), 0.0, atol=1e-3 * weight)
    count = int(contacts.rigid_contact_count.numpy()[0])
    assert count == 12
    np.testing.assert_array_equal(observables.contact_f.numpy(), forces.spatial_force.numpy())
    solver.update_contacts(contacts)
    np.testing.assert_array_equal(contacts.rigid_contact_force.numpy(), forces.force.numpy())


@pytest.mark.parametrize("pipeline_type", [sap_warp.SapCollisionPipeline, newton.CollisionPipeline])
@pytest.mark.parametrize("kinds", [{"contact_f"}, ["body_qdd", "contact_f"], {"body_qdd"}, set()])
def test_observables_of_our_contacts_and_of_newtons(pipeline_type, kinds):
    """Kinds by name, with the buffer of either pipeline: what was asked for is allocated and filled."""
    model = resting_boxes(1)
    solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64")
    pipeline = pipeline_type(model)
    contacts = pipeline.contacts()
    seen = solver.observables(kinds, contacts=contacts)
    state, after = model.state(), model.state()
    pipeline.collide(state, contacts)
    solver.step(state, after, None, contacts, 0.005, observables=seen)
    assert seen.kinds == set(kinds)
    if "contact_f" in kinds:
        np.testing.assert_array_equal(seen.contact_f.numpy(), solver.contact_forces().spatial_force.numpy())
        assert np.abs(seen.contact_f.numpy()).max() > 0.0
    if "body_qdd" in kinds:
        change = (after.body_qd.numpy() - state.body_qd.numpy()) / 0.005
        np.testing.assert_allclose(seen.body_qdd.numpy(), change, atol=1e-4)
    with pytest.raises(TypeError, match="contacts is a str"):
        solver.observables({"contact_f"}, contacts="contacts")


def test_forces_need_a_step_with_contacts():
    """Asking too early, or for another buffer, is an error that says what to do."""
    model = resting_boxes(1)
    solver = sap_warp.SolverSAP(model, contact_preset_variant="approx64")
    with pytest.raises(RuntimeError, match="step"):
        solver.contact_forces()
    contacts = newton.CollisionPipeline(model).contacts()
    with pytest.raises(ValueError, match="last step"):
        solver.update_contacts(contacts)
    with pytest.raises((ValueError, TypeError), match="no_such"):
        solver.observables({"no_such"})
