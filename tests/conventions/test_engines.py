"""The conventions table against the engines themselves: what they do, measured, versus what we convert.

Each test builds a body with an offset centre of mass, so a wrong reference point cannot pass unnoticed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sap_warp import conventions
from sap_warp.conventions import convert_pose, convert_quaternion, convert_shape, convert_twist, convert_wrench
from tests.support.oracle.kinematics import matrix_from_quat

COM = np.array([0.13, -0.21, 0.34])
MASS = 1.7
INERTIA = np.array([0.11, 0.23, 0.19])  # principal, about the centre of mass, along body axes
POSITION = np.array([0.7, -1.1, 2.3])
ROTATION = np.array([0.2, -0.5, 0.1, 0.8]) / np.linalg.norm([0.2, -0.5, 0.1, 0.8])  # xyzw
POSE = np.concatenate([POSITION, ROTATION])
TWIST = np.array([0.4, -0.9, 1.3, 2.1, -0.7, 1.6])  # public: velocity of the centre of mass, angular velocity
WRENCH = np.array([3.0, -5.0, 2.0, 0.7, 1.9, -1.1])  # public: force, moment about the centre of mass

SHAPES = {
    "box": {"hx": 0.3, "hy": 0.5, "hz": 0.7},
    "sphere": {"radius": 0.4},
    "ellipsoid": {"rx": 0.3, "ry": 0.5, "rz": 0.7},
    "capsule": {"radius": 0.3, "half_height": 0.8},
    "cylinder": {"radius": 0.3, "half_height": 0.8},
    "cone": {"radius": 0.3, "half_height": 0.8},
}


def angular_velocity(rotation_before: np.ndarray, rotation_after: np.ndarray, dt: float) -> np.ndarray:
    """Mean angular velocity in world axes between two rotation matrices, exact for a constant one."""
    relative = rotation_after @ rotation_before.T
    vector = 0.5 * np.array(
        [relative[2, 1] - relative[1, 2], relative[0, 2] - relative[2, 0], relative[1, 0] - relative[0, 1]]
    )
    sine = np.linalg.norm(vector)
    return vector / sine * math.atan2(sine, 0.5 * (np.trace(relative) - 1.0)) / dt


# --- MuJoCo ----------------------------------------------------------------------------------------------------


@pytest.fixture
def mujoco_body():
    """A free body with offset centre of mass in MuJoCo, at POSE with qvel converted from TWIST, no gravity."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(f"""
        <mujoco><option gravity="0 0 0"/><worldbody><body><freejoint/>
          <inertial pos="{" ".join(map(str, COM))}" mass="{MASS}" diaginertia="{" ".join(map(str, INERTIA))}"/>
        </body></worldbody></mujoco>""")
    data = mujoco.MjData(model)
    data.qpos[:] = convert_pose(POSE, "public", "mujoco")
    data.qvel[:] = convert_twist(TWIST, "public", "mujoco", pose=POSE, com=COM)
    mujoco.mj_forward(model, data)
    return mujoco, model, data


def mujoco_motion(mujoco, model, data, h: float = 1e-5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Velocity of origin, of centre of mass, and angular velocity: central differences of MuJoCo's kinematics."""
    states = []
    for step in (-h, h):
        moved = mujoco.MjData(model)
        moved.qpos[:] = data.qpos
        mujoco.mj_integratePos(model, moved.qpos, data.qvel, step)
        mujoco.mj_kinematics(model, moved)
        states.append((moved.xpos[1].copy(), moved.xipos[1].copy(), moved.xmat[1].reshape(3, 3).copy()))
    (p0, c0, r0), (p1, c1, r1) = states
    return (p1 - p0) / (2 * h), (c1 - c0) / (2 * h), angular_velocity(r0, r1, 2 * h)


def test_mujoco_free_joint_moves_as_converted(mujoco_body):
    """A qvel converted from a public twist moves the centre of mass and turns the body as the twist says."""
    v_origin, v_com, omega = mujoco_motion(*mujoco_body)
    # Central differences with h = 1e-5: truncation about h^2 w^2 v = 1e-9, round-off about 1e-16 / h = 1e-11.
    np.testing.assert_allclose(np.concatenate([v_com, omega]), TWIST, atol=1e-8)
    drake = convert_twist(TWIST, "public", "drake", pose=POSE, com=COM)
    np.testing.assert_allclose(np.concatenate([omega, v_origin]), drake, atol=1e-8)
    assert np.linalg.norm(v_com - v_origin) > 0.1, "the test body must tell the two points apart"


