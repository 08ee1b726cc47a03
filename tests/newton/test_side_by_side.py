"""The same Newton model stepped by ours and by others without contact: every joint type, to integration accuracy.

All of these solvers are of first order or better, so two of them differ by about C h. Each pair is run at h and at h/4:
the difference has to be small, and has to shrink with h. SolverMuJoCo needs the package `mujoco_warp` even for its CPU
mode; MuJoCo's C library itself runs the same mechanisms below. SolverFeatherstone of Newton 1.7 disagrees with
everyone on d6 joints that have linear and angular axes: these are compared with MuJoCo's library only.
"""

import mujoco
import newton
import numpy as np
import pytest
import warp as wp

from sap_warp import SolverSAP
from tests.support.scenes import Stepper, box_inertia, builder

SECONDS = 0.2
SEED = 6
AXIS = newton.ModelBuilder.JointDofConfig


def link(b, mass, com=(0.05, -0.03, -0.2)):
    inertia = box_inertia(mass, (0.1, 0.15, 0.2))
    return b.add_link(mass=mass, inertia=inertia, com=wp.vec3(*com), lock_inertia=True)


TILT = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, 0.5)), 0.4)


def mechanism(kind):
    """A joint of the given type between the world and a body that carries a pendulum on a hinge."""
    b = builder()
    body, tip = link(b, 2.0), link(b, 1.0)
    anchor = {"parent_xform": wp.transform(wp.vec3(0.1, 0.2, 0.3), TILT), "child_xform": wp.transform((0.0, 0.1, 0.1))}
    joint = {
        "revolute": lambda: b.add_joint_revolute(-1, body, axis=(0.0, 0.6, 0.8), **anchor),
        "prismatic": lambda: b.add_joint_prismatic(-1, body, axis=(0.6, 0.0, 0.8), **anchor),
        "ball": lambda: b.add_joint_ball(-1, body, **anchor),
        "free": lambda: b.add_joint_free(body),
        "distance": lambda: b.add_joint_distance(-1, body, min_distance=-1.0, max_distance=-1.0),
        "fixed": lambda: b.add_joint_fixed(-1, body, **anchor),
        "d6 linear": lambda: b.add_joint_d6(
            -1, body, linear_axes=[AXIS(axis=newton.Axis.X), AXIS(axis=newton.Axis.Y)], **anchor
        ),
        "d6 angular": lambda: b.add_joint_d6(
            -1, body, angular_axes=[AXIS(axis=newton.Axis.Y), AXIS(axis=newton.Axis.Z)], **anchor
        ),
    }[kind]()
    hinge = b.add_joint_revolute(body, tip, axis=newton.Axis.X, parent_xform=wp.transform((0.0, 0.0, -0.4)))
    b.add_articulation([joint, hinge])
    return b.finalize(device="cpu")


KINDS = ("revolute", "prismatic", "ball", "free", "distance", "fixed", "d6 linear", "d6 angular")


def start(model, rng):
    state = model.state()
    qd = rng.uniform(-1.5, 1.5, model.joint_dof_count).astype(np.float32)
    q = state.joint_q.numpy()
    if model.joint_coord_count == model.joint_dof_count:
        q += rng.uniform(-0.4, 0.4, len(q)).astype(np.float32)
    state.joint_q.assign(q)
    state.joint_qd.assign(qd)
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    return state


def positions(model, make, rng_seed, h):
    """Centres of mass and orientations of all bodies after SECONDS."""
    solver = make(model)
    state, other = start(model, np.random.default_rng(rng_seed)), model.state()
    for _ in range(round(SECONDS / h)):
        state.clear_forces()
        solver.step(state, other, None, None, h)
        state, other = other, state
    poses = state.body_q.numpy().astype(np.float64)
    poses[:, 3:] *= np.sign(poses[:, 6:])
    return poses.ravel()


def featherstone(model):
    return newton.solvers.SolverFeatherstone(model, angular_damping=0.0)


