"""Free motion against Newton's kernels, MuJoCo and Drake: mass matrix, velocities, bias, accelerations, trajectories.

One description builds the same mechanism in every engine (`Mechanism`). All its numbers are dyadic and all rotations
are among the 24 that quaternions of halves express, so the fp32 values that Newton stores are exact and fp64 results
can be compared to fp64 round-off.
"""

from __future__ import annotations

from dataclasses import dataclass

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.conventions import convert_quaternion
from tests.support.oracle.kinematics import matrix_from_quat
from tests.support.scenes import Stepper

H = 0.001
GRAVITY = (0.5, -1.25, -9.8125)
IDENTITY = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
TURNED = ((0.25, -0.125, 0.5), (0.5, 0.5, -0.5, 0.5))
OTHER = ((-0.125, 0.25, 0.125), (0.5, -0.5, 0.5, 0.5))
X, Y, Z = np.eye(3)


@dataclass
class Link:
    """One body and the joint that carries it; frames are (position, xyzw quaternion)."""

    kind: str
    parent: int = -1
    axes: tuple = ()
    """Axes of a revolute or prismatic joint, or the (linear, angular) axes of a d6."""
    parent_frame: tuple = TURNED
    child_frame: tuple = OTHER
    mass: float = 2.0
    com: tuple = (0.25, -0.125, 0.375)
    inertia: tuple = (0.5, 0.75, 1.0, 0.0625, -0.125, 0.03125)
    """xx, yy, zz, xy, xz, yz about the centre of mass."""
    armature: float = 0.0
    damping: float = 0.0

    def tensor(self):
        xx, yy, zz, xy, xz, yz = self.inertia
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


MECHANISMS = {
    "revolute": [Link("revolute", axes=(Y,))],
    "prismatic": [Link("prismatic", axes=(X,))],
    "free": [Link("free", parent_frame=IDENTITY, child_frame=IDENTITY)],
    "ball": [Link("ball")],
    "planar d6": [Link("d6", axes=((X, Y), (Z,)))],
    "universal d6": [Link("d6", axes=((), (X, Y)))],
    "six axis d6": [Link("d6", axes=((Z, X, Y), (Y, Z, X)))],
    "chain": [
        Link("revolute", axes=(Z,)),
        Link("prismatic", 0, axes=(Y,)),
        Link("revolute", 1, axes=(X,)),
        Link("ball", 2),
        Link("revolute", 3, axes=(Y,), mass=1.0),
    ],
    "branched": [
        Link("free", parent_frame=IDENTITY, child_frame=IDENTITY, mass=4.0),
        Link("revolute", 0, axes=(X,)),
        Link("d6", 0, axes=((), (Y, Z))),
        Link("ball", 1),
        Link("prismatic", 1, axes=(Z,)),
        Link("revolute", 2, axes=(Y,), parent_frame=OTHER),
    ],
    "damped arm": [
        Link("revolute", axes=(Z,), armature=0.25, damping=0.5),
        Link("revolute", 0, axes=(Y,), armature=0.125, damping=0.25),
        Link("prismatic", 1, axes=(X,), damping=2.0),
    ],
}
SCALAR_JOINTS = ("revolute", "prismatic", "planar d6", "six axis d6", "damped arm")


# --- rotations -------------------------------------------------------------------------------------------------


def multiply(a, b):
    av, aw, bv, bw = np.asarray(a[:3]), a[3], np.asarray(b[:3]), b[3]
    return np.array([*(aw * bv + bw * av + np.cross(av, bv)), aw * bw - av @ bv])


def inverse(q):
    return np.array([-q[0], -q[1], -q[2], q[3]])


def wxyz(q):
    return " ".join(f"{v:.17g}" for v in (q[3], q[0], q[1], q[2]))


def text(values):
    return " ".join(f"{v:.17g}" for v in values)


# --- one mechanism, three engines ------------------------------------------------------------------------------