def test_mujoco_qvel_converts_to_the_measured_public_twist(mujoco_body):
    """Any qvel converts to the velocity of the centre of mass and the angular velocity that MuJoCo produces."""
    mujoco, model, data = mujoco_body
    data.qvel[:] = np.random.default_rng(1).normal(size=6)
    _, v_com, omega = mujoco_motion(mujoco, model, data)
    public = convert_twist(data.qvel, "mujoco", "public", pose=POSE, com=model.body_ipos[1])
    np.testing.assert_allclose(public, np.concatenate([v_com, omega]), atol=1e-8)


def test_mujoco_object_velocity_agrees(mujoco_body):
    """mj_objectVelocity reports the origin velocity in world axes, angular part first, as our sap order has it."""
    mujoco, model, data = mujoco_body
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, 1, velocity, 0)
    np.testing.assert_allclose(convert_twist(data.qvel, "mujoco", "sap", pose=POSE), velocity, atol=1e-13)


def test_mujoco_qfrc_is_the_converted_wrench(mujoco_body):
    """mj_applyFT at the centre of mass produces the generalized force we convert to."""
    mujoco, model, data = mujoco_body
    qfrc = np.zeros(6)
    mujoco.mj_applyFT(model, data, WRENCH[:3], WRENCH[3:], data.xipos[1], 1, qfrc)
    np.testing.assert_allclose(convert_wrench(WRENCH, "public", "mujoco", pose=POSE, com=COM), qfrc, atol=1e-13)


def test_mujoco_xfrc_and_qfrc_accelerate_alike(mujoco_body):
    """A wrench written to xfrc_applied and its conversion written to qfrc_applied give one acceleration."""
    mujoco, model, data = mujoco_body
    data.xfrc_applied[1] = convert_wrench(WRENCH, "public", "mujoco_xfrc")
    mujoco.mj_forward(model, data)
    by_xfrc = data.qacc.copy()
    data.qfrc_applied[:] = convert_wrench(data.xfrc_applied[1], "mujoco_xfrc", "mujoco", pose=POSE, com=COM)
    data.xfrc_applied[:] = 0.0
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.qacc, by_xfrc, rtol=1e-12)
    assert np.linalg.norm(by_xfrc) > 1.0


# --- Drake -----------------------------------------------------------------------------------------------------


@pytest.fixture
def drake_body():
    """The same free body in Drake, at POSE with the converted velocity, no gravity."""
    pytest.importorskip("pydrake")
    from pydrake.math import RigidTransform
    from pydrake.multibody.math import SpatialVelocity
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import RotationalInertia, SpatialInertia

    plant = MultibodyPlant(time_step=0.0)
    about_com = RotationalInertia(*INERTIA)
    inertia = SpatialInertia.MakeFromCentralInertia(MASS, COM, about_com)
    body = plant.AddRigidBody("body", inertia)
    plant.mutable_gravity_field().set_gravity_vector(np.zeros(3))
    plant.Finalize()
    context = plant.CreateDefaultContext()
    quaternion = convert_quaternion(ROTATION, "public", "drake")
    from pydrake.common.eigen_geometry import Quaternion

    plant.SetFreeBodyPose(context, body, RigidTransform(Quaternion(quaternion), POSITION))
    twist = convert_twist(TWIST, "public", "drake", pose=POSE, com=COM)
    plant.SetFreeBodySpatialVelocity(context, body, SpatialVelocity(w=twist[:3], v=twist[3:]))
    return plant, body, context


def test_drake_velocity_is_as_converted(drake_body):
    """Drake sees the centre of mass and the angular velocity of the public twist; v of the joint is V_WB_W."""
    plant, body, context = drake_body
    v_com = body.CalcCenterOfMassTranslationalVelocityInWorld(context)
    spatial = body.EvalSpatialVelocityInWorld(context)
    np.testing.assert_allclose(np.concatenate([v_com, spatial.rotational()]), TWIST, atol=1e-14)
    np.testing.assert_allclose(plant.GetVelocities(context), spatial.get_coeffs(), atol=1e-14)
    public = convert_twist(plant.GetVelocities(context), "drake", "public", pose=POSE, com=COM)
    np.testing.assert_allclose(public, TWIST, atol=1e-14)


