"""The same scene in MuJoCo and Drake, made from a Newton model of one world.

Masses, centres of mass, inertias, joint frames, axes, limits, armature, damping, drives, collision shapes, collision
filters and friction are carried over one by one. What cannot be carried over is listed in `DIFFERENCES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import newton
import numpy as np

from sap_warp.conventions.rotations import rotation_matrix

DIFFERENCES = {
    "contact": "Each engine has its own contact law: SAP Warp and Drake compliance and dissipation time, MuJoCo its "
    "default solref and solimp. Friction is the same.",
    "box contacts": "Drake's point contact gives one point per pair of shapes, on which no box rests, so boxes are "
    "hydroelastic there where they matter; the other engines give a box up to eight points.",
    "drives": "Implicit in SAP Warp and Drake; in MuJoCo springs are explicit and damping implicit.",
    "limits": "Each engine has its own joint limit law.",
}
UNLIMITED = 1.0e6
HYDROELASTIC_MODULUS = 1.0e7
"""Of Drake's boxes [Pa]."""
_J = newton.JointType
_G = newton.GeoType


class Unsupported(ValueError):
    """The scene cannot be brought up identically in an engine."""


@dataclass
class Joint:
    """One joint and the body it moves."""

    kind: int
    parent: int
    child: int
    X_p: np.ndarray
    """Joint frame in the parent, xyz and quaternion xyzw."""
    X_c: np.ndarray
    """Joint frame in the child."""
    dofs: range
    linear: int


@dataclass
class Shape:
    """One collision shape."""

    body: int
    kind: int
    scale: np.ndarray
    pose: np.ndarray
    friction: float
    stiffness: float
    source: Any
    """The mesh of a convex hull."""
    robot: bool
    """Part of a robot, whose own shapes do not touch each other."""


class Source:
    """Arrays of a Newton model of one world, as the exporters read them."""

    def __init__(self, model: newton.Model):
        if model.world_count != 1:
            raise ValueError("The exporters take a model of one world.")
        self.model = model
        self.mass, self.com, self.inertia = (getattr(model, f"body_{n}").numpy() for n in ("mass", "com", "inertia"))
        self.lower, self.upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
        self.armature, self.damping = model.joint_armature.numpy(), model.joint_damping.numpy()
        self.axis, self.friction = model.joint_axis.numpy(), model.joint_friction.numpy()
        mode = model.joint_target_mode.numpy()
        driven = mode == int(newton.JointTargetMode.POSITION)
        if not np.isin(mode, [int(newton.JointTargetMode.NONE), int(newton.JointTargetMode.POSITION)]).all():
            raise Unsupported("drives other than position drives")
        self.ke = np.where(driven, model.joint_target_ke.numpy(), 0.0)
        self.kd = np.where(driven, model.joint_target_kd.numpy(), 0.0)
        self.gravity = model.gravity.numpy()[0]
        self.joints = [self._joint(i) for i in range(model.joint_count)]
        self.pair_array = model.shape_contact_pairs.numpy().reshape(-1, 2)
        shape_body = model.shape_body.numpy()
        self._robot_shapes = {i for i, b in enumerate(shape_body) if b >= 0 and self.is_robot(b)}
        self.shapes = [self._shape(i) for i in range(model.shape_count) if self._collides(i)]
        self.target = self._targets()
        touching = {int(b) for pair in shape_body[self.pair_array] if -1 in pair for b in pair}
        self.free_of_ground = {s.body for s in self.shapes if s.body >= 0} - touching
        """Bodies whose shapes touch nothing that is fixed, such as the first link of a robot with a fixed base."""

    def _joint(self, i: int) -> Joint:
        m = self.model
        start = m.joint_qd_start.numpy()
        return Joint(
            int(m.joint_type.numpy()[i]),
            int(m.joint_parent.numpy()[i]),
            int(m.joint_child.numpy()[i]),
            m.joint_X_p.numpy()[i].astype(float),
            m.joint_X_c.numpy()[i].astype(float),
            range(int(start[i]), int(start[i + 1])),
            int(m.joint_dof_dim.numpy()[i][0]),
        )

    def _collides(self, i: int) -> bool:
        return bool(self.model.shape_flags.numpy()[i] & int(newton.ShapeFlags.COLLIDE_SHAPES))

    def _shape(self, i: int) -> Shape:
        m = self.model
        return Shape(
            int(m.shape_body.numpy()[i]),
            int(m.shape_type.numpy()[i]),
            m.shape_scale.numpy()[i].astype(float),
            m.shape_transform.numpy()[i].astype(float),
            float(m.shape_material_mu.numpy()[i]),
            float(m.shape_material_ke.numpy()[i]),
            m.shape_source[i],
            i in self._robot_shapes or self._is_base(i),
        )

    def _is_base(self, i: int) -> bool:
        """Whether a fixed shape is the base of a robot: it may touch objects, but nothing of the robot."""
        if self.model.shape_body.numpy()[i] >= 0 or not self._robot_shapes:
            return False
        partners = {int(b if a == i else a) for a, b in self.pair_array if i in (a, b)}
        return not partners & self._robot_shapes

    def _targets(self) -> np.ndarray:
        """Drive targets by dof; Newton keeps them by coordinate."""
        m = self.model
        by_coord, starts = m.joint_target_q.numpy(), m.joint_q_start.numpy()
        target = np.zeros(m.joint_dof_count)
        for i, joint in enumerate(self.joints):
            if joint.kind not in (int(_J.FREE), int(_J.BALL)):
                target[joint.dofs.start : joint.dofs.stop] = by_coord[starts[i] : starts[i + 1]]
        return target

    def is_robot(self, body: int) -> bool:
        """Whether a body belongs to a tree with more than one body, whose shapes do not touch each other."""
        joint = next(j for j in self.joints if j.child == body)
        return joint.parent >= 0 or joint.kind != int(_J.FREE) or any(j.parent == body for j in self.joints)

    def pairs(self) -> int:
        """Pairs of shapes that may collide."""
        return int(self.model.shape_contact_pair_count)