class Mechanism:
    """A mechanism in a random state: in Newton and SAP Warp from the start, in MuJoCo and Drake on request."""

    def __init__(self, name, seed=0):
        self.links = MECHANISMS[name]
        rng = np.random.default_rng([seed, *name.encode()])
        self.model = self._newton()
        start = self.model.joint_q_start.numpy()
        self.q_of = [slice(start[i], start[i + 1]) for i in range(len(self.links))]
        start = self.model.joint_qd_start.numpy()
        self.v_of = [slice(start[i], start[i + 1]) for i in range(len(self.links))]
        self.q = rng.uniform(-1.0, 1.0, self.model.joint_coord_count)
        self.v = rng.uniform(-2.0, 2.0, self.model.joint_dof_count)
        """Velocities in sap order: free joints [w, v_O], here with the parent frame at the world's."""
        self.f = np.round(rng.uniform(-4.0, 4.0, self.model.joint_dof_count) * 16.0) / 16.0
        """Generalized forces in sap order, exact in fp32."""
        for i, link in enumerate(self.links):
            if link.kind in ("ball", "free"):
                quaternion = self.q[self.q_of[i]][-4:]
                quaternion /= np.linalg.norm(quaternion)

    def _newton(self):
        b = newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=GRAVITY)
        bodies, joints = [], []
        for link in self.links:
            body = b.add_link(
                mass=link.mass, com=wp.vec3(*link.com), inertia=wp.mat33(*link.tensor().ravel()), lock_inertia=True
            )
            frames = {
                "parent_xform": wp.transform(wp.vec3(*link.parent_frame[0]), wp.quat(*link.parent_frame[1])),
                "child_xform": wp.transform(wp.vec3(*link.child_frame[0]), wp.quat(*link.child_frame[1])),
            }
            parent = -1 if link.parent < 0 else bodies[link.parent]

            def dof(axis, link=link):
                return b.JointDofConfig(axis=wp.vec3(*axis), armature=link.armature, damping=link.damping)

            if link.kind == "revolute":
                joint = b.add_joint_revolute(parent, body, axis=dof(link.axes[0]), **frames)
            elif link.kind == "prismatic":
                joint = b.add_joint_prismatic(parent, body, axis=dof(link.axes[0]), **frames)
            elif link.kind == "ball":
                joint = b.add_joint_ball(parent, body, **frames)
            elif link.kind == "free":
                joint = b.add_joint_free(body, parent=parent, **frames)
            else:
                linear, angular = ([dof(a) for a in axes] for axes in link.axes)
                joint = b.add_joint_d6(parent, body, linear_axes=linear, angular_axes=angular, **frames)
            bodies.append(body)
            joints.append(joint)
        b.add_articulation(joints)
        return b.finalize(device="cpu")

    # SAP Warp

    def simulation(self, dt=H, preset="approx64", **options):
        sim = Stepper(self.model, dt, preset, precision="fp64", **options)
        sim.state.joint_qd_order = "sap"
        sim.control.joint_f_order = "sap"
        sim.set(self.q, self.v)
        sim.control.joint_f.assign(self.f.astype(np.float32))
        return sim

    def acceleration(self, dt=H):
        """(v* - v0) / h of one step."""
        sim = self.simulation(dt)
        sim.step()
        assert sim.solver.iterations[0] == 0, "free motion needs no iteration"
        return (sim.velocity - self.v) / dt

    # MuJoCo

    def mujoco(self, dt=H):
        """(module, model, data) at the same state, with the same forces."""
        mujoco = pytest.importorskip("mujoco")
        inner = {i: [] for i in range(-1, len(self.links))}
        for i, link in enumerate(self.links):
            inner[link.parent].append(i)

        def body(i):
            link = self.links[i]
            p_c, q_c = np.array(link.child_frame[0]), np.array(link.child_frame[1])
            R_c = matrix_from_quat(q_c)
            # X_p X_c^-1, and joints at p_c with axes turned by q_c
            q = multiply(link.parent_frame[1], inverse(q_c))
            p = np.array(link.parent_frame[0]) - matrix_from_quat(q) @ p_c
            dof = f'armature="{link.armature}" damping="{link.damping}"'

            def joint(kind, axis=None):
                where = "" if axis is None else f'axis="{text(R_c @ axis)}"'
                return f'<joint type="{kind}" pos="{text(p_c)}" {where} {dof}/>'

            if link.kind == "free":
                joints = "<freejoint/>"
            elif link.kind == "ball":
                joints = joint("ball")
            elif link.kind == "d6":
                joints = "".join([joint("slide", a) for a in link.axes[0]] + [joint("hinge", a) for a in link.axes[1]])
            else:
                joints = joint("hinge" if link.kind == "revolute" else "slide", link.axes[0])
            inertial = f'<inertial pos="{text(link.com)}" mass="{link.mass}" fullinertia="{text(link.inertia)}"/>'
            children = "".join(body(k) for k in inner[i])
            return f'<body name="b{i}" pos="{text(p)}" quat="{wxyz(q)}">{joints}{inertial}{children}</body>'

        xml = f"""<mujoco><option gravity="{text(GRAVITY)}" timestep="{dt}" integrator="Euler"/>
            <compiler autolimits="false" angle="radian" balanceinertia="false"/>
            <worldbody>{"".join(body(i) for i in inner[-1])}</worldbody></mujoco>"""
        model = mujoco.MjModel.from_xml_string(xml)
        data = mujoco.MjData(model)
        for i, link in enumerate(self.links):
            first = model.body_jntadr[model.body(f"b{i}").id]
            iq, iv = model.jnt_qposadr[first], model.jnt_dofadr[first]
            count = self.v_of[i].stop - self.v_of[i].start
            q, v, f = self.q[self.q_of[i]], self.v[self.v_of[i]], self.f[self.v_of[i]]
            if link.kind == "free":
                data.qpos[iq : iq + 7] = [*q[:3], *convert_quaternion(q[3:], "public", "mujoco")]
            elif link.kind == "ball":
                turned = multiply(multiply(link.child_frame[1], q), inverse(np.array(link.child_frame[1])))
                data.qpos[iq : iq + 4] = convert_quaternion(turned, "public", "mujoco")
            else:
                data.qpos[iq : iq + count] = q
            T = self.to_mujoco(i)
            data.qvel[iv : iv + count] = T @ v
            data.qfrc_applied[iv : iv + count] = np.linalg.solve(T.T, f)
        mujoco.mj_forward(model, data)
        return mujoco, model, data

    def to_mujoco(self, i):
        """Matrix from this joint's sap velocity to MuJoCo's qvel, at the random state."""
        link, q = self.links[i], self.q[self.q_of[i]]
        count = self.v_of[i].stop - self.v_of[i].start
        if link.kind == "free":  # [w, v_O] in world -> [v_O in world, w in body]
            return np.block([[np.zeros((3, 3)), np.eye(3)], [matrix_from_quat(q[3:]).T, np.zeros((3, 3))]])
        if link.kind == "ball":  # in the parent's joint frame -> in the body
            return matrix_from_quat(np.array(link.child_frame[1])) @ matrix_from_quat(q).T
        return np.eye(count)

    def from_mujoco(self, model, values):
        """A qvel-like vector of MuJoCo in sap order."""
        out = np.zeros_like(self.v)
        for i in range(len(self.links)):
            first = model.body_jntadr[model.body(f"b{i}").id]
            count = self.v_of[i].stop - self.v_of[i].start
            iv = model.jnt_dofadr[first]
            out[self.v_of[i]] = np.linalg.solve(self.to_mujoco(i), values[iv : iv + count])
        return out

    # Drake

    def drake(self, time_step=0.0):
        """(plant, context, joints) at the same state, with the same forces; six-axis d6 joints have no counterpart."""
        pytest.importorskip("pydrake")
        from pydrake.common.eigen_geometry import Quaternion
        from pydrake.math import RigidTransform, RollPitchYaw, RotationMatrix
        from pydrake.multibody import tree
        from pydrake.multibody.plant import DiscreteContactApproximation, MultibodyPlant

        plant = MultibodyPlant(time_step=time_step)
        if time_step > 0.0:
            plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        plant.mutable_gravity_field().set_gravity_vector(GRAVITY)

        def transform(frame):
            return RigidTransform(Quaternion(convert_quaternion(np.array(frame[1]), "public", "drake")), frame[0])

        bodies, joints = [], []
        for i, link in enumerate(self.links):
            inertia = tree.SpatialInertia.MakeFromCentralInertia(
                link.mass, link.com, tree.RotationalInertia(*link.inertia)
            )
            body = plant.AddRigidBody(f"b{i}", inertia)
            parent = plant.world_frame() if link.parent < 0 else bodies[link.parent].body_frame()
            F = plant.AddFrame(tree.FixedOffsetFrame(f"F{i}", parent, transform(link.parent_frame)))
            M = plant.AddFrame(tree.FixedOffsetFrame(f"M{i}", body.body_frame(), transform(link.child_frame)))
            if link.kind == "revolute":
                joint = tree.RevoluteJoint(f"j{i}", F, M, link.axes[0], damping=link.damping)
            elif link.kind == "prismatic":
                joint = tree.PrismaticJoint(f"j{i}", F, M, link.axes[0], damping=link.damping)
            elif link.kind == "ball":
                joint = tree.BallRpyJoint(f"j{i}", F, M)
            elif link.kind == "free":
                joint = tree.QuaternionFloatingJoint(f"j{i}", F, M)
            elif len(link.axes[0]) == 2:
                joint = tree.PlanarJoint(f"j{i}", F, M)
            else:
                joint = tree.UniversalJoint(f"j{i}", F, M)
            joints.append(plant.AddJoint(joint))
            bodies.append(body)
        plant.Finalize()
        context = plant.CreateDefaultContext()
        q, v, f = plant.GetPositions(context), plant.GetVelocities(context), np.zeros(plant.num_velocities())
        for i, (link, joint) in enumerate(zip(self.links, joints, strict=True)):
            mine = self.q[self.q_of[i]]
            if link.kind == "ball":
                mine = RollPitchYaw(RotationMatrix(Quaternion(convert_quaternion(mine, "public", "drake")))).vector()
            elif link.kind == "free":
                mine = [*convert_quaternion(mine[3:], "public", "drake"), *mine[:3]]
            q[joint.position_start() : joint.position_start() + joint.num_positions()] = mine
            v[self.drake_dofs(joint)] = self.v[self.v_of[i]]
            f[self.drake_dofs(joint)] = self.f[self.v_of[i]]
        plant.SetPositions(context, q)
        plant.SetVelocities(context, v)
        plant.get_applied_generalized_force_input_port().FixValue(context, f)
        return plant, context, joints

    @staticmethod
    def drake_dofs(joint):
        return slice(joint.velocity_start(), joint.velocity_start() + joint.num_velocities())

    def from_drake(self, joints, values):
        out = np.zeros_like(self.v)
        for i, joint in enumerate(joints):
            out[self.v_of[i]] = values[self.drake_dofs(joint)]
        return out


