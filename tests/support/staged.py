"""Small models in which one thing goes wrong, or nothing: for the tests of `diagnose`."""

import math

import newton
import numpy as np
import warp as wp

from sap_warp import Simulation, SolverSAP

MODE = newton.JointTargetMode
GAP = 0.002
ARM = 0.3
"""Distance of the grip from the axis that the hand turns about [m]."""
CUBE, CUBE_MASS = 0.025, 0.1
"""Half edge [m] and mass [kg] of what is gripped."""
FINGER_MASS, FINGER_KP = 0.015, 1000.0
"""Mass [kg], and stiffness of the drive [N/m]."""


def new_builder():
    """A builder with a small gap, stiff shapes and the solver's attributes."""
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverSAP.register_custom_attributes(builder)
    builder.rigid_gap = GAP
    builder.default_shape_cfg.ke = 1e5
    builder.default_shape_cfg.mu = 0.8
    return builder


def box_inertia(mass, half):
    """Central inertia of a uniform box [kg m^2]."""
    x, y, z = np.broadcast_to(half, 3)
    return wp.mat33(*np.diag(mass / 3.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])).ravel())


def add_box(b, position, mass=1.0, half=0.1, label="box", **material):
    """A free box."""
    body = b.add_body(
        xform=wp.transform(wp.vec3(*position)),
        mass=mass,
        inertia=box_inertia(mass, half),
        lock_inertia=True,
        label=label,
    )
    cfg = b.default_shape_cfg.copy()
    cfg.density = 0.0
    for name, value in material.items():
        setattr(cfg, name, value)
    hx, hy, hz = (float(h) for h in np.broadcast_to(half, 3))
    b.add_shape_box(body, hx=hx, hy=hy, hz=hz, cfg=cfg, label=label)
    return body


def add_gripper(b, squeeze=10.0, spin=0.0, axis="y", tilt=0.0, effort_limit=1e6, mu=0.8):
    """A hand that grips a cube 0.3 m in front of its axis.

    The fingers weigh 15 g and are part of drives with a rotor inertia of 0.1 kg; the hand is held, or turns.

    Args:
        b: Where to add it.
        squeeze: Force of each finger [N].
        spin: How fast the hand turns [rad/s] ...
        axis: ... and about which axis; y is the direction of the squeeze.
        tilt: Angle of each pad to the faces of the cube [rad].
        effort_limit: Of the fingers' drives [N].
        mu: Friction of the pads.
    """
    hand = b.add_link(
        mass=1.0,
        com=wp.vec3(ARM, 0.0, 0.0),
        inertia=box_inertia(1.0, 0.05),
        lock_inertia=True,
        label="hand",
        xform=wp.transform(wp.vec3(0.0, 0.0, 1.0)),
    )
    mode = MODE.VELOCITY if spin else MODE.POSITION
    drive = {"actuator_mode": mode, "target_ke": 1e5, "target_kd": 1e4}
    joints = [
        b.add_joint_revolute(
            -1,
            hand,
            axis=newton.Axis.from_any(axis),
            parent_xform=wp.transform(wp.vec3(0.0, 0.0, 1.0)),
            armature=10.0,
            label="wrist",
            **drive,
        )
    ]
    b.joint_target_qd[-1] = spin
    pad = (0.04, 0.005, 0.04) if tilt else (0.01, 0.005, 0.01)
    for side, name in ((1.0, "left"), (-1.0, "right")):
        finger = b.add_link(
            mass=FINGER_MASS,
            com=wp.vec3(0.0, 0.0, 0.04),
            inertia=box_inertia(FINGER_MASS, (0.01, 0.01, 0.03)),
            lock_inertia=True,
            label=name,
        )
        at = wp.vec3(ARM, side * (CUBE * (1.0 + math.tan(tilt)) + pad[1]), 0.0)
        joints.append(
            b.add_joint_prismatic(
                hand,
                finger,
                axis=(0.0, -side, 0.0),
                parent_xform=wp.transform(at),
                armature=0.1,
                target_ke=FINGER_KP,
                target_kd=50.0,
                target_pos=squeeze / FINGER_KP,
                effort_limit=effort_limit,
                actuator_mode=MODE.POSITION,
                label=f"slide_{name}",
            )
        )
        cfg = b.default_shape_cfg.copy()
        cfg.density, cfg.mu = 0.0, mu
        turn = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), side * tilt)
        b.add_shape_box(
            finger, xform=wp.transform(wp.vec3(), turn), hx=pad[0], hy=pad[1], hz=pad[2], cfg=cfg, label=f"pad_{name}"
        )
    b.add_articulation(joints)
    add_box(b, (ARM, 0.0, 1.0), mass=CUBE_MASS, half=CUBE, label="cube", mu=mu)


def gripper(dt=0.005, worlds=1, threads=1, options=None, ke=1e5, **how):
    """A simulation of `add_gripper`; ``options`` go to the solver."""
    b = new_builder()
    b.default_shape_cfg.ke = ke
    add_gripper(b, **how)
    return simulate(b, dt, worlds, threads=threads, **(options or {}))


