"""Find contacts that rest too deep, because of soft materials or a time step that softens them, and deep impacts.

A contact that carries N rests at the depth N / k, k = 1/(h R_n (h + tau)): the stiffness of the material, or what the
near-rigid bound R_n >= beta^2/(4 pi^2) w leaves of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ....solver.terms.near_rigid import near_rigid
from ..pairs import Pairs
from ..report import Finding, Number
from ..samples import Facts
from .slip import TOO_EASY, round_down

MIN_DEPTH, MIN_SHARE = 2e-3, 0.05
"""Resting depth that is reported: in metres, and as a share of the thinner shape."""
BAD_SHARE = 0.25
"""Share of the thinner shape from which the depth is a problem."""


def find_depth(pairs: Pairs) -> Iterable[Finding]:
    """Find pairs that rest too deep."""
    run = pairs.run
    later = np.arange(run.count) >= run.count // 2
    for pair in range(len(pairs.world)):
        chosen = pairs.active[pair] & later
        if chosen.sum() < 0.5 * later.sum():
            continue
        depth = float(np.median(pairs.depth[pair][chosen]))
        size = float(min(run.facts.shape_size[list(pairs.shapes(pair))]))
        if depth > max(MIN_DEPTH, MIN_SHARE * size):
            yield _explain(pairs, pair, chosen, depth, size)


def find_impacts(pairs: Pairs) -> Iterable[Finding]:
    """Find bodies whose first contact is much deeper than they would rest."""
    run = pairs.run
    for pair in range(len(pairs.world)):
        active = pairs.active[pair]
        # a contact is found at the start of a step; what it overlaps then, it flew in the step before
        first = active & ~np.append(True, active[:-1])
        if not first.any():
            continue
        depth = float(pairs.depth[pair][first].max())
        size = float(min(run.facts.shape_size[list(pairs.shapes(pair))]))
        rest = pairs.expected_depth(pair)
        if depth > max(MIN_DEPTH, BAD_SHARE * size) and depth > 2.0 * rest:
            yield _explain_impact(pairs, pair, int(np.argmax(pairs.depth[pair] * first)), depth, size)


def _explain_impact(pairs: Pairs, pair: int, sample: int, depth: float, size: float) -> Finding:
    run = pairs.run
    speed = approach_speed(pairs, pair, max(sample - 1, 0))
    dt = round_down(min(0.5 * run.dt, 0.5 * BAD_SHARE * size / max(speed, 1e-6)))
    return Finding(
        kind="deep-impact",
        severity="warning",
        where=pairs.name(pair),
        cause="time-step",
        what=(
            f"it arrives with {speed:.3g} m/s and flies {1e3 * speed * run.dt:.3g} mm in a step, the thinner shape is "
            f"{1e3 * size:.3g} mm thick: contacts are found too late, and faster bodies pass through"
        ),
        measure=Number("overlap when found", depth, "m"),
        change=f"set dt to {1e3 * dt:g} ms, or give the shapes a gap of {0.5e3 * speed * run.dt:.2g} mm each",
        settings={"dt": dt},
        predicted=speed * dt,
        numbers=(Number("speed", speed, "m/s"), Number("expected at rest", pairs.expected_depth(pair), "m")),
        worlds=(int(pairs.world[pair]),),
        score=depth / (BAD_SHARE * size),
    )


def approach_speed(pairs: Pairs, pair: int, sample: int) -> float:
    """Return the relative speed of the two sides' centres of mass [m/s]."""
    samples = pairs.run.bodies
    bodies = [int(owner) for owner in pairs.owner[pair] if owner < len(pairs.run.facts.body_mass)]
    velocity = np.zeros(3)
    for body, sign in zip(bodies, (1.0, -1.0), strict=False):
        velocity = velocity + sign * samples.velocity[sample, samples.column(body)]
    return float(np.linalg.norm(velocity))


