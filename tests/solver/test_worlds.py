"""Worlds are independent: one or a thousand, alike or different, each moves as it would alone."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SolveStatus
from tests.support.scenes import G, Stepper, add_ball, add_box, builder, material

H = 0.005


def local_scene():
    """A box that falls onto the ground with a ball beside it and a driven arm: contacts, pair contacts and drives."""
    b = builder()
    add_box(b, (0.0, 0.0, 0.15), cfg=material(gap=0.005))
    add_ball(b, (0.02, 0.01, 0.36), mass=0.5, cfg=material(gap=0.005))
    link = b.add_link(mass=1.0, com=wp.vec3(0.2, 0.0, 0.0), inertia=wp.mat33(*(0.05 * np.eye(3)).ravel()))
    drive = {"actuator_mode": newton.JointTargetMode.POSITION, "target_ke": 50.0, "target_kd": 2.0, "target_pos": 0.5}
    joint = b.add_joint_revolute(
        -1, link, axis=newton.Axis.Y, parent_xform=wp.transform(wp.vec3(1.0, 0.0, 1.0)), **drive
    )
    b.add_articulation([joint])
    return b


def pendulum():
    """Two links on a ball joint and a d6, without shapes."""
    b = builder()
    links = [
        b.add_link(mass=1.0, com=wp.vec3(0.0, 0.0, -0.25), inertia=wp.mat33(*(0.1 * np.eye(3)).ravel())) for _ in "ab"
    ]
    angular = [b.JointDofConfig(axis=newton.Axis.X, damping=0.1), b.JointDofConfig(axis=newton.Axis.Y, friction=0.2)]
    joints = [
        b.add_joint_ball(-1, links[0]),
        b.add_joint_d6(links[0], links[1], angular_axes=angular, parent_xform=wp.transform(wp.vec3(0.0, 0.0, -0.5))),
    ]
    b.add_articulation(joints)
    return b


def stack():
    b = builder()
    for i in range(3):
        add_box(b, (0.01 * i, 0.0, 0.1 + 0.201 * i), cfg=material(gap=0.005))
    return b


def world_model(scenes, gravity=None, **replicate):
    """Worlds over one shared ground plane."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.005))
    if replicate:
        b.replicate(scenes[0], **replicate)
    else:
        for scene in scenes:
            b.add_world(scene)
    model = b.finalize(device="cpu")
    if gravity is not None:
        for world, g in enumerate(gravity):
            model.set_gravity(tuple(g), world=world)
    return model


def joint_state(sim, worlds):
    return np.concatenate(
        [sim.state.joint_q.numpy().reshape(worlds, -1), sim.state.joint_qd.numpy().reshape(worlds, -1)], axis=1
    )


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["approx32", "drake"])
def test_a_thousand_worlds_move_like_one(preset):
    """Every one of 1,000 worlds at the same place has, bit by bit, the trajectory of a single world."""
    one = Stepper(world_model([local_scene()], world_count=1), H, preset, contact_max=64)
    many = Stepper(world_model([local_scene()], world_count=1000), H, preset, contact_max=16000, max_rigid_contact=16)
    for _ in range(4):
        one.run(steps=25)
        many.run(steps=25)
        alone, together = joint_state(one, 1), joint_state(many, 1000)
        np.testing.assert_array_equal(together, np.broadcast_to(alone, together.shape))
    assert many.solver.last_contact_count == 1000 * one.solver.last_contact_count > 0
    assert many.solver.last_truncated_contact_count == 0
    assert (many.solver.iterations == one.solver.iterations[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["approx32", "approx64"])
def test_worlds_far_apart_move_alike(preset):
    """Replicated 10 m apart, up to 190 m from the origin, worlds agree to the resolution of fp32 positions there."""
    b = world_model([local_scene()], world_count=20, spacing=(10.0, 0.0, 0.0))
    sim = Stepper(b, H, preset, contact_max=400)
    start = sim.position.reshape(20, -1, 3)
    sim.run(steps=60)
    moved = sim.position.reshape(20, -1, 3) - start
    # 2^-17 m is the spacing of fp32 numbers at 100 m; contacts amplify rounding of the gap over 60 steps
    assert np.abs(moved - moved[:1]).max() < 100 * 2.0**-17
    assert np.ptp(moved[0]) > 0.01


def test_different_worlds_equal_their_own_runs():
    """Worlds that differ in robots, joints and contacts move bit by bit as each does alone."""
    scenes = [local_scene(), pendulum(), stack(), pendulum(), local_scene()]
    kick = {1: [0.5, -1.0, 2.0, 1.0, -1.0], 3: [-0.5, 0.0, 1.0, 0.0, 2.0]}

    def prepared(model, worlds):
        sim = Stepper(model, H, "approx64", contact_max=256)
        qd, start = sim.state.joint_qd.numpy(), 0
        for w in worlds:
            count = scenes[w].joint_dof_count
            if w in kick:
                qd[start : start + count] = kick[w]
            start += count
        sim.state.joint_qd.assign(qd)
        return sim

    together = prepared(world_model(scenes), range(5)).step(60)
    assert (together.solver.status == SolveStatus.CONVERGED).all()
    q, qd = together.state.joint_q.numpy(), together.state.joint_qd.numpy()
    iq = iv = 0
    for w, scene in enumerate(scenes):
        alone = prepared(world_model([scene]), [w]).step(60)
        nq, nv = scene.joint_coord_count, scene.joint_dof_count
        np.testing.assert_array_equal(q[iq : iq + nq], alone.state.joint_q.numpy(), err_msg=f"world {w}")
        np.testing.assert_array_equal(qd[iv : iv + nv], alone.state.joint_qd.numpy(), err_msg=f"world {w}")
        assert together.solver.iterations[w] == alone.solver.iterations[0]
        iq, iv = iq + nq, iv + nv


def test_each_world_has_its_own_gravity():
    """Bodies fall in the direction and at the rate of their world, also after gravity is changed between steps."""
    scene = builder()
    add_box(scene, (0.0, 0.0, 5.0), cfg=material())
    gravity = np.array([(0.0, 0.0, -G), (0.0, 0.0, -1.625), (2.5, 0.0, 0.0), (0.0, 0.0, 0.0)])
    model = world_model([scene] * 4, gravity)
    sim = Stepper(model, H, "approx64")
    sim.step(20)
    np.testing.assert_allclose(sim.velocity.reshape(4, 6)[:, 3:], 20 * H * gravity, rtol=1e-6, atol=1e-12)
    before = sim.velocity.reshape(4, 6)[:, 3:]
    model.set_gravity((0.0, 1.0, 0.0), world=2)
    sim.step()
    np.testing.assert_allclose(sim.velocity.reshape(4, 6)[2, 3:] - before[2], [0.0, H, 0.0], atol=1e-6)
    np.testing.assert_allclose(sim.velocity.reshape(4, 6)[0, 3:] - before[0], H * gravity[0], atol=1e-6)


def test_iterations_of_one_world_do_not_depend_on_its_neighbours():
    """A world in an impact does not make a world at rest iterate."""
    resting, falling = builder(), builder()
    add_box(resting, (0.0, 0.0, 0.0999), cfg=material(gap=0.005))
    add_box(falling, (0.0, 0.0, 0.2), cfg=material(gap=0.005))
    sim = Stepper(world_model([resting, falling]), H, "approx64")
    rest, impact = 0, 0
    for i in range(60):
        sim.step()
        if i > 20:
            rest = max(rest, sim.solver.iterations[0])
            impact = max(impact, sim.solver.iterations[1])
    assert rest <= 1 < impact