def simulate(b, dt=0.005, worlds=1, **options):
    """One world, or copies of it, without notes."""
    if worlds > 1:
        main = new_builder()
        main.replicate(b, worlds)
        b = main
    model = b.finalize(device="cpu")
    return Simulation(model, dt=dt, notes=False, **{"max_rigid_contact": 64, **options})


def add_ground(b, **material):
    """The plane z = 0."""
    cfg = b.default_shape_cfg.copy()
    for name, value in material.items():
        setattr(cfg, name, value)
    b.add_ground_plane(cfg=cfg, label="ground")


def add_arm(b, effort_limit=1e6, target=0.0, limits=(-2.0, 2.0), ke=2000.0):
    """A level arm of 2 kg and 0.5 m on one hinge: 4.9 N m hold it."""
    link = b.add_link(
        mass=2.0,
        com=wp.vec3(0.25, 0.0, 0.0),
        inertia=box_inertia(2.0, (0.25, 0.02, 0.02)),
        lock_inertia=True,
        label="arm",
    )
    joint = b.add_joint_revolute(
        -1,
        link,
        axis=(0.0, 1.0, 0.0),
        parent_xform=wp.transform(wp.vec3(0.0, 0.0, 1.0)),
        target_ke=ke,
        target_kd=100.0,
        target_pos=target,
        effort_limit=effort_limit,
        limit_lower=limits[0],
        limit_upper=limits[1],
        limit_ke=1e5,
        limit_kd=1e2,
        armature=0.1,
        actuator_mode=MODE.POSITION,
        label="shoulder",
    )
    b.joint_target_q[-1] = target  # Newton moves a target outside of the limits inside
    b.add_articulation([joint])


def add_chain(b, links=10, mass=0.1, length=0.1):
    """A level chain of hinges that swings freely, without damping."""
    joints, parent = [], -1
    for i in range(links):
        link = b.add_link(
            mass=mass,
            com=wp.vec3(0.5 * length, 0.0, 0.0),
            inertia=box_inertia(mass, (0.5 * length, 0.005, 0.005)),
            lock_inertia=True,
            label=f"link_{i}",
        )
        at = wp.vec3(length if i else 0.0, 0.0, 0.0 if i else 2.0)
        joints.append(b.add_joint_revolute(parent, link, axis=(0.0, 1.0, 0.0), parent_xform=wp.transform(at)))
        parent = link
    b.add_articulation(joints)


def boxes(count=1, dt=0.005, options=None, material=None):
    """Boxes of 1 kg and 20 cm, one on top of the other."""
    b = new_builder()
    add_ground(b, **(material or {}))
    for i in range(count):
        add_box(b, (0.0, 0.0, 0.1 + 0.2 * i), label=f"box_{i}", **(material or {}))
    return simulate(b, dt, **(options or {}))


def loaded_box(dt=0.005):
    """A light box on the ground that carries 1,000 kg."""
    b = new_builder()
    b.default_shape_cfg.ke = 1e9
    add_ground(b)
    for i, mass in enumerate((1.0, 1000.0)):
        add_box(b, (0.0, 0.0, 0.1 + 0.2 * i), mass=mass, label=("light", "heavy")[i])
    return simulate(b, dt)


def thrown_box(dt=0.01, speed=6.0):
    """A box of 10 cm that hits the ground."""
    b = new_builder()
    add_ground(b)
    add_box(b, (0.0, 0.0, 0.25), half=0.05, label="box")
    b.joint_qd[2] = -speed
    return simulate(b, dt)


def arm(dt=0.005, **how):
    """A simulation of `add_arm`."""
    b = new_builder()
    add_arm(b, **how)
    return simulate(b, dt)


def chain(dt=0.005, **options):
    """A simulation of `add_chain`."""
    b = new_builder()
    add_chain(b)
    return simulate(b, dt, **options)


def shaken_gripper(dt=0.01, **options):
    """A grip that is shaken beside a body of 200 kg, which dominates the cost."""
    b = new_builder()
    add_ground(b)
    add_gripper(b)
    add_box(b, (2.0, 0.0, 0.3), mass=200.0, half=0.3, label="heavy")
    sim = simulate(b, dt, contact_weight_mode="diag_delassus", **options)
    wrist = sim.joint_target_q.numpy()[0]

    def shake(sim):
        wrist[0] = 0.3 * math.sin(4.0 * math.pi * sim.time)

    sim.add_callback(shake)
    return sim


def pushed_box(stiffness, dt=0.005):
    """A box that a spring outside of the solver of ``stiffness`` [N/m], at most 50 N, holds 1 mm above the ground."""
    sim = boxes(dt=dt)
    force, pose = sim.body_f.numpy()[0, 0], sim.body_q.numpy()[0, 0]

    def push(sim):
        force[2] = min(max(stiffness * (0.101 - pose[2]), -50.0), 50.0)

    sim.add_callback(push)
    return sim
