"""Sensors against closed forms, inverse dynamics and Newton's own sensors."""

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import Simulation
from tests.support.simulations import new_builder, shared_simulation
from tests.support.tendons import build

MASS = 1000.0 * 4.0 / 3.0 * np.pi * 0.3**3
G = 9.81
ARM = 0.5
"""From a hinge to the centre of mass of its arm of 1 kg [m]."""
KE, KD, TARGET = 50.0, 5.0, 0.4


def add_arm(world, name, y, **joint):
    """An arm along x on a hinge about y, 2 m above the ground."""
    link = world.add_link(mass=1.0, inertia=wp.mat33(np.eye(3) * 0.01), com=wp.vec3(ARM, 0.0, 0.0), label=name)
    common = {"axis": newton.Axis.Y, "parent_xform": wp.transform((0.0, y, 2.0), wp.quat_identity()), "label": name}
    world.add_articulation([world.add_joint_revolute(-1, link, **common, **joint)])


def make(worlds=2, **options):
    """A ball with an IMU above the ground, and arms that a drive, a limit, friction or a weak drive holds."""
    world = new_builder()
    ball = world.add_body(xform=wp.transform((0.0, 0.0, 0.31), wp.quat_identity()), label="ball")
    world.add_shape_sphere(ball, radius=0.3, label="sphere")
    world.add_site(ball, xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()), label="imu")
    mode = newton.JointTargetMode
    add_arm(world, "driven", 2.0, target_ke=KE, target_kd=KD, target_pos=TARGET, actuator_mode=mode.POSITION)
    add_arm(world, "stopped", 3.0, limit_lower=-0.1, limit_upper=0.2, limit_ke=1e4, limit_kd=10.0)
    add_arm(world, "stuck", 4.0, friction=20.0)
    add_arm(world, "weak", 5.0, target_ke=KE, target_kd=KD, effort_limit=1.0, actuator_mode=mode.POSITION)
    add_arm(world, "damped", 6.0, damping=2.0)
    builder = new_builder()
    builder.replicate(world, worlds)
    builder.add_ground_plane()
    return Simulation(builder.finalize("cpu"), dt=0.005, max_rigid_contact=8, notes=False, **options)


shared = shared_simulation(make)


@pytest.fixture
def sim(shared):
    """At the start, unobserved."""
    shared._observed = None
    shared.reset()
    return shared


def gravity_torque(q):
    """Of an arm about its hinge; the angle is positive downwards."""
    return G * ARM * np.cos(q)


def test_joint_forces_hold_what_they_hold(sim):
    """At rest each arm is held by what was given to it, with the torque of its weight."""
    sim.step(1200)
    forces, q = (
        sim.joint_forces(),
        {name: float(sim.joint_q[name].numpy()[0]) for name in ("driven", "stopped", "stuck")},
    )
    read = lambda kind, name: float(getattr(forces, kind)[name].numpy()[0])  # noqa: E731
    assert read("drive", "driven") == pytest.approx(-gravity_torque(q["driven"]), rel=2e-3)
    assert read("drive", "driven") == pytest.approx(KE * (TARGET - q["driven"]), rel=2e-3)
    assert read("limit", "stopped") == pytest.approx(-gravity_torque(q["stopped"]), rel=2e-3)
    assert read("friction", "stuck") == pytest.approx(-gravity_torque(q["stuck"]), rel=2e-3)
    assert abs(q["stuck"]) < 0.05 and q["stopped"] == pytest.approx(0.2, abs=0.01)
    for kind in ("drive", "limit", "friction", "spring", "constraint", "contact", "actuator"):
        assert getattr(forces, kind).numpy().shape == (2, 11)
        expected = {"drive": ("driven", "weak"), "limit": ("stopped",), "friction": ("stuck",)}.get(kind, ())
        others = [n for n in ("driven", "stopped", "stuck", "weak", "damped") if n not in expected]
        np.testing.assert_array_equal([read(kind, name) for name in others], 0.0)


def test_joint_forces_in_motion(sim):
    """A drive at its limit gives just that; a damper what its speed says; together they make the motion."""
    sim.step(30)
    before = np.array(sim.joint_qd.numpy())
    sim.step(1)
    forces, v = sim.joint_forces(), sim.joint_qd
    assert float(forces.drive["weak"].numpy()[0]) == pytest.approx(-1.0, rel=1e-5)
    damped = float(v["damped"].numpy()[0])
    assert damped > 0.5
    assert float(forces.damping["damped"].numpy()[0]) == pytest.approx(-2.0 * damped, rel=1e-5)
    inertia = 0.01 + ARM**2
    for name in ("driven", "weak", "damped", "stuck"):
        column = int(sim.find_dofs(name).indices[0])
        change = inertia * (float(v[name].numpy()[0]) - before[0, column]) / sim.dt
        acting = sum(float(getattr(forces, kind)[name].numpy()[0]) for kind in ("drive", "damping", "friction"))
        # the weight is that of the start of the step
        q = float(sim.joint_q[name].numpy()[0]) - 0.5 * sim.dt * (float(v[name].numpy()[0]) + before[0, column])
        assert change == pytest.approx(acting + gravity_torque(q), abs=5e-3)


