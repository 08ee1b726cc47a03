"""Find bodies that slip where friction should hold them: in a grip, or resting on something.

Along a surface a body moves, from sample to sample, by

    slip = creep + slide + hop + drift
    creep   interval R_t gamma_t   sticking contacts give way by their regularization R_t = sigma w
    slide   interval v_t           of contacts at the friction cone
    hop     interval v_t           in steps that the solve left unfinished for this body
    drift   the rest               friction stops velocities at the old pose; while a grip turns, poses part

and each of the four that matters is a finding with a cause of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..grasps import MIN_TIME, Grasp, find_grasps
from ..pairs import AT_CONE, Pairs
from ..report import Finding, Number
from .solve import MIN_HOP

MIN_SPEED = 1e-4
"""Slip of a body that should be held from which it is reported [m/s]: a millimetre in ten seconds."""
MIN_DRIFT = 5e-4
"""Drift from which the finding is a warning [m/s]: some of it comes with every motion."""
BAD_SPEED, BAD_SLIP = 1e-3, 2e-3
"""Slip speed [m/s] and slip during the run [m] from which the finding is a problem."""
MIN_PART = 0.3
"""Ratio of a part of a grip's slip to the largest part, from which it is a finding of its own."""
TOO_EASY = 3.0
"""Ratio of the weight to that by diag_delassus from which the weight mode is to blame."""
AT_REST, MIN_SPIN = 0.02, 0.2
"""Outside of grips: relative speed of resting bodies [m/s], and spin of those that turn together."""
SPARE = 1.2
"""Ratio of the advised squeeze to the one that just holds."""


@dataclass
class Slip:
    """How one pair slipped during some samples, as mean velocities [m/s] in axes of side 0."""

    pair: int
    seconds: float
    total: np.ndarray
    vectors: dict[str, np.ndarray]
    """Return the parts of `total` by name."""

    @property
    def speed(self) -> float:
        """Return the speed of the net motion [m/s]."""
        return float(np.linalg.norm(self.total))

    @property
    def parts(self) -> dict[str, float]:
        """Return the sizes of its parts [m/s], the largest first."""
        sizes = {name: float(np.linalg.norm(vector)) for name, vector in self.vectors.items()}
        return dict(sorted(sizes.items(), key=lambda part: -part[1]))

    @property
    def main(self) -> str:
        """Return the name of the largest part."""
        return next(iter(self.parts))

    def speed_with(self, part: str, factor: float) -> float:
        """Return the speed if one part were multiplied by ``factor`` [m/s]."""
        return float(np.linalg.norm(self.total - (1.0 - factor) * self.vectors[part]))


def measure_slip(pairs: Pairs, pair: int, chosen: np.ndarray) -> Slip:
    """Return the net slip of a pair during the samples ``chosen``, and its parts."""
    interval = pairs.run.interval
    seconds = max(int(chosen.sum()), 1) * interval
    hops = chosen & (_imbalance(pairs, pair) > MIN_HOP)
    slides = chosen & ~hops & (pairs.use[pair] >= AT_CONE)
    moved, slip = interval * pairs.velocity[pair], pairs.slip[pair]
    parts = {
        "creep": moved[chosen & ~hops & ~slides],
        "slide": moved[slides],
        "hop": moved[hops],
        "drift": (slip - moved)[chosen],
    }
    vectors = {name: vectors.sum(axis=0) / seconds for name, vectors in parts.items()}
    return Slip(pair, seconds, slip[chosen].sum(axis=0) / seconds, vectors)


def _imbalance(pairs: Pairs, pair: int) -> np.ndarray:
    """Return the larger velocity error that the solve left to the bodies of a pair [m/s], [samples]."""
    samples = pairs.run.bodies
    columns = [samples.column(int(o)) for o in pairs.owner[pair] if o < len(pairs.run.facts.body_mass)]
    owed = samples.imbalance[:, columns]
    return np.where(np.isfinite(owed), owed, 0.0).max(axis=1, initial=0.0)


def find_slip(pairs: Pairs) -> Iterable[Finding]:
    """Find grips that slip, and contacts that creep elsewhere."""
    grasps = find_grasps(pairs)
    for grasp in grasps:
        yield from judge_grip(pairs, grasp)
    gripped = {pair for grasp in grasps for pair in grasp.pairs}
    for pair in range(len(pairs.world)):
        if pair not in gripped:
            yield from judge_rest(pairs, pair)