def assert_close(actual, expected, tolerance):
    """Largest difference relative to the largest value."""
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert error < tolerance, f"{error:.2e}"
    return error


# --- MuJoCo ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MECHANISMS)
def test_acceleration_is_mujocos(name, seed):
    """(v* - v0)/h of every joint type, moving, with forces and gravity, equals MuJoCo's qacc at the same state.

    MuJoCo treats damping implicitly in its integrator, not in qacc: damped mechanisms are compared after a step.
    """
    mechanism = Mechanism(name, seed)
    mujoco, model, data = mechanism.mujoco()
    if name == "damped arm":
        before = data.qvel.copy()
        mujoco.mj_step(model, data)
        expected = mechanism.from_mujoco(model, data.qvel - before) / H
    else:
        expected = mechanism.from_mujoco(model, data.qacc)
    # v* - v0 loses 1/(h |a|) of fp64 precision: 1e-16 / (1e-3 * 10) = 1e-14 at best; the trees are well conditioned
    assert_close(mechanism.acceleration(), expected, 1e-10)


@pytest.mark.parametrize("name", SCALAR_JOINTS)
def test_trajectory_is_mujocos(name):
    """200 steps of hinges and slides agree with MuJoCo's semi-implicit Euler integrator, which is `sap_euler`."""
    mechanism = Mechanism(name)
    mujoco, model, data = mechanism.mujoco()
    sim = mechanism.simulation(preset="drake")
    for _ in range(200):
        sim.step()
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(sim.q, data.qpos, atol=1e-9)
    np.testing.assert_allclose(sim.qd, data.qvel, atol=1e-8)