def test_all_forces_together_are_the_inverse_dynamics():
    """A (v - v*) = h (sum of all): a humanoid on the ground, with springs, limits and contacts."""
    sim = Simulation.from_scene("humanoid", num_worlds=1, notes=False)
    try:
        sim.step(250)
        free = sim.solver.compute_free_motion(sim.state, sim.control, sim.dt)
        A, v_star = np.array(free.dynamics_matrix(0), float), np.array(free.v_star(), float)
        sim.step(1)
        forces = sim.joint_forces()
        names = ("drive", "actuator", "spring", "limit", "friction", "constraint", "contact")
        total = sum(getattr(forces, name).numpy()[0].astype(float) for name in names)
        v = sim.solver.contact_solve.data.velocity.numpy()
        expected = A @ (v - v_star) / sim.dt
        assert np.abs(forces.contact.numpy()[0, 6:]).max() > 1.0 and np.abs(forces.spring.numpy()).max() > 1.0
        np.testing.assert_allclose(total[6:], expected[6:], atol=2e-2 * np.abs(expected[6:]).max())
    finally:
        sim.close()


BALL = """<mujoco><worldbody><body><joint type="ball" stiffness="9" springref="30" damping=".1"/>
<geom type="box" size=".1 .2 .05" pos=".3 0 0"/></body></worldbody></mujoco>"""


def test_spring_of_a_ball_joint_is_that_of_mujoco(rng):
    """Torque about the rotation vector, in random states, at the start of the step."""
    reference = mujoco.MjModel.from_xml_string(BALL)
    data = mujoco.MjData(reference)
    with Simulation(build(BALL), dt=1e-5, max_rigid_contact=8, notes=False) as sim:
        for _ in range(5):
            data.qpos[:] = rng.normal(size=4)
            data.qpos /= np.linalg.norm(data.qpos)
            mujoco.mj_forward(reference, data)
            sim.reset(joint_q=np.roll(data.qpos, -1)[None].astype(np.float32))
            sim.step(1)
            spring = sim.joint_forces().spring.numpy()[0]
            # a rotation vector has the same components in the axes of parent and child
            np.testing.assert_allclose(spring, data.qfrc_spring, atol=2e-3)
            assert np.abs(spring).max() > 1.0


def test_newtons_imu_and_contact_sensor(sim):
    """Nothing is felt in free fall, the weight at rest; several steps at once give the last one's."""
    from newton.sensors import SensorContact, SensorIMU

    imu = SensorIMU(sim.model, sites="*imu", request_state_attributes=False)
    touch = SensorContact(sim.model, sensing_bodies="*ball", request_contact_attributes=False)
    observed = sim.observe(imu.solver_observable_kinds | touch.solver_observable_kinds)
    sim.reset(joint_q=np.array([0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 1.0, *[0.0] * 5]))
    sim.step(7)
    imu.update(sim.state, observables=observed)
    np.testing.assert_allclose(imu.accelerometer.numpy(), 0.0, atol=2e-3)
    twist = np.array(sim.body_qd.numpy())
    sim.step(1)
    np.testing.assert_allclose(
        observed.body_qdd.numpy().reshape(2, 6, 6), (sim.body_qd.numpy() - twist) / sim.dt, rtol=1e-5, atol=1e-4
    )
    sim.reset()
    seen = []
    remove = sim.add_callback(lambda s: seen.append(observed.body_qdd.numpy()[0, 2]), every=100)
    sim.step(800)
    remove()
    assert len(seen) == 8 and abs(seen[-1]) < 1e-2
    imu.update(sim.state, observables=observed)
    touch.update(sim.state, sim.contacts.newton_contacts, observables=observed)
    np.testing.assert_allclose(imu.accelerometer.numpy(), [[0.0, 0.0, G]] * 2, atol=2e-2)
    np.testing.assert_allclose(imu.gyroscope.numpy(), 0.0, atol=1e-3)
    np.testing.assert_allclose(touch.total_force.numpy(), [[0.0, 0.0, MASS * G]] * 2, rtol=2e-3, atol=0.5)


def test_wrenches_that_joints_pass_on(sim):
    """The hinge carries the weight of an arm at rest, about its centre of mass; a free body gets nothing."""
    observed = sim.observe("body_parent_f")
    sim.step(1200)
    wrench = observed.body_parent_f.numpy().reshape(2, 6, 6)
    column = int(sim.find_bodies("driven").indices[0])
    np.testing.assert_allclose(wrench[:, column, :3], [[0.0, 0.0, G]] * 2, atol=2e-2)
    np.testing.assert_allclose(wrench[:, column, 3:], 0.0, atol=2e-2)  # motor and lever cancel about the centre
    np.testing.assert_allclose(wrench[:, 0], 0.0, atol=1.0)  # the ground carries the ball's 1,100 N
    assert np.abs(sim.contact_forces()["ball"].numpy()[:, 2]).min() > 1000.0


