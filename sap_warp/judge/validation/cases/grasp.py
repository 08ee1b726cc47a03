"""Grasps that have to hold: the Panda's fingers pick up a cube, a ball and a bottle, and shake them for 16 s.

Fingers have the masses, inertias, rubber tips and travel of the Panda hand in example-robot-data; the hand hangs on
three slides with the inertia of a machine that hardly feels the load, and is moved by the forces that its motion needs,
so that no engine's drives enter the comparison. All shapes have Newton's default material (stiffness 2.5e3 N/m,
friction 1, density 1000 kg/m^3). Slip is how far the body moves along the pads from where the shaking began.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp

from ....solver import SolveStatus
from ..result import Outcome, case
from ..trial import Trial, box_inertia, pose

MODE = newton.JointTargetMode
GRIP = 10.0
"""Force of each finger [N]."""
FINGER_KP, FINGER_KD, FINGER_LIMIT = 1000.0, 20.0, 100.0
HAND_INERTIA, HAND_KP, HAND_KD = 1000.0, 9e3, 6e3
"""Armature of the slides [kg], and a weak drive (3 rad/s) against drift."""
TIP = (0.00875, 0.0076, 0.00925)
"""Half edges of a rubber tip [m]."""
CLOSE, LIFT, HEIGHT = 0.5, 1.0, 0.25
"""Seconds until the fingers are closed, seconds of lifting, and height of lifting [m]."""
DEFAULT_MU = 1.0
OBJECTS = ("cube", "ball", "bottle")
HALF_WIDTH = {"cube": 0.025, "ball": 0.03, "bottle": 0.03}
HALF_HEIGHT = {"cube": 0.025, "ball": 0.03, "bottle": 0.06}
NECK_RADIUS, NECK_HALF = 0.012, 0.03
DROPPED = 0.02
"""Distance along the pads from which a body counts as dropped [m]."""


@functools.cache
def shake(seconds: float, seed: int = 11) -> Any:
    """Return a smooth random motion: position [m] of the hand after time t, three axes, about 3 m/s^2 rms on each."""
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.7, 3.0, (3, 5))
    phase = rng.uniform(0.0, 2.0 * math.pi, (3, 5))
    acceleration = 3.0 * math.sqrt(2.0 / 5.0)
    omega = 2.0 * math.pi * frequency
    amplitude = acceleration / omega**2

    def position(t: float) -> np.ndarray:
        ramp = min(t / 0.5, 1.0) ** 2 * (3.0 - 2.0 * min(t / 0.5, 1.0))
        return ramp * (amplitude * np.sin(omega * t + phase)).sum(axis=1)

    return position


def hand_position(t: float, seconds: float) -> np.ndarray:
    """Return the desired position of the hand [m]."""
    rise = min(max((t - CLOSE) / LIFT, 0.0), 1.0)
    hand = np.array([0.0, 0.0, HEIGHT * rise * rise * (3.0 - 2.0 * rise)])
    return hand + shake(seconds)(t - CLOSE - LIFT) if t > CLOSE + LIFT else hand


def finger_target(name: str, t: float) -> float:
    """Return the target of both fingers [m]: a position inside the body, so that each presses with GRIP."""
    closing = min(t / (0.8 * CLOSE), 1.0)
    return (1.0 - closing) * 0.04 + closing * (HALF_WIDTH[name] - GRIP / FINGER_KP)


MOVED = HAND_INERTIA + np.array([0.96, 0.86, 0.76])
"""Inertia that each slide moves, without the grasped body [kg]."""


@functools.cache
def hand_motion(dt: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions [m] of the slides at every step, and the forces [N] for semi-implicit steps to follow them.

    The forces carry inertia, the damping of the weak drive and the weight of the hand, not that of the grasped body.
    """
    steps = round((CLOSE + LIFT + seconds) / dt)
    path = np.array([hand_position(i * dt, seconds) for i in range(-1, steps + 1)])
    forces = MOVED * (path[2:] - 2.0 * path[1:-1] + path[:-2]) / dt**2 + HAND_KD * (path[2:] - path[1:-1]) / dt
    forces[:, 2] += (0.73 + 2.0 * 0.015) * 9.81
    return path[1:-1], forces


