"""Drake's copy of a Newton model: a plant built from the model's numbers, stepped by Drake's own discrete SAP.

Nothing of this package's mathematics is used: bodies, joints, drives, limits, shapes and materials go to Drake through
its public interface, and Drake finds contacts, solves and integrates. Newton stores fp32; Drake gets those very
numbers. Drake combines materials as this package does (stiffness in series, harmonic mean of friction, sum of
relaxation times), so shapes keep their values. pydrake does not expose the parameters of Drake's SAP solver: it
stops at its default relative residual of 1e-6.
"""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from ....conventions.rotations import rotation_matrix
from ....model.model import SapModel

KIND = newton.JointType
_UNLIMITED = 1e6


class DrakeTwin:
    """A Drake simulation of a Newton model: one world of free, revolute, prismatic and fixed joints."""

    def __init__(self, model: newton.Model, dt: float, contact_tau_d: float = 0.01):
        """Build the plant; ``contact_tau_d`` is the dissipation time of shapes without their own [s]."""
        from pydrake.geometry import SceneGraph
        from pydrake.multibody.plant import ContactModel, DiscreteContactApproximation, MultibodyPlant
        from pydrake.systems.analysis import Simulator
        from pydrake.systems.framework import DiagramBuilder

        self.model, self.dt, self._steps = model, dt, 0
        diagram: Any = DiagramBuilder()
        plant: Any = diagram.AddSystem(MultibodyPlant(dt))
        scene: Any = diagram.AddSystem(SceneGraph())
        self.plant, self._scene = plant, scene
        plant.RegisterAsSourceForSceneGraph(scene)
        plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        plant.set_contact_model(ContactModel.kPoint)
        plant.mutable_gravity_field().set_gravity_vector(model.gravity.numpy()[0].astype(float))
        self.joints = self._add_joints()
        self.instance = self.joints[-1].model_instance()
        geometries = self._add_shapes(contact_tau_d)
        plant.Finalize()
        self._keep_only_newton_pairs(geometries)
        self._actuated = [
            (j, dof)
            for j, dof in zip(range(model.joint_count), model.joint_qd_start.numpy(), strict=False)
            if self._has_drive(j)
        ]
        diagram.Connect(plant.get_geometry_pose_output_port(), scene.get_source_pose_port(plant.get_source_id()))
        diagram.Connect(scene.get_query_output_port(), plant.get_geometry_query_input_port())
        built = diagram.Build()
        context = built.CreateDefaultContext()
        self.context = plant.GetMyMutableContextFromRoot(context)
        self.simulator = Simulator(built, context)
        self.set_targets(model.joint_target_q.numpy(), model.joint_target_qd.numpy(), model.joint_act.numpy())

    # Building.

    def _add_joints(self) -> list[Any]:
        """Add bodies and joints; returns Drake's joints by Newton's index."""
        self.bodies = [self._add_body(i) for i in range(self.model.body_count)]
        return [self._add_joint(j) for j in range(self.model.joint_count)]

    def _add_body(self, i: int) -> Any:
        from pydrake.multibody.tree import RotationalInertia, SpatialInertia

        model = self.model
        I = model.body_inertia.numpy()[i].astype(float)
        rotational = RotationalInertia(I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        mass, com = float(model.body_mass.numpy()[i]), model.body_com.numpy()[i].astype(float)
        return self.plant.AddRigidBody(f"body{i}", SpatialInertia.MakeFromCentralInertia(mass, com, rotational))

    def _frame(self, name: str, body: Any, transform: np.ndarray) -> Any:
        from pydrake.common.eigen_geometry import Quaternion
        from pydrake.math import RigidTransform
        from pydrake.multibody.tree import FixedOffsetFrame

        x, y, z, w = transform[3:].astype(float) / np.linalg.norm(transform[3:].astype(float))
        origin: Any = transform[:3].astype(float)
        X = RigidTransform(Quaternion(w, x, y, z), origin)
        return self.plant.AddFrame(FixedOffsetFrame(name, body.body_frame(), X))

    def _has_drive(self, j: int) -> bool:
        model, dof = self.model, int(self.model.joint_qd_start.numpy()[j])
        scalar = model.joint_type.numpy()[j] in (int(KIND.REVOLUTE), int(KIND.PRISMATIC))
        return scalar and int(model.joint_target_mode.numpy()[dof]) != int(newton.JointTargetMode.NONE)

    def _add_joint(self, j: int) -> Any:
        from pydrake.math import RigidTransform
        from pydrake.multibody.tree import PrismaticJoint, QuaternionFloatingJoint, RevoluteJoint

        model, plant = self.model, self.plant
        kind, parent = KIND(int(model.joint_type.numpy()[j])), int(model.joint_parent.numpy()[j])
        child = self.bodies[int(model.joint_child.numpy()[j])]
        above = self.bodies[parent] if parent >= 0 else plant.world_body()
        in_parent = self._frame(f"parent{j}", above, model.joint_X_p.numpy()[j])
        in_child = self._frame(f"child{j}", child, model.joint_X_c.numpy()[j])
        if kind == KIND.FIXED:
            return plant.WeldFrames(in_parent, in_child, RigidTransform())
        if kind == KIND.FREE:
            if parent >= 0:
                raise ValueError("A free joint below another body has no counterpart here.")
            return plant.AddJoint(QuaternionFloatingJoint(f"joint{j}", plant.world_frame(), child.body_frame()))
        dof = int(model.joint_qd_start.numpy()[j])
        value = lambda name: float(getattr(model, f"joint_{name}").numpy()[dof])  # noqa: E731
        axis = model.joint_axis.numpy()[dof].astype(float)
        make = {KIND.REVOLUTE: RevoluteJoint, KIND.PRISMATIC: PrismaticJoint}[kind]
        damping = value("damping")
        joint = plant.AddJoint(make(f"joint{j}", in_parent, in_child, axis, damping=damping))
        lower, upper = value("limit_lower"), value("limit_upper")
        if value("limit_ke") > 0.0 and (abs(lower) < _UNLIMITED or abs(upper) < _UNLIMITED):
            joint.set_position_limits([lower], [upper])
        if self._has_drive(j):
            self._add_motor(j, joint)
        elif value("armature") > 0.0:
            raise ValueError("Drake has armature only where there is an actuator.")
        return joint

    def _add_motor(self, j: int, joint: Any) -> None:
        """A PD drive with effort limit and armature."""
        from pydrake.multibody.tree import PdControllerGains

        dof = int(self.model.joint_qd_start.numpy()[j])
        value = lambda name: float(getattr(self.model, f"joint_{name}").numpy()[dof])  # noqa: E731
        motor = self.plant.AddJointActuator(f"motor{j}", joint, value("effort_limit"))
        motor.set_controller_gains(PdControllerGains(p=value("target_ke"), d=value("target_kd")))
        motor.set_default_rotor_inertia(value("armature"))
        motor.set_default_gear_ratio(1.0)

    def _add_shapes(self, contact_tau_d: float) -> list[Any]:
        from pydrake.common.eigen_geometry import Quaternion
        from pydrake.geometry import AddContactMaterial, Box, Capsule, HalfSpace, ProximityProperties, Sphere
        from pydrake.math import RigidTransform
        from pydrake.multibody.plant import CoulombFriction

        model, plant = self.model, self.plant
        taus = SapModel(model).shape_material_tau.numpy()
        geometries = []
        for i in range(model.shape_count):
            kind = newton.GeoType(int(model.shape_type.numpy()[i]))
            size = model.shape_scale.numpy()[i].astype(float)
            shape = {
                newton.GeoType.SPHERE: lambda s: Sphere(s[0]),
                newton.GeoType.BOX: lambda s: Box(*(2.0 * s)),
                newton.GeoType.CAPSULE: lambda s: Capsule(s[0], 2.0 * s[1]),
                newton.GeoType.PLANE: lambda s: HalfSpace(),
            }[kind](size)
            ke, mu, tau = (
                float(a[i]) for a in (model.shape_material_ke.numpy(), model.shape_material_mu.numpy(), taus)
            )
            properties = ProximityProperties()
            AddContactMaterial(None, ke, CoulombFriction(mu, mu), properties)
            properties.AddProperty("material", "relaxation_time", tau if tau >= 0.0 else contact_tau_d)
            body = int(model.shape_body.numpy()[i])
            owner = self.bodies[body] if body >= 0 else plant.world_body()
            X = model.shape_transform.numpy()[i].astype(float)
            x, y, z, w = X[3:] / np.linalg.norm(X[3:])
            pose = RigidTransform(Quaternion(w, x, y, z), X[:3])
            geometries.append(plant.RegisterCollisionGeometry(owner, pose, shape, f"shape{i}", properties))
        return geometries

    def _keep_only_newton_pairs(self, geometries: list[Any]) -> None:
        """Let Drake test the pairs that Newton tests, and no others."""
        from pydrake.geometry import CollisionFilterDeclaration, GeometrySet

        wanted = {tuple(sorted(map(int, pair))) for pair in self.model.shape_contact_pairs.numpy().reshape(-1, 2)}
        manager = self._scene.collision_filter_manager()
        for i, first in enumerate(geometries):
            for k in range(i + 1, len(geometries)):
                declaration = CollisionFilterDeclaration()
                apply = declaration.AllowBetween if (i, k) in wanted else declaration.ExcludeBetween
                manager.Apply(apply(GeometrySet(first), GeometrySet(geometries[k])))

    # Running.

    def set_targets(self, q: Any, qd: Any, act: Any) -> None:
        """Set drive targets in Newton's layouts, and feed-forward efforts."""
        if not self._actuated:
            return
        desired = [float(np.asarray(q)[self.model.joint_q_start.numpy()[j]]) for j, _ in self._actuated]
        rates = [float(np.asarray(qd)[dof]) for _, dof in self._actuated]
        efforts = [float(np.asarray(act)[dof]) for _, dof in self._actuated]
        self.plant.get_desired_state_input_port(self.instance).FixValue(self.context, [*desired, *rates])
        self.plant.get_actuation_input_port(self.instance).FixValue(self.context, efforts)

    def set(self, q: np.ndarray, qd: np.ndarray) -> DrakeTwin:
        """Set the state from Newton's joint_q and public joint_qd ([v_C, w] for free joints)."""
        model, plant = self.model, self.plant
        positions, velocities = np.zeros(plant.num_positions()), np.zeros(plant.num_velocities())
        for j, joint in enumerate(self.joints):
            iq, iv = int(model.joint_q_start.numpy()[j]), int(model.joint_qd_start.numpy()[j])
            if joint.num_velocities() == 6:
                p, r = q[iq : iq + 3], q[iq + 3 : iq + 7] / np.linalg.norm(q[iq + 3 : iq + 7])
                com = model.body_com.numpy()[int(model.joint_child.numpy()[j])].astype(float)
                w = qd[iv + 3 : iv + 6]
                v = qd[iv : iv + 3] - np.cross(w, rotation_matrix(r) @ com)
                positions[joint.position_start() : joint.position_start() + 7] = [r[3], *r[:3], *p]
                velocities[joint.velocity_start() : joint.velocity_start() + 6] = [*w, *v]
            elif joint.num_velocities() == 1:
                positions[joint.position_start()] = q[iq]
                velocities[joint.velocity_start()] = qd[iv]
        plant.SetPositions(self.context, positions)
        plant.SetVelocities(self.context, velocities)
        return self

    def step(self) -> None:
        """Take one time step."""
        self._steps += 1
        self.simulator.AdvanceTo(self._steps * self.dt)

    def contact_count(self) -> int:
        """Return the number of point contacts at the current state."""
        return len(self.plant.get_geometry_query_input_port().Eval(self.context).ComputePointPairPenetration())

    @property
    def q(self) -> np.ndarray:
        """Return positions in Newton's layout, quaternions normalized."""
        positions, out = self.plant.GetPositions(self.context), np.zeros(self.model.joint_coord_count)
        for j, joint in enumerate(self.joints):
            iq, at = int(self.model.joint_q_start.numpy()[j]), joint.position_start()
            if joint.num_velocities() == 6:
                w, x, y, z = positions[at : at + 4] / np.linalg.norm(positions[at : at + 4])
                out[iq : iq + 7] = [*positions[at + 4 : at + 7], x, y, z, w]
            elif joint.num_velocities() == 1:
                out[iq] = positions[at]
        return out

    @property
    def velocity(self) -> np.ndarray:
        """Return velocities in Newton's numbering, sap order: free joints [w, v_O]."""
        velocities, out = self.plant.GetVelocities(self.context), np.zeros(self.model.joint_dof_count)
        for j, joint in enumerate(self.joints):
            iv, at, n = int(self.model.joint_qd_start.numpy()[j]), joint.velocity_start(), joint.num_velocities()
            out[iv : iv + n] = velocities[at : at + n]
        return out

    @property
    def public_velocity(self) -> np.ndarray:
        """Return velocities as Newton keeps them: free joints [v_C, w]."""
        out, q = self.velocity, self.q
        for j, joint in enumerate(self.joints):
            if joint.num_velocities() == 6:
                iq, iv = int(self.model.joint_q_start.numpy()[j]), int(self.model.joint_qd_start.numpy()[j])
                com = self.model.body_com.numpy()[int(self.model.joint_child.numpy()[j])].astype(float)
                w, v = out[iv : iv + 3].copy(), out[iv + 3 : iv + 6].copy()
                out[iv : iv + 6] = [*(v + np.cross(w, rotation_matrix(q[iq + 3 : iq + 7]) @ com)), *w]
        return out


class ParsedTwin(DrakeTwin):
    """Twin whose bodies and joints come from a URDF text through Drake's parser; joints are matched by name."""

    def __init__(self, model: newton.Model, dt: float, urdf: str, base: str):
        """Weld link ``base`` to the world; shapes are those of the text."""
        self._urdf, self._base = urdf, base
        super().__init__(model, dt)

    def _add_joints(self) -> list[Any]:
        from pydrake.multibody.parsing import Parser

        Parser(self.plant).AddModelsFromString(self._urdf, "urdf")
        weld = self.plant.WeldFrames(self.plant.world_frame(), self.plant.GetFrameByName(self._base))
        joints = []
        for j, label in enumerate(self.model.joint_label):
            fixed = int(self.model.joint_type.numpy()[j]) == int(KIND.FIXED)
            joint = weld if fixed else self.plant.GetJointByName(label.rsplit("/", 1)[-1])
            if self._has_drive(j):
                self._add_motor(j, joint)
            joints.append(joint)
        return joints

    def _add_shapes(self, contact_tau_d: float) -> list[Any]:
        return []
