"""Resetting worlds: which parts, which order, which precision, and inside a captured graph."""

import newton
import numpy as np
import pytest
import warp as wp

import sap_warp

WORLDS = 3


@pytest.fixture(scope="module")
def solver():
    """Spinning bodies with an offset centre of mass, so that public and sap velocities differ."""
    body = newton.ModelBuilder()
    link = body.add_link(mass=1.0, com=wp.vec3(0.1, -0.2, 0.3), inertia=wp.mat33(np.eye(3)), lock_inertia=True)
    body.add_articulation([body.add_joint_free(link)])
    body.joint_qd[:] = [0.5, -0.25, 1.0, 0.75, 0.5, -1.0]
    scene = newton.ModelBuilder()
    scene.replicate(body, WORLDS)
    return sap_warp.SolverSAP(scene.finalize(device="cpu"), contact_preset_variant="approx64")


def moved_state(solver, precision="fp32"):
    state = solver.sap_model.state(precision)
    for _ in range(3):
        state.body_f.fill_(1.0)
        solver.step(state, state, None, None, 0.01)
    return state


def arrays(state):
    return {name: getattr(state, name).numpy() for name in ("joint_q", "joint_qd", "body_q", "body_qd", "body_f")}


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_reset_restores_the_initial_state(solver, precision):
    """Positions, velocities, poses, twists and forces, in both precisions."""
    state, initial = moved_state(solver, precision), arrays(solver.sap_model.state(precision))
    assert any(np.abs(value - initial[name]).max() > 1e-3 for name, value in arrays(state).items())
    solver.reset(state)
    for name, value in arrays(state).items():
        np.testing.assert_array_equal(value, initial[name], err_msg=name)


def test_reset_follows_the_order_of_the_state(solver):
    """A state in sap order gets [w, v_O]; stepping it equals stepping the public one."""
    public, sap = moved_state(solver), moved_state(solver)
    sap.joint_qd_order = "sap"
    solver.reset(public)
    solver.reset(sap)
    solver.boundary.begin(public, solver.model_control, solver.all_worlds)
    expected = solver.boundary.joint_qd.numpy()
    np.testing.assert_allclose(sap.joint_qd.numpy(), expected, rtol=1e-6)
    assert np.abs(sap.joint_qd.numpy() - public.joint_qd.numpy()).max() > 0.1
    solver.step(public, public, None, None, 0.01)
    solver.step(sap, sap, None, None, 0.01)
    np.testing.assert_allclose(sap.body_qd.numpy(), public.body_qd.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        (newton.StateFlags.JOINT_Q, {"joint_q", "body_q"}),
        (newton.StateFlags.JOINT_QD, {"joint_qd", "body_qd"}),
        (newton.StateFlags.BODY_F, {"body_f"}),
    ],
)
def test_flags_choose_what_is_reset(solver, flag, changed):
    """Only the named part goes back; poses go with positions, twists with velocities."""
    state = moved_state(solver)
    before, initial = arrays(state), arrays(solver.sap_model.state())
    solver.reset(state, None, flag)
    for name, value in arrays(state).items():
        np.testing.assert_array_equal(value, (initial if name in changed else before)[name], err_msg=name)


def test_reset_can_be_captured(solver):
    """A replayed reset takes the mask's content of that moment."""
    state = moved_state(solver)
    mask = wp.zeros(WORLDS, dtype=wp.bool, device="cpu")
    with wp.ScopedCapture(device="cpu") as capture:
        solver.reset(state, mask)
    before, initial = state.joint_q.numpy(), solver.sap_model.state().joint_q.numpy()
    mask.assign(np.array([False, True, False]))
    wp.capture_launch(capture.graph)
    after = state.joint_q.numpy().reshape(WORLDS, -1)
    np.testing.assert_array_equal(after[1], initial.reshape(WORLDS, -1)[1])
    np.testing.assert_array_equal(after[[0, 2]], before.reshape(WORLDS, -1)[[0, 2]])


def test_bad_masks_are_refused(solver):
    """Type and length are named."""
    state = solver.sap_model.state()
    with pytest.raises(TypeError, match="bool"):
        solver.reset(state, np.ones(WORLDS, bool))
    with pytest.raises(TypeError, match="bool"):
        solver.reset(state, wp.zeros(WORLDS, dtype=wp.int32, device="cpu"))
    with pytest.raises(ValueError, match=r"\(7,\).*\(3,\) or \(4,\)"):
        solver.reset(state, wp.zeros(7, dtype=wp.bool, device="cpu"))
