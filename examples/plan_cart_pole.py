"""Swing up a cart-pole by predictive sampling: try many pushes in parallel worlds, take the best, repeat.

    python examples/plan_cart_pole.py

The plan is a few forces, held in between. Every round varies the last plan at random, rolls all variants out from the
present state, and applies the first force of the best. Prints the angle over time and how far it is from real time.
"""

import math
import time

import numpy as np

import sap_warp
from sap_warp import Rollouts, Simulation

sap_warp.quiet()

SCENE = {
    "schema_version": 1,
    "name": "cart_pole",
    "simulation": {"dt": 0.01, "max_rigid_contact": 4},
    "bodies": [
        {"id": "cart", "mass": 1.0, "inertia": [0.01, 0.01, 0.01], "transform": {"p": [0.0, 0.0, 1.0]}},
        {"id": "pole", "mass": 0.1, "inertia": [0.002, 0.002, 0.0001], "com": [0.0, 0.0, -0.25]},
    ],
    "joints": [
        {"id": "slide", "type": "prismatic", "parent": "world", "child": "cart", "axis": [1.0, 0.0, 0.0]},
        {"id": "hinge", "type": "revolute", "parent": "cart", "child": "pole", "axis": [0.0, 1.0, 0.0]},
    ],
    "articulations": [{"id": "cart_pole", "joints": ["slide", "hinge"]}],
}
CANDIDATES, KNOTS, HOLD = 64, 12, 8
"""Plans tried at once, forces in a plan, and steps that a force lasts: a horizon of about a second."""
LARGEST = 15.0
"""Force on the cart [N]."""


def cost(found) -> np.ndarray:
    """Of each candidate: away from upright (hinge at pi), away from the middle, fast at the end."""
    q, qd = found["joint_q"], found["joint_qd"]
    upright = 1.0 + np.cos(q[:, :, 1])
    running = (upright + 0.05 * q[:, :, 0] ** 2 + 0.002 * qd[:, :, 1] ** 2).mean(axis=1)
    return running + 2.0 * upright[:, -1] + 0.05 * qd[:, -1, 1] ** 2 * (upright[:, -1] < 0.5)


def main(seconds: float = 6.0) -> float:
    """Plan and act for ``seconds`` of simulated time; returns the mean height of the pole's tip at the end, -1 to 1."""
    rng = np.random.default_rng(0)
    world = Simulation.from_scene(SCENE)
    plans = Rollouts(SCENE, CANDIDATES, inputs={"joint_f": ["slide"]}, hold=HOLD)
    plan = np.zeros(KNOTS)
    heights, spent = [], 0.0
    rounds = round(seconds / (HOLD * world.dt))
    for i in range(rounds):
        begin = time.perf_counter()
        tries = np.clip(plan + rng.normal(0.0, 6.0, (CANDIDATES, KNOTS)), -LARGEST, LARGEST)
        tries[0] = plan
        found = plans(world.joint_q.numpy()[0], world.joint_qd.numpy()[0], tries[:, :, None])
        plan = tries[cost(found).argmin()]
        spent += time.perf_counter() - begin
        world.joint_f["slide"] = plan[0]
        world.step(HOLD)
        plan = np.append(plan[1:], 0.0)
        angle = float(world.joint_q["hinge"].numpy()[0])
        heights.append(-math.cos(angle))
        if i % 12 == 0:
            print(f"{world.time:5.2f} s  height of the tip {heights[-1]:5.2f}")
    print(f"planning took {spent:.2f} s for {world.time:.2f} s: {world.time / spent:.1f} times real time")
    return float(np.mean(heights[-rounds // 6 :]))


if __name__ == "__main__":
    print(f"mean height of the tip in the last second: {main():.2f} (1 is upright)")
