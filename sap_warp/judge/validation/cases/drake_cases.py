"""Trajectories and single steps against Drake's discrete SAP, on models that give both the same contact points.

Both solvers start Newton's method at the incoming velocity, take the same steps with an exact line search and stop at
the same residual, so even an early stop happens at the same iterate; what is left is round-off and Newton's fp32
contact points. Balls on planes lose almost nothing to fp32: the centre of a ball is a body-fixed point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import newton
import numpy as np
import warp as wp

from ..result import Outcome, case
from ..trial import (
    DRAKE_LIKE,
    TIGHT,
    Trial,
    add_ball,
    add_box,
    add_ground,
    box_inertia,
    material,
    new_builder,
    pair_tau,
    pose,
)
from .drake_twin import DrakeTwin, ParsedTwin


class Bound(NamedTuple):
    """Largest difference between the two programs, and the reason for that number."""

    most: float
    why: str


SAME = Bound(1e-10, "same contact points, weights and iterates; a line search stops at 1e-8 of the slope")
FP32 = Bound(
    1e-6, "the same problem in every step but for contact points that Newton rounds to fp32 (6e-8 of their size)"
)
EXACT = Bound(1e-6, "what remains of fp32 are lever arms, 6e-8 of a radius")
CORNER = "a corner is an fp32 point, up to 2e-8 m off; over h + tau = 25 ms and a lever arm of 0.1 m: 1e-5 rad/s"
MODE = newton.JointTargetMode
Control = Callable[[float], Any]


def difference(a: np.ndarray, b: np.ndarray, quaternions: Sequence[int]) -> float:
    """Return the largest difference of two configurations; quaternions at the given indices may differ in sign."""
    b = b.copy()
    for i in quaternions:
        if np.dot(a[i : i + 4], b[i : i + 4]) < 0.0:
            b[i : i + 4] *= -1.0
    return float(np.abs(a - b).max())


def quaternion_starts(model: newton.Model) -> list[int]:
    """Where joint_q holds the quaternions of free joints."""
    kinds, starts = model.joint_type.numpy(), model.joint_q_start.numpy()
    return [int(starts[j]) + 3 for j, kind in enumerate(kinds) if kind == int(newton.JointType.FREE)]


def compare(
    model: newton.Model,
    dt: float,
    qd: Any = None,
    q: Any = None,
    seconds: float = 1.0,
    targets: Control | None = None,
    step_bound: Bound = SAME,
    speed_bound: Bound = FP32,
    exact_bound: Bound | None = None,
    must_touch: bool = True,
    twin: DrakeTwin | None = None,
    **options: Any,
) -> Outcome:
    """Run one step and a trajectory of ``model`` in both programs, from the same state.

    Args:
        model: One world.
        dt: Time step [s].
        qd: Initial public joint velocities; None is the model's.
        q: Initial joint positions; None is the model's.
        seconds: Length of the trajectory.
        targets: Position targets in Newton's layout at a time [s]; None leaves the model's.
        step_bound: On the velocity after the first step [m/s or rad/s].
        speed_bound: On velocities, over the trajectory and of single steps from Drake's states along it.
        exact_bound: On single steps from Drake's states if the solver gets the exact centres of balls; None leaves
            that row out.
        must_touch: The trajectory has to have contacts.
        twin: Drake's side; None builds it from ``model``.
        **options: For the solver.
    """
    q0 = np.array(model.joint_q.numpy() if q is None else q, dtype=float)
    qd0 = np.array(model.joint_qd.numpy() if qd is None else qd, dtype=float)
    starts = quaternion_starts(model)
    for i in starts:
        q0[i : i + 4] /= np.linalg.norm(q0[i : i + 4])
    twin = DrakeTwin(model, dt) if twin is None else twin
    twin.set(q0, qd0)
    sim = Trial(model, dt, **DRAKE_LIKE, **options).set(q0, qd0)
    # started at Drake's own state in the first and every tenth step
    probes = {
        "plain": Trial(model, dt, **DRAKE_LIKE, **options),
        "exact": Trial(model, dt, **DRAKE_LIKE, **options),
        "delassus": Trial(model, dt, **DRAKE_LIKE, contact_weight_mode="delassus", **options),
        "tight": Trial(model, dt, **{**DRAKE_LIKE, **TIGHT}, **options),
    }
    probes["exact"].exact_centres = True
    resumed = dict.fromkeys(probes, 0.0)
    worst_q = worst_v = one_step = 0.0
    touched = different = 0
    at_once = False
    for i in range(round(seconds / dt)):
        if targets is not None:
            wanted = np.asarray(targets(i * dt), dtype=np.float32)
            twin.set_targets(wanted, model.joint_target_qd.numpy(), model.joint_act.numpy())
            for one in (sim, *probes.values()):
                one.control.joint_target_pos.assign(wanted)
        here = twin.contact_count()
        sampled = i == 0 or i % 10 == 9
        if sampled:
            for one in probes.values():
                one.set(twin.q, twin.public_velocity).step()
        sim.step()
        twin.step()
        there = sim.solver.last_contact_count if sim.pipeline is not None else 0
        touched += here > 0
        different += here != there
        theirs = twin.velocity
        step = float(np.abs(sim.velocity - theirs).max())
        if i == 0:
            one_step, at_once = step, here > 0
        if sampled:
            for name, one in probes.items():
                resumed[name] = max(resumed[name], float(np.abs(one.velocity - theirs).max()))
        worst_v = max(worst_v, step)
        worst_q = max(worst_q, difference(sim.q, twin.q, starts))

    speed = "m/s, rad/s"
    outcome = Outcome()
    outcome.curves["drake"] = {"one step": one_step, "positions": worst_q, "velocities": worst_v}
    free = ", still without contact" if must_touch and not at_once else ""
    outcome.check(f"velocity after one step{free}", one_step, *step_bound, speed)
    what = "velocity after single steps from Drake's own states, every tenth"
    outcome.check(what, resumed["plain"], *speed_bound, speed)
    if must_touch and exact_bound is not None:
        outcome.check("the same with the centres of balls not rounded", resumed["exact"], *exact_bound, speed)
    outcome.check(f"positions over {seconds:g} s", worst_q, *FP32, "m, rad")
    outcome.check(f"velocities over {seconds:g} s", worst_v, *speed_bound, speed)
    if must_touch:
        outcome.check("steps in which the number of contacts differs", different, 0, "same geometry, no gap", "steps")
        outcome.check("1 if there was no contact at all", float(touched == 0), 0, "the case must test contact")
        outcome.note(
            "the same single steps with contact_weight_mode=delassus",
            resumed["delassus"],
            "J A^-1 J^T in place of Drake's J diag(A)^-1 J^T",
            speed,
        )
    outcome.note(
        "the same single steps solved to round-off instead of 1e-6",
        resumed["tight"],
        "what Drake's own stopping tolerance leaves",
        speed,
    )
    return outcome


# Balls. Off-centre centres of mass make the three weight modes differ.


def ball_model(position: Sequence[float], mu: float = 0.5, k: float = 1e4, tau: float = 0.02) -> newton.Model:
    """Return one eccentric ball above the ground."""
    b = new_builder()
    add_ground(b, mu=mu, k=k, tau=tau)
    add_ball(b, position, mass=2.0, com=(0.0, 0.03125, -0.015625), mu=mu, k=k, tau=tau)
    return b.finalize(device="cpu")


@case("drake/sphere-dropped", "an eccentric ball falls, bounces and comes to rest")
def sphere_dropped(quick: bool) -> Outcome:
    """Drop the ball from 6 cm with a horizontal speed of zero."""
    return compare(ball_model((0.0, 0.0, 0.1875)), 0.005)


@case("drake/sphere-impact", "the step in which a ball hits the ground at 2 m/s, near-rigid")
def sphere_impact(quick: bool) -> Outcome:
    """Start inside the contact, moving down."""
    return compare(ball_model((0.0, 0.0, 0.12109375), k=1e9), 0.005, qd=[0.5, 0.25, -2.0, 1.0, -2.0, 4.0])


@case("drake/sphere-rolling", "an eccentric ball rolls and wobbles")
def sphere_rolling(quick: bool) -> Outcome:
    """Start with the speed of rolling: v = w r."""
    return compare(ball_model((0.0, 0.0, 0.12109375), mu=0.75), 0.005, qd=[0.5, 0.0, 0.0, 0.0, 4.0, 0.0])


@case("drake/sphere-spinning", "a ball spins about the vertical in place")
def sphere_spinning(quick: bool) -> Outcome:
    """Point contact has no torsional friction, but the eccentric mass makes the ball wander."""
    return compare(ball_model((0.0, 0.0, 0.12109375), mu=0.25), 0.005, qd=[0.0, 0.0, 0.0, 0.0, 0.0, 8.0])


@case("drake/sphere-sliding", "a ball slides, spins and starts to roll")
def sphere_sliding(quick: bool) -> Outcome:
    """Start sideways at 1 m/s without rotation."""
    return compare(ball_model((0.0, 0.0, 0.12109375), mu=0.25), 0.005, qd=[1.0, -0.5, 0.0, 0.0, 0.0, 2.0])


@case("drake/two-spheres", "two balls of different mass collide obliquely in the air")
def two_spheres(quick: bool) -> Outcome:
    """The normal of a ball-ball contact is an fp32 vector: it turns by up to 6e-8 rad."""
    b = new_builder(gravity=(0.0, 0.0, 0.0))
    add_ball(b, (-0.12109375, 0.0, 0.0), mass=2.0, com=(0.0, 0.03125, -0.015625), k=1e5)
    add_ball(b, (0.12109375, 0.03125, 0.0), mass=0.5, k=1e5)
    return compare(
        b.finalize(device="cpu"),
        0.005,
        qd=[1.0, 0.0, 0.25, 0.0, 2.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, -3.0],
        step_bound=Bound(1e-6, "the fp32 normal is off by up to 6e-8 rad, and impulse over mass is 2 m/s"),
    )


def corner_balls(b: newton.ModelBuilder, body: int, half: Sequence[float], radius: float, **keywords: Any) -> None:
    """Add balls at the eight corners of a box."""
    for x in (-1.0, 1.0):
        for y in (-1.0, 1.0):
            for z in (-1.0, 1.0):
                at = pose((x * half[0], y * half[1], z * half[2]))
                b.add_shape_sphere(
                    body, xform=at, radius=radius, cfg=material(**keywords), custom_attributes=pair_tau(0.02)
                )


@case("drake/box-on-corner", "a box lands on one corner, tips over and settles on a face")
def box_on_corner(quick: bool) -> Outcome:
    """Eight corner balls carry the box, so that both programs see the same up to eight contact points."""
    half = (0.125, 0.0625, 0.09375)
    b = new_builder()
    add_ground(b, k=1e5)
    body = b.add_body(
        xform=pose((0.0, 0.0, 0.25), (0.25, 0.5, 0.125, 0.8196)),
        mass=1.5,
        inertia=box_inertia(1.5, half),
        lock_inertia=True,
    )
    corner_balls(b, body, half, 0.015625, k=1e5)
    return compare(
        b.finalize(device="cpu"),
        0.005,
        qd=[0.25, 0.0, 0.0, 0.0, 1.0, 0.5],
        speed_bound=Bound(2e-5, CORNER),
        exact_bound=EXACT,
    )


@case("drake/box-shape-on-corner", "a real box stands on its corner, one contact point in both programs")
def box_shape_on_corner(quick: bool) -> Outcome:
    """Compare until a second corner comes down: then Drake reports one point for a face and Newton four."""
    turn = np.array([0.3647052, -0.2797, 0.1159169, 0.8804762])
    turn /= np.linalg.norm(turn)
    b = new_builder()
    add_ground(b, k=1e5)
    add_box(b, (0.0, 0.0, 0.20703125), rotation=tuple(turn), k=1e5)
    return compare(
        b.finalize(device="cpu"),
        0.005,
        qd=[0.0, 0.0, 0.0, 0.0, 0.0, 3.0],
        seconds=0.25,
        step_bound=Bound(1e-6, CORNER),
        speed_bound=Bound(2e-5, CORNER),
    )


@case("drake/double-pendulum", "two hinges with position limits, PD drives, damping and armature")
def double_pendulum(quick: bool) -> Outcome:
    """Drake's limits are near-rigid with a dissipation time of one step: the same numbers go into the model."""
    dt = 1.0 / 256.0
    b = new_builder()
    joints, parent = [], -1
    for i, (axis, at) in enumerate((((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), ((0.8, 0.6, 0.0), (0.0, 0.0, -0.5)))):
        link = b.add_link(
            mass=1.5,
            com=wp.vec3(0.0625, 0.03125, -0.25),
            inertia=box_inertia(1.5, (0.05, 0.04, 0.25)),
            lock_inertia=True,
        )
        joints.append(
            b.add_joint_revolute(
                parent,
                link,
                axis=axis,
                parent_xform=pose(at),
                limit_lower=(-0.25, 0.125)[i],
                limit_upper=(0.625, 0.5)[i],
                limit_ke=2.0**40,
                limit_kd=2.0**40 * dt,
                target_ke=(2.0, 8.0)[i],
                target_kd=0.25,
                target_pos=(0.5, -1.0)[i],
                armature=0.0625,
                damping=0.125,
                effort_limit=(1e3, 1.0)[i],
                actuator_mode=MODE.POSITION_VELOCITY,
            )
        )
        parent = link
    b.add_articulation(joints)
    model = b.finalize(device="cpu")
    outcome = compare(model, dt, q=[0.6, 0.25], qd=[2.0, -1.5], must_touch=False)
    sim = Trial(model, dt, **DRAKE_LIKE).set([0.6, 0.25], [2.0, -1.5])
    seen = sim.run(1.0, observe=lambda s: s.q)
    outcome.check(
        "distance that both limits were missed by",
        max(0.0, 0.624 - seen[:, 0].max(), seen[:, 1].min() - 0.126),
        0,
        "the trajectory must reach limits of both hinges",
        "rad",
    )
    return outcome


@case("drake/cart", "a cart with a pole and a drive that saturates")
def cart(quick: bool) -> Outcome:
    """The drive pulls with its effort limit of 4 N at first, and is linear once the cart is near the target."""
    b = new_builder()
    car = b.add_link(mass=1.0, inertia=box_inertia(1.0, 0.1), lock_inertia=True)
    pole = b.add_link(
        mass=0.25, com=wp.vec3(0.0, 0.0, 0.25), inertia=box_inertia(0.25, (0.01, 0.01, 0.25)), lock_inertia=True
    )
    slide = b.add_joint_prismatic(
        -1,
        car,
        axis=(1.0, 0.0, 0.0),
        target_ke=40.0,
        target_kd=12.0,
        target_pos=0.25,
        effort_limit=4.0,
        armature=0.125,
        actuator_mode=MODE.POSITION,
    )
    hinge = b.add_joint_revolute(car, pole, axis=(0.0, 1.0, 0.0), damping=0.03125)
    b.add_articulation([slide, hinge])
    model = b.finalize(device="cpu")
    outcome = compare(model, 0.005, q=[0.0, 0.125], must_touch=False)
    sim = Trial(model, 0.005, **DRAKE_LIKE).set([0.0, 0.125])
    effort = sim.run(1.0, observe=lambda s: 40.0 * (0.25 - s.q[0]) - 12.0 * s.qd[0])
    outcome.check(
        "the drive never left (1) or never reached (2) its limit",
        1.0 * (np.abs(effort).min() > 4.0) + 2.0 * (np.abs(effort).max() < 4.0),
        0,
        "both branches of the drive must be used",
    )
    return outcome


def two_finger_gripper() -> newton.Model:
    """A lift, two fingers with ball tips on slides, and a ball on the ground between them."""
    b = new_builder()
    add_ground(b, mu=0.75, k=1e5)
    lift = b.add_link(mass=1.0, inertia=box_inertia(1.0, 0.05), lock_inertia=True)
    joints = [
        b.add_joint_prismatic(
            -1,
            lift,
            axis=(0.0, 0.0, 1.0),
            parent_xform=pose((0.0, 0.0, 0.125)),
            target_ke=4000.0,
            target_kd=250.0,
            effort_limit=1e3,
            actuator_mode=MODE.POSITION,
        )
    ]
    for side in (-1.0, 1.0):
        finger = b.add_link(mass=0.125, inertia=box_inertia(0.125, 0.02), lock_inertia=True)
        joints.append(
            b.add_joint_prismatic(
                lift,
                finger,
                axis=(-side, 0.0, 0.0),
                parent_xform=pose((side * 0.109375, 0.0, 0.0)),
                target_ke=1000.0,
                target_kd=50.0,
                effort_limit=20.0,
                actuator_mode=MODE.POSITION,
            )
        )
        for y in (-1.0, 1.0):
            b.add_shape_sphere(
                finger,
                xform=pose((0.0, y * 0.03125, 0.0)),
                radius=0.03125,
                cfg=material(mu=0.75, k=1e5),
                custom_attributes=pair_tau(0.02),
            )
    b.add_articulation(joints)
    add_ball(b, (0.0, 0.0, 0.125), mass=0.5, radius=0.0625, mu=0.75, k=1e5)
    b.shape_collision_filter_pairs += [(i, k) for i in (1, 2, 3, 4) for k in (0, 1, 2, 3, 4) if k < i]
    b.body_q[-1] = pose((0.0, 0.0, 0.0625))
    b.joint_q[-5] = 0.0625
    return b.finalize(device="cpu")


@case("drake/gripper", "two driven fingers squeeze a ball and lift it", slow=True)
def gripper(quick: bool) -> Outcome:
    """Squeeze with four finger contacts above the ground; the squeeze saturates at the effort limit of 20 N."""
    model = two_finger_gripper()
    q = model.joint_q.numpy().copy()
    q[0] = -0.0625

    def targets(time: float) -> np.ndarray:
        wanted = np.zeros(model.joint_coord_count)
        wanted[0] = -0.0625 + 0.125 * min(max(time - 0.4, 0.0), 0.5)
        wanted[1:3] = min(0.125 * time, 0.0625)
        return wanted

    outcome = compare(model, 0.005, q=q, targets=targets)
    sim = Trial(model, 0.005, **DRAKE_LIKE).set(q)
    for i in range(200):
        sim.control.joint_target_pos.assign(np.asarray(targets(i * 0.005), dtype=np.float32))
        sim.step()
    missing = 0.05 - float(sim.position[-1, 2] - 0.0625)
    outcome.check("height of 5 cm that the ball was not lifted", max(0.0, missing), 0, "the grasp must hold", "m")
    return outcome


def panda_urdf() -> str:
    """Return the Panda arm of example-robot-data as URDF text, without its meshes."""
    import importlib.metadata
    import xml.etree.ElementTree as ET

    files = importlib.metadata.files("example-robot-data") or []
    path = next(str(f.locate()) for f in files if str(f).endswith("panda_description/urdf/panda.urdf"))
    root = ET.parse(path).getroot()
    for joint in root.iter("joint"):
        for part in joint.findall("mimic"):  # each finger has its own drive
            joint.remove(part)
    for link in root.iter("link"):
        for part in (*link.findall("visual"), *link.findall("collision")):
            link.remove(part)
    return ET.tostring(root, encoding="unicode")


@case("drake/panda", "the Panda arm swings into a commanded pose and holds it; each program reads the URDF itself")
def panda(quick: bool) -> Outcome:
    """Move seven hinges and two fingers by PD drives with the effort limits of the file.

    Newton stores masses, inertias and frames in fp32, Drake does not.
    """
    dt, text = 1.0 / 512.0, panda_urdf()
    b = new_builder()
    # Newton 1.7 merges the inertias of fixed links wrongly (parallel axes): leave them apart
    b.add_urdf(text, floating=False, collapse_fixed_joints=False, joint_damping_mode="passive")
    dofs = b.joint_dof_count
    b.joint_target_mode = [int(MODE.POSITION)] * dofs
    b.joint_target_ke = [400.0] * 7 + [1000.0] * 2
    b.joint_target_kd = [40.0] * 7 + [50.0] * 2
    b.joint_limit_ke, b.joint_limit_kd = [2.0**40] * dofs, [2.0**40 * dt] * dofs
    b.joint_armature = [0.125] * 7 + [0.03125] * 2
    b.joint_friction = [0.0] * dofs
    b.joint_target_q = [0.0, -0.5, 0.0, -2.0, 0.0, 1.75, 0.75, 0.03125, 0.03125]
    model = b.finalize(device="cpu")
    start = [0.25, -0.25, 0.25, -1.75, 0.25, 1.5, 0.5, 0.0, 0.0]
    why = "inertias and frames are rounded to fp32 (6e-8 of their size) on one side only"
    return compare(
        model,
        dt,
        q=start,
        must_touch=False,
        twin=ParsedTwin(model, dt, text, "panda_link0"),
        velocity_limit_mode="ignore",
        step_bound=Bound(1e-6, why),
        speed_bound=Bound(5e-6, why),
    )


def quadruped() -> newton.Model:
    """Return a floating base of 4 kg with four legs of two hinges and ball feet."""
    b = new_builder()
    add_ground(b, k=1e5, mu=0.75)
    base = b.add_link(
        xform=pose((0.0, 0.0, 0.5)), mass=4.0, inertia=box_inertia(4.0, (0.2, 0.12, 0.05)), lock_inertia=True
    )
    joints = [b.add_joint_free(base)]
    drive = {
        "target_ke": 80.0,
        "target_kd": 4.0,
        "effort_limit": 12.0,
        "armature": 0.0078125,
        "actuator_mode": MODE.POSITION,
    }
    for x in (-0.1875, 0.1875):
        for y in (-0.125, 0.125):
            thigh, shank = (
                b.add_link(
                    mass=mass,
                    com=wp.vec3(0.0, 0.0, -0.09375),
                    inertia=box_inertia(mass, (0.01, 0.01, 0.1)),
                    lock_inertia=True,
                )
                for mass in (0.5, 0.25)
            )
            axis = (0.0, 1.0, 0.0)
            joints.append(
                b.add_joint_revolute(base, thigh, axis=axis, parent_xform=pose((x, y, 0.0)), target_pos=0.625, **drive)
            )
            joints.append(
                b.add_joint_revolute(
                    thigh, shank, axis=axis, parent_xform=pose((0.0, 0.0, -0.1875)), target_pos=-1.25, **drive
                )
            )
            b.add_shape_sphere(
                shank,
                xform=pose((0.0, 0.0, -0.1875)),
                radius=0.03125,
                cfg=material(k=1e5, mu=0.75),
                custom_attributes=pair_tau(0.02),
            )
    b.add_articulation(joints)
    return b.finalize(device="cpu")


@case("drake/quadruped", "a floating base with ball feet lands on its legs, askew and drifting sideways")
def land(quick: bool) -> Outcome:
    """Land on four feet one after another; drives saturate on impact."""
    model = quadruped()
    q = model.joint_q.numpy().astype(float).copy()
    q[:7] = [0.0, 0.0, 0.4375, 0.03125, 0.0625, 0.0, 1.0]
    q[7:] = [0.625, -1.25] * 4
    qd = np.zeros(model.joint_dof_count)
    qd[:3] = [0.5, 0.25, -0.5]
    why = "a foot is an fp32 point, up to 4e-8 m off, and a shank is light: its hinge moves by 1e-5 rad/s and more"
    return compare(model, 0.005, q=q, qd=qd, speed_bound=Bound(1e-4, why), exact_bound=EXACT)
