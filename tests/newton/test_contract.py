"""SolverSAP as Newton's solver interface defines one: notifications, observables, sensors, schedules, up axis."""

import math

import mujoco
import newton
import numpy as np
import pytest
import warp as wp
from newton.actuators import ClampingMaxEffort, DrivePD
from newton.sensors import SensorContact, SensorFrameTransform, SensorIMU

from sap_warp import SolverSAP
from tests.support.scenes import G, Stepper, add_box, box_inertia, box_on_ground, builder, material, one_joint

DT = 0.002
FLAGS = newton.ModelFlags
SLOT, WHEN = SolverSAP.CollisionSlot, SolverSAP.CollisionFrequencyType


# --- notify_model_changed ---------------------------------------------------------------------------------------------


def assign(array, value, index=...):
    values = array.numpy()
    values[index] = value
    array.assign(values)


def replace(model, name, value):
    """Put a new array in the place of an old one: whatever still holds the old one uses stale data."""
    old = getattr(model, name)
    setattr(model, name, wp.array(np.full_like(old.numpy(), value), dtype=old.dtype, device=old.device))


def velocity_after(sim, steps=1):
    sim.set(np.zeros(sim.model.joint_coord_count), np.zeros(sim.model.joint_dof_count))
    sim.step(steps)
    return sim.qd[0]


def slider(**dof):
    """A mass of 2 kg on a vertical slider."""
    return Stepper(one_joint(mass=2.0, **dof), DT, line_search_variant="exact_root")


def change_gravity(model):
    assign(model.gravity, (0.0, 0.0, -1.0))


def change_mass(model):
    assign(model.body_mass, 1.0)


def change_axis(model):
    assign(model.joint_axis, (1.0, 0.0, 0.0))


def change_armature(model):
    assign(model.joint_armature, 2.0)


def change_damping(model):
    assign(model.joint_damping, 2.0 / DT)


def change_gain(model):
    assign(model.joint_target_kd, 2.0 / DT)


def change_effort_limit(model):
    assign(model.joint_effort_limit, 10.0)


def change_friction(model):
    assign(model.joint_friction, 10.0)


def change_target_mode(model):
    assign(model.joint_target_mode, int(newton.JointTargetMode.NONE))


def change_limit(model):
    assign(model.joint_limit_lower, 0.0)


def change_velocity_limit(model):
    assign(model.joint_velocity_limit, 1e-3)


def replace_armature(model):
    replace(model, "joint_armature", 2.0)


def replace_gain(model):
    replace(model, "joint_target_kd", 2.0 / DT)


def replace_force(model):
    replace(model, "joint_f", 10.0)


FALL = -G * DT
DRIVE = {"target_kd": 1e-9, "actuator_mode": newton.JointTargetMode.VELOCITY}
CHANGES = [
    (change_gravity, FLAGS.MODEL_PROPERTIES, {}, -1.0 * DT),
    (change_mass, FLAGS.BODY_INERTIAL_PROPERTIES, {"armature": 1.0}, FALL / 2.0),
    (change_axis, FLAGS.JOINT_PROPERTIES, {}, 0.0),
    (change_armature, FLAGS.JOINT_DOF_INERTIAL_PROPERTIES, {}, FALL / 2.0),
    (change_armature, FLAGS.JOINT_DOF_PROPERTIES, {}, FALL / 2.0),
    (change_damping, FLAGS.JOINT_DOF_FORCE_PROPERTIES, {}, FALL / 2.0),
    (change_gain, FLAGS.JOINT_DOF_FORCE_PROPERTIES, DRIVE, FALL / 2.0),
    (change_friction, FLAGS.JOINT_DOF_FORCE_PROPERTIES, {}, FALL + 5.0 * DT),
    (change_limit, FLAGS.JOINT_DOF_FORCE_PROPERTIES, {"limit_ke": 1e9}, 0.0),
    (change_velocity_limit, FLAGS.JOINT_DOF_FORCE_PROPERTIES, {}, -1e-3),
    (replace_armature, FLAGS.JOINT_DOF_INERTIAL_PROPERTIES, {}, FALL / 2.0),
    (replace_gain, FLAGS.ACTUATOR_PROPERTIES, DRIVE, FALL / 2.0),
    (replace_force, FLAGS.ALL, {}, FALL + 5.0 * DT),
]


