"""Cases with a known answer: the whole step against formulas on paper.

Where the integrator's own discretization has a closed form too, that one is used, and the bound is round-off.
A slope is a horizontal plane under tilted gravity, downhill +x.
"""

from __future__ import annotations

import math
from typing import Any

import newton
import numpy as np
import warp as wp

from ....conventions.rotations import rotation_matrix
from ..result import Outcome, case
from ..trial import TIGHT, G, Trial, add_ball, add_box, add_ground, material, new_builder, pair_tau, single

H, TAU = 0.005, 0.02
MODE = newton.JointTargetMode
INTEGRATORS = ("sap_euler", "midpoint")


def slope_gravity(angle: float) -> tuple[float, float, float]:
    """Return gravity as seen from a plane inclined by ``angle`` [rad]."""
    return (G * math.sin(angle), 0.0, -G * math.cos(angle))


def box_on_ground(
    angle: float = 0.0, mu: float = 0.5, k: float = 1e6, gap: float = 0.0, mass: float = 1.0, half: Any = 0.125
) -> newton.Model:
    """Return one box that just touches the plane."""
    b = new_builder(slope_gravity(angle))
    add_ground(b, mu=mu, k=k, gap=gap)
    add_box(b, (0.0, 0.0, float(np.broadcast_to(half, 3)[2])), mass=mass, half=half, mu=mu, k=k, gap=gap)
    return b.finalize(device="cpu")


def one_joint(
    kind: str, mass: float = 2.0, inertia: float = 0.5, com: Any = (0.0, 0.0, 0.0), **dof: Any
) -> newton.Model:
    """Return one body on one prismatic (along z) or revolute (about y) joint at the origin."""
    b = new_builder()
    body = b.add_link(mass=mass, inertia=wp.mat33(*(inertia * np.eye(3)).ravel()), com=wp.vec3(*com), lock_inertia=True)
    add = b.add_joint_prismatic if kind == "prismatic" else b.add_joint_revolute
    axis = newton.Axis.Z if kind == "prismatic" else newton.Axis.Y
    b.add_articulation([add(-1, body, axis=newton.ModelBuilder.JointDofConfig(axis=axis, **dof))])
    return b.finalize(device="cpu")


# Free motion.


@case("closed/free-fall", "a body falls and flies a parabola")
def free_fall(quick: bool) -> Outcome:
    """After n steps: z = z0 + v0 t - g h^2 n (n + 1)/2 with sap_euler, the exact parabola with midpoint."""
    outcome = Outcome()
    for integrator in INTEGRATORS:
        b = new_builder()
        add_ball(b, (0.0, 0.0, 0.0))
        sim = Trial(b.finalize(device="cpu"), H, position_integration=integrator)
        sim.set(qd=[1.0, 0.0, 2.0, 0.0, 0.0, 0.0])
        sim.run(1.0)
        n = 200
        lag = 0.5 * G * H if integrator == "sap_euler" else 0.0
        off = abs(sim.q[2] - (2.0 - 0.5 * G - lag))
        outcome.check(f"height after 1 s, {integrator}", off, 1e-12, "exact but for round-off of 200 sums", "m")
        off = np.abs(sim.qd[:3] - [1.0, 0.0, 2.0 - G * n * H]).max()
        outcome.check(f"speed after 1 s, {integrator}", off, 1e-12, "exact but for round-off", "m/s")
    return outcome