def judge_grip(pairs: Pairs, grasp: Grasp) -> Iterable[Finding]:
    """Report what a body in a grip does along the fingers."""
    slips = [measure_slip(pairs, pair, grasp.chosen & pairs.active[pair]) for pair in grasp.pairs]
    slip = max(slips, key=lambda s: s.speed)
    lost = slip.main in ("slide", "hop") and slip.speed * slip.seconds > BAD_SLIP
    if slip.speed < MIN_SPEED or (grasp.brief and not lost):
        return
    for part, speed in slip.parts.items():
        if speed > max(MIN_SPEED, MIN_PART * slip.parts[slip.main]):
            bad = speed > BAD_SPEED or speed * slip.seconds > BAD_SLIP
            small = part == "drift" and speed < MIN_DRIFT
            yield _explain(pairs, slip, part, grasp, "problem" if bad else "info" if small else "warning")


def judge_rest(pairs: Pairs, pair: int) -> Iterable[Finding]:
    """Report contacts that keep sliding, and those of resting bodies that stick and creep all the same."""
    run, later = pairs.run, np.arange(pairs.run.count) >= pairs.run.count // 2
    chosen = pairs.active[pair] & later
    if chosen.sum() * run.interval < MIN_TIME or chosen.sum() < 0.9 * later.sum():
        return
    slip = measure_slip(pairs, pair, chosen)
    if slip.main == "slide":
        if slip.speed > BAD_SPEED:
            yield _sliding(pairs, slip, chosen)
    elif slip.speed > MIN_SPEED and slip.main != "hop" and (slip.main == "creep" or _spin(pairs, pair) > MIN_SPIN):
        if relative_speed(pairs, pair, later) < AT_REST:
            yield _explain(pairs, slip, slip.main, None, "warning" if slip.speed > BAD_SPEED else "info")


def relative_speed(pairs: Pairs, pair: int, chosen: np.ndarray) -> float:
    """Return the root mean square of the velocity between the two sides' centres of mass [m/s]."""
    samples = pairs.run.bodies
    bodies = [int(owner) for owner in pairs.owner[pair] if owner < len(pairs.run.facts.body_mass)]
    velocity = np.zeros((int(chosen.sum()), 3))
    for body, sign in zip(bodies, (1.0, -1.0), strict=False):
        velocity = velocity + sign * samples.velocity[chosen, samples.column(body)]
    return float(np.sqrt((velocity**2).sum(axis=1).mean()))


def _explain(pairs: Pairs, slip: Slip, part: str, grasp: Grasp | None, severity: str) -> Finding:
    """Return a finding about one part of the slip: the cause, what to change and what it does."""
    if part == "creep":
        cause, what, change, settings, predicted, numbers = _explain_creep(pairs, slip, grasp)
    elif part == "hop":
        cause, what, change, settings, predicted, numbers = _explain_hop(pairs, slip)
    elif part == "drift":
        cause, what, change, settings, predicted, numbers = _explain_drift(pairs, slip)
    else:
        assert grasp is not None
        cause, what, change, settings, predicted, numbers = _explain_slide(pairs, slip, grasp)
    parts = [Number(name, slip.parts[name], "m/s") for name in slip.vectors]
    parts += [Number("slip in all", slip.speed * slip.seconds, "m")]
    return Finding(
        kind="slip" if grasp is not None else "creep",
        severity=severity,
        where=pairs.name(slip.pair),
        cause=cause,
        what=what,
        measure=Number("slip speed", slip.speed, "m/s"),
        change=change,
        settings=settings,
        predicted=predicted,
        numbers=(*numbers, *parts),
        worlds=(int(pairs.world[slip.pair]),),
        score=slip.parts[part] / MIN_SPEED,
    )


_Explanation = tuple[str, str, str, dict[str, object], float | None, tuple[Number, ...]]


def _explain_creep(pairs: Pairs, slip: Slip, grasp: Grasp | None) -> _Explanation:
    options, ratio = pairs.run.options, float(pairs.too_easy[slip.pair])
    use = _mean_use(pairs, slip, grasp)
    shared = (Number("friction in use", 100.0 * use, "%"), Number("weight over diag_delassus", ratio, ""))
    if ratio > TOO_EASY and options.contact_weight_mode == "body_inertia":
        what = (
            "sticking contacts creep by R_t times their load; contact_weight_mode body_inertia counts a jointed link "
            f"as a free body, which makes R_t {ratio:.0f} times larger than the joints allow"
        )
        change = "set contact_weight_mode to diag_delassus, or the preset to robot or drake"
        return (
            "body-inertia-weight",
            what,
            change,
            {"contact_weight_mode": "diag_delassus"},
            slip.speed_with("creep", 1.0 / ratio),
            shared,
        )
    sigma = round_down(options.contact_sigma * 0.5 * MIN_SPEED / slip.parts["creep"])
    what = "sticking contacts creep by R_t = sigma w times their load, and they carry much for how light they are"
    change = f"set contact_sigma to {sigma:g} (it is {options.contact_sigma:g}), or take a smaller dt"
    predicted = slip.speed_with("creep", sigma / options.contact_sigma)
    return "regularization", what, change, {"contact_sigma": sigma}, predicted, shared