def add_gripper(b: newton.ModelBuilder, name: str) -> None:
    """Add the hand with open fingers around the middle of a body on the ground, and that body."""
    drive = {"target_ke": HAND_KP, "target_kd": HAND_KD, "armature": HAND_INERTIA, "actuator_mode": MODE.POSITION}
    joints, parent, at = [], -1, pose((0.0, 0.0, HALF_HEIGHT[name]))
    for axis in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        last = axis[2] == 1.0
        mass = 0.73 if last else 0.1
        link = b.add_link(mass=mass, inertia=box_inertia(mass, 0.05), lock_inertia=True)
        joints.append(b.add_joint_prismatic(parent, link, axis=axis, parent_xform=at, **drive))
        parent, at = link, pose((0.0, 0.0, 0.0))
    for side in (1.0, -1.0):
        inertia = wp.mat33(*np.diag([2.375e-6, 2.375e-6, 7.5e-7]).ravel())
        finger = b.add_link(mass=0.015, com=wp.vec3(0.0, -side * TIP[1], 0.04525), inertia=inertia, lock_inertia=True)
        joints.append(
            b.add_joint_prismatic(
                parent,
                finger,
                axis=(0.0, side, 0.0),
                parent_xform=pose((0.0, side * TIP[1], 0.0)),
                limit_lower=0.0,
                limit_upper=0.04,
                limit_ke=1e6,
                limit_kd=1e3,
                damping=0.3,
                target_ke=FINGER_KP,
                target_kd=FINGER_KD,
                effort_limit=FINGER_LIMIT,
                actuator_mode=MODE.POSITION,
            )
        )
        tip = b.default_shape_cfg.copy()
        tip.density = 0.0
        b.add_shape_box(finger, hx=TIP[0], hy=TIP[1], hz=TIP[2], cfg=tip)
    b.add_articulation(joints)
    for i in (3, 4):
        b.joint_q[i] = 0.04
        b.joint_target_q[i] = 0.04
    body = b.add_body(xform=pose((0.0, 0.0, HALF_HEIGHT[name])), label=name)
    if name == "cube":
        b.add_shape_box(body, hx=0.025, hy=0.025, hz=0.025)
    elif name == "ball":
        b.add_shape_sphere(body, radius=0.03)
    else:
        b.add_shape_cylinder(body, radius=0.03, half_height=0.06)
        b.add_shape_cylinder(body, xform=pose((0.0, 0.0, 0.06 + NECK_HALF)), radius=NECK_RADIUS, half_height=NECK_HALF)


@dataclass
class Grasp:
    """Result for one body."""

    slip: float
    """Largest distance along the pads from where it was when the shaking began [m]."""
    drift: float
    """Distance along the pads at the end, averaged over the last 0.2 s [m]."""
    failures: int = 0
    """World-steps that did not converge."""

    @property
    def dropped(self) -> bool:
        """True if the body left the pads."""
        return not self.slip < DROPPED