@case("closed/pendulum-period", "a compound pendulum swings with the period of the elliptic integral")
def pendulum_period(quick: bool) -> Outcome:
    """Period from interpolated zero crossings over several swings."""
    from scipy.special import ellipk

    h, outcome = 0.002, Outcome()
    m_joint = 0.5 + 2.0 * 0.25
    omega = math.sqrt(2.0 * G * 0.5 / m_joint)
    for start in (0.1, math.pi / 3.0, 2.5):
        sim = Trial(one_joint("revolute", com=(0.0, 0.0, -0.5)), h).set(q=[start])
        angle = sim.run(10.0, observe=lambda s: s.q[0])
        i = np.flatnonzero(np.sign(angle[1:]) != np.sign(angle[:-1]))
        crossings = (i + angle[i] / (angle[i] - angle[i + 1])) * h
        period = 2.0 * (crossings[-1] - crossings[0]) / (len(crossings) - 1)
        exact = 4.0 * ellipk(math.sin(0.5 * start) ** 2) / omega
        outcome.check(
            f"period from {start:.3g} rad, relative",
            abs(period / exact - 1.0),
            (omega * h) ** 2 / 8.0,
            "symplectic Euler shortens small swings by (w h)^2/24; three times that for large ones",
        )
    return outcome


@case("closed/top", "a heavy symmetric top precesses steadily")
def spinning_top(quick: bool) -> Outcome:
    """M g l = Omega (I3 w3 - I1 Omega cos(theta)) on a ball joint: rate of precession, and no nutation."""
    mass, l, lean, rate = 1.0, 0.25, 0.5, 2.0
    i1, i3 = 0.0078125 + mass * l * l, 0.00390625
    spin = (mass * G * l / rate + i1 * rate * math.cos(lean)) / i3
    axis = np.array([math.sin(lean), 0.0, math.cos(lean)])
    w0 = np.array([0.0, 0.0, rate]) + (spin - rate * math.cos(lean)) * axis
    q0 = np.array([0.0, math.sin(0.5 * lean), 0.0, math.cos(0.5 * lean)])
    b = new_builder()
    inertia = wp.mat33(*np.diag([0.0078125, 0.0078125, i3]).ravel())
    body = b.add_link(mass=mass, com=wp.vec3(0.0, 0.0, l), inertia=inertia, lock_inertia=True)
    b.add_articulation([b.add_joint_ball(-1, body)])
    model = b.finalize(device="cpu")
    outcome, errors = Outcome(), []
    for h in (0.0005, 0.00025):
        sim = Trial(model, h, position_integration="midpoint").set(q=q0, qd=w0)
        seen = sim.run(0.5, observe=lambda s: rotation_matrix(s.q)[:, 2], every=10)
        turned = np.unwrap(np.arctan2(seen[:, 1], seen[:, 0]))[-1]
        nutation = np.abs(np.arccos(seen[:, 2]) - lean).max()
        errors.append((abs(turned / (0.5 * rate) - 1.0), nutation))
    outcome.check(
        "rate of precession at h = 0.25 ms, relative",
        errors[1][0],
        0.02,
        "first order in h: explicit gyroscopic torque",
    )
    outcome.check("nutation at h = 0.25 ms", errors[1][1], 0.02, "first order in h; none in the steady motion", "rad")
    outcome.check(
        "nutation at half the step over nutation at the step", errors[1][1] / errors[0][1], 0.6, "first order: 1/2"
    )
    return outcome


@case("closed/tumbling", "a body with three different moments of inertia tumbles freely")
def tumbling(quick: bool) -> Outcome:
    """All to first order in h; the body's origin is not its centre of mass, and the origin is what the step moves."""
    inertia = np.diag([0.25, 0.5, 0.625])
    outcome = Outcome()
    for integrator in INTEGRATORS:
        drifts = []
        for h in (0.002, 0.001):
            b = new_builder(gravity=(0.0, 0.0, 0.0))
            b.add_body(mass=2.0, com=wp.vec3(0.25, -0.5, 0.125), inertia=wp.mat33(*inertia.ravel()), lock_inertia=True)
            sim = Trial(b.finalize(device="cpu"), h, position_integration=integrator)
            v, w = np.array([0.5, 0.25, -0.25]), np.array([0.25, 2.0, 0.125])
            sim.set(qd=[*v, *w])
            sim.run(1.0)
            R = rotation_matrix(sim.q[3:7])
            spin = R @ inertia @ R.T @ sim.qd[3:]
            drifts.append(
                (
                    np.abs(sim.qd[:3] - v).max() / np.linalg.norm(v),
                    np.linalg.norm(spin - inertia @ w) / np.linalg.norm(inertia @ w),
                    abs(sim.qd[3:] @ spin / (w @ inertia @ w) - 1.0),
                )
            )
        bounds = (4e-3, 2e-4, 2e-5)
        for i, name in enumerate(("linear momentum", "angular momentum", "energy of rotation")):
            outcome.check(
                f"{name} after 1 s at h = 1 ms, relative, {integrator}",
                drifts[1][i],
                bounds[i],
                "first order in h, w h = 2e-3; the ratio below shows the order",
            )
            outcome.check(
                f"{name}, drift at half the step over drift at the step, {integrator}",
                drifts[1][i] / drifts[0][i],
                0.6,
                "first order: 1/2",
            )
    return outcome


