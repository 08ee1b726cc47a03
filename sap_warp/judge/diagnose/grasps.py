"""Find bodies that are gripped: squeezed between links of one mechanism."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .pairs import Pairs, unit

MIN_SQUEEZE = 0.1
"""Ratio of the squeeze to the weight of the body from which it counts as gripped."""
SETTLE = 0.1
"""Time that a grip has to close before it is judged [s]."""
MIN_TIME = 0.1
"""Time after that which is needed to judge [s]."""


@dataclass
class Grasp:
    """A body that floats by itself between links of one mechanism. Forces are medians over the judged samples."""

    body: int
    pairs: list[int]
    chosen: np.ndarray
    """Samples in which it is gripped, without those in which the grip closes unless it is `brief`, [samples]."""
    squeeze: float = 0.0
    """Force with which one side presses against the other [N]."""
    load: float = 0.0
    """Force that friction has to give: weight and acceleration of the hand, 95th percentile [N]."""
    cone: float = 0.0
    """Friction that all contacts can give together [N]."""
    wedge: float = 0.0
    """Force with which tilted pads push the body out [N]."""
    angle: float = 0.0
    """Angle by which normals of the pads fail to oppose each other, half of it [rad]."""
    brief: bool = False
    """Whether the grip is too short to settle."""
    dofs: list[int] = field(default_factory=list)
    """Dofs of the joints that move the fingers."""

    def drives(self, pairs: Pairs) -> list[str]:
        """What limits each finger's drive, as advice."""
        facts, joints = pairs.run.facts, pairs.run.joints
        texts = []
        for dof in self.dofs:
            column = int(np.searchsorted(joints.dof, dof))
            asked, limit = (np.abs(a[self.chosen, column]) for a in (joints.asked, joints.limit))
            name, unit = facts.dof_name[dof], "N m" if facts.dof_turns[dof] else "N"
            if (asked > limit).mean() > 0.5:
                texts.append(f"the drive of {name} is at its effort limit of {np.median(limit):.3g} {unit}, raise it")
            elif facts.dof_ke[dof] > 0.0:
                texts.append(
                    f"set the target of {name} deeper, or raise its stiffness ({facts.dof_ke[dof]:g} {unit}/"
                    f"{'rad' if facts.dof_turns[dof] else 'm'})"
                )
        return texts


def find_grasps(pairs: Pairs) -> list[Grasp]:
    """All grips of a run."""
    facts = pairs.run.facts
    count = len(facts.body_mass)
    members: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for pair, owners in enumerate(pairs.owner):
        if (owners >= count).any():
            continue
        alone = facts.body_alone[owners]
        if alone.sum() != 1:
            continue
        side = int(np.flatnonzero(alone)[0])
        key = (int(owners[side]), int(facts.body_tree[owners[1 - side]]))
        members.setdefault(key, []).append((pair, 1.0 if side == 1 else -1.0))
    grasps = [_grasp(pairs, body, found) for (body, _), found in members.items() if len(found) > 1]
    return [grasp for grasp in grasps if grasp is not None]


def _grasp(pairs: Pairs, body: int, members: list[tuple[int, float]]) -> Grasp | None:
    run, facts = pairs.run, pairs.run.facts
    index, sign = [pair for pair, _ in members], np.array([s for _, s in members])
    push = pairs.push[index]
    normal = sign[:, None, None] * pairs.normal[index]
    together = np.linalg.norm((push[..., None] * normal).sum(axis=0), axis=1)
    squeeze = 0.5 * (push.sum(axis=0) - together)
    mass, g = float(facts.body_mass[body]), facts.gravity[max(int(facts.body_world[body]), 0)]
    gripped = squeeze > MIN_SQUEEZE * mass * max(float(np.linalg.norm(g)), 1e-3)
    if not gripped.any():
        return None
    start = int(np.argmax(gripped))
    judged = start + max(1, round(SETTLE / run.interval))
    chosen = gripped & (np.arange(run.count) >= judged)
    brief = chosen.sum() * run.interval < MIN_TIME
    if brief:  # it may have been lost before it settled
        chosen = gripped
    # the force that friction has to give, from what the most loaded finger does
    main = int(np.argmax(push[:, chosen].sum(axis=1)))
    other = int(pairs.owner[index[main]][0 if sign[main] > 0 else 1])
    velocity = run.bodies.velocity[:, run.bodies.column(other)].astype(np.float64)
    acceleration = np.gradient(velocity, run.interval, axis=0) if run.count > 1 else np.zeros_like(velocity)
    wanted = mass * (g - _smooth(acceleration))
    axis = normal[main]
    wanted = wanted - np.einsum("ti,ti->t", wanted, axis)[:, None] * axis
    # pads that do not oppose each other: the mean normals of the two sides against the main one
    facing = np.einsum("pti,ti->pt", normal, axis)
    front, back = ((push * (facing * s > 0.0))[..., None] * normal for s in (1.0, -1.0))
    sides = [unit(side.sum(axis=0)) for side in (front, back)]
    leaning = np.linalg.norm(sides[0] + sides[1], axis=1) / 2.0
    total = push.sum(axis=0)
    half = np.arcsin(np.clip(leaning[chosen], 0.0, 1.0))
    return Grasp(
        body=body,
        pairs=index,
        chosen=chosen,
        squeeze=float(np.median(squeeze[chosen])),
        load=float(np.percentile(np.linalg.norm(wanted[chosen], axis=1), 95)),
        cone=float(np.median(pairs.cone[index].sum(axis=0)[chosen])),
        wedge=float(np.median((leaning * total)[chosen])),
        angle=float(np.median(half)),
        brief=brief,
        dofs=sorted({int(facts.body_dof[pairs.owner[p][0 if s > 0 else 1]]) for p, s in members} - {-1}),
    )


def _smooth(series: np.ndarray, width: int = 5) -> np.ndarray:
    """Running mean, which leaves out the noise of single steps."""
    kernel = np.ones(min(width, len(series))) / min(width, len(series))
    return np.stack([np.convolve(series[:, i], kernel, mode="same") for i in range(series.shape[1])], axis=1)