@pytest.mark.parametrize("name", ["free", "ball", "chain", "branched"])
def test_trajectory_converges_to_mujocos(name):
    """Quaternion joints turn by other formulas: trajectories meet to first order as h goes to zero.

    Without forces: a constant generalized force turns with the body in MuJoCo and stays in the parent frame here.
    """
    errors = []
    for dt in (2e-3, 1e-3):
        mechanism = Mechanism(name)
        mechanism.f[:] = 0.0
        mujoco, model, data = mechanism.mujoco(dt)
        sim = mechanism.simulation(dt, preset="drake")
        for _ in range(round(0.1 / dt)):
            sim.step()
            mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        positions = np.array([data.body(f"b{i}").xpos for i in range(len(mechanism.links))])
        errors.append(np.abs(sim.state.body_q.numpy()[:, :3] - positions).max())
    assert errors[0] < 2e-3
    assert errors[1] < 0.6 * errors[0] + 1e-9


# --- Drake -----------------------------------------------------------------------------------------------------

IN_DRAKE = [name for name in MECHANISMS if name not in ("six axis d6", "branched", "damped arm")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", IN_DRAKE)
def test_acceleration_is_drakes(name, seed):
    """(v* - v0)/h equals the acceleration of Drake's continuous plant at the same state."""
    mechanism = Mechanism(name, seed)
    plant, context, joints = mechanism.drake()
    expected = plant.EvalTimeDerivatives(context).get_generalized_velocity().CopyToVector()
    assert_close(mechanism.acceleration(), mechanism.from_drake(joints, expected), 1e-10)


@pytest.mark.parametrize("name", ["revolute", "prismatic", "free", "planar d6", "universal d6"])
def test_trajectory_is_drakes(name):
    """100 steps of Drake's discrete plant, its SAP solver and quaternion rule are `drake` without contact."""
    mechanism = Mechanism(name)
    plant, context, joints = mechanism.drake(H)
    sim = mechanism.simulation(preset="drake")
    for _ in range(100):
        sim.step()
        context.SetTimeStateAndParametersFrom(context)
        plant.ExecuteForcedEvents(context)
    v = mechanism.from_drake(joints, plant.GetVelocities(context))
    np.testing.assert_allclose(sim.qd, v, atol=1e-9)


# --- Newton ----------------------------------------------------------------------------------------------------

# newton.eval_jacobian and eval_mass_matrix are wrong for d6 joints that have both linear and angular axes
IN_NEWTON = [name for name in MECHANISMS if name not in ("six axis d6", "planar d6", "damped arm")]


def newton_state(mechanism, qd):
    """Newton's state with public velocities ``qd`` and consistent bodies."""
    state = mechanism.model.state()
    state.joint_q.assign(mechanism.q.astype(np.float32))
    state.joint_qd.assign(qd.astype(np.float32))
    newton.eval_fk(mechanism.model, state.joint_q, state.joint_qd, state)
    return state


def public_from_sap(mechanism):
    """Matrix from sap to public velocities: [w, v_O] -> [v_C, w] of free joints, identity elsewhere."""
    T = np.eye(len(mechanism.v))
    for i, link in enumerate(mechanism.links):
        if link.kind == "free":
            x, y, z = matrix_from_quat(mechanism.q[mechanism.q_of[i]][3:]) @ np.array(link.com)
            r = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
            s = mechanism.v_of[i]
            T[s, s] = np.block([[-r, np.eye(3)], [np.eye(3), np.zeros((3, 3))]])
    return T


@pytest.mark.parametrize("name", IN_NEWTON)
def test_mass_matrix_is_newtons(name):
    """A without armature and damping is Newton's mass matrix, to its fp32 precision."""
    mechanism = Mechanism(name)
    T = public_from_sap(mechanism)
    sim = mechanism.simulation()
    sim.step()
    state = newton_state(mechanism, T @ mechanism.v)
    n = len(mechanism.v)
    theirs = newton.eval_mass_matrix(mechanism.model, state).numpy()[0, :n, :n].astype(np.float64)
    assert_close(sim.solver.free_motion.dynamics_matrix(), T.T @ theirs @ T, 2e-6)


def after_a_step(name):
    """A mechanism with its new positions, its simulation, and the new velocities in public order."""
    mechanism = Mechanism(name)
    sim = mechanism.simulation()
    sim.step()
    mechanism.q = sim.q
    return mechanism, sim, public_from_sap(mechanism) @ sim.qd


@pytest.mark.parametrize("name", MECHANISMS)
def test_body_poses_and_velocities_are_newtons(name):
    """body_q and body_qd after a step are Newton's forward kinematics of the new joint state."""
    mechanism, sim, qd = after_a_step(name)
    state = newton_state(mechanism, qd)
    ours, theirs = sim.state.body_q.numpy(), state.body_q.numpy()
    ours[:, 3:] *= np.sign(np.sum(ours[:, 3:] * theirs[:, 3:], axis=1, keepdims=True))
    np.testing.assert_allclose(ours, theirs, atol=5e-6)
    np.testing.assert_allclose(sim.state.body_qd.numpy(), state.body_qd.numpy(), atol=2e-5)


@pytest.mark.parametrize("name", IN_NEWTON)
def test_jacobian_is_newtons(name):
    """Newton's Jacobian times our velocity is our body velocity."""
    mechanism, sim, qd = after_a_step(name)
    J = newton.eval_jacobian(mechanism.model, newton_state(mechanism, qd)).numpy()[0].astype(np.float64)
    bodies = len(mechanism.links)
    np.testing.assert_allclose(
        (J[: 6 * bodies, : len(qd)] @ qd).reshape(bodies, 6), sim.state.body_qd.numpy(), atol=2e-5
    )


@pytest.mark.parametrize("name", [n for n in IN_NEWTON if "free" not in [link.kind for link in MECHANISMS[n]]])
def test_bias_is_newtons(name):
    """M a = f - C v - g with Newton's mass matrix, Coriolis and gravity forces."""
    mechanism = Mechanism(name)
    state = newton_state(mechanism, mechanism.v)
    n = len(mechanism.v)
    gravity, coriolis = wp.zeros(n, dtype=float, device="cpu"), wp.zeros(n, dtype=float, device="cpu")
    newton.eval_inverse_dynamics_passive(mechanism.model, state, gravity_force=gravity, coriolis_force=coriolis)
    sim = mechanism.simulation()
    sim.step()
    bias = mechanism.f - sim.solver.free_motion.dynamics_matrix() @ (sim.velocity - mechanism.v) / H
    assert_close(bias, gravity.numpy() + coriolis.numpy(), 1e-5)