# Contact.


@case("closed/rest", "a box rests at the depth of the contact law")
def rest(quick: bool) -> Outcome:
    """Depth (m g h / 4) R_n (h + tau): m g / (4 k) if soft, the near-rigid depth if stiff."""
    outcome = Outcome()
    for preset in ("drake", "approx64"):
        for k in (1e3, 1e8):
            sim = Trial(box_on_ground(k=k), H, contact_preset_variant=preset, **TIGHT)
            sim.run(3.0)
            rows = sim.rows()
            # levers (a, a, a) to the corners of a cube of half edge a, I = 2/3 m a^2: w_ii = 1/m + 2 a^2/I = 4/m
            diagonal, cross = 4.0, 1.5
            frobenius = math.sqrt(3.0 * diagonal**2 + 6.0 * cross**2) / 3.0
            weight = frobenius if preset == "drake" else diagonal
            R_n = max(weight / (4.0 * math.pi**2), 1.0 / (H * k * (H + TAU)))
            expected = G * H / 4.0 * R_n * (H + TAU)
            outcome.check(
                f"depth, {preset}, k = {k:g} N/m, relative",
                abs((0.125 - sim.q[2]) / expected - 1.0),
                2e-4 if k > 1e4 else 1e-9,
                "arms to the midpoint are shorter by half the depth; fp32 corners" if k > 1e4 else "m g / (4 k)",
            )
            outcome.check(
                f"contacts at rest, missing of four, {preset}, k = {k:g} N/m", 4 - len(rows["phi0"]), 0, "four corners"
            )
    return outcome


@case("closed/creep", "a sticking box creeps down a slope with sigma w h times its load")
def creep(quick: bool) -> Outcome:
    """V = R_t m g sin(a) h / 4, of the order mu sigma g h."""
    angle, outcome = 0.2, Outcome()
    for preset in ("drake", "approx64"):
        sim = Trial(box_on_ground(angle), H, contact_preset_variant=preset, **TIGHT)
        sim.run(2.0)
        start = sim.q[0]
        sim.run(1.0)
        R_t = 1e-3 * float(sim.rows()["weight"].mean())
        expected = R_t * G * math.sin(angle) * H / 4.0
        speed = sim.q[0] - start
        outcome.check(
            f"creep, {preset}, relative to R_t m g sin(a) h / 4",
            abs(speed / expected - 1.0),
            1e-4,
            "a distance over 1 s; the last of settling",
        )
        outcome.check(
            f"creep, {preset}, over mu sigma g h w m / 4",
            speed / (0.5 * 1e-3 * G * H * R_t * 1e3 / 4.0),
            1.0,
            "a sticking contact cannot creep faster than friction at its bound",
            "",
        )
        outcome.note(f"creep, {preset}", speed, "regularized friction; Coulomb's law has none", "m/s")
    return outcome


