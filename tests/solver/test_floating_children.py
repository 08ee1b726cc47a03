"""Floating bodies below bodies that move: free of them, they go straight; and moving bodies of all worlds."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SapCollisionPipeline, Simulation, SolverSAP
from sap_warp.solver.support import UnsupportedModelError
from tests.support.scenes import add_box, box_inertia, builder, material

DT = 0.005
INERTIA = np.diag([0.03, 0.05, 0.04])


def floating_children():
    """A driven hinge, a floating body below it, and another floating body below that one."""
    b = builder((0.0, 0.0, 0.0))
    tilt = wp.quat_from_axis_angle(wp.normalize(wp.vec3(0.3, -0.2, 1.0)), 0.5)
    bodies = [b.add_link(mass=1.0, inertia=wp.mat33(INERTIA), com=wp.vec3(*com), lock_inertia=True) for com in COMS]
    hinge = b.add_joint_revolute(-1, bodies[0], axis=newton.Axis.Z, parent_xform=wp.transform((0.2, -0.1, 0.3), tilt))
    frame = wp.transform((0.7, -0.2, 0.4), tilt)
    b.add_articulation(
        [
            hinge,
            b.add_joint_free(bodies[1], parent=bodies[0], parent_xform=frame, child_xform=wp.transform((0.1, 0, 0.2))),
            b.add_joint_free(bodies[2], parent=bodies[1], parent_xform=frame),
        ]
    )
    return b.finalize(device="cpu")


COMS = ((0.0, 0.0, 0.0), (0.2, 0.1, -0.1), (0.0, -0.15, 0.05))


def centres(model, state):
    """Centres of mass [m] of the bodies of a state."""
    return np.array(
        [wp.transform_point(wp.transform(*q), wp.vec3(*c)) for q, c in zip(state.body_q.numpy(), COMS, strict=True)]
    )


def momenta(state):
    """Angular momenta [N m s] about the centres of mass."""
    out = []
    for q, qd in zip(state.body_q.numpy(), state.body_qd.numpy(), strict=True):
        R = np.array(wp.quat_to_matrix(wp.quat(*q[3:]))).reshape(3, 3)
        out.append(R @ INERTIA @ R.T @ qd[3:])
    return np.array(out)


def test_floating_children_go_straight_while_their_parent_speeds_up():
    """Their centres keep their velocity and the line of their path; their angular momentum drifts with h alone."""
    model = floating_children()
    solver = SolverSAP(model, contact_preset_variant="robot")
    state, control = model.state(), model.control()
    qd = np.zeros(model.joint_dof_count, np.float32)
    qd[1:7], qd[7:] = (0.4, -0.3, 0.2, 0.5, -0.4, 0.3), (-0.2, 0.1, 0.3, 0.3, 0.2, -0.6)
    state.joint_qd.assign(qd)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    control.joint_f.assign(np.eye(1, model.joint_dof_count, dtype=np.float32)[0] * 0.5)
    start, v, spin = centres(model, state)[1:], state.body_qd.numpy()[1:, :3], momenta(state)[1:]
    steps = 200
    for _ in range(steps):
        solver.step(state, state, control, None, DT)
    assert abs(state.joint_qd.numpy()[0]) > 5.0  # the hinge has turned by several radians
    np.testing.assert_allclose(state.body_qd.numpy()[1:, :3], v, atol=2e-5)
    np.testing.assert_allclose(centres(model, state)[1:], start + v * steps * DT, atol=5e-5)
    np.testing.assert_allclose(momenta(state)[1:], spin, atol=2e-3 * np.abs(spin).max())


def common_ground():
    """A plane that touches shapes of every group."""
    b, cfg = builder(), material(gap=0.01)
    cfg.collision_group = -1
    b.add_ground_plane(cfg=cfg)
    return b


def add_two_worlds(b):
    """Two worlds with unlike gravity and a box each."""
    for gravity in (-9.81, -3.0):
        b.begin_world(gravity=(0.0, 0.0, gravity))
        add_box(b, (0.0, 0.0, 0.5), cfg=material(gap=0.01))
        b.end_world()


def shared_model(touching):
    """A falling box of all worlds, and two worlds with a box each."""
    b, cfg = common_ground(), material(gap=0.01)
    if not touching:
        cfg.collision_group = 2  # bodies of single worlds are in 1
    common = b.add_body(
        xform=wp.transform((0.0, 0.0, 0.3)), mass=2.0, inertia=box_inertia(2.0, 0.1), lock_inertia=True, label="common"
    )
    b.add_shape_box(common, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    add_two_worlds(b)
    return b.finalize(device="cpu"), common


def run(model, steps=150):
    solver, pipeline = SolverSAP(model), SapCollisionPipeline(model, rigid_contact_max=64)
    contacts, state = pipeline.contacts(), model.state()
    path = []
    for _ in range(steps):
        pipeline.collide(state, contacts)
        solver.step(state, state, model.control(), contacts, DT)
        path.append(state.body_q.numpy()[:, :3].copy())
    return np.array(path), solver


def test_moving_bodies_of_all_worlds_are_a_world_of_their_own():
    """The common box falls with its own gravity and lies on the ground; the worlds are what they are without it."""
    model, common = shared_model(touching=False)
    model.set_gravity((0.0, 0.0, -5.0), world=-1)
    path, solver = run(model)
    assert solver.sizes.world_count == 3
    t = DT * np.arange(1, 31)
    np.testing.assert_allclose(path[:30, common, 2], 0.3 - 2.5 * t**2, atol=1e-5)  # midpoint is exact here
    assert path[-1, common, 2] == pytest.approx(0.1, abs=1e-3)
    alone = common_ground()
    add_two_worlds(alone)
    without, _ = run(alone.finalize(device="cpu"))
    np.testing.assert_array_equal(path[:, 1:], without)


def test_a_mask_chooses_them_by_its_last_entry():
    """Newton's masks have an entry for the bodies of all worlds after those of the worlds."""
    model, common = shared_model(touching=False)
    solver, state = SolverSAP(model), model.state()
    for _ in range(10):
        solver.step(state, state, None, None, DT)
    fallen = state.body_q.numpy()[:, 2].copy()
    solver.reset(state, wp.array([False, True, True], dtype=bool, device="cpu"))
    z = state.body_q.numpy()[:, 2]
    assert z[common] == np.float32(0.3)
    assert z[2] == np.float32(0.5)
    assert z[1] == fallen[1] < 0.5


def test_one_that_single_worlds_can_touch_is_refused():
    """It would carry what happens in one world to all others."""
    with pytest.raises(UnsupportedModelError, match=r"bodies of single worlds can touch.*'common'"):
        SolverSAP(shared_model(touching=True)[0])


def test_a_simulation_says_that_it_cannot_hold_them():
    """Its views are by world."""
    with pytest.raises(UnsupportedModelError, match=r"world -1.*'common'"):
        Simulation(shared_model(touching=False)[0], dt=DT)
