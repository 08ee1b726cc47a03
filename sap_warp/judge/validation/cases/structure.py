"""Structural properties of the solve: the checks that Drake applies to its own SAP, with answers computed by hand.

One ball or point mass on the plane; the solver is called for single steps from chosen states.
"""

from __future__ import annotations

import math
from typing import Any

import newton
import numpy as np

from ..result import Outcome, case
from ..trial import TIGHT, G, Trial, add_ball, add_box, add_ground, new_builder, single

H, TAU, MU, RADIUS = 0.005, 1.0 / 64.0, 0.5, 0.125
DEPTH = 0.00390625
"""Overlap at the start of a step [m]."""


def ball(k: float, mu: float = MU, height: float = RADIUS - DEPTH, gap: float = 0.0) -> newton.Model:
    """Return a ball that overlaps the plane by DEPTH."""
    b = new_builder()
    add_ground(b, k=k, mu=mu, gap=gap, tau=TAU)
    add_ball(b, (0.0, 0.0, height), radius=RADIUS, k=k, mu=mu, gap=gap, tau=TAU)
    return b.finalize(device="cpu")


def one_step(model: newton.Model, qd: Any = (0.0,) * 6, **options: Any) -> Trial:
    """Take a single step from the model's pose with public velocity ``qd``."""
    sim = Trial(model, H, **{**TIGHT, **options})
    sim.set(qd=qd)
    return sim.step()


def regularization(k: float, weight: float) -> tuple[float, float]:
    """Return R_t and R_n of the contact law."""
    return 1e-3 * weight, max(weight / (4.0 * math.pi**2), 1.0 / (H * k * (H + TAU)))


INERTIA = single(0.4 * RADIUS**2)
ARM = RADIUS - 0.5 * DEPTH
"""Lever arm from the centre down to the midpoint of the overlap [m]."""
MOBILITY = 1.0 + ARM**2 / INERTIA
"""Mobility of the point of contact in the tangent plane [1/kg]."""
WEIGHT = math.sqrt(2.0 * MOBILITY**2 + 1.0) / 3.0
"""|W|_F / 3 of the ball of 1 kg: W = diag(b, b, 1), b = 1 + a^2/I."""


@case("structure/modes", "single steps in every mode of the contact law against answers by hand")
def modes(quick: bool) -> Outcome:
    """The normal problem is m (v - v*) = gamma, gamma = (vhat - v)/R_n: one linear equation.

    With friction the ball's tangential problem decouples: u = v_x - a w_y, mobility b = 1/m + a^2/I.
    """
    outcome, why = Outcome(), "two linear equations; fp64"
    vhat = DEPTH / (H + TAU)
    v_star = -G * H
    for k, name in ((1e3, "compliant"), (1e9, "near-rigid")):
        R_t, R_n = regularization(k, WEIGHT)
        gamma_n = (vhat - v_star) / (R_n + 1.0)
        sim = one_step(ball(k))
        outcome.check(f"normal velocity, {name}", abs(sim.qd[2] - (v_star + gamma_n)), 1e-12, why, "m/s")

        # stiction: gamma_t = -u / R_t with u = u0 + b gamma_t
        speed = 0.01
        gamma_t = -speed / (R_t + MOBILITY)
        sim = one_step(ball(k), (speed, 0.0, 0.0, 0.0, 0.0, 0.0))
        assert abs(gamma_t) < MU * gamma_n
        outcome.check(
            f"velocity in stiction, {name}",
            abs(sim.qd[0] - (speed + gamma_t)),
            1e-9,
            why + "; the softened norm does not enter",
            "m/s",
        )
        outcome.check(f"spin in stiction, {name}", abs(sim.qd[4] + ARM * gamma_t / INERTIA), 1e-9, why, "rad/s")

        # sliding: gamma_n (1 + mu mu_hat) = y_n + mu_hat |y_t|, u = u0 - b mu gamma_n, v_n = v* + gamma_n
        speed, mu_hat = 4.0, MU * R_t / R_n
        # R_n (1 + mu mu_hat) g = vhat - v* - g + mu (u0 - b mu g)
        gamma_n = (vhat - v_star + MU * speed) / (R_n * (1.0 + MU * mu_hat) + 1.0 + MU * MU * MOBILITY)
        sim = one_step(ball(k), (speed, 0.0, 0.0, 0.0, 0.0, 0.0))
        outcome.check(
            f"velocity in sliding, {name}",
            abs(sim.qd[0] - (speed - MU * gamma_n)),
            2e-8,
            "by hand without the softening of 1e-7 N s",
            "m/s",
        )
        outcome.check(
            f"normal velocity in sliding, {name}",
            abs(sim.qd[2] - (v_star + gamma_n)),
            2e-8,
            "by hand without the softening of 1e-7 N s",
            "m/s",
        )

        sim = one_step(ball(k, mu=0.0), (speed, 0.0, 0.0, 0.0, 0.0, 3.0))
        gamma_n = (vhat - v_star) / (R_n + 1.0)
        expected = np.array([speed, 0.0, v_star + gamma_n, 0.0, 0.0, 3.0])
        outcome.check(f"velocity without friction, {name}", np.abs(sim.qd - expected).max(), 1e-12, why, "m/s, rad/s")

    sim = one_step(ball(1e9), (1.0, 0.0, 2.0, 0.0, 0.0, 0.0))
    outcome.check(
        "velocity of a ball that leaves: no impulse",
        np.abs(sim.qd - [1.0, 0.0, 2.0 + v_star, 0.0, 0.0, 0.0]).max(),
        1e-15,
        "apart: y_n < -mu_hat |y_t|",
        "m/s",
    )
    sim = one_step(ball(1e9, height=0.5), (1.0, 0.0, 2.0, 0.0, 0.0, 0.0))
    outcome.check(
        "velocity without contact, and iterations",
        np.abs(sim.qd - [1.0, 0.0, 2.0 + v_star, 0.0, 0.0, 0.0]).max() + sim.solver.last_solve_iterations,
        1e-15,
        "free motion is the answer",
        "m/s",
    )
    return outcome