def test_contact_forces_of_bodies_and_pairs(sim):
    """On the ball by the ground the weight, by world; with threads the same bits; between shapes too."""
    sim.step(400)
    pairs = sim.contact_pairs("ball", ["world", "driven"])
    force = pairs.update().numpy()
    assert pairs.on == ("ball",) and pairs.by == ("world", "driven") and force.shape == (2, 1, 2, 3)
    np.testing.assert_allclose(force[:, 0, 0], [[0.0, 0.0, MASS * G]] * 2, rtol=5e-3, atol=0.5)
    np.testing.assert_array_equal(force[:, 0, 1], 0.0)
    assert pairs.count.numpy()[:, 0, 0].tolist() == [1, 1]
    np.testing.assert_array_equal(sim.contact_pairs("sphere", kind="shape").update().numpy()[:, 0, 0], force[:, 0, 0])
    back = sim.contact_pairs("world", "ball").update().numpy()
    np.testing.assert_array_equal(back[:, 0, 0], -force[:, 0, 0])  # on the ground by the ball, world by world
    wrench = sim.contact_forces()
    np.testing.assert_allclose(wrench["ball"].numpy()[:, :3], force[:, 0, 0], rtol=1e-5)
    np.testing.assert_array_equal(wrench["driven"].numpy(), 0.0)
    with make(threads=2) as other:
        other.step(400)
        np.testing.assert_array_equal(other.contact_pairs("ball", ["world", "driven"]).update().numpy(), force)
        np.testing.assert_array_equal(other.contact_forces().numpy(), wrench.numpy())
        np.testing.assert_array_equal(other.joint_forces().drive.numpy(), sim.joint_forces().drive.numpy())
        with pytest.raises(ValueError, match="use threads=1"):
            other.observe("contact_f")
        seen = [each.observe("body_qdd").body_qdd for each in (sim, other)]
        for each in (sim, other):
            each.step(3)
        assert np.abs(seen[0].numpy()).max() > 1.0
        np.testing.assert_array_equal(seen[1].numpy(), seen[0].numpy())


def test_rays_meet_what_geometry_says(sim):
    """A ball, the ground and nothing, from a frame that is carried by a body or not."""
    rays = sim.ray_sensor([0.0, -2.0, 0.31], [[0.0, 3.0, 0.0], [0.0, 1.0, -0.5], [0.0, -1.0, 0.0]], max_distance=30.0)
    expected = [2.0 - 0.3, np.hypot(0.31, 0.62), 30.0]
    np.testing.assert_allclose(rays.update().numpy(), [expected] * 2, rtol=1e-4)
    np.testing.assert_allclose(rays.point.numpy()[0, 1], [0.0, -2.0 + 0.62, 0.0], atol=1e-4)
    carried = sim.ray_sensor([0.0, 0.0, 0.0], [0.0, 0.0, -1.0], body="ball", ignore="ball")
    sim.reset(joint_q=np.array([1.0, 0.0, 2.5, 0.0, 0.0, 0.0, 1.0, *[0.0] * 5]), world_mask=[False, True])
    np.testing.assert_allclose(carried.update().numpy()[:, 0], [0.31, 2.5], rtol=1e-4)


def test_height_scan_turns_with_the_heading_only(sim):
    """A tilted and turned body sees a grid around its own place, and the ground below it, not itself."""
    half = np.pi / 4.0
    turned = wp.quat_rpy(0.3, 0.0, 2.0 * half)
    sim.reset(joint_q=np.array([3.0, 1.0, 2.0, *turned, *[0.0] * 5]))
    scan = sim.height_scan("ball", size=(0.4, 0.2), spacing=0.2)
    scan.update()
    points = scan.point.numpy()[0]
    assert len(points) == 3 * 2
    np.testing.assert_allclose(points[:, 2], 0.0, atol=1e-4)
    np.testing.assert_allclose(points[0, :2], [3.0 + 0.1, 1.0 - 0.2], atol=1e-3)


def test_wrong_requests_are_explained(sim):
    """Each with what would be right."""
    for call, words in (
        (lambda: sim.observe("temperature"), "there is: body_qdd, contact_f, body_parent_f"),
        (lambda: sim.contact_pairs("ball", kind="joint"), "must be 'body' or 'shape'"),
        (lambda: sim.ray_sensor([0, 0, 0], [0, 0, 0]), "no direction zero"),
        (lambda: sim.ray_sensor([0, 0], [0, 0, 1]), "three numbers"),
        (lambda: sim.ray_sensor([0, 0, 0], [0, 0, 1], turn="pitch"), "there is: body, yaw, world"),
        (lambda: sim.ray_sensor([0, 0, 0], [0, 0, 1], max_distance=0.0), "positive and finite"),
        (lambda: sim.ray_sensor([0, 0, 0], [0, 0, 1], body="*"), "name one"),
        (lambda: sim.height_scan("ball", spacing=0.0), "positive"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(KeyError, match="did you mean 'ball'"):
        sim.contact_pairs("bal")
