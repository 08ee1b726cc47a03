"""Every robot of this machine: does it load, hold its home pose, and how fast, beside MuJoCo C.

    python benchmarks/robot_table.py [--robots go2,panda] [--duration 2] [--worlds 32] [--output docs/robots_table.md]

Each robot is loaded by name (`Simulation.from_robot`), starts in its home pose under its own gains, or under those that
follow from its effort limits, and runs for two seconds, in MuJoCo C too: from the same file, at the same step, with the
same ground and gains (`robot_models`). Then both are timed in turns on one processor, in processor time, and the best
of the turns counts: what else the machine does only ever adds to a time.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import newton
import numpy as np
from robot_models import mujoco_of

from sap_warp import Simulation
from sap_warp.scene.robots import Robot, list_robots

COLUMNS = (
    "robot",
    "format",
    "dofs",
    "colliding meshes",
    "moved [rad or m]",
    "off MuJoCo [rad or m]",
    "not converged",
    "us a step",
    "us a step of each of many worlds",
    "MuJoCo us",
    "remark",
)
MESHES = (int(newton.GeoType.MESH), int(newton.GeoType.CONVEX_MESH))
TURNS, STEPS = 7, 60
SCALAR = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


def measure(robot: Robot, duration: float, worlds: int) -> tuple[str, ...]:
    """One row of the table."""
    name, few = f"{robot.place}:{robot.name}", {"asset": {"load_visual_shapes": False}, "notes": False}
    try:
        sim = Simulation.from_robot(name, **few)
    except Exception as error:  # the table is to say what happens, whatever it is
        reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
        return (robot.name, robot.kind, *[""] * 8, f"refused: {reason.strip(' -')[:90]}")
    steps = max(2, round(duration / sim.dt))
    start = positions(sim)
    sim.step(steps)
    ends = positions(sim)
    moved = {joint: abs(ends[joint] - q) for joint, q in start.items()}
    collide = sim.model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES) != 0
    meshes = int((np.isin(sim.model.shape_type.numpy(), MESHES) & collide).sum())
    failed = sim.statistics.not_converged + int((np.asarray(sim.status) != 0).any())
    many = Simulation.from_robot(name, num_worlds=worlds, **few)
    many.step(steps)
    runs = {"one": lambda: run(sim), "many": lambda: run(many)}
    off, remark = "", at_limits(sim)
    try:
        model, data = mujoco_of(robot, sim.dt)
        mujoco.mj_step(model, data, steps)
        off = f"{difference(model, data, ends):.4f}"
        runs["mujoco"] = lambda: mujoco.mj_step(model, data, STEPS)
    except ValueError as error:
        remark = f"MuJoCo refuses it: {str(error).splitlines()[0].removeprefix('Error: ')[:60]}"
    times = time_in_turns(runs)
    mujoco_time = f"{times['mujoco']:.0f}" if "mujoco" in times else ""
    row = [robot.name, robot.kind, str(sim.model.joint_dof_count), str(meshes), f"{max(moved.values(), default=0):.4f}"]
    return (*row, off, str(failed), f"{times['one']:.0f}", f"{times['many'] / worlds:.0f}", mujoco_time, remark)


def run(sim: Any) -> None:
    """A few steps, until they are done."""
    sim.step(STEPS)
    sim.synchronize()


def time_in_turns(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Best time of a step of each [us], measured one after the other and again."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(TURNS):
        for name, steps in runs.items():
            clock = time.process_time()
            steps()
            best[name] = min(best[name], 1e6 * (time.process_time() - clock) / STEPS)
    return best


def scalar_joints(sim: Any) -> list[tuple[str, int, int]]:
    """Name, coordinate and dof of the joints with one coordinate."""
    model = sim.model
    q, qd = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    labels = [label.rsplit("/", 1)[-1] for label in model.joint_label]
    return [
        (labels[j], int(q[j]), int(qd[j]))
        for j in range(model.joint_count)
        if q[j + 1] - q[j] == 1 == qd[j + 1] - qd[j]
    ]


def positions(sim: Any) -> dict[str, float]:
    """Positions of the joints with one coordinate [rad or m], from the pose of the file."""
    q = np.array(sim.joint_q).ravel()
    return {name: float(q[coordinate]) for name, coordinate, _ in scalar_joints(sim)}


def difference(model: Any, data: Any, ends: dict[str, float]) -> float:
    """Largest difference of joint positions [rad or m]."""
    worst = 0.0
    for j in np.flatnonzero(np.isin(model.jnt_type, SCALAR)):
        address, name = model.jnt_qposadr[j], model.joint(int(j)).name
        if name in ends:
            worst = max(worst, abs(data.qpos[address] - model.qpos0[address] - ends[name]))
    return float(worst)


def at_limits(sim: Any) -> str:
    """Drives that give all they can, and do not hold what they should."""
    model, q = sim.model, np.array(sim.joint_q).ravel()
    target, ke = model.joint_target_q.numpy(), model.joint_target_ke.numpy()
    limit = model.joint_effort_limit.numpy()
    lag = np.abs(q - target)
    weak = [name for name, c, dof in scalar_joints(sim) if lag[c] > 1e-3 and ke[dof] * lag[c] > limit[dof]]
    return f"beyond the effort limit of {', '.join(weak[:2])}" if weak else ""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", help="names, separated by commas (default: all)")
    parser.add_argument("--duration", type=float, default=2.0, help="simulated time [s]")
    parser.add_argument("--worlds", type=int, default=32, help="how many are many")
    parser.add_argument("--output", type=Path, help="write the table into this file too")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = arguments.robots.split(",") if arguments.robots else None
    lines = ["| " + " | ".join(COLUMNS) + " |", "| " + " | ".join("---" for _ in COLUMNS) + " |"]
    print("\n".join(lines), flush=True)
    for robot in list_robots():
        if chosen is None or robot.name in chosen:
            lines.append("| " + " | ".join(measure(robot, arguments.duration, arguments.worlds)) + " |")
            print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