@case("structure/friction-cone", "|gamma_t| = mu gamma_n in sliding, and less in stiction")
def friction_cone(quick: bool) -> Outcome:
    """Impulses from the change of momentum, over random velocities of a ball."""
    rng, outcome = np.random.default_rng(7), Outcome()
    worst, sliding, sticking, outside = 0.0, 0, 0, 0.0
    opposing = -1.0
    model = ball(1e5)
    sim = Trial(model, H, **TIGHT)
    for _ in range(40 if quick else 200):
        speed = 10.0 ** rng.uniform(-3.0, 1.0)
        start = speed * rng.normal(size=3) * [1.0, 1.0, 0.1]
        sim.set(q=model.joint_q.numpy(), qd=[*start, *(speed * rng.normal(size=3))])
        sim.step()
        # the ball has 1 kg: its change of momentum beyond gravity is the impulse, in fp64
        gamma = sim.velocity[3:] - (start - [0.0, 0.0, G * H])
        gamma_t = float(np.hypot(gamma[0], gamma[1]))
        if abs(gamma[2]) == 0.0:
            continue
        ratio = gamma_t / (MU * abs(gamma[2]))
        outside = max(outside, ratio - 1.0)
        rows = sim.rows()
        vc, n = rows["vc"][0], rows["normal"][0]
        y_n = (rows["vhat"][0] - n @ vc) / rows["Rn"][0]
        if np.hypot(*vc[:2]) / rows["Rt"][0] > 1.000001 * MU * y_n:
            sliding += 1
            worst = max(worst, abs(ratio - 1.0))
            opposing = max(opposing, float(gamma[:2] @ vc[:2] / (gamma_t * np.hypot(*vc[:2]))))
        else:
            sticking += 1
    outcome.check(
        "|gamma_t| / (mu gamma_n) - 1 in sliding", worst, 1e-9, "round-off, over momenta up to 100 times the impulse"
    )
    outcome.check("|gamma_t| / (mu gamma_n) - 1 at most, all modes", outside, 1e-9, "Coulomb's cone; round-off")
    outcome.check(
        "cosine between friction and slip, plus 1", opposing + 1.0, 1e-6, "maximum dissipation: friction opposes slip"
    )
    outcome.check("modes that did not occur", float(sliding < 5) + float(sticking < 5), 0, "the sample must have both")
    return outcome


@case("structure/iterations", "an exact guess takes no iteration, one on the same quadratic piece takes one")
def iterations(quick: bool) -> Outcome:
    """The guess is the incoming velocity. At rest on the ground the cost is one quadratic piece around the answer."""
    outcome = Outcome()
    b = new_builder()
    add_ground(b, k=1e6, mu=MU)
    add_box(b, (0.0, 0.0, RADIUS), k=1e6, mu=MU)
    model = b.finalize(device="cpu")
    for variant in ("exact_root", "armijo_decay", "monotone_decay"):
        options = {"line_search_variant": variant, "optimality_rel_tol": 1e-6, "cost_abs_tol": 0.0, "cost_rel_tol": 0.0}
        sim = Trial(model, H, **{**TIGHT, **options})
        sim.run(3.0)
        sim.step()
        outcome.check(
            f"iterations from the exact guess (at rest), {variant}",
            sim.solver.last_solve_iterations,
            0,
            "the residual is met at once",
        )
        q, qd = sim.q, sim.qd
        sim.set(q=q, qd=qd + [1e-6, -1e-6, 1e-6, 1e-6, 1e-6, -1e-6])
        sim.step()
        needed = sim.solver.last_solve_iterations
        allowed = 1 if variant != "armijo_decay" else 2
        why = "Newton's step is exact on a quadratic; sticking contacts stay sticking"
        if allowed == 2:
            why += "; the over-relaxed first trial of armijo_decay is not the full step"
        outcome.check(f"iterations from the same quadratic piece, {variant}", needed, allowed, why)
        outcome.check(
            f"1 if that guess took none, {variant}", float(needed == 0), 0, "the guess must be off the answer"
        )
    return outcome


@case("structure/gliding-gap", "a sliding body floats (h + tau) mu |v_t| above the ground")
def gliding_gap(quick: bool) -> Outcome:
    """Known artefact of the convex approximation: y_n + mu_hat |y_t| = 0 is met at a positive distance."""
    outcome, speed = Outcome(), 0.5
    half = (0.25, 0.25, 0.03125)
    for h in (0.002, 0.005, 0.01):
        b = new_builder()
        for add in (add_ground, lambda b, **kw: add_box(b, (0.0, 0.0, half[2]), half=half, **kw)):
            add(b, k=1e8, mu=MU, gap=0.0625, tau=TAU)
        model = b.finalize(device="cpu")
        model.joint_f.assign(np.array([MU * G, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=np.float32))  # keeps it sliding
        sim = Trial(model, h, **TIGHT)
        sim.set(qd=[speed, 0.0, 0.0, 0.0, 0.0, 0.0])
        sim.run(2.0)
        expected = (h + TAU) * MU * sim.qd[0] - G * h / 4.0 * float(sim.rows()["Rn"].mean()) * (h + TAU)
        measured = sim.q[2] - half[2]
        outcome.check(
            f"gap at h = {h:g} s, {1e3 * measured:.3f} mm, relative to (h + tau) mu v",
            abs(measured / expected - 1.0),
            1e-3,
            "less the depth at rest; mu mu_hat is small",
        )
    return outcome