def _explain_hop(pairs: Pairs, slip: Slip) -> _Explanation:
    tolerance = pairs.run.options.cost_tolerances[1]
    what = (
        f"the solve stops when the cost of the whole world changes by less than cost_rel_tol {tolerance:g}, before the "
        "light body that is held is done: it hops along the fingers"
    )
    change = 'set line_search_variant to "exact_root", or cost_rel_tol to 1e-6 or less'
    after = slip.speed_with("hop", 0.0)
    numbers = (Number("velocity error", float(_imbalance(pairs, slip.pair).max()), "m/s"),)
    return "cost-tolerance", what, change, {"line_search_variant": "exact_root"}, after, numbers


def _explain_drift(pairs: Pairs, slip: Slip) -> _Explanation:
    run = pairs.run
    spin, apart = _mechanism_spin(pairs, slip.pair), _witness_speed(pairs, slip.pair)
    drift = slip.parts["drift"]
    numbers = (Number("turn", spin, "rad/s"), Number("turn times overlap", apart, "m/s"))
    if run.options.contact_point_mode == "witness_point" and apart > 0.5 * drift:
        return _explain_witness(pairs, slip, numbers)
    dt = round_down(run.dt * min(0.5, max(0.1, 0.5 * MIN_SPEED / max(drift, 1e-12))))
    what = (
        f"the grip moves along a curve, its mechanism turns at up to {spin:.3g} rad/s: friction stops the slip "
        "velocity at the pose where a step begins, and what is held moves straight on"
    )
    if run.options.stiction_mode == "velocity":
        left = min(spin * run.dt, 0.5)  # the next order
        change = f"set stiction_mode to displacement, or the preset to robot; or dt to {1e3 * dt:.3g} ms"
        settings: dict[str, object] = {"stiction_mode": "displacement"}
        return "turning-grip", what, change, settings, slip.speed_with("drift", left), numbers
    change = f"set dt to {1e3 * dt:.3g} ms (it is {1e3 * run.dt:g} ms)"
    return "turning-grip", what, change, {"dt": dt}, slip.speed_with("drift", dt / run.dt), numbers


def _explain_witness(pairs: Pairs, slip: Slip, numbers: tuple[Number, ...]) -> _Explanation:
    """Explain drift from comparing velocities at two points that are an overlap apart."""
    ratio = float(pairs.too_easy[slip.pair])
    what = (
        "contact_point_mode witness_point compares velocities of points that are an overlap apart; friction stops "
        "their difference, so that bodies that turn together slip by the turn times the overlap"
    )
    if ratio > TOO_EASY and pairs.run.options.contact_weight_mode == "body_inertia":
        what += f"; the overlap is {ratio:.0f} times too deep because body_inertia counts a jointed link as a free body"
        change = "set contact_weight_mode to diag_delassus, or the preset to robot or drake"
        after = slip.speed / ratio
        return "body-inertia-weight", what, change, {"contact_weight_mode": "diag_delassus"}, after, numbers
    change = "set contact_point_mode to contact_midpoint, or make the contact stiffer"
    after = slip.speed_with("drift", max(1.0 - numbers[1].value / slip.parts["drift"], 0.1))
    return "witness-points", what, change, {"contact_point_mode": "contact_midpoint"}, after, numbers