@case("closed/coulomb-cone", "a box holds below the slope tan(a) = mu and accelerates above it")
def coulomb_cone(quick: bool) -> Outcome:
    """Above, the acceleration is g (sin(a) - mu cos(a)); a flat box, so that it does not tip."""
    mu, outcome = 0.5, Outcome()
    limit, half = math.atan(mu), (0.25, 0.25, 0.03125)
    for offset in (-0.01, 0.01):
        angle = limit + offset
        sim = Trial(box_on_ground(angle, mu, gap=0.03125, half=half), H, **TIGHT)
        sim.run(1.0)
        start = sim.qd[0]
        sim.run(1.0)
        gained = sim.qd[0] - start
        if offset < 0.0:
            outcome.check(
                "speed gained in 1 s at 0.01 rad below the cone",
                abs(gained),
                1e-9,
                "it creeps at a constant speed",
                "m/s",
            )
        else:
            expected = G * (math.sin(angle) - mu * math.cos(angle))
            outcome.check(
                "acceleration at 0.01 rad above the cone, relative",
                abs(gained / expected - 1.0),
                1e-4,
                "the film grows at a constant rate, so the ground carries m g cos(a)",
            )
    return outcome


@case("closed/stopping-distance", "a sliding box stops after v^2 / (2 mu g)")
def stopping_distance(quick: bool) -> Outcome:
    """The new velocity moves the box: v^2/(2 a) - v h/2."""
    mu, speed = 0.25, 1.0
    sim = Trial(box_on_ground(mu=mu, gap=0.03125, half=(0.25, 0.25, 0.03125)), H, **TIGHT)
    film = (H + TAU) * mu * speed
    sinking = (H + TAU) * mu * mu * G  # the film is proportional to the speed
    sim.set(q=[0.0, 0.0, 0.03125 + film, 0.0, 0.0, 0.0, 1.0], qd=[speed, 0.0, -sinking, 0.0, 0.0, 0.0])
    sim.run(1.0)
    expected = speed**2 / (2.0 * mu * G) - 0.5 * speed * H
    outcome = Outcome()
    outcome.check(
        "distance, relative",
        abs(sim.q[0] / expected - 1.0),
        3e-3,
        "the sinking film, 0.015 m/s, is stopped at the end of the slide: mu times that is lost in 1 m/s",
    )
    outcome.check("speed at the end", abs(sim.qd[0]), 1e-6, "it has stopped", "m/s")
    return outcome


@case("closed/conveyor", "a box put on a moving belt slips until it has the belt's speed")
def conveyor(quick: bool) -> Outcome:
    """A kinematic slab with a velocity that stays where it is; the box gains mu g h in every step, then sticks."""
    mu, speed, half, gap = 0.25, 1.0, (0.25, 0.25, 0.03125), 0.03125
    film, sinking = (H + TAU) * mu * speed, (H + TAU) * mu * mu * G  # as for the stopping distance
    b = new_builder()
    slab = b.add_link(is_kinematic=True, mass=1.0, inertia=wp.mat33(*np.eye(3).ravel()))
    b.add_shape_box(slab, xform=((0.0, 0.0, -0.25), (0.0, 0.0, 0.0, 1.0)), hx=4.0, hy=1.0, hz=0.25,
                    cfg=material(mu=mu, gap=gap), custom_attributes=pair_tau(TAU))  # fmt: skip
    b.add_articulation([b.add_joint_free(slab)])
    add_box(b, (-1.0, 0.0, half[2] + film), mass=1.0, half=half, mu=mu, gap=gap)
    sim = Trial(b.finalize(device="cpu"), H, **TIGHT)
    sim.set(qd=[speed, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -sinking, 0.0, 0.0, 0.0])
    track = sim.run(1.0, observe=lambda s: [s.qd[6], s.q[7], s.q[0]])
    steps = math.floor(0.9 * speed / (mu * G * H))
    outcome = Outcome()
    outcome.check(
        "speed while it slips",
        abs(track[steps, 0] - track[0, 0] - mu * G * H * steps),
        5e-3,
        "mu m g h in every step, but for the first 30 ms, in which the film under the box settles",
        "m/s",
    )
    outcome.check("speed at the end", abs(track[-1, 0] - speed), 1e-6, "sticks: nothing pulls at it", "m/s")
    outcome.check("the slab stays", abs(track[-1, 2]), 0.0, "a kinematic position is the user's", "m")
    slip = speed**2 / (2.0 * mu * G)
    travelled = track[-1, 1] + 1.0
    outcome.check(
        "slip until it sticks, relative",
        abs((speed * 1.0 - travelled) / slip - 1.0),
        0.02,
        "first order in h: half a step's motion at each end",
    )
    return outcome