def _explain(pairs: Pairs, pair: int, chosen: np.ndarray, depth: float, size: float) -> Finding:
    run, facts, options = pairs.run, pairs.run.facts, pairs.run.options
    a, b = pairs.shapes(pair)
    rows, later = run.contacts, chosen[run.contacts.sample]
    here = later & (pairs.row_pair == pair) & np.isfinite(rows.reach)
    stiffness = float(np.average(1.0 / (run.dt * rows.Rn[here] * rows.reach[here]), weights=rows.push[here]))
    material = facts.shape_ke[a] * facts.shape_ke[b] / (facts.shape_ke[a] + facts.shape_ke[b])
    reach = float(np.average(rows.reach[here], weights=rows.push[here]))
    weight = float(np.average(rows.weight[here], weights=rows.push[here]))
    bound = near_rigid(options.contact_beta) * weight
    stiffest = 1.0 / (run.dt * bound * reach) if bound > 0.0 else math.inf
    force = float(pairs.push[pair][chosen].mean())
    count = float(pairs.count[pair][chosen].mean())
    numbers = [
        Number("stiffness in force", stiffness, "N/m"),
        Number("stiffness of the materials", material, "N/m"),
        Number("depth with that of the materials", depth * stiffness / material, "m"),
        Number("normal force", force, "N"),
        Number("contacts", count, ""),
    ]
    easy = float(pairs.too_easy[pair])
    wanted = 0.5 * max(MIN_DEPTH, MIN_SHARE * size if math.isfinite(size) else 0.0)
    if stiffness > 0.5 * material and stiffest > 2.0 * stiffness:
        ke = _round_up(min(max(facts.shape_ke[a], facts.shape_ke[b]) * depth / wanted, 1e9))
        pair_ke = 0.5 * ke
        after = min(pair_ke, stiffest)
        cause = "soft-material"
        what = f"the materials are springs of {material:.3g} N/m, which {force:.3g} N press in that far"
        change = f"set ke of {_names(facts, a, b)} to {ke:.3g} N/m"
        settings: dict[str, object] = {"ke": ke}
    elif easy > TOO_EASY and options.contact_weight_mode == "body_inertia":
        after = min(material, stiffness * easy)
        cause = "body-inertia-weight"
        what = (
            f"contact_weight_mode body_inertia counts a jointed link as a free body and makes the contact {easy:.0f} "
            f"times softer than the joints allow: {stiffness:.3g} N/m instead of {material:.3g} N/m, whatever ke says"
        )
        change = "set contact_weight_mode to diag_delassus, or the preset to robot or drake"
        settings = {"contact_weight_mode": "diag_delassus"}
    else:
        dt = 0.5 * run.dt
        tau = max(reach - run.dt, 0.0)
        after = min(material, stiffness * run.dt * reach / (dt * (dt + tau)))
        cause = "near-rigid-bound"
        what = (
            f"a step of {1e3 * run.dt:g} ms cannot resolve {material:.3g} N/m under so light a body: the contact is as "
            f"stiff as it can be, {stiffness:.3g} N/m, and a larger ke changes nothing"
        )
        change = f"set dt to {1e3 * dt:g} ms, give the light body more mass, or lower contact_beta"
        settings = {"dt": dt}
    return Finding(
        kind="deep-contact",
        severity="problem" if depth > BAD_SHARE * size else "warning",
        where=pairs.name(pair),
        cause=cause,
        what=what,
        measure=Number("resting depth", depth, "m"),
        change=change,
        settings=settings,
        predicted=depth * stiffness / after,
        numbers=tuple(numbers),
        worlds=(int(pairs.world[pair]),),
        score=depth / wanted,
    )


def _names(facts: Facts, a: int, b: int) -> str:
    return " and ".join(facts.shape_label[shape].rsplit("/", 1)[-1] for shape in (a, b))


def _round_up(value: float) -> float:
    """Round to two digits, not below ``value``."""
    power = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / power - 1e-9) * power:.2g}")
