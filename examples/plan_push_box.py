"""Push a box to a place on the floor by MPPI: try many motions of a pusher in parallel worlds, mix the good, repeat.

    python examples/plan_push_box.py
    python examples/plan_push_box.py --workers 2    # candidates in the workers of a Ray

The pusher is a ball on two rails with position drives. A plan is a few velocities of it. Every round varies the last
plan at random, rolls all variants out from the present state, and weighs them by where box and pusher end up. Contact
and friction decide where the box goes; nobody tells the planner from which side to push. Prints how far the box is from
its goal, and how far planning is from real time.
"""

import argparse
import time

import numpy as np

import sap_warp
from sap_warp import Rollouts, Simulation

sap_warp.quiet()

RADIUS, HALF = 0.05, 0.1
"""Of the ball, and half the width of the box [m]."""


def rail(name: str, axis: str, parent: str, child: str) -> dict:
    drive = {"target_ke": 600.0, "target_kd": 60.0}
    return {"id": name, "type": "prismatic", "axis": axis, "parent": parent, "child": child, **drive}


SCENE = {
    "schema_version": 1,
    "name": "push_box",
    "simulation": {"dt": 0.01, "max_rigid_contact": 16},
    "builder": {"defaults": {"shape": {"ke": 2.0e4, "tau": 0.02, "mu": 0.5}}},
    "bodies": [
        {"id": "carriage", "mass": 0.5, "inertia": [0.01, 0.01, 0.01]},
        {"id": "pusher", "shapes": [{"type": "sphere", "radius": RADIUS, "density": 1000.0}]},
        {
            "id": "box",
            "transform": {"p": [0.0, 0.0, HALF]},
            "shapes": [{"type": "box", "hx": HALF, "hy": HALF, "hz": HALF, "density": 125.0}],
        },
    ],
    "joints": [
        {**rail("along", "x", "world", "carriage"), "parent_xform": {"p": [0.0, 0.0, 0.08]}},
        rail("across", "y", "carriage", "pusher"),
        {"id": "free", "type": "free", "parent": "world", "child": "box"},
    ],
    "articulations": [{"id": "rails", "joints": ["along", "across"]}, {"id": "loose", "joints": ["free"]}],
    "initial_joint_q": [{"joint": "along", "value": -0.3}],
}
GOAL = np.array([0.3, 0.3])
"""Where the middle of the box should be [m]; its way there is not straight away from the pusher."""
CANDIDATES, KNOTS, HOLD = 48, 10, 8
"""Plans tried at once, velocities in a plan, and steps that each lasts: a horizon of 0.8 s."""
FASTEST, SPREAD, SHARPNESS = 0.6, 0.25, 0.02
"""Speed of the pusher [m/s], how far plans are varied [m/s], and costs that make a plan count 1/e of the best."""


def cost(found) -> np.ndarray:
    """Of each candidate: box from its goal, and pusher from the side of the box that is away from the goal."""
    q = found["joint_q"]
    pusher, box = q[:, :, :2], q[:, :, 2:4]
    gap = np.linalg.norm(GOAL - box, axis=2)
    behind = box + (box - GOAL) / np.maximum(gap, 1e-3)[:, :, None] * (HALF + RADIUS)
    ready = np.linalg.norm(behind - pusher, axis=2)
    near = np.clip(gap / 0.1, 0.0, 1.0)  # at the goal the pusher may stay where it is
    return (gap + 0.3 * ready * near).mean(axis=1) + 2.0 * gap[:, -1]


def main(seconds: float = 8.0, workers: int | None = None) -> tuple[float, float]:
    """Plan and act for ``seconds`` of simulated time; how far the box was from its goal at first and at the end [m]."""
    rng = np.random.default_rng(0)
    world = Simulation.from_scene(SCENE)
    inputs = {"joint_target_q": ["along", "across"]}
    plans = Rollouts(SCENE, CANDIDATES, inputs=inputs, record=["joint_q"], hold=HOLD, workers=workers)
    lasts = HOLD * world.dt
    plan, spent, gaps = np.zeros((KNOTS, 2)), 0.0, []
    for i in range(round(seconds / lasts)):
        begin = time.perf_counter()
        q = world.joint_q.numpy()[0]
        gaps.append(float(np.linalg.norm(GOAL - q[2:4])))
        tries = plan + rng.normal(0.0, SPREAD, (CANDIDATES, KNOTS, 2))
        tries[0], tries[1] = plan, 0.0
        tries = np.clip(tries, -FASTEST, FASTEST)
        found = plans(q, world.joint_qd.numpy()[0], q[:2] + lasts * np.cumsum(tries, axis=1))
        costs = cost(found)
        weights = np.exp((costs.min() - costs) / SHARPNESS)
        plan = np.tensordot(weights / weights.sum(), tries, axes=1)
        spent += time.perf_counter() - begin
        world.joint_target_q[["along", "across"]] = q[:2] + lasts * plan[0]
        world.step(HOLD)
        plan = np.concatenate([plan[1:], plan[-1:]])
        if i % 12 == 0:
            print(f"{world.time:5.2f} s  box {100.0 * gaps[-1]:5.1f} cm from its goal")
    plans.close()
    print(f"planning took {spent:.2f} s for {world.time:.2f} s: {world.time / spent:.1f} times real time")
    return gaps[0], float(np.linalg.norm(GOAL - world.joint_q.numpy()[0, 2:4]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Push a box to a place by MPPI.")
    parser.add_argument("--workers", type=int, help="processes of a Ray for the candidates; this process without it")
    first, last = main(workers=parser.parse_args().workers)
    print(f"the box went from {100.0 * first:.1f} cm to {100.0 * last:.1f} cm from its goal")