@case("closed/rolling", "a ball that slides at first rolls with 5/7 of its speed")
def rolling(quick: bool) -> Outcome:
    """Friction does not change the angular momentum about the line of contact."""
    speed, radius, outcome = 1.0, 0.125, Outcome()
    for k, gap in ((1e4, 0.03125), (1e8, 0.03125)):
        b = new_builder()
        add_ground(b, mu=0.25, k=k, gap=gap)
        add_ball(b, (0.0, 0.0, radius), mu=0.25, k=k, gap=gap)
        sim = Trial(b.finalize(device="cpu"), H, **TIGHT).set(qd=[speed, 0.0, 0.0, 0.0, 0.0, 0.0])
        sim.run(1.5)
        outcome.check(
            f"speed, k = {k:g} N/m, relative to 5/7",
            abs(sim.qd[0] / (5.0 / 7.0 * speed) - 1.0),
            5e-3,
            "the point of contact is half the gliding film (3 mm of 125 mm, shrinking) below the ball while it slides",
        )
        outcome.check(
            f"slip, k = {k:g} N/m",
            abs(sim.qd[0] - 0.5 * (radius + sim.q[2]) * sim.qd[4]),
            1e-5,
            "v = w r, r down to the midpoint of the overlap",
            "m/s",
        )
    return outcome


def rebound(k: float, tau: float, mass: float) -> float:
    """Restitution of a mass on the law f = max(0, k (x - tau x')), x the depth; starts at x = 0."""
    from scipy.optimize import brentq

    omega = math.sqrt(k / mass)
    zeta = 0.5 * omega * tau
    if zeta >= 1.0:
        raise ValueError("Overdamped.")
    damped = omega * math.sqrt(1.0 - zeta * zeta)

    def rate(t: float) -> float:
        return math.exp(-zeta * omega * t) * (math.cos(damped * t) - zeta * omega / damped * math.sin(damped * t))

    def force(t: float) -> float:
        return math.exp(-zeta * omega * t) * math.sin(damped * t) / damped + tau * rate(t)

    # the force vanishes after the deepest point and at x = 0 or before
    deepest = math.atan2(damped, zeta * omega) / damped
    return -rate(brentq(force, deepest, 1.01 * math.pi / damped))