@pytest.mark.parametrize(
    ("change", "flag", "dof", "expected"), CHANGES, ids=[f"{c.__name__}-{f.name}" for c, f, _, _ in CHANGES]
)
def test_a_change_acts_at_the_next_step(change, flag, dof, expected):
    """A slider falls one step; after a change and its notification, the same step gives the new velocity."""
    sim = slider(**dof)
    sim.control = None
    before = velocity_after(sim)
    assert before == pytest.approx(FALL * (2.0 / 3.0 if dof.get("armature") else 1.0), rel=1e-4)
    change(sim.model)
    sim.solver.notify_model_changed(flag)
    assert velocity_after(sim) == pytest.approx(expected, rel=2e-3, abs=2e-5)


def test_effort_limit_and_mode_act_at_the_next_step():
    """A strong drive that holds the slider is limited to 10 N, then switched off."""
    sim = slider(target_kd=1e5, actuator_mode=newton.JointTargetMode.VELOCITY)
    sim.control = None
    assert abs(velocity_after(sim)) < 0.02 * abs(FALL)
    change_effort_limit(sim.model)
    sim.solver.notify_model_changed(FLAGS.JOINT_DOF_FORCE_PROPERTIES)
    assert velocity_after(sim) == pytest.approx(FALL + 5.0 * DT, rel=1e-4)
    change_target_mode(sim.model)
    sim.solver.notify_model_changed(FLAGS.JOINT_DOF_FORCE_PROPERTIES)
    assert velocity_after(sim) == pytest.approx(FALL, rel=1e-4)


def test_centre_of_mass_and_joint_frames_act_at_the_next_step():
    """A pendulum at rest below its pivot starts to fall when its centre of mass or its joint frame moves."""
    sim = Stepper(one_joint("revolute", com=(0.0, 0.0, -0.5)), DT)
    assert velocity_after(sim) == pytest.approx(0.0, abs=1e-9)
    assign(sim.model.body_com, (0.5, 0.0, 0.0))
    sim.solver.notify_model_changed(FLAGS.BODY_INERTIAL_PROPERTIES)
    torque, inertia = 2.0 * G * 0.5, 0.5 + 2.0 * 0.25
    assert velocity_after(sim) == pytest.approx(torque / inertia * DT, rel=1e-4)
    assign(sim.model.joint_X_p, (0.0, 0.0, 0.0, 0.0, math.sin(math.pi / 4), 0.0, math.cos(math.pi / 4)))
    sim.solver.notify_model_changed(FLAGS.JOINT_PROPERTIES)
    assert velocity_after(sim) == pytest.approx(0.0, abs=1e-6)


