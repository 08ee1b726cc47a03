"""Convergence: with the time step, over a thousand steps, and within one solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from ....conventions.rotations import rotation_matrix
from ..result import Outcome, case
from ..trial import TIGHT, G, Trial, add_ball, add_ground, new_builder
from .closed_forms import INTEGRATORS, one_joint, rebound
from .qualities import LINE_SEARCHES, clutter

STEPS = (1 / 64, 1 / 128, 1 / 256, 1 / 512, 1 / 1024)
"""Time steps of the convergence study [s]."""


def pendulum_error(h: float, integrator: str) -> float:
    """Return the error of the angle of a compound pendulum after 1 s from 1 rad at rest [rad]."""
    from scipy.integrate import solve_ivp

    sim = Trial(one_joint("revolute", com=(0.0, 0.0, -0.5)), h, position_integration=integrator).set(q=[1.0])
    sim.run(1.0)
    exact = solve_ivp(lambda t, y: [y[1], -G * math.sin(y[0])], (0.0, 1.0), [1.0, 0.0], rtol=1e-12, atol=1e-13)
    return abs(float(sim.q[0]) - float(exact.y[0, -1]))


def tumbling_error(h: float, integrator: str) -> float:
    """Return the error of the attitude of a freely tumbling body after 1 s [rad]."""
    from scipy.integrate import solve_ivp

    moments, w0 = np.array([0.25, 0.5, 0.625]), np.array([0.25, 2.0, 0.125])

    def rate(t: float, y: Any) -> Any:
        w, q = y[:3], y[3:]
        dw = -np.cross(w, moments * w) / moments
        x, y_, z, s = q  # body axes: q' = 1/2 q (w, 0)
        dq = 0.5 * np.array([
            s * w[0] + y_ * w[2] - z * w[1], s * w[1] + z * w[0] - x * w[2],
            s * w[2] + x * w[1] - y_ * w[0], -x * w[0] - y_ * w[1] - z * w[2],
        ])  # fmt: skip
        return np.concatenate([dw, dq])

    exact = solve_ivp(rate, (0.0, 1.0), [*w0, 0.0, 0.0, 0.0, 1.0], rtol=1e-11, atol=1e-12).y[3:, -1]
    b = new_builder(gravity=(0.0, 0.0, 0.0))
    b.add_body(mass=2.0, inertia=wp.mat33(*np.diag(moments).ravel()), lock_inertia=True)
    sim = Trial(b.finalize(device="cpu"), h, position_integration=integrator).set(qd=[0.0, 0.0, 0.0, *w0])
    sim.run(1.0)
    turn = rotation_matrix(sim.q[3:7]).T @ rotation_matrix(exact / np.linalg.norm(exact))
    return float(np.arccos(np.clip(0.5 * (np.trace(turn) - 1.0), -1.0, 1.0)))


def bounce_error(h: float, integrator: str) -> float:
    """Return the error of the speed of a ball after it hit a soft wall [m/s]."""
    k, tau = 1e3, 1.0 / 128.0
    b = new_builder(gravity=(0.0, 0.0, 0.0))
    add_ground(b, k=k, tau=tau)
    add_ball(b, (0.0, 0.0, 0.125), k=k, tau=tau)
    sim = Trial(b.finalize(device="cpu"), h, position_integration=integrator, **TIGHT)
    sim.set(qd=[0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    sim.run(0.25)
    return abs(float(sim.qd[2]) - rebound(k, tau, 1.0))


PROBLEMS: dict[str, tuple[Callable[[float, str], float], str]] = {
    "pendulum": (pendulum_error, "angle after 1 s [rad]"),
    "tumbling body": (tumbling_error, "attitude after 1 s [rad]"),
    "soft bounce": (bounce_error, "speed after the bounce [m/s]"),
}


@case("convergence/order", "error against the time step for both integrators", slow=True)
def order(quick: bool) -> Outcome:
    """The order is the slope of log(error) over log(h) of the two smallest steps."""
    outcome, lines = Outcome(), []
    steps = STEPS[2:] if quick else STEPS
    for name, (error, unit) in PROBLEMS.items():
        for integrator in INTEGRATORS:
            errors = np.array([error(h, integrator) for h in steps])
            slope = float(np.log2(errors[-2] / errors[-1]))
            outcome.curves[f"{name}, {integrator}"] = (np.array(steps), errors)
            outcome.check(
                f"1 less the order, {name}, {integrator}",
                1.0 - slope,
                0.25,
                "both are first order in general: forces are taken at the start of the step",
            )
            lines.append([name, unit, integrator, f"{errors[-1]:.2e}", f"{slope:.2f}"])
    outcome.tables["Error at h = 1/1024 s and observed order"] = (
        ["problem", "error of", "integrator", "error", "order"],
        lines,
    )
    return outcome


@case("convergence/drift", "energy and momentum over 1,000 steps", slow=True)
def drift(quick: bool) -> Outcome:
    """A pendulum from 1 rad and a tumbling body, h = 2 ms, without dissipation."""
    h, outcome, lines = 0.002, Outcome(), []
    moments, w0 = np.array([0.25, 0.5, 0.625]), np.array([0.25, 2.0, 0.125])
    for integrator in INTEGRATORS:
        sim = Trial(one_joint("revolute", com=(0.0, 0.0, -0.5)), h, position_integration=integrator).set(q=[1.0])
        swing = 2.0 * 0.5 * G * (1.0 - math.cos(1.0))
        energy = sim.run(1000 * h, observe=lambda s: 0.5 * s.qd[0] ** 2 - G * math.cos(s.q[0]))
        energy = (energy - energy[0]) / swing
        outcome.curves[f"pendulum, {integrator}"] = energy
        tail = float(energy[-700:].mean())  # about one period
        if integrator == "sap_euler":
            outcome.check(
                "mean energy error of a pendulum, sap_euler, last period",
                abs(tail),
                1e-3,
                "symplectic: oscillates by O(h), no drift",
            )
        else:
            rate = math.exp(G * h * 1000 * h / 2.0) - 1.0
            outcome.check(
                "energy gained by a pendulum, midpoint, over exp(w^2 h t / 2) - 1",
                energy[-1] / rate,
                1.1,
                "formula for small swings, larger ones gain less",
            )
        b = new_builder(gravity=(0.0, 0.0, 0.0))
        b.add_body(mass=2.0, inertia=wp.mat33(*np.diag(moments).ravel()), lock_inertia=True)
        free = Trial(b.finalize(device="cpu"), h, position_integration=integrator)
        free.set(qd=[0.5, 0.25, -0.25, *w0])
        free.run(1000 * h)
        R = rotation_matrix(free.q[3:7])
        spin = R @ np.diag(moments) @ R.T @ free.qd[3:]
        linear = float(np.abs(free.qd[:3] - [0.5, 0.25, -0.25]).max())
        angular = float(np.linalg.norm(spin - moments * w0) / np.linalg.norm(moments * w0))
        kinetic = float(free.qd[3:] @ spin / (w0 @ (moments * w0)) - 1.0)
        outcome.check(
            f"linear momentum, {integrator}", linear, 1e-12, "round-off: no force acts at the centre of mass", "m/s"
        )
        outcome.check(f"angular momentum, relative, {integrator}", angular, 2e-3, "first order in h: |w| h = 4e-3")
        outcome.check(f"energy of rotation, relative, {integrator}", abs(kinetic), 2e-3, "first order in h")
        lines.append([integrator, f"{energy[-1]:.1e}", f"{linear:.1e}", f"{angular:.1e}", f"{kinetic:.1e}"])
    header = ["integrator", "pendulum energy", "linear momentum", "angular momentum", "energy of rotation"]
    outcome.tables["Relative drift per 1,000 steps of 2 ms"] = (header, lines)
    return outcome


@case("convergence/residual", "residual after every iteration of a hard step, for the three line searches", slow=True)
def residual(quick: bool) -> Outcome:
    """Clutter in the middle of its fall; the same step is solved with 0, 1, 2, ... iterations allowed."""
    outcome = Outcome()
    model = clutter()
    start = Trial(
        model, 0.005, contact_preset_variant="approx64", max_rigid_contact=512, line_search_variant="exact_root"
    )
    start.run(0.5)
    q, qd = start.q, start.qd
    for variant in LINE_SEARCHES:
        seen = []
        for allowed in range(0, 61, 10 if quick else 1):
            options = {
                **TIGHT,
                "line_search_variant": variant,
                "max_iterations": max(allowed, 1),
                "optimality_rel_tol": 1e-13,
            }
            if allowed == 0:
                continue
            sim = Trial(model, 0.005, contact_preset_variant="approx64", max_rigid_contact=512, **options)
            sim.set(q=q, qd=qd).step()
            seen.append((allowed, float(sim.solver.residual[0])))
            if seen[-1][1] <= 1e-13 or sim.solver.last_solve_iterations < allowed:
                break
        curve = np.array(seen)
        outcome.curves[variant] = curve
        needed = curve[curve[:, 1] <= 1e-6]
        outcome.check(
            f"smallest residual, {variant}",
            curve[:, 1].min(),
            1e-9,
            "quadratic convergence at the end; round-off of sums",
        )
        outcome.check(
            f"iterations to a residual of 1e-6, {variant}",
            needed[0, 0] if len(needed) else math.inf,
            60,
            "the limit is 100",
        )
    return outcome