def test_drake_positions_are_quaternion_first_and_scalar_first(drake_body):
    """GetPositions of a floating body is the Drake pose layout."""
    plant, _, context = drake_body
    np.testing.assert_allclose(plant.GetPositions(context), convert_pose(POSE, "public", "drake"), atol=1e-15)
    np.testing.assert_allclose(convert_pose(plant.GetPositions(context), "drake", "public"), POSE, atol=1e-15)


def test_drake_wrench_is_dual(drake_body):
    """A force at the centre of mass and its conversion as generalized force give one acceleration in Drake."""
    from pydrake.common.value import Value
    from pydrake.multibody.math import SpatialForce
    from pydrake.multibody.plant import ExternallyAppliedSpatialForce

    plant, body, context = drake_body
    force = ExternallyAppliedSpatialForce()
    force.body_index = body.index()
    force.p_BoBq_B = COM
    force.F_Bq_W = SpatialForce(tau=WRENCH[3:], f=WRENCH[:3])
    port = plant.get_applied_spatial_force_input_port()
    port.FixValue(context, Value[list[ExternallyAppliedSpatialForce]]([force]))
    by_force = plant.EvalTimeDerivatives(context).get_generalized_velocity().CopyToVector()
    port.FixValue(context, Value[list[ExternallyAppliedSpatialForce]]([]))
    generalized = convert_wrench(WRENCH, "public", "drake", pose=POSE, com=COM)
    plant.get_applied_generalized_force_input_port().FixValue(context, generalized)
    by_generalized = plant.EvalTimeDerivatives(context).get_generalized_velocity().CopyToVector()
    np.testing.assert_allclose(by_generalized, by_force, rtol=1e-12, atol=1e-12)
    assert np.linalg.norm(by_force) > 1.0


# --- Newton ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def newton_body():
    """The same free body in Newton on the CPU, no gravity."""
    newton = pytest.importorskip("newton")
    wp = pytest.importorskip("warp")
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body(mass=MASS, com=wp.vec3(*COM), inertia=wp.mat33(np.diag(INERTIA)), xform=wp.transform(*POSE))
    return newton, wp, builder.finalize(device="cpu")


def newton_step(newton, model, state, dt: float):
    """One step of Newton's maximal-coordinate integrator, which reads body_q, body_qd and body_f only."""
    after = model.state()
    newton.solvers.SolverSemiImplicit(model, angular_damping=0.0).step(state, after, model.control(), None, dt)
    return after


def test_newton_free_joint_velocity_is_the_body_velocity(newton_body):
    """eval_fk takes joint_qd of a free joint and hands out the same numbers as body_qd: both are public."""
    newton, wp, model = newton_body
    state = model.state()
    joint_qd = wp.array(TWIST, dtype=wp.float32, device="cpu")
    newton.eval_fk(model, model.joint_q, joint_qd, state)
    np.testing.assert_allclose(state.body_qd.numpy()[0], TWIST, rtol=1e-6)  # fp32
    np.testing.assert_allclose(state.body_q.numpy()[0], POSE, rtol=1e-6)


