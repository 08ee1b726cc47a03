"""Kinematic bodies: their joints follow what the state says, and what touches or hangs on them feels their motion."""

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SolverSAP
from sap_warp.solver.support import UnsupportedModelError
from tests.support.scenes import TAU, G, Stepper, add_box, box_inertia, builder, material

MU = 0.5
DT = 0.002
UNIT = wp.mat33(np.eye(3))


def add_platform(b, joint="free", half=(2.0, 2.0, 0.1), z=-0.1, **kwargs):
    """A kinematic slab whose top is the plane z = 0 unless told; returns the body."""
    body = b.add_link(xform=wp.transform(wp.vec3(0.0, 0.0, z)), is_kinematic=True, label="platform", **kwargs)
    add = {
        "free": lambda: b.add_joint_free(body),
        "slider": lambda: b.add_joint_prismatic(-1, body, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, z))),
        "turntable": lambda: b.add_joint_revolute(
            -1, body, axis=newton.Axis.Z, parent_xform=wp.transform((0.0, 0.0, z))
        ),
    }[joint]
    b.add_articulation([add()])
    b.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], cfg=material(mu=MU, gap=0.02))
    return body


def box_on_platform(joint="free", position=(0.0, 0.0, 0.1), **kwargs):
    b = builder()
    add_platform(b, joint, **kwargs)
    add_box(b, position, cfg=material(mu=MU, gap=0.02))
    return b.finalize(device="cpu")


def test_a_kinematic_joint_passes_through_bit_by_bit():
    """Position and velocity of a kinematic joint come out as they went in, whatever pushes it."""
    model = box_on_platform()
    sim = Stepper(model, DT)
    q, qd = sim.q.astype(np.float32), sim.qd.astype(np.float32)
    qd[:6] = [0.1, -0.2, 0.3, 0.4, 0.5, -0.6]
    sim.set(q, qd)
    sim.state.body_f.assign(np.full((2, 6), 50.0, np.float32))
    sim.step(3)
    np.testing.assert_array_equal(sim.state.joint_q.numpy()[:7], q[:7])
    np.testing.assert_array_equal(sim.state.joint_qd.numpy()[:6], qd[:6])
    np.testing.assert_allclose(sim.state.body_qd.numpy()[0], qd[:6], rtol=1e-6)


@pytest.mark.parametrize("joint", ["free", "slider"])
def test_a_moving_platform_carries_a_box(joint):
    """The box speeds up with mu g while it slides and then moves with the platform, which does not slow down."""
    sim = Stepper(box_on_platform(joint), DT)
    sim.step(300)  # settle
    qd = sim.qd
    qd[0] = speed = 1.0
    sim.set(qd=qd)
    sim.step(50)  # the box glides up onto the small gap that convex sliding keeps
    assert 0.5 < sim.qd[-6] / (MU * G * 50 * DT) < 1.2
    sim.step(500)
    np.testing.assert_allclose(sim.qd[-6:], [speed, 0, 0, 0, 0, 0], atol=2e-4)
    assert sim.qd[0] == speed


def test_a_lift_raises_a_box_with_its_weight():
    """On a platform that rises steadily the box rises alike, pressed on by its weight alone."""
    model = box_on_platform()
    sim = Stepper(model, DT)
    speed = 0.3
    q, qd = sim.q, sim.qd
    qd[2] = speed
    for i in range(400):
        now = sim.q
        now[2] = q[2] + speed * DT * i
        velocity = sim.qd
        velocity[:6] = qd[:6]
        sim.set(now, velocity)
        sim.step()
    assert sim.qd[-4] == pytest.approx(speed, abs=1e-3)
    force = sim.solver.contact_forces()
    assert np.abs(force.force.numpy()[:, 2].sum()) == pytest.approx(G, rel=2e-3)


def test_a_turntable_drags_a_box_with_the_speed_below_it():
    """A box that sticks to a turning table moves with w x r and turns with it."""
    model = box_on_platform("turntable", position=(0.3, 0.0, 0.1))
    sim = Stepper(model, DT)
    sim.step(300)
    speed = 0.5
    qd = sim.qd
    qd[0] = speed
    sim.set(qd=qd)
    sim.step(400)
    v, w, x = sim.qd[-6:-3], sim.qd[-3:], sim.position[1]
    np.testing.assert_allclose(w, [0.0, 0.0, speed], atol=0.02)
    np.testing.assert_allclose(v[:2], [-speed * x[1], speed * x[0]], atol=0.02)