def _explain_slide(pairs: Pairs, slip: Slip, grasp: Grasp) -> _Explanation:
    angle = np.degrees(grasp.angle)
    numbers = (
        Number("squeeze", grasp.squeeze, "N"),
        Number("load", grasp.load, "N"),
        Number("friction at most", grasp.cone, "N"),
        Number("tilt of the pads", angle, "deg"),
    )
    if grasp.wedge > grasp.load:
        mu = float(np.ceil(SPARE * 100.0 * np.tan(grasp.angle)) / 100.0)
        what = (
            f"the pads are tilted by {angle:.3g} degrees to each other's faces: the squeeze itself pushes the body out "
            f"with {grasp.wedge:.3g} N, more than its load; more squeeze pushes more"
        )
        change = f"turn the hand or the pads until their normals oppose each other, or raise mu above {mu:g}"
        return "tilted-pads", what, change, {"mu": mu}, _creep_after(pairs, slip, grasp), numbers
    # a contact that slides lifts off by itself (docs/solver.md), so that the forces nearly balance: go by the load
    factor = SPARE * grasp.load / max(grasp.cone, 1e-9)
    force = factor * grasp.squeeze
    what = (
        f"contacts are at the friction cone: {grasp.squeeze:.3g} N of squeeze give {grasp.cone:.3g} N of friction, the "
        f"load is {grasp.load:.3g} N"
    )
    how = "; ".join(grasp.drives(pairs)) or "push the fingers harder"
    change = f"squeeze with {force:.3g} N: {how}; or raise mu {factor:.2g} times"
    return "too-little-squeeze", what, change, {"squeeze": force}, _creep_after(pairs, slip, grasp), numbers


def _creep_after(pairs: Pairs, slip: Slip, grasp: Grasp) -> float:
    """Return the creep of the pair once friction carries the load: R_t times a contact's share of it."""
    count = sum(float(pairs.count[p][grasp.chosen].mean()) for p in grasp.pairs)
    Rt = float(pairs.Rt[slip.pair][grasp.chosen & pairs.active[slip.pair]].mean())
    return Rt * grasp.load * pairs.run.dt / max(count, 1.0)


def _sliding(pairs: Pairs, slip: Slip, chosen: np.ndarray) -> Finding:
    mu = float((pairs.cone[slip.pair][chosen] / np.maximum(pairs.push[slip.pair][chosen], 1e-300)).mean())
    return Finding(
        kind="sliding",
        severity="info",
        where=pairs.name(slip.pair),
        cause="friction-cone",
        what=f"the pair keeps sliding: friction is at its cone, mu {mu:.3g}",
        measure=Number("slip speed", slip.speed, "m/s"),
        change="if it should hold, raise mu of the two shapes or press harder",
        numbers=(Number("normal force", float(pairs.push[slip.pair][chosen].mean()), "N"),),
        worlds=(int(pairs.world[slip.pair]),),
        score=slip.speed / BAD_SPEED,
    )


def _mean_use(pairs: Pairs, slip: Slip, grasp: Grasp | None) -> float:
    chosen = pairs.active[slip.pair] & (grasp.chosen if grasp is not None else True)
    return float(pairs.use[slip.pair][chosen].mean())


def _spin(pairs: Pairs, pair: int) -> float:
    """Return the speed at which both sides turn [rad/s], 95th percentile; 0 if one of them is fixed to the world."""
    spins = [np.linalg.norm(spin, axis=1) for spin in _spins(pairs, pair)]
    return min(float(np.percentile(spin, 95)) for spin in spins) if len(spins) == 2 else 0.0


def _mechanism_spin(pairs: Pairs, pair: int) -> float:
    """Return the fastest turn of a body in the mechanisms of both sides [rad/s], 95th percentile."""
    facts, samples = pairs.run.facts, pairs.run.bodies
    bodies = pairs.owner[pair][pairs.owner[pair] < len(facts.body_mass)]
    members = np.isin(facts.body_tree[samples.body], facts.body_tree[bodies])
    return float(np.percentile(np.linalg.norm(samples.spin[:, members], axis=2), 95, axis=0).max(initial=0.0))


def _witness_speed(pairs: Pairs, pair: int) -> float:
    """Return the velocity difference that a common turn makes between points on both surfaces [m/s]."""
    spins, active = _spins(pairs, pair), pairs.active[pair]
    if len(spins) < 2:
        return 0.0
    turn = 0.5 * (spins[0] + spins[1])[active]
    apart = np.cross(turn, pairs.normal[pair][active]) * pairs.depth[pair][active, None]
    return float(np.linalg.norm(apart, axis=1).mean())


def _spins(pairs: Pairs, pair: int) -> list[np.ndarray]:
    """Return angular velocities of the sides that are bodies [rad/s]."""
    samples = pairs.run.bodies
    bodies = [int(owner) for owner in pairs.owner[pair] if owner < len(pairs.run.facts.body_mass)]
    return [samples.spin[:, samples.column(body)].astype(np.float64) for body in bodies]


def round_down(value: float) -> float:
    """Round to one digit, not above ``value``."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(f"{np.floor(value / power + 1e-9) * power:.1g}")