def test_a_turned_parent_frame_turns_joint_velocities_and_not_joint_forces():
    """Under a turned frame joint_qd of a free joint is in that frame's axes, for Newton and for us; joint_f is not."""
    newton, wp = pytest.importorskip("newton"), pytest.importorskip("warp")
    from sap_warp import SolverSAP

    builder = newton.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    body = builder.add_link(mass=MASS, com=wp.vec3(*COM), inertia=wp.mat33(np.diag(INERTIA)))
    turn = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, 0.5)), 1.1)
    builder.add_articulation([builder.add_joint_free(body, parent_xform=wp.transform((0.3, 0.0, 0.1), turn))])
    model = builder.finalize(device="cpu")
    R = np.kron(np.eye(2), matrix_from_quat(np.array(turn)))
    state, after = model.state(), model.state()
    state.joint_qd.assign(TWIST)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    np.testing.assert_allclose(state.body_qd.numpy()[0], R @ TWIST, rtol=1e-5, atol=1e-6)
    SolverSAP(model, contact_preset_variant="approx64").step(state, after, None, None, 1e-6)
    np.testing.assert_allclose(after.body_qd.numpy()[0], R @ TWIST, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(after.joint_qd.numpy(), TWIST, rtol=1e-3, atol=1e-3)
    control = model.control()
    control.joint_f.assign([0.0, 0.0, 1e3 * MASS, 0.0, 0.0, 0.0])
    SolverSAP(model, contact_preset_variant="approx64").step(model.state(), after, control, None, 1e-3)
    np.testing.assert_allclose(after.body_qd.numpy()[0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0], atol=1e-4)


def test_newton_body_moves_as_its_body_qd_says(newton_body):
    """body_qd is the velocity of the centre of mass and the world angular velocity of the motion Newton makes."""
    newton, _, model = newton_body
    state, dt = model.state(), 1e-2
    state.body_q.assign(POSE[None])
    state.body_qd.assign(TWIST[None])
    after = newton_step(newton, model, state, dt)
    q0, q1 = POSE, after.body_q.numpy()[0].astype(float)
    r0, r1 = matrix_from_quat(q0[3:]), matrix_from_quat(q1[3:])
    v_com = ((q1[:3] + r1 @ COM) - (q0[:3] + r0 @ COM)) / dt
    # Positions are fp32 (1e-7 of 2.3 m over 0.01 s); gyroscopic terms change the angular velocity by order dt.
    np.testing.assert_allclose(v_com, TWIST[:3], atol=2e-4)
    np.testing.assert_allclose(angular_velocity(r0, r1, dt), after.body_qd.numpy()[0][3:], atol=5e-3)
    np.testing.assert_allclose(after.body_qd.numpy()[0][3:], TWIST[3:], atol=5e-2)
    assert np.linalg.norm(q1[:3] - q0[:3] - dt * v_com) / dt > 0.1, "origin and centre of mass must differ"


def test_newton_body_force_acts_at_the_centre_of_mass(newton_body):
    """A sap wrench converted to body_f accelerates a body at rest by f / m and I^-1 tau about the centre of mass."""
    newton, _, model = newton_body
    sap = convert_wrench(WRENCH, "public", "sap", pose=POSE, com=COM)
    state, dt = model.state(), 1e-3
    state.body_q.assign(POSE[None])
    state.body_qd.zero_()
    state.body_f.assign(convert_wrench(sap, "sap", "public", pose=POSE, com=COM)[None])
    after = newton_step(newton, model, state, dt)
    r = matrix_from_quat(ROTATION)
    alpha = r @ np.diag(1.0 / INERTIA) @ r.T @ WRENCH[3:]
    np.testing.assert_allclose(after.body_qd.numpy()[0] / dt, [*(WRENCH[:3] / MASS), *alpha], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("source", "XYZ")
@pytest.mark.parametrize("target", "XYZ")
def test_up_axis_rotation_is_newtons(source, target):
    """Newton's rotation between axes is the one we use, also for its Axis enum."""
    newton = pytest.importorskip("newton")
    expected = np.array(newton.math.quat_between_axes(newton.Axis[source], newton.Axis[target]))
    ours = conventions.up_axis_rotation(newton.Axis[source], newton.Axis[target])
    np.testing.assert_allclose(ours, expected, atol=1e-7)


@pytest.mark.parametrize("axis", "XYZ")
def test_gravity_follows_newtons_up_axis(axis):
    """Gravity of a Z-up world converted to another up axis is gravity of Newton's builder with that axis."""
    newton = pytest.importorskip("newton")
    expected = np.array(newton.ModelBuilder(up_axis=newton.Axis[axis]).gravity)
    np.testing.assert_allclose(conventions.convert_up_axis([0.0, 0.0, -9.81], "Z", axis), expected, atol=1e-6)


# --- USD -------------------------------------------------------------------------------------------------------


@pytest.fixture
def usd():
    """The pxr package."""
    pytest.importorskip("pxr")
    import pxr.Gf
    import pxr.Usd
    import pxr.UsdGeom
    import pxr.UsdPhysics
    import pxr.Vt

    return pxr


def test_usd_quaternions_store_the_imaginary_part_first(usd):
    """GfQuat is constructed real part first and stored real part last."""
    q = usd.Gf.Quatf(0.8, 0.2, -0.5, 0.1)
    stored = np.array(usd.Vt.QuatfArray([q]))[0]
    np.testing.assert_allclose(convert_quaternion(stored, "usd", "mujoco"), [q.GetReal(), *q.GetImaginary()])
    np.testing.assert_allclose(convert_quaternion(stored, "usd", "newton"), [0.2, -0.5, 0.1, 0.8], rtol=1e-6)


def test_usd_default_up_axis(usd):
    """A stage that says nothing is Y-up."""
    from sap_warp.conventions import SYSTEMS

    assert usd.UsdGeom.GetStageUpAxis(usd.Usd.Stage.CreateInMemory()) == SYSTEMS["usd"].up_axis


def usd_shape(pxr, stage, kind: str, params: dict):
    """Author a USD shape from converted parameters."""
    name = {"box": "Cube"}.get(kind, kind.capitalize())
    shape = getattr(pxr.UsdGeom, name).Define(stage, f"/{name}")
    for key, value in params.items():
        if key == "scale":
            shape.AddScaleOp().Set(pxr.Gf.Vec3f(*map(float, value)))
        else:
            assert shape.GetPrim().GetAttribute(key).Set(value)
    return shape


@pytest.mark.parametrize("kind", ["box", "sphere", "capsule", "cylinder", "cone"])
def test_usd_extents_match_mujoco(usd, kind):
    """The bounds of a converted USD shape are the bounds MuJoCo gives the converted geom, or the known cone."""
    stage = usd.Usd.Stage.CreateInMemory()
    shape = usd_shape(usd, stage, kind, convert_shape(kind, SHAPES[kind], "newton", "usd").params)
    bounds = usd.UsdGeom.BBoxCache(usd.Usd.TimeCode.Default(), ["default"]).ComputeWorldBound(shape.GetPrim())
    upper = np.array(bounds.ComputeAlignedRange().GetMax())
    if kind == "cone":  # MuJoCo has none
        expected = np.array([0.3, 0.3, 0.8])
    else:
        model = mujoco_geom(kind, convert_shape(kind, SHAPES[kind], "newton", "mujoco").params["size"])
        expected = model.geom_aabb[0, 3:]
    np.testing.assert_allclose(upper, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", "XYZ")
@pytest.mark.parametrize("kind", ["box", "sphere", "capsule", "cylinder", "cone"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_usd_physics_parser_reads_the_converted_sizes(usd, kind, axis):
    """USD's physics parser turns a UsdGeom shape into the parameters that usd_physics has for it."""
    params = convert_shape(kind, SHAPES[kind], "newton", "usd").params
    if "axis" in params:
        params["axis"] = axis
    stage = usd.Usd.Stage.CreateInMemory()
    usd.UsdPhysics.CollisionAPI.Apply(usd_shape(usd, stage, kind, params).GetPrim())
    parsed = usd.UsdPhysics.LoadUsdPhysicsFromRange(stage, ["/"])
    (descriptor,) = next(iter(parsed.values()))[1]
    expected, rotation = convert_shape(kind, params, "usd", "usd_physics")
    np.testing.assert_array_equal(rotation, [0, 0, 0, 1])
    for name, value in expected.items():
        if name == "axis":
            assert descriptor.axis == getattr(usd.UsdPhysics.Axis, value)
        else:
            np.testing.assert_allclose(np.array(getattr(descriptor, name)), value, rtol=1e-6)


def test_usd_velocity_is_read_as_newton_imports_it(usd):
    """physics:velocity and physics:angularVelocity become the body_qd that Newton's importer makes of them."""
    newton = pytest.importorskip("newton")
    stage = usd.Usd.Stage.CreateInMemory()
    usd.UsdGeom.SetStageUpAxis(stage, "Z")
    usd.UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    usd.UsdPhysics.Scene.Define(stage, "/scene")
    xform = usd.UsdGeom.Xform.Define(stage, "/body")
    xform.AddTranslateOp().Set(usd.Gf.Vec3d(*POSITION))
    xform.AddOrientOp().Set(usd.Gf.Quatf(*map(float, convert_quaternion(ROTATION, "public", "drake"))))
    rigid = usd.UsdPhysics.RigidBodyAPI.Apply(xform.GetPrim())
    twist = convert_twist(TWIST, "public", "usd", rotation=ROTATION)
    rigid.CreateVelocityAttr(usd.Gf.Vec3f(*map(float, twist[:3])))
    rigid.CreateAngularVelocityAttr(usd.Gf.Vec3f(*map(float, twist[3:])))
    mass = usd.UsdPhysics.MassAPI.Apply(xform.GetPrim())
    mass.CreateMassAttr(MASS)
    mass.CreateCenterOfMassAttr(usd.Gf.Vec3f(*map(float, COM)))
    mass.CreateDiagonalInertiaAttr(usd.Gf.Vec3f(*map(float, INERTIA)))
    builder = newton.ModelBuilder()
    builder.add_usd(stage)
    np.testing.assert_allclose(np.array(builder.body_com[0]), COM, rtol=1e-6)
    np.testing.assert_allclose(np.array(builder.body_qd[0]), TWIST, rtol=1e-5, atol=1e-6)


# --- Sizes of shapes: half or full -----------------------------------------------------------------------------


def newton_mass(kind: str, params: dict) -> tuple[float, np.ndarray]:
    """Mass and centre of mass of a shape of density 1 in Newton."""
    newton = pytest.importorskip("newton")
    builder = newton.ModelBuilder()
    body = builder.add_body()
    getattr(builder, f"add_shape_{kind}")(body, **params, cfg=newton.ModelBuilder.ShapeConfig(density=1.0))
    return builder.body_mass[body], np.array(builder.body_com[body])


def mujoco_geom(kind: str, size: np.ndarray):
    """A MuJoCo model with one geom of density 1 on a free body."""
    mujoco = pytest.importorskip("mujoco")
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body()
    body.add_freejoint()
    body.add_geom(type=getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}"), size=size, density=1.0)
    return spec.compile()


@pytest.mark.parametrize("kind", ["box", "sphere", "ellipsoid", "capsule", "cylinder"])
def test_volumes_agree_in_newton_mujoco_and_drake(kind):
    """One shape in three engines has one volume, so half and full sizes are converted rightly."""
    geometry = pytest.importorskip("pydrake.geometry")
    volume, _ = newton_mass(kind, SHAPES[kind])
    size = convert_shape(kind, SHAPES[kind], "newton", "mujoco").params["size"]
    np.testing.assert_allclose(mujoco_geom(kind, size).body_mass[1], volume, rtol=1e-6)
    drake = convert_shape(kind, SHAPES[kind], "newton", "drake").params
    np.testing.assert_allclose(geometry.CalcVolume(getattr(geometry, kind.capitalize())(**drake)), volume, rtol=1e-6)


@pytest.mark.parametrize("kind", ["box", "sphere", "ellipsoid", "capsule", "cylinder"])
def test_a_row_of_geom_size_converts_to_newton(kind):
    """MuJoCo's compiled geom_size can be passed as it is."""
    size = convert_shape(kind, SHAPES[kind], "newton", "mujoco").params["size"]
    params = convert_shape(kind, {"size": mujoco_geom(kind, size).geom_size[0]}, "mujoco", "newton").params
    assert params == pytest.approx(SHAPES[kind])


def test_inertia_shows_the_capsule_axis():
    """Newton, MuJoCo and Drake lay a capsule along Z: its smallest moment of inertia is about Z."""
    geometry = pytest.importorskip("pydrake.geometry")
    from pydrake.multibody.tree import UnitInertia

    size = convert_shape("capsule", SHAPES["capsule"], "newton", "mujoco").params["size"]
    model = mujoco_geom("capsule", size)
    drake = geometry.Capsule(**convert_shape("capsule", SHAPES["capsule"], "newton", "drake").params)
    unit = UnitInertia.SolidCapsule(radius=drake.radius(), length=drake.length(), unit_vector=[0, 0, 1])
    mujoco_inertia = np.sort(model.body_inertia[1]) / model.body_mass[1]
    np.testing.assert_allclose(mujoco_inertia, np.sort(unit.get_moments()), rtol=1e-9)
    np.testing.assert_allclose(model.geom_aabb[0, 3:], [0.3, 0.3, 1.1])


def test_cone_center_of_mass_is_newtons():
    """Newton puts the centre of mass of a cone where cone_center_of_mass says, and its volume is a cone's."""
    volume, com = newton_mass("cone", SHAPES["cone"])
    np.testing.assert_allclose(com, conventions.cone_center_of_mass(0.8), atol=1e-7)
    np.testing.assert_allclose(volume, math.pi * 0.3**2 * 1.6 / 3.0, rtol=1e-6)