def run_sap(dt: float, seconds: float, **options: Any) -> dict[str, Grasp]:
    """Run three worlds, one body each; ``options`` go to the solver."""
    main = newton.ModelBuilder(up_axis=newton.Axis.Z)
    main.rigid_gap = 0.002
    for name in OBJECTS:
        world = newton.ModelBuilder(up_axis=newton.Axis.Z)
        world.rigid_gap = 0.002
        add_gripper(world, name)
        main.add_world(world)
    main.add_ground_plane()
    model = main.finalize(device="cpu")
    sim = Trial(model, dt, precision="fp32", **options)
    coords, bodies = model.joint_coord_count // 3, model.body_count // 3
    seen, failures = [], np.zeros(3, int)
    wanted = np.zeros(model.joint_coord_count, dtype=np.float32)
    forces = np.zeros((3, model.joint_dof_count // 3), dtype=np.float32)

    path, pushes = hand_motion(dt, seconds)

    def aim(step: int) -> None:
        for i, name in enumerate(OBJECTS):
            fingers = [finger_target(name, step * dt)] * 2
            wanted[coords * i : coords * i + 5] = [*path[step], *fingers]
        forces[:, :3] = pushes[step]
        sim.control.joint_target_pos.assign(wanted)
        sim.control.joint_f.assign(forces.ravel())

    for i in range(len(path)):
        aim(i)
        sim.run(dt)
        failures += sim.solver.status != SolveStatus.CONVERGED
        if i * dt >= CLOSE + LIFT:
            p = sim.position.reshape(3, bodies, 3)
            seen.append(p[:, -1] - p[:, 2])  # relative to the hand
    return {name: summarize(np.array(seen)[:, i], dt, int(failures[i])) for i, name in enumerate(OBJECTS)}


def summarize(relative: np.ndarray, dt: float, failures: int = 0) -> Grasp:
    """Compute the slip from positions relative to the hand, [steps, 3]."""
    along = (relative - relative[0])[:, [0, 2]]  # y is the direction of the squeeze
    return Grasp(
        slip=float(np.linalg.norm(along, axis=1).max()),
        drift=float(np.linalg.norm(along[-max(1, round(0.2 / dt)) :].mean(axis=0))),
        failures=failures,
    )


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "drake": {"contact_preset_variant": "drake"},
    "approx32 + diag_delassus": {"contact_preset_variant": "approx32", "contact_weight_mode": "diag_delassus"},
}
"""Solver settings that have to hold all three bodies."""

MUJOCO = {
    "MuJoCo, defaults": "",
    "MuJoCo, elliptic cone, impratio 10": 'cone="elliptic" impratio="10"',
    "MuJoCo, elliptic cone, impratio 100, noslip": 'cone="elliptic" impratio="100" noslip_iterations="10"',
}


def hold(dt: float, quick: bool, bound: float) -> Outcome:
    """Run all three bodies at one time step; the long form adds the default preset and MuJoCo for comparison."""
    seconds = 2.0 if quick else 16.0
    outcome = Outcome()
    results: dict[str, dict[str, Grasp]] = {}
    for label, options in CONFIGURATIONS.items():
        results[label] = run_sap(dt, seconds, **options)
        for name, grasp in results[label].items():
            what = f"{name} with {label}"
            outcome.check(f"1 if dropped, {what}", float(grasp.dropped), 0, "friction carries 5 times the weight")
            outcome.check(
                f"slip in {seconds:g} s, {what}",
                1e3 * grasp.slip,
                bound * seconds / 16.0 + 0.2,
                "creep of stiction, sigma w h times the load: grows with h and time; 0.2 mm of sway",
                "mm",
            )
            outcome.check(f"steps that did not converge, {what}", grasp.failures, 0, "the problem is convex")
    if not quick:
        from .grasp_mujoco import run_mujoco

        results["approx32 (default)"] = run_sap(dt, seconds, contact_preset_variant="approx32")
        for name, grasp in results["approx32 (default)"].items():
            outcome.note(
                f"slip in {seconds:g} s, {name} with approx32 as it is",
                1e3 * grasp.slip,
                "body_inertia takes a finger of 15 g for a free body that turns easily: w, and with it creep, is "
                "some 25 times too large",
                "mm",
            )
        for label, option in MUJOCO.items():
            results[label] = {name: run_mujoco(name, dt, seconds, option) for name in OBJECTS}
    outcome.curves["grasp"] = (dt, results)
    lines = [
        [label, f"{1e3 * dt:g}", *(("dropped" if g.dropped else f"{1e3 * g.slip:.2f}") for g in found.values())]
        for label, found in results.items()
    ]
    outcome.tables[f"Slip of grasped bodies [mm], {seconds:g} s of shaking"] = (["solver", "dt [ms]", *OBJECTS], lines)
    return outcome


@case("grasp/2-ms", "cube, ball and bottle are lifted and shaken at a step of 2 ms", slow=True)
def fine_steps(quick: bool) -> Outcome:
    """Run `hold` with fine steps."""
    return hold(0.002, quick, 1.0)


@case("grasp/10-ms", "cube, ball and bottle are lifted and shaken at a step of 10 ms", slow=True)
def coarse_steps(quick: bool) -> Outcome:
    """Run `hold` with coarse steps."""
    return hold(0.01, quick, 4.0)
