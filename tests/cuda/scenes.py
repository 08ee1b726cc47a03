"""Small models that together use every kind of row, term and joint; each is built on the device that is asked for."""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from sap_warp.scene.shipped.scenes import build_scene, randomize_start
from tests.solver.test_tendons import ACTUATORS, ARM, TENDONS
from tests.support.joint_types import add_all_joint_types
from tests.support.scenes import add_ball, add_box, box_inertia, builder, material

HINGE = newton.ModelBuilder.JointDofConfig


def sliding_box(device):
    """One box that slides and spins."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.01))
    add_box(b, (0.0, 0.0, 0.0999), cfg=material(gap=0.01))
    b.joint_qd[:] = [0.7, -0.2, 0.0, 0.1, 0.2, 1.0]
    return b.finalize(device=device)


def stack(device):
    """Two worlds: boxes and a ball that rest on each other; moving bodies are coupled."""
    together = builder()
    together.add_ground_plane(cfg=material(gap=0.01))
    for shift in (0.0, 0.06):
        b = builder()
        for i in range(3):
            add_box(b, (shift * i, 0.0, 0.0999 + 0.1998 * i), cfg=material(gap=0.01))
        add_ball(b, (0.5, 0.0, 0.0995), cfg=material(gap=0.01))
        b.joint_qd[-6] = 1.0
        together.add_world(b)
    return together.finalize(device=device)


def pile(device):
    """Six boxes with more dofs than a warp has lanes, not numbered from below: the Hessian orders its trees."""
    b = builder()
    b.add_ground_plane(cfg=material(gap=0.01))
    for i in (3, 0, 5, 1, 4, 2):
        add_box(b, (0.01 * i, 0.0, 0.0999 + 0.1998 * i), cfg=material(gap=0.01))
    return b.finalize(device=device)


def free_fall(device):
    """No term at all: the solve is free motion, and one world is not alone."""
    together = builder()
    for height in (1.0, 2.0):
        b = builder()
        add_box(b, (0.0, 0.0, height))
        b.joint_qd[3:6] = [1.0, 2.0, 3.0]
        together.add_world(b)
    return together.finalize(device=device)


def arm(device):
    """A chain with drives, effort limits, joint friction, position and speed limits that take part."""
    b = builder()
    parent, joints = -1, []
    for i in range(5):
        link = b.add_link(mass=1.0 + 0.1 * i, inertia=box_inertia(1.0, 0.1), com=wp.vec3(0.0, 0.0, -0.2))
        axis = HINGE(
            axis=newton.Axis.Y if i % 2 else newton.Axis.X,
            limit_lower=-0.1,
            limit_upper=0.1,
            target_ke=50.0,
            target_kd=2.0,
            effort_limit=3.0,
            friction=0.05,
            velocity_limit=2.0,
            armature=0.01,
        )
        joints.append(b.add_joint_revolute(parent, link, axis=axis, parent_xform=wp.transform((0.0, 0.0, -0.3))))
        parent = link
    b.add_articulation(joints)
    b.joint_q[:] = [0.09, -0.11, 0.05, 0.1, -0.09]
    b.joint_qd[:] = [1.0, -1.5, 2.5, 0.0, -0.5]
    return b.finalize(device=device)


def all_joints(device):
    """Every joint type, on the world and on a moving parent."""
    b = builder()
    add_all_joint_types(b, np.random.default_rng(5))
    model = b.finalize(device=device)
    model.joint_qd.assign(np.random.default_rng(6).normal(size=model.joint_dof_count))
    return model


def distances(device):
    """Distance joints whose bounds act: rows without friction."""
    b = builder()
    add_box(b, (0.0, 0.0, 1.0))
    for side, height in ((-0.3, 0.6), (0.3, 1.4)):
        ball = b.add_link(mass=0.5, inertia=box_inertia(0.5, 0.1))
        bounds = {"min_distance": 0.1, "max_distance": 0.3}
        b.add_articulation([b.add_joint_distance(-1, ball, parent_xform=wp.transform((side, 0.0, height)), **bounds)])
    model = b.finalize(device=device)
    q = model.joint_q.numpy()
    q[7:10], q[14:17] = (0.0, 0.0, 0.35), (0.05, 0.0, 0.0)
    model.joint_q.assign(q)
    return model


def platform(device):
    """A kinematic platform that moves below a box."""
    b = builder()
    carrier = b.add_body(xform=wp.transform((0.0, 0.0, -0.1)), is_kinematic=True)
    b.add_shape_box(carrier, hx=2.0, hy=2.0, hz=0.1, cfg=material(gap=0.01))
    b.joint_qd[0] = 0.5
    add_box(b, (0.0, 0.0, 0.0999), cfg=material(gap=0.01))
    return b.finalize(device=device)


def slider(b, mass=1.0):
    """A body on a vertical slide; returns body and joint."""
    body = b.add_link(mass=mass, inertia=box_inertia(mass, 0.1))
    return body, b.add_joint_prismatic(-1, body, axis=newton.Axis.Z)


def gripper(device):
    """Eight coupled fingers, a weld and contacts: bilateral rows enough for many lanes, in two unlike worlds."""
    together = builder()
    together.add_ground_plane(cfg=material(gap=0.01))
    for count in (8, 3):
        b = builder()
        joints = [slider(b, 0.4 + 0.1 * i)[1] for i in range(count + 1)]
        b.add_articulation(joints)
        for i, joint in enumerate(joints[1:]):
            b.set_joint_mimic(joint, joints[0], coeffs=(0.0, -0.5 + 0.3 * i))
        first, second = (add_box(b, (2.0 + 0.3 * i, 0.0, 0.0999), cfg=material(gap=0.01)) for i in range(2))
        b.add_joint_fixed(first, second, parent_xform=wp.transform((0.3, 0.0, 0.0)))
        b.joint_qd[0] = 0.3
        b.joint_qd[-6] = 0.5
        together.add_world(b)
    return together.finalize(device=device)


def couplings(device):
    """Six worlds of coupled fingers that start off their couplings, and boxes that slide: costs of rows matter."""
    rng = np.random.default_rng(7)
    together = builder()
    together.add_ground_plane(cfg=material(gap=0.01))
    for _ in range(6):
        b = builder()
        joints = [slider(b, 0.5)[1] for _ in range(5)]
        b.add_articulation(joints)
        for joint in joints[1:]:
            b.set_joint_mimic(joint, joints[0], coeffs=(0.0, float(rng.uniform(-1.0, 1.0))))
        for i in range(2):
            add_box(b, (2.0 + i, 0.0, 0.0999), cfg=material(gap=0.01))
        b.joint_q[:5] = rng.uniform(-0.02, 0.02, 5).tolist()
        b.joint_qd[5:] = rng.uniform(-1.0, 1.0, 12).tolist()
        together.add_world(b)
    return together.finalize(device=device)


def four_bar(device):
    """A mechanism that a loop joint closes."""
    b = builder()
    bars = [b.add_link(mass=1.0, inertia=box_inertia(1.0, 0.05), com=wp.vec3(0.0, 0.0, -0.5)) for _ in range(2)]
    coupler = b.add_link(mass=2.0, inertia=box_inertia(2.0, 0.05), com=wp.vec3(0.5, 0.0, 0.0))

    def hinge(parent, child, place, in_child=(0.0, 0.0, 0.0)):
        frames = {"parent_xform": wp.transform(place), "child_xform": wp.transform(in_child)}
        return b.add_joint_revolute(parent, child, axis=newton.Axis.Y, **frames)

    start, end, below = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)
    b.add_articulation([hinge(-1, bars[0], start), hinge(bars[0], coupler, below), hinge(-1, bars[1], end)])
    hinge(coupler, bars[1], end, below)
    b.joint_q[:3] = [0.3, -0.3, 0.3]
    return b.finalize(device=device)


MJCF = """<mujoco><default><geom size="0.05" mass="1" contype="0" conaffinity="0"/></default><worldbody>
<body name="left"><joint name="a" axis="0 1 0"/><geom pos="0 0 -0.2"/>
<body name="tip" pos="0 0 -0.4"><joint name="b" axis="0 1 0"/><geom/></body></body>
<body name="right" pos="0.5 0 0"><joint name="c" axis="0 1 0"/><geom pos="0 0 -0.2"/></body>
<body name="target" pos="0.55 0.3 0"><freejoint/><geom/></body>
<body name="led" pos="0.5 0.3 0"><joint name="d" type="ball" stiffness="30" damping="0.1"/><geom pos="0 0 -0.2"/></body>
</worldbody><equality><connect body1="led" body2="target" anchor="0 0 -0.4"/>
<connect body1="tip" body2="right" anchor="0.25 0 0"/><joint joint1="a" joint2="c" polycoef="0 0.5 0.2 0 0"/>
</equality></mujoco>"""


def equalities(device):
    """MuJoCo's equality constraints: a connection, coupled joints, a mocap body that leads a ball with a spring."""
    b = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(b)
    b.add_mjcf(MJCF, convert_mjc_equality_constraints=False)
    target = next(i for i, label in enumerate(b.body_label) if label.endswith("target"))
    b.body_flags[target] = int(newton.BodyFlags.KINEMATIC)
    b.joint_qd[0] = 0.4
    return b.finalize(device=device)