@case("closed/bounce", "tau decides how a ball rebounds from a soft wall")
def bounce(quick: bool) -> Outcome:
    """Without gravity against the damped oscillator's formula, resolved by h = 0.2 ms."""
    outcome, k, mass, h = Outcome(), 1e3, 1.0, 2e-4
    for tau in (0.0, 0.005, 0.02):
        b = new_builder(gravity=(0.0, 0.0, 0.0))
        add_ground(b, k=k, tau=tau)
        add_ball(b, (0.0, 0.0, 0.125), mass=mass, k=k, tau=tau)
        sim = Trial(b.finalize(device="cpu"), h, **TIGHT).set(qd=[0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
        sim.run(0.2)
        expected = rebound(k, tau + h, mass)
        outcome.check(
            f"restitution at tau = {tau:g} s, expected {expected:.4f}",
            abs(sim.qd[2] - expected),
            1e-3,
            "an implicit step damps like tau + h; the next order is (w h)^2 = 4e-5, and the last step of contact",
        )
    b = new_builder()
    add_ground(b, k=1e8)
    add_ball(b, (0.0, 0.0, 0.25), k=1e8)
    sim = Trial(b.finalize(device="cpu"), H, **TIGHT)
    seen = sim.run(1.0, observe=lambda s: s.qd[2])
    outcome.check(
        "largest rebound of a near-rigid ball with tau = 0.02 s",
        seen.max(),
        math.sqrt(2.0 * G * 0.125) * H / (H + TAU),
        "contact is found up to v h deep and pushed out within h + tau: at most v h / (h + tau)",
        "m/s",
    )
    return outcome


# Joints.


@case("closed/joint-terms", "drive, limit and dry friction carry a weight as their laws say")
def joint_terms(quick: bool) -> Outcome:
    """One slide under gravity: rest positions, creep and accelerations with a closed form."""
    outcome, load, m = Outcome(), 2.0 * G, 2.0
    near_rigid = 0.01 / (4.0 * math.pi**2)

    drive = {"actuator_mode": MODE.POSITION, "target_ke": 512.0, "target_kd": 64.0, "target_pos": 0.125}
    sim = Trial(one_joint("prismatic", **drive), H, **TIGHT)
    sim.run(4.0)
    outcome.check("sag of a position drive less m g / kp", abs(sim.q[0] - 0.125 + load / 512.0), 1e-9, "statics", "m")
    sim = Trial(one_joint("prismatic", effort_limit=12.0, **{**drive, "target_pos": 4.0}), H, **TIGHT).step(100)
    outcome.check(
        "speed under a saturated drive", abs(sim.qd[0] - 100 * H * (12.0 / m - G)), 1e-12, "constant force", "m/s"
    )

    limit = {"limit_lower": -0.125, "limit_upper": 0.125, "limit_ke": 1e4, "limit_kd": 128.0}
    sim = Trial(one_joint("prismatic", **limit), H, **TIGHT)
    sim.run(4.0)
    outcome.check("depth in a soft limit less m g / ke", abs(-sim.q[0] - 0.125 - load / 1e4), 1e-9, "statics", "m")
    sim = Trial(one_joint("prismatic", **{**limit, "limit_ke": 2.0**40, "limit_kd": 2.0**40 * H}), H, **TIGHT)
    sim.run(4.0)
    tau = single(2.0**40 * H) / 2.0**40
    outcome.check(
        "depth in a rigid limit less m g h R (h + tau)",
        abs(-sim.q[0] - 0.125 - load * H * near_rigid / m * (H + tau)),
        1e-12,
        "statics of the near-rigid law",
        "m",
    )

    sim = Trial(one_joint("prismatic", friction=32.0), H, **TIGHT)
    sim.run(1.0)
    outcome.check(
        "creep under dry friction less sigma h g",
        abs(-sim.qd[0] - 1e-3 * H * load / m),
        1e-12,
        "regularized stick",
        "m/s",
    )
    sim = Trial(one_joint("prismatic", friction=4.0), H, **TIGHT).step(100)
    outcome.check(
        "speed when friction slips, relative",
        abs(-sim.qd[0] / (100 * H * (load - 4.0) / m) - 1.0),
        1e-4,
        "(m g - f) t / m; within sigma h f / m of rest friction has not built up",
    )

    sim = Trial(one_joint("prismatic", damping=8.0), H, **TIGHT).step(50)
    outcome.check(
        "speed under damping",
        abs(-sim.qd[0] - load / 8.0 * (1.0 - (1.0 + H * 8.0 / m) ** -50)),
        1e-12,
        "implicit damping",
        "m/s",
    )
    sim = Trial(one_joint("prismatic", armature=0.5), H, **TIGHT).step(10)
    outcome.check("speed with armature", abs(-sim.qd[0] - 10 * H * load / 2.5), 1e-12, "m g / (m + a)", "m/s")
    return outcome
