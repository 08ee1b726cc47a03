"""Robustness of the solve: clutter, warm start, mass ratios, stiffness."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from ....solver import SolveStatus
from ..result import Outcome, case
from ..trial import G, Trial, add_ball, add_box, add_ground, material, new_builder, pose

H, TAU = 0.005, 0.02
LINE_SEARCHES = ("monotone_decay", "armijo_decay", "exact_root")
WALL = 0.2
"""Half width of the pen [m]."""


def clutter(seed: int = 5, count: int = 24) -> newton.Model:
    """Return balls and boxes of 0.1 to 1 kg over a square pen, dropped in layers of four with random turns."""
    rng = np.random.default_rng(seed)
    b = new_builder()
    b.rigid_gap = 0.002
    add_ground(b, k=1e5, gap=0.002)
    for x, y in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)):
        hx, hy = (0.02, WALL + 0.04) if x else (WALL + 0.04, 0.02)
        b.add_shape_box(
            -1,
            xform=pose((x * (WALL + 0.02), y * (WALL + 0.02), 0.6)),
            hx=hx,
            hy=hy,
            hz=0.6,
            cfg=material(k=1e5, gap=0.002),
        )
    for i in range(count):
        layer, corner = divmod(i, 4)
        x, y = (-1.0, 1.0)[corner % 2] * 0.09, (-1.0, 1.0)[corner // 2] * 0.09
        at = (x + rng.uniform(-0.02, 0.02), y + rng.uniform(-0.02, 0.02), 0.12 + 0.18 * layer)
        turn = rng.normal(size=4)
        turn /= np.linalg.norm(turn)
        mass = float(10.0 ** rng.uniform(-1.0, 0.0))
        if i % 3 == 0:
            add_ball(b, at, mass=mass, radius=0.05, k=1e5, gap=0.002)
        else:
            add_box(b, at, rotation=tuple(turn), mass=mass, half=(0.06, 0.045, 0.03), k=1e5, gap=0.002)
    return b.finalize(device="cpu")


def settle(variant: str, seconds: float, **options: Any) -> tuple[Trial, np.ndarray, np.ndarray]:
    """Run the clutter; returns the simulation, and iterations and status of every step."""
    sim = Trial(
        clutter(), H, contact_preset_variant="approx64", line_search_variant=variant, max_rigid_contact=512, **options
    )
    seen = sim.run(seconds, observe=lambda s: (s.solver.last_solve_iterations, int(s.solver.status[0])))
    return sim, seen[:, 0], seen[:, 1]


@case("qualities/clutter", "24 balls and boxes fall into a pen: iterations per step, few failures", slow=True)
def pile(quick: bool) -> Outcome:
    """All three line searches; the starting guess is the velocity at the start of the step."""
    outcome = Outcome()
    seconds = 0.75 if quick else 4.0
    lines = []
    for variant in ("exact_root",) if quick else LINE_SEARCHES:
        sim, iterations, status = settle(variant, seconds)
        outcome.curves[variant] = iterations
        # halving may end below the smallest step where friction changes from slipping to sticking, and says so
        halves = variant == "monotone_decay"
        outcome.check(
            f"steps that did not converge, {variant}",
            np.count_nonzero(status != SolveStatus.CONVERGED),
            len(status) // 400 if halves else 0,
            "one in 400: the search may end below a step of 1e-8" if halves else "the problem is convex",
        )
        outcome.check(f"most iterations of a step, {variant}", iterations.max(), 60, "the limit is 100")
        outcome.check(f"contacts dropped, {variant}", sim.solver.last_truncated_contact_count, 0, "capacity 512")
        p = sim.position
        inside = (np.abs(p[:, :2]) < WALL).all() and (p[:, 2] > 0.02).all()
        outcome.check(f"1 if a body left the pen, {variant}", float(not inside), 0, "walls and ground hold")
        if not quick:
            late, early = iterations[-200:].mean(), iterations[:200].mean()
            outcome.check(
                f"mean iterations of the last second over those of the first, {variant}",
                late / early,
                0.6,
                "warm start: the nearer to rest, the better a guess is the last velocity",
            )
        lines.append(
            [
                variant,
                f"{iterations.mean():.2f}",
                f"{np.percentile(iterations, 50):.0f}",
                f"{np.percentile(iterations, 99):.0f}",
                f"{iterations.max():.0f}",
                f"{iterations[-200:].mean():.2f}",
            ]
        )
    outcome.tables["Newton iterations per step, clutter of 24 bodies"] = (
        ["line search", "mean", "median", "p99", "max", "mean of the last second"],
        lines,
    )
    return outcome


@case("qualities/warm-start", "a guess from the step before saves iterations")
def warm_start(quick: bool) -> Outcome:
    """A resting stack, from the velocity of the step before and from random velocities."""
    b = new_builder()
    add_ground(b, k=1e5)
    for i in range(4):
        add_box(b, (0.0, 0.0, 0.125 + 0.25 * i), k=1e5)
    model = b.finalize(device="cpu")
    sim = Trial(model, H, line_search_variant="exact_root")
    iterations = sim.run(2.0, observe=lambda s: s.solver.last_solve_iterations)
    q, outcome = sim.q, Outcome()
    rng = np.random.default_rng(3)
    cold = []
    for _ in range(20):
        # an impact of random size: the velocity before it is a poor guess of the velocity after it
        sim.set(q=q, qd=rng.normal(size=24))
        sim.step()
        cold.append(sim.solver.last_solve_iterations)
    outcome.check(
        "mean iterations per step of a resting stack of four boxes",
        iterations[-100:].mean(),
        1.5,
        "the guess is the answer of the step before",
    )
    outcome.note("mean iterations from random velocities of 1 m/s", float(np.mean(cold)), "for comparison")
    outcome.check(
        "resting over random", iterations[-100:].mean() / max(np.mean(cold), 1e-9), 0.5, "the warm start must pay"
    )
    return outcome


@case("qualities/mass-ratio", "1,000 kg on 1 kg on 1,000 kg", slow=True)
def mass_ratio(quick: bool) -> Outcome:
    """Depth of each contact by the near-rigid law of the lighter partner: (load h / 4) w / (4 pi^2) (h + tau)."""
    outcome = Outcome()
    for preset in ("drake", "approx64"):
        b = new_builder()
        add_ground(b, k=1e9, gap=0.002)
        for i, mass in enumerate((1000.0, 1.0, 1000.0)):
            add_box(b, (0.0, 0.0, 0.25 + 0.5 * i), mass=mass, half=0.25, k=1e9, gap=0.002)
        sim = Trial(b.finalize(device="cpu"), H, contact_preset_variant=preset, line_search_variant="exact_root")
        status = sim.run(4.0, observe=lambda s: int(s.solver.status[0]))
        # w is at most 4/m of the light box at a corner, twice in |W|_F
        depth = 1000.0 * G * H / 4.0 * 4.0 / (4.0 * np.pi**2) * (H + TAU)
        gap = sim.position[2, 2] - sim.position[0, 2]
        outcome.check(f"steps that did not converge, {preset}", np.count_nonzero(status), 0, "the problem is convex")
        outcome.check(
            f"overlap of the light box with both, {preset}, over the near-rigid depth",
            (1.0 - gap) / (2.0 * depth),
            1.1,
            "two contacts under 1,000 kg",
        )
        outcome.check(f"speed at the end, {preset}", np.abs(sim.qd).max(), 1e-3, "it rests", "m/s, rad/s")
    return outcome


@case("qualities/stiffness", "a stack of boxes with a stiffness from 1e4 to 1e12 N/m", slow=True)
def stiffness(quick: bool) -> Outcome:
    """Beyond the near-rigid bound stiffness makes no difference, and no problem."""
    outcome, sinks = Outcome(), {}
    for k in (1e4, 1e6, 1e8, 1e10, 1e12):
        b = new_builder()
        add_ground(b, k=k, gap=0.002)
        for i in range(3):
            add_box(b, (0.0, 0.0, 0.125 + 0.25 * i), k=k, gap=0.002)
        sim = Trial(b.finalize(device="cpu"), H, line_search_variant="exact_root")
        status = sim.run(1.0 if quick else 4.0, observe=lambda s: int(s.solver.status[0]))
        sinks[k] = float(0.625 - sim.position[2, 2])
        outcome.check(
            f"steps that did not converge, k = {k:g} N/m", np.count_nonzero(status), 0, "the problem is convex"
        )
        outcome.check(f"speed at the end, k = {k:g} N/m", np.abs(sim.qd).max(), 1e-3, "it rests", "m/s, rad/s")
    outcome.check(
        "sink of the top box at 1e12 N/m less that at 1e8 N/m, relative",
        abs(sinks[1e12] / sinks[1e8] - 1.0),
        1e-3,
        "both near-rigid: the same problem",
    )
    outcome.check(
        "sink at 1e4 N/m less (3 + 2 + 1) m g / (4 k), relative",
        abs(sinks[1e4] / (6.0 * G / 4e4) - 1.0),
        0.02,
        "springs in series",
    )
    return outcome