def tendons(device):
    """MuJoCo's tendons with springs, limits and friction, over spheres and cylinders, and actuators of every kind.

    All of it under water that flows, with a link that weighs nothing.
    """
    kinds = {
        "sum": 'stiffness="30" damping="2" limited="true" range="-0.1 0.1" frictionloss="0.5"',
        "straight": 'stiffness="50" springlength="0.9 1.1" damping="3"',
    }
    b = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(b)
    top = '<option density="1000" viscosity="0.1" wind="1 2 -3"/>'
    text = ARM.format(top=top, end=TENDONS.format(**kinds) + ACTUATORS)
    b.add_mjcf(text.replace('<body name="b"', '<body name="b" gravcomp="1"'))
    model = b.finalize(device=device)
    rng = np.random.default_rng(8)
    model.joint_q.assign(rng.uniform(-0.3, 0.3, model.joint_coord_count))
    model.joint_qd.assign(rng.uniform(-1.0, 1.0, model.joint_dof_count))
    model.mujoco.ctrl.assign(rng.uniform(-1.0, 1.0, model.mujoco.ctrl.shape[0]))
    return model


def humanoid(device):
    """The shipped humanoid, just above the ground, in two poses."""
    model, _ = build_scene("humanoid", 2, device)
    randomize_start(model, 1, tilt=0.2)
    q = model.joint_q.numpy().reshape(2, -1)
    q[:, 2] -= 0.22
    model.joint_q.assign(q.ravel())
    return model


SCENES = {
    scene.__name__: scene
    for scene in (
        sliding_box,
        stack,
        pile,
        free_fall,
        arm,
        all_joints,
        distances,
        platform,
        gripper,
        couplings,
        four_bar,
        equalities,
        tendons,
        humanoid,
    )
}