def test_shape_materials_act_at_the_next_step():
    """A sliding box is not slowed down once its friction is gone."""
    sim = Stepper(box_on_ground(gap=0.01), DT)
    sim.step(200)

    def slowed():
        sim.set(qd=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        sim.step(3)
        return 1.0 - sim.qd[0]

    assert slowed() > 0.01
    assign(sim.model.shape_material_mu, 0.0)
    sim.solver.notify_model_changed(FLAGS.SHAPE_PROPERTIES)
    assert slowed() == pytest.approx(0.0, abs=1e-6)


def test_a_new_rest_length_acts_at_the_next_step():
    """The reference of a passive spring is read afresh."""
    model = spring_from_mjcf()
    sim = Stepper(model, DT)
    sim.step()
    before = sim.qd[0]
    assign(model.mujoco.dof_springref, 1.0)
    sim.solver.notify_model_changed(FLAGS.JOINT_REFERENCE_POSE_PROPERTIES)
    sim.set(np.zeros(1), np.zeros(1))
    sim.step()
    assert sim.qd[0] > before + 0.01


def test_an_initial_state_changed_in_the_model_is_what_a_reset_gives():
    """A reset reads joint_q and body_q of the model as they are now."""
    sim = slider()
    assign(sim.model.joint_q, 0.3)
    sim.solver.notify_model_changed(FLAGS.JOINT_PROPERTIES | FLAGS.BODY_PROPERTIES)
    sim.step(3)
    sim.solver.reset(sim.state)
    assert sim.q[0] == pytest.approx(0.3)


def test_flags_without_a_meaning_here_are_harmless():
    """Tendon properties and custom bits change nothing."""
    sim = slider()
    sim.solver.notify_model_changed(FLAGS.TENDON_PROPERTIES | (1 << 20))
    assert velocity_after(sim) == pytest.approx(FALL, rel=1e-5)


# --- observables and sensors ------------------------------------------------------------------------------------------


def box_with_site():
    b = builder()
    b.add_ground_plane(cfg=material())
    body = add_box(b, (0.0, 0.0, 0.1), mass=2.0)
    b.body_label[body] = "crate"
    b.add_site(body, xform=wp.transform((0.0, 0.0, 0.05)), label="imu")
    b.add_site(-1, xform=wp.transform((1.0, 0.0, 0.0)), label="base")
    return b.finalize(device="cpu")


def test_contact_sensor_weighs_a_box():
    """Newton's contact sensor reads the weight of a resting box from our observables."""
    model = box_with_site()
    sensor = SensorContact(model, sensing_bodies="crate", request_contact_attributes=False)
    sim = Stepper(model, DT)
    seen = sim.solver.observables(sensor.solver_observable_kinds, contacts=sim.contacts)
    for _ in range(200):
        sim.pipeline.collide(sim.state, sim.contacts)
        sim.solver.step(sim.state, sim.state, None, sim.contacts, DT, observables=seen)
    sensor.update(sim.state, sim.contacts, observables=seen)
    np.testing.assert_allclose(sensor.total_force.numpy()[0], [0.0, 0.0, 2.0 * G], atol=1e-2)


def test_imu_feels_weight_at_rest_and_nothing_in_free_fall():
    """The accelerometer reads g on the ground and zero while falling; the gyroscope the spin."""
    model = box_with_site()
    imu = SensorIMU(model, sites="imu", request_state_attributes=False)
    sim = Stepper(model, DT)
    seen = sim.solver.observables(imu.solver_observable_kinds)
    sim.step(200)
    sim.pipeline.collide(sim.state, sim.contacts)
    sim.solver.step(sim.state, sim.state, None, sim.contacts, DT, observables=seen)
    imu.update(sim.state, observables=seen)
    np.testing.assert_allclose(imu.accelerometer.numpy()[0], [0.0, 0.0, G], atol=1e-2)
    sim.set([0, 0, 5, 0, 0, 0, 1], [0, 0, 0, 0, 0, 3.0])
    newton.eval_fk(model, sim.state.joint_q, sim.state.joint_qd, sim.state)
    sim.solver.step(sim.state, sim.state, None, None, DT, observables=seen)
    imu.update(sim.state, observables=seen)
    np.testing.assert_allclose(imu.accelerometer.numpy()[0], 0.0, atol=1e-3)
    np.testing.assert_allclose(imu.gyroscope.numpy()[0], [0.0, 0.0, 3.0], atol=1e-5)


def test_accelerations_are_written_into_states_that_have_them():
    """The older way to ask, State.body_qdd, works too, for states stepped in place or not."""
    model = box_with_site()
    with pytest.warns(DeprecationWarning, match="request_state_attributes"):
        model.request_state_attributes("body_qdd")
    solver = SolverSAP(model)
    first, second = model.state(), model.state()
    solver.step(first, second, None, None, DT)
    np.testing.assert_allclose(second.body_qdd.numpy()[0], [0, 0, -G, 0, 0, 0], rtol=1e-4, atol=1e-4)
    solver.step(second, second, None, None, DT)
    np.testing.assert_allclose(second.body_qdd.numpy()[0], [0, 0, -G, 0, 0, 0], rtol=1e-4, atol=1e-4)


def test_frame_transform_sensor_reads_our_states():
    """Site poses follow body_q of a state that we stepped."""
    model = box_with_site()
    sensor = SensorFrameTransform(model, shapes="imu", reference_sites="base")
    sim = Stepper(model, DT)
    sim.set([0.5, 0.0, 2.0, 0, 0, 0, 1], [1.0, 0, 0, 0, 0, 0])
    sim.solver.step(sim.state, sim.state, None, None, DT)
    sensor.update(sim.state)
    x, z = sim.position[0, [0, 2]]
    np.testing.assert_allclose(sensor.transforms.numpy()[0, :3], [x - 1.0, 0.0, z + 0.05], atol=1e-6)


def test_unsupported_observables_are_refused():
    """What is not offered is named."""
    with pytest.raises(ValueError, match="body_temperature"):
        SolverSAP(box_with_site()).observables({"body_temperature"})


# --- the solver's own collision pipeline ------------------------------------------------------------------------------


def test_an_owned_pipeline_finds_the_contacts_itself():
    """With a pipeline of its own the solver holds a box on the ground without being given contacts."""
    model = box_on_ground()
    pipeline = newton.CollisionPipeline(model)
    solver = SolverSAP(model, collision_pipeline=pipeline)
    state = model.state()
    for _ in range(100):
        solver.step(state, state, None, None, DT)
    assert state.body_q.numpy()[0, 2] == pytest.approx(0.1, abs=1e-3)
    assert solver.last_contact_count == 4
    with pytest.raises(ValueError, match="must be None"):
        solver.step(state, state, None, pipeline.contacts(), DT)
    # without detection the last contacts stay; cleared ones hold nothing
    solver.set_collision_frequency(collision_frequency_type={SLOT.RIGID: WHEN.NONE})
    solver.contacts.clear()
    for _ in range(50):
        solver.step(state, state, None, None, DT)
    assert state.body_q.numpy()[0, 2] < 0.08


@pytest.mark.parametrize(
    ("slot", "kind"),
    [
        (SLOT.RIGID, WHEN.ITERATIONS),
        (SLOT.RIGID, WHEN.PRE_POST_INIT),
        (SLOT.SOFT_SELF_CONTACT, WHEN.PRE_INIT),
    ],
)
def test_schedules_that_cannot_act_are_refused(slot, kind):
    """One convex problem per step: detection in the middle of it has no place."""
    model = box_on_ground()
    with pytest.raises(ValueError, match=kind.name):
        SolverSAP(model, collision_pipeline=newton.CollisionPipeline(model), collision_frequency_type={slot: kind})


def test_an_active_schedule_needs_a_pipeline():
    """As in Newton's own solvers."""
    with pytest.raises(ValueError, match="solver-owned pipeline"):
        SolverSAP(box_on_ground(), collision_frequency_type={SLOT.RIGID: WHEN.PRE_INIT})


# --- actuation --------------------------------------------------------------------------------------------------------


def test_newton_actuators_drive_our_joints():
    """A PD actuator with a clamp settles where its spring carries the weight, and pushes no harder than allowed."""
    b = builder()
    body = b.add_link(mass=2.0, inertia=box_inertia(2.0, 0.1), lock_inertia=True)
    b.add_articulation([b.add_joint_prismatic(-1, body, axis=newton.Axis.Z)])
    b.add_actuator(DrivePD, index=0, kp=400.0, kd=60.0, clamping=[(ClampingMaxEffort, {"max_effort": 50.0})])
    model = b.finalize(device="cpu")
    solver, state, control = SolverSAP(model), model.state(), model.control()
    control.joint_target_q.assign([0.5])
    largest = 0.0
    for _ in range(1500):
        control.joint_f.zero_()
        for actuator in model.actuators:
            actuator.step(state, control, dt=DT)
        largest = max(largest, abs(control.joint_f.numpy()[0]))
        solver.step(state, state, control, None, DT)
    assert largest == pytest.approx(50.0)
    assert state.joint_q.numpy()[0] == pytest.approx(0.5 - 2.0 * G / 400.0, abs=1e-4)


def test_joint_act_is_a_feed_forward_under_the_effort_limit():
    """In EFFORT mode joint_act pushes, limited; joint_f pushes unlimited; mode NONE leaves joint_act to actuators."""
    sim = slider(actuator_mode=newton.JointTargetMode.EFFORT, effort_limit=8.0)
    sim.control.joint_act.assign([20.0])
    assert velocity_after(sim) == pytest.approx(FALL + 4.0 * DT, rel=1e-4)
    sim.control.joint_f.assign([20.0])
    assert velocity_after(sim) == pytest.approx(FALL + 14.0 * DT, rel=1e-4)
    change_target_mode(sim.model)
    assert velocity_after(sim) == pytest.approx(FALL + 10.0 * DT, rel=1e-4)


MOTORS = """<mujoco><option timestep="0.002" gravity="0 0 -9.81"/><worldbody>
  <body pos="0 0 1"><joint name="a" type="hinge" axis="0 1 0" ref="20"/>
    <geom type="box" size="0.05 0.05 0.2" pos="0 0 -0.2" mass="1" contype="0" conaffinity="0"/>
    <body pos="0 0 -0.4"><joint name="b" type="hinge" axis="0 1 0"/>
      <geom type="box" size="0.05 0.05 0.2" pos="0 0 -0.2" mass="1" contype="0" conaffinity="0"/></body></body>
  </worldbody><actuator>
  <motor name="torque" joint="a" gear="3" ctrlrange="-1 1" ctrllimited="true"/>
  <general name="servo" joint="b" gainprm="5" biastype="affine" biasprm="0.3 -5 -0.2" gear="1.5" forcerange="-2 2"/>
</actuator></mujoco>"""


def test_mujoco_actuators_move_like_in_mujoco():
    """A motor with a gear and a control range, and a servo with a force range, both through control.mujoco.ctrl."""
    b = newton.ModelBuilder()
    b.add_mjcf(MOTORS)
    model = b.finalize(device="cpu")
    solver, state, control = SolverSAP(model, contact_preset_variant="drake"), model.state(), model.control()
    reference = mujoco.MjModel.from_xml_string(MOTORS)
    data = mujoco.MjData(reference)
    inputs = np.array([4.0, 0.7])  # the first is beyond its range
    data.ctrl[:] = inputs
    control.mujoco.ctrl.assign(inputs)
    track, other = [], []
    for _ in range(250):
        mujoco.mj_step(reference, data)
        solver.step(state, state, control, None, DT)
        track.append(state.joint_q.numpy().copy())
        other.append(data.qpos - [np.deg2rad(20.0), 0.0])
    assert np.ptp(other, axis=0).min() > 0.3
    np.testing.assert_allclose(track, other, atol=0.02 * np.ptp(other))
    # the inputs of a step without a control are the model's own
    model.mujoco.ctrl.assign(inputs)
    quiet, driven = model.state(), model.state()
    solver.step(quiet, quiet, None, None, DT)
    solver.step(driven, driven, control, None, DT)
    np.testing.assert_array_equal(quiet.joint_qd.numpy(), driven.joint_qd.numpy())
    # a gear changed at run time acts after notification
    assign(model.mujoco.actuator_gear, 0.0)
    solver.notify_model_changed(FLAGS.ACTUATOR_PROPERTIES)
    idle, free = model.state(), model.state()
    solver.step(idle, idle, control, None, DT)
    assign(model.mujoco.ctrl, 0.0)
    solver.step(free, free, None, None, DT)
    np.testing.assert_array_equal(idle.joint_qd.numpy(), free.joint_qd.numpy())


def test_mujoco_actuators_of_every_world_find_their_joint():
    """Worlds copied by replicate or built in place: the input of one world moves that world alone."""
    single = newton.ModelBuilder()
    single.add_mjcf(MOTORS)
    copied = newton.ModelBuilder()
    copied.replicate(single, 3)
    in_place = newton.ModelBuilder()
    for _ in range(3):
        in_place.begin_world()
        in_place.add_mjcf(MOTORS)
        in_place.end_world()
    for b in (copied, in_place):
        model = b.finalize(device="cpu")
        solver, state, control = SolverSAP(model), model.state(), model.control()
        control.mujoco.ctrl.assign([0.0, 0.0, 0.0, 0.0, 0.5, 0.0])
        solver.step(state, state, control, None, DT)
        qd = state.joint_qd.numpy().reshape(3, 2)
        np.testing.assert_array_equal(qd[0], qd[1])
        assert abs(qd[2, 0] - qd[0, 0]) > 1e-3


def test_an_actuator_whose_joint_cannot_be_told_is_refused():
    """Behind a smaller world, Newton's index of a copied actuator has two readings."""
    single = newton.ModelBuilder()
    single.add_mjcf(MOTORS)
    b = newton.ModelBuilder()
    b.add_world(spring_builder())
    b.add_world(single)
    model = b.finalize(device="cpu")
    model.mujoco.actuator_trnid.assign(np.array([[1, 0], [1, 0]], np.int32))
    with pytest.raises(ValueError, match="cannot be told"):
        SolverSAP(model)


SPRING = """<mujoco><option timestep="{dt}" gravity="0 0 -9.81"/><worldbody><body pos="0 0 1">
  <joint name="s" type="slide" axis="0 0 1" stiffness="{k}" springref="{rest}" ref="{ref}" damping="{damping}"/>
  <geom type="box" size="0.1 0.1 0.1" mass="2" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


def spring_builder(k=80.0, rest=0.1, ref=0.0, damping=1.0):
    b = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(b)
    b.add_mjcf(SPRING.format(dt=DT, k=k, rest=rest, ref=ref, damping=damping))
    return b


def spring_from_mjcf(**values):
    return spring_builder(**values).finalize(device="cpu")


@pytest.mark.parametrize("ref", [0.0, 0.3])
def test_passive_springs_move_like_in_mujoco(ref):
    """A damped mass on a spring with rest length and reference follows MuJoCo's."""
    model = spring_from_mjcf(ref=ref)
    sim = Stepper(model, DT, precision="fp64", preset="drake")
    reference = mujoco.MjModel.from_xml_string(SPRING.format(dt=DT, k=80.0, rest=0.1, ref=ref, damping=1.0))
    data = mujoco.MjData(reference)
    track, other = [], []
    for _ in range(400):
        sim.step()
        mujoco.mj_step(reference, data)
        track.append(sim.q[0])
        other.append(data.qpos[0] - ref)
    assert np.ptp(other) > 0.2
    np.testing.assert_allclose(track, other, atol=0.015 * np.ptp(other))


def test_a_spring_stiffer_than_the_step_stays_stable():
    """Implicit springs rest where force and weight balance, however stiff they are."""
    sim = Stepper(spring_from_mjcf(k=1e9, rest=0.0), 0.01).step(50)
    assert abs(sim.q[0]) < 1e-6 and abs(sim.qd[0]) < 1e-5


# --- surfaces and axes ------------------------------------------------------------------------------------------------


def test_a_moving_mesh_surface_carries_a_box():
    """Newton's surface velocity of a mesh moves what lies on it; the mesh itself stays."""
    vertices = np.array([[-2, -2, 0], [2, -2, 0], [2, 2, 0], [-2, 2, 0]], np.float32)
    mesh = newton.Mesh(vertices, [0, 1, 2, 0, 2, 3], compute_inertia=False, enable_surface_velocity=True)
    b = builder()
    b.add_shape_mesh(-1, mesh=mesh, cfg=material(gap=0.01))
    add_box(b, (0.8, -0.8, 0.1), cfg=material(gap=0.01))  # Newton's narrow phase trips over inner edges
    model = b.finalize(device="cpu")
    velocity = np.array([0.3, -0.1, 5.0])
    mesh.mesh.velocities.fill_(wp.vec3(*velocity))  # the part along the normal must not matter
    sim = Stepper(model, DT)
    sim.step(300)
    np.testing.assert_allclose(sim.qd[:3], [*velocity[:2], 0.0], atol=2e-3)


@pytest.mark.parametrize("up", [newton.Axis.X, newton.Axis.Y, newton.Axis.Z])
def test_a_box_rests_on_the_ground_whichever_axis_is_up(up):
    """Gravity, ground plane and contact agree for every up axis."""
    b = newton.ModelBuilder(up_axis=up)
    direction = np.array(up.to_vector())
    b.rigid_gap = 0.002
    b.default_shape_cfg.ke = 1e6
    b.add_ground_plane()
    body = b.add_body(xform=wp.transform(wp.vec3(*(0.12 * direction))))
    b.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    sim = Stepper(b.finalize(device="cpu"), DT).step(400)
    np.testing.assert_allclose(sim.position[0], 0.1 * direction, atol=2e-3)
    assert np.abs(sim.qd).max() < 1e-3