def carried_chain(kinematic, armature):
    """Two pendulums on a root that slides along x, turns about y and is kinematic or very heavy."""
    b = builder()
    axis = newton.ModelBuilder.JointDofConfig
    root = b.add_link(mass=1.0, inertia=UNIT, is_kinematic=kinematic)
    one = b.add_link(mass=2.0, inertia=box_inertia(2.0, 0.2), com=wp.vec3(0.1, 0.2, -0.5), lock_inertia=True)
    two = b.add_link(mass=1.0, inertia=box_inertia(1.0, 0.1), com=wp.vec3(0.0, 0.0, -0.3), lock_inertia=True)
    joints = [
        b.add_joint_d6(
            -1,
            root,
            linear_axes=[axis(axis=newton.Axis.X, armature=armature)],
            angular_axes=[axis(axis=newton.Axis.Y, armature=armature)],
        ),
        b.add_joint_revolute(root, one, axis=newton.Axis.Y, parent_xform=wp.transform((0.4, 0.0, 0.0))),
        b.add_joint_ball(one, two, parent_xform=wp.transform((0.0, 0.0, -1.0))),
    ]
    b.add_articulation(joints)
    return b.finalize(device="cpu")


def test_a_kinematic_root_is_the_limit_of_a_heavy_one():
    """Velocities of the links carried by a moving kinematic root equal those on a root of immense inertia."""
    velocities = []
    for kinematic, armature in ((True, 0.0), (False, 1e12)):
        sim = Stepper(carried_chain(kinematic, armature), DT, preset="drake", precision="fp64")
        q, qd = sim.q, sim.qd
        q[:3], qd[:] = [0.1, 0.4, -0.3], [0.7, 1.5, -0.4, 0.3, -0.8, 0.5]
        sim.set(q, qd)
        sim.step()
        velocities.append(sim.velocity)
    np.testing.assert_allclose(velocities[0], velocities[1], rtol=0, atol=1e-9)


def test_a_contact_below_a_kinematic_root_feels_the_root():
    """A foot on a passive slider below a root that moves sideways drags over the ground with the root's speed."""
    b = builder()
    b.add_ground_plane(cfg=material(mu=MU, gap=0.02))
    root = b.add_link(xform=wp.transform((0.0, 0.0, 1.0)), is_kinematic=True)
    foot = b.add_link(xform=wp.transform((0.0, 0.0, 0.1)), mass=1.0, inertia=box_inertia(1.0, 0.1), lock_inertia=True)
    b.add_shape_box(foot, hx=0.1, hy=0.1, hz=0.1, cfg=material(mu=MU, gap=0.02))
    b.add_articulation(
        [
            b.add_joint_prismatic(-1, root, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, 1.0))),
            b.add_joint_prismatic(root, foot, axis=newton.Axis.Z, parent_xform=wp.transform((0.0, 0.0, -0.9))),
        ]
    )
    sim = Stepper(b.finalize(device="cpu"), DT)
    sim.step(300)
    sim.set(qd=[0.4, 0.0])
    sim.step(50)
    forces = sim.solver.contact_forces()
    total = np.abs(forces.force.numpy().sum(axis=0))
    assert total[2] == pytest.approx(G, rel=1e-2)
    assert total[0] == pytest.approx(MU * G, rel=1e-2)


def test_a_shared_kinematic_body_serves_all_worlds():
    """One global platform carries a box in each of several different worlds."""
    b = builder()
    add_platform(b, half=(50.0, 50.0, 0.1))
    for i in range(3):
        world = builder()
        add_box(world, (3.0 * i, 0.0, 0.1), mass=1.0 + i, cfg=material(mu=MU, gap=0.02))
        if i == 1:
            add_box(world, (0.0, 3.0, 0.1), cfg=material(mu=MU, gap=0.02))
        b.add_world(world)
    sim = Stepper(b.finalize(device="cpu"), DT)
    qd = sim.qd
    qd[0] = speed = 0.2
    sim.step(200)
    sim.set(qd=qd)
    sim.step(300)
    np.testing.assert_allclose(sim.qd.reshape(-1, 6)[:, 0], speed, atol=1e-3)
    mask = wp.array([False, False, False, True], dtype=wp.bool, device="cpu")
    sim.solver.reset(sim.state, mask)
    assert sim.qd[0] == 0.0 and sim.qd[6] == pytest.approx(speed, abs=1e-3)


def test_a_massless_kinematic_body_is_fine():
    """Nobody asks for the mass of a body whose motion is prescribed."""
    b = builder()
    add_platform(b, mass=0.0)
    b.shape_collision_group[0] = 1
    add_box(b, (0.0, 0.0, 0.1))
    model = b.finalize(device="cpu")
    model.body_mass.assign(np.array([0.0, 1.0], np.float32))
    sim = Stepper(model, DT).step(20)
    assert sim.solver.last_converged
    assert np.isfinite(sim.q).all()