def rotation(q: np.ndarray) -> np.ndarray:
    """Matrix of a quaternion xyzw."""
    return rotation_matrix(q / np.linalg.norm(q))


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of two poses, xyz and quaternion xyzw."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a[3:], b[3:]
    q = [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
    return np.concatenate([a[:3] + rotation(a[3:]) @ b[:3], q])


def inverse(a: np.ndarray) -> np.ndarray:
    """Inverse of a pose."""
    q = np.array([-a[3], -a[4], -a[5], a[6]])
    return np.concatenate([-rotation(q) @ a[:3], q])


def wxyz(q: np.ndarray) -> list[float]:
    """Quaternion with the scalar first."""
    return [float(q[3]), float(q[0]), float(q[1]), float(q[2])]


# MuJoCo.

_MUJOCO_GEOMS = {
    int(_G.SPHERE): mujoco.mjtGeom.mjGEOM_SPHERE,
    int(_G.CAPSULE): mujoco.mjtGeom.mjGEOM_CAPSULE,
    int(_G.CYLINDER): mujoco.mjtGeom.mjGEOM_CYLINDER,
    int(_G.BOX): mujoco.mjtGeom.mjGEOM_BOX,
    int(_G.ELLIPSOID): mujoco.mjtGeom.mjGEOM_ELLIPSOID,
    int(_G.PLANE): mujoco.mjtGeom.mjGEOM_PLANE,
    int(_G.CONVEX_MESH): mujoco.mjtGeom.mjGEOM_MESH,
}


def to_mujoco(model: newton.Model, dt: float) -> Any:
    """An MjModel with MuJoCo's default solver.

    Raises:
        Unsupported: A joint or a shape has no counterpart, or the collision filters differ.
    """
    source = Source(model)
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = dt
    spec.option.gravity = source.gravity
    bodies = {-1: spec.worldbody}
    for joint in source.joints:
        bodies[joint.child] = _mujoco_body(source, joint, bodies[joint.parent])
    for shape in source.shapes:
        _mujoco_geom(spec, shape, bodies[shape.body])
    for body in source.free_of_ground:
        spec.add_exclude(bodyname1=bodies[body].name, bodyname2="world")
    compiled = spec.compile()
    if compiled.nv != model.joint_dof_count:
        raise Unsupported(f"MuJoCo has {compiled.nv} dofs, Newton {model.joint_dof_count}")
    found = _mujoco_pairs(compiled)
    if found != source.pairs():
        raise Unsupported(f"MuJoCo may collide {found} pairs of shapes, Newton {source.pairs()}")
    return compiled


def _mujoco_body(source: Source, joint: Joint, parent: Any) -> Any:
    home = multiply(joint.X_p, inverse(joint.X_c))
    body = parent.add_body(name=f"body_{joint.child}", pos=home[:3], quat=wxyz(home[3:]))
    child = joint.child
    inertia = source.inertia[child].astype(float)
    body.explicitinertial = True
    body.mass, body.ipos = float(source.mass[child]), source.com[child].astype(float)
    body.fullinertia = [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    if joint.kind == int(_J.FREE):
        body.add_freejoint()
        return body
    if joint.kind not in (int(_J.FIXED), int(_J.REVOLUTE), int(_J.PRISMATIC), int(_J.D6)):
        raise Unsupported(f"joint type {_J(joint.kind).name}")
    for i, dof in enumerate(joint.dofs):
        linear = i < joint.linear
        added = body.add_joint(
            type=mujoco.mjtJoint.mjJNT_SLIDE if linear else mujoco.mjtJoint.mjJNT_HINGE,
            axis=rotation(joint.X_c[3:]) @ source.axis[dof],
            pos=joint.X_c[:3],
            armature=float(source.armature[dof]),
            frictionloss=float(source.friction[dof]),
        )
        added.stiffness[0] = float(source.ke[dof])
        added.damping[0] = float(source.damping[dof] + source.kd[dof])
        added.springref = float(source.target[dof])
        if source.lower[dof] > -UNLIMITED and source.upper[dof] < UNLIMITED:
            added.limited = mujoco.mjtLimited.mjLIMITED_TRUE
            added.range = [float(source.lower[dof]), float(source.upper[dof])]
        else:
            added.limited = mujoco.mjtLimited.mjLIMITED_FALSE
    return body


def _mujoco_geom(spec: Any, shape: Shape, body: Any) -> None:
    if shape.kind not in _MUJOCO_GEOMS:
        raise Unsupported(f"shape type {_G(shape.kind).name}")
    size = [10.0, 10.0, 0.1] if shape.kind == int(_G.PLANE) else list(shape.scale)
    mesh = {"meshname": _mujoco_mesh(spec, shape)} if shape.kind == int(_G.CONVEX_MESH) else {}
    # robots: bit 1 against bit 0; free objects: bit 0 against bit 0; what is fixed: bit 0 against nothing
    contype, conaffinity = (2, 1) if shape.robot else (1, 1) if shape.body >= 0 else (1, 0)
    body.add_geom(
        type=_MUJOCO_GEOMS[shape.kind],
        size=size,
        pos=shape.pose[:3],
        quat=wxyz(shape.pose[3:]),
        friction=[shape.friction, 0.005, 0.0001],
        contype=contype,
        conaffinity=conaffinity,
        density=0.0,
        **mesh,
    )


def _mujoco_mesh(spec: Any, shape: Shape) -> str:
    """Add the mesh of a hull and return its name."""
    name = f"hull_{len(spec.meshes)}"
    spec.add_mesh(name=name, uservert=hull_vertices(shape).ravel(), userface=np.asarray(shape.source.indices).ravel())
    return name


def hull_vertices(shape: Shape) -> np.ndarray:
    """Vertices of a convex hull [m], shape [n, 3]."""
    return np.asarray(shape.source.vertices, float) * shape.scale


def _mujoco_pairs(model: Any) -> int:
    """Pairs that pass MuJoCo's filters: masks, same body, excluded bodies, and both fixed to the world."""
    weld = model.body_weldid[model.geom_bodyid]
    one, two = np.triu_indices(model.ngeom, 1)
    types, affinities = model.geom_contype, model.geom_conaffinity
    masks = ((types[one] & affinities[two]) | (types[two] & affinities[one])) != 0
    excluded = {int(s) for s in model.exclude_signature}  # (body1 << 16) + body2
    body = model.geom_bodyid.astype(np.int64)
    low, high = np.minimum(body[one], body[two]), np.maximum(body[one], body[two])
    allowed = ~np.isin((low << 16) + high, list(excluded))
    return int((masks & allowed & (weld[one] != weld[two])).sum())


# Drake.


def to_drake(model: newton.Model, dt: float, dissipation: float, hydroelastic: bool = False) -> DrakeScene:
    """A finalized plant in a diagram, with the SAP solver.

    Args:
        model: One world.
        dt: Time step [s].
        dissipation: Of every shape [s].
        hydroelastic: Boxes are compliant and press with their faces; else every pair of shapes has one point.

    Raises:
        Unsupported: A joint or a shape has no counterpart.
    """
    import pydrake.geometry as pg
    import pydrake.math as pm
    import pydrake.multibody.plant as pp
    import pydrake.multibody.tree as pt
    from pydrake.systems.analysis import Simulator
    from pydrake.systems.framework import DiagramBuilder

    source = Source(model)
    builder = DiagramBuilder()
    plant, scene_graph = pp.AddMultibodyPlantSceneGraph(builder, dt)
    plant.set_discrete_contact_approximation(pp.DiscreteContactApproximation.kSap)
    plant.set_contact_model(pp.ContactModel.kHydroelasticWithFallback if hydroelastic else pp.ContactModel.kPoint)
    plant.mutable_gravity_field().set_gravity_vector(source.gravity.astype(float))

    def transform(pose: np.ndarray) -> Any:
        return pm.RigidTransform(pm.RotationMatrix(rotation(pose[3:])), pose[:3])

    bodies = {-1: plant.world_body()}
    floating: dict[int, Any] = {}
    actuated: list[tuple[Any, int]] = []
    hinges: list[tuple[Any, int]] = []
    for number, joint in enumerate(source.joints):
        child = joint.child
        inertia, com, mass = source.inertia[child].astype(float), source.com[child].astype(float), source.mass[child]
        moment = pt.RotationalInertia(
            inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]
        )
        central = pt.UnitInertia(*(moment.get_moments() / mass), *(moment.get_products() / mass))
        spatial = pt.SpatialInertia(float(mass), com, central.ShiftFromCenterOfMass(com), skip_validity_check=True)
        body = plant.AddRigidBody(f"body_{child}", spatial)
        bodies[child] = body
        if joint.kind == int(_J.FREE):
            floating[number] = body
            continue
        if joint.kind == int(_J.FIXED):
            plant.WeldFrames(
                bodies[joint.parent].body_frame(), body.body_frame(), transform(multiply(joint.X_p, inverse(joint.X_c)))
            )
            continue
        if joint.kind not in (int(_J.REVOLUTE), int(_J.PRISMATIC), int(_J.D6)):
            raise Unsupported(f"joint type {_J(joint.kind).name}")
        parent, place = bodies[joint.parent], transform(joint.X_p)
        for i, dof in enumerate(joint.dofs):
            last = i == len(joint.dofs) - 1
            link = body if last else plant.AddRigidBody(f"between_{dof}", pt.SpatialInertia.Zero())
            end = transform(joint.X_c) if last else pm.RigidTransform()
            kind = pt.PrismaticJoint if i < joint.linear else pt.RevoluteJoint
            made = kind(
                f"dof_{dof}",
                plant.AddFrame(pt.FixedOffsetFrame(f"F_{dof}", parent.body_frame(), place)),
                plant.AddFrame(pt.FixedOffsetFrame(f"M_{dof}", link.body_frame(), end)),
                source.axis[dof].astype(float),
                damping=float(source.damping[dof]),
            )
            made = plant.AddJoint(made)
            if source.lower[dof] > -UNLIMITED and source.upper[dof] < UNLIMITED:
                made.set_position_limits([float(source.lower[dof])], [float(source.upper[dof])])
            hinges.append((made, dof))
            if source.armature[dof] > 0.0 or source.ke[dof] > 0.0:
                actuator = plant.AddJointActuator(f"drive_{dof}", made)
                actuator.set_default_rotor_inertia(float(source.armature[dof]))
                actuator.set_default_gear_ratio(1.0)
                if source.ke[dof] > 0.0:
                    gains = pt.PdControllerGains(p=float(source.ke[dof]), d=float(source.kd[dof]))
                    actuator.set_controller_gains(gains)
                actuated.append((actuator, dof))
            parent, place = link, pm.RigidTransform()
    robot = _drake_shapes(source, plant, bodies, transform, dissipation, hydroelastic)
    plant.Finalize()
    filters = pg.CollisionFilterDeclaration().ExcludeWithin(pg.GeometrySet(robot))
    for b in source.free_of_ground:
        one, world = (plant.CollectRegisteredGeometries([body]) for body in (bodies[b], plant.world_body()))
        filters.ExcludeBetween(one, world)
    scene_graph.collision_filter_manager().Apply(filters)
    diagram = builder.Build()
    simulator = Simulator(diagram)
    return DrakeScene(source, plant, diagram, simulator, bodies, floating, hinges, actuated)


def _drake_shapes(
    source: Source, plant: Any, bodies: Any, transform: Any, dissipation: float, hydroelastic: bool
) -> list[Any]:
    """Register all shapes; returns those of robots."""
    import pydrake.geometry as pg
    from pydrake.multibody.plant import CoulombFriction

    robot = []
    for number, shape in enumerate(source.shapes):
        s = shape.scale
        makers = {
            int(_G.SPHERE): lambda s=s: pg.Sphere(s[0]),
            int(_G.CAPSULE): lambda s=s: pg.Capsule(s[0], 2.0 * s[1]),
            int(_G.CYLINDER): lambda s=s: pg.Cylinder(s[0], 2.0 * s[1]),
            int(_G.BOX): lambda s=s: pg.Box(2.0 * s[0], 2.0 * s[1], 2.0 * s[2]),
            int(_G.ELLIPSOID): lambda s=s: pg.Ellipsoid(s[0], s[1], s[2]),
            int(_G.PLANE): lambda: pg.HalfSpace(),
            int(_G.CONVEX_MESH): lambda shape=shape: pg.Convex(hull_vertices(shape).T, "hull"),
        }
        if shape.kind not in makers:
            raise Unsupported(f"shape type {_G(shape.kind).name}")
        properties = pg.ProximityProperties()
        pg.AddContactMaterial(
            point_stiffness=shape.stiffness,
            friction=CoulombFriction(shape.friction, shape.friction),
            properties=properties,
        )
        properties.AddProperty("material", "relaxation_time", dissipation)
        if hydroelastic and shape.kind == int(_G.BOX):
            pg.AddCompliantHydroelasticProperties(float(min(s)), HYDROELASTIC_MODULUS, properties)
        elif hydroelastic and shape.kind == int(_G.PLANE):
            pg.AddRigidHydroelasticProperties(properties)
        made = plant.RegisterCollisionGeometry(
            bodies[shape.body], transform(shape.pose), makers[shape.kind](), f"shape_{number}", properties
        )
        if shape.robot:
            robot.append(made)
    return robot


@dataclass
class DrakeScene:
    """A plant that can be put into Newton's coordinates."""

    source: Source
    plant: Any
    diagram: Any
    simulator: Any
    bodies: dict[int, Any]
    floating: dict[int, Any]
    hinges: list[tuple[Any, int]]
    actuated: list[tuple[Any, int]]

    def set_coordinates(self, joint_q: np.ndarray) -> None:
        """Start from ``joint_q``, at rest, with all drives on."""
        import pydrake.math as pm

        context = self.diagram.CreateDefaultContext()
        self.simulator.reset_context(context)
        own = self.plant.GetMyMutableContextFromRoot(context)
        starts = self.source.model.joint_q_start.numpy()
        coordinate = {}
        for i, joint in enumerate(self.source.joints):
            if i in self.floating:
                pose = multiply(
                    multiply(joint.X_p, joint_q[starts[i] : starts[i] + 7].astype(float)), inverse(joint.X_c)
                )
                at = pm.RigidTransform(pm.RotationMatrix(rotation(pose[3:])), pose[:3])
                self.plant.SetFreeBodyPose(own, self.floating[i], at)
            else:
                coordinate.update({dof: joint_q[starts[i] + n] for n, dof in enumerate(joint.dofs)})
        for made, dof in self.hinges:
            self.plant.SetPositions(own, *self._slot(own, made, float(coordinate[dof])))
        self._connect_drives(own)
        self.simulator.Initialize()

    def _slot(self, context: Any, joint: Any, value: float) -> tuple[np.ndarray]:
        q = self.plant.GetPositions(context)
        q[joint.position_start()] = value
        return (q,)

    def _connect_drives(self, context: Any) -> None:
        from pydrake.multibody.tree import default_model_instance

        if not self.actuated:
            return
        instance = default_model_instance()
        port = self.plant.get_actuation_input_port(instance)
        port.FixValue(context, np.zeros(port.size()))
        if any(actuator.has_controller() for actuator, _ in self.actuated):
            targets = [self.source.target[dof] for _, dof in self.actuated]
            desired = self.plant.get_desired_state_input_port(instance)
            desired.FixValue(context, np.concatenate([targets, np.zeros(len(targets))]))