def solver_mujoco(model):
    pytest.importorskip("mujoco_warp", reason="SolverMuJoCo needs it, also for use_mujoco_cpu=True")
    return newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True, disable_contacts=True)


PAIRS = [
    pytest.param(kind, other, id=f"{kind}-{other.__name__}")
    for other in (featherstone, solver_mujoco)
    for kind in KINDS
    if (kind, other) != ("distance", solver_mujoco)  # Newton's SolverMuJoCo has no distance joints
]


@pytest.mark.parametrize("kind, other", PAIRS)
def test_ours_and_another_solver_agree_to_integration_accuracy(kind, other, report):
    """The difference of the poses is below 2 % of the motion at h = 2 ms and shrinks with h."""
    model = mechanism(kind)
    begin = start(model, np.random.default_rng(SEED)).body_q.numpy().ravel()
    differences = []
    for h in (0.002, 0.0005):
        ours, theirs = (positions(model, make, SEED, h) for make in (SolverSAP, other))
        differences.append(np.abs(ours - theirs).max())
    motion = np.abs(ours - begin).max()
    report(motion=motion, coarse=differences[0], fine=differences[1])
    assert motion > 0.02
    assert differences[0] < 0.02 * motion + 1e-4
    assert differences[1] < 0.5 * differences[0] + 2e-5


JOINTS = {
    "hinge": '<joint type="hinge" axis="0 0.6 0.8" pos="0 0.1 0.1"/>',
    "slide": '<joint type="slide" axis="0.6 0 0.8"/>',
    "ball": '<joint type="ball" pos="0 0.1 0.1"/>',
    "free": "<freejoint/>",
    "two hinges and a slide": '<joint type="slide" axis="1 0 0"/><joint type="hinge" axis="0 1 0"/>'
    '<joint type="hinge" axis="0 0 1"/>',
}
MJCF = """<mujoco><option timestep="0.0005" integrator="RK4" gravity="0 0 -9.81"/><default>
  <geom type="box" contype="0" conaffinity="0"/></default><worldbody>
  <body pos="0.1 0.2 1">{joint}<geom size="0.1 0.15 0.2" pos="0.05 -0.03 -0.2" mass="2"/>
    <body pos="0 0 -0.4"><joint type="hinge" axis="1 0 0" damping="0.02" armature="0.01"/>
      <geom size="0.05 0.05 0.2" pos="0 0.02 -0.2" mass="1"/></body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("kind", JOINTS)
def test_ours_converges_to_mujocos_fourth_order_solution(kind, report):
    """Body positions approach those of MuJoCo's C library with Runge-Kutta steps as h shrinks."""
    text = MJCF.format(joint=JOINTS[kind])
    reference = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(reference)
    rng = np.random.default_rng(7)
    rate = rng.uniform(-1.5, 1.5, reference.nv)
    data.qvel[:] = rate
    for _ in range(round(SECONDS / reference.opt.timestep)):
        mujoco.mj_step(reference, data)
    mujoco.mj_kinematics(reference, data)
    truth = data.xpos[1:]
    b = newton.ModelBuilder()
    b.add_mjcf(text)
    model = b.finalize(device="cpu")
    errors = []
    for h in (0.002, 0.0005):
        sim = Stepper(model, h, precision="fp64")
        qd = rate.copy()
        if kind == "free":  # MuJoCo: velocity of the origin in W, spin in the body; Newton: of the centre of mass, in W
            qd[:3] += np.cross(rate[3:6], model.body_com.numpy()[0])
        sim.set(qd=qd)
        sim.run(steps=round(SECONDS / h))
        errors.append(np.abs(sim.position - truth).max())
    motion = np.abs(truth - sim.solver.model.body_q.numpy()[:, :3]).max()
    report(motion=motion, coarse=errors[0], fine=errors[1])
    assert errors[0] < 0.01 * motion
    assert errors[1] < 0.35 * errors[0] + 1e-6