def test_becoming_dynamic_takes_effect_after_notification():
    """The flag is read again on notification: the body falls, keeps falling, and stops when it is prescribed again."""
    b = builder()
    body = b.add_body(mass=1.0, inertia=UNIT, is_kinematic=True)
    model = b.finalize(device="cpu")
    sim = Stepper(model, DT).step(5)
    assert sim.position[body, 2] == 0.0
    model.body_flags.assign([int(newton.BodyFlags.DYNAMIC)])
    sim.solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
    sim.step(5)
    assert sim.qd[2] == pytest.approx(-G * 5 * DT, rel=1e-5)
    model.body_flags.assign([int(newton.BodyFlags.KINEMATIC)])
    sim.solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)
    before = sim.q
    sim.step(5)
    np.testing.assert_array_equal(sim.q, before)
    assert sim.solver.frame_id == 15


def test_a_carried_kinematic_body_is_refused():
    """Newton's builder refuses it; a flag set on the model later is refused by the solver."""
    model = carried_chain(False, 0.0)
    solver = SolverSAP(model)
    flags = model.body_flags.numpy()
    flags[1] = int(newton.BodyFlags.KINEMATIC)
    model.body_flags.assign(flags)
    with pytest.raises(UnsupportedModelError, match="kinematic bodies that are carried"):
        solver.notify_model_changed(newton.ModelFlags.BODY_PROPERTIES)


def test_two_kinematic_bodies_may_overlap():
    """Contacts between bodies that do not respond are no contacts of any world."""
    b = builder()
    add_platform(b)
    add_platform(b, z=-0.05)
    add_box(b, (0.0, 0.0, 0.5))
    sim = Stepper(b.finalize(device="cpu"), DT).step(2)
    assert sim.solver.last_contact_count == 0 and sim.solver.last_converged


def arm_with_fixed_links():
    """A pendulum of links some of which are fixed to one another."""
    b = builder()
    # Newton 1.7 adds the inertia of a merged body about the wrong point: only a massless one shows the motion
    root, upper, plate, lower = (
        b.add_link(mass=m, inertia=box_inertia(m, 0.1), com=wp.vec3(0.0, 0.1, -0.1)) for m in (1.0, 2.0, 0.0, 1.5)
    )
    joints = [
        b.add_joint_fixed(-1, root, parent_xform=wp.transform((0.0, 0.0, 2.0))),
        b.add_joint_revolute(root, upper, axis=newton.Axis.X),
        b.add_joint_fixed(upper, plate, parent_xform=wp.transform((0.1, 0.0, -0.5))),
        b.add_joint_revolute(plate, lower, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, -0.2))),
    ]
    b.add_articulation(joints)
    return b


def test_collapsing_fixed_joints_does_not_change_the_motion():
    """A model with its fixed joints collapsed moves like the one that has them."""
    runs = []
    for collapse in (False, True):
        b = arm_with_fixed_links()
        if collapse:
            b.collapse_fixed_joints()
        sim = Stepper(b.finalize(device="cpu"), DT, precision="fp64")
        assert sim.model.body_count == (2 if collapse else 4)
        sim.set([0.5, -0.8], [1.0, 2.0])
        sim.step(100)
        runs.append(sim.q)
    np.testing.assert_allclose(runs[0], runs[1], atol=2e-6)


def test_worlds_of_any_kind_stand_side_by_side():
    """Worlds from add_world with kinematic, articulated and free bodies move as each would alone."""

    def swinging():
        return arm_with_fixed_links()

    def carried():
        b = builder()
        add_platform(b, "slider")
        add_box(b, (0.0, 0.0, 0.1), cfg=material(mu=MU, gap=0.02))
        return b

    def falling():
        b = builder()
        add_box(b, (0.0, 0.0, 5.0))
        return b

    parts = (swinging, carried, falling, carried)
    together = builder()
    for part in parts:
        together.add_world(part())
    sim = Stepper(together.finalize(device="cpu"), DT, contact_max=256)
    sim.step(100)
    alone = np.concatenate([Stepper(part().finalize(device="cpu"), DT).step(100).q for part in parts])
    np.testing.assert_array_equal(sim.q, alone)


def test_penetration_on_a_rising_platform_matches_rest():
    """Relative to a platform in steady motion the box rests as deep as on one that stands still."""
    depths = []
    for speed in (0.0, 0.5):
        model = box_on_platform()
        sim = Stepper(model, DT)
        q0, qd = sim.q, sim.qd
        qd[2] = speed
        qd[8] = speed
        sim.set(qd=qd)
        for i in range(round(40 * TAU / DT)):
            q, v = sim.q, sim.qd
            q[2], v[:6] = q0[2] + speed * DT * i, qd[:6]
            sim.set(q, v)
            sim.step()
        sim_top = q0[2] + 0.1 + speed * DT * (i + 1)
        depths.append(sim.position[1, 2] - 0.1 - sim_top)
    assert depths[0] == pytest.approx(depths[1], abs=2e-6)
