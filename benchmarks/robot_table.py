"""Every robot of this machine: does it load, hold its home pose, and how fast; MJCF files beside MuJoCo C.

    python benchmarks/robot_table.py [--robots go2,panda] [--duration 2] [--output docs/robots_table.md]

Each robot is loaded by name (`Simulation.from_robot`), starts in its home pose under its own gains, or under those that
follow from its effort limits, and runs for two seconds. An MJCF file is compiled by MuJoCo too: its joint positions
after the same time at the same step, and its speed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import newton
import numpy as np

from sap_warp import Simulation
from sap_warp.robots import Robot, list_robots

COLUMNS = (
    "robot",
    "format",
    "dofs",
    "meshes",
    "not simulated",
    "moved [rad or m]",
    "not converged",
    "us a step",
    "MuJoCo us",
    "off MuJoCo [rad]",
)


MESHES = (int(newton.GeoType.MESH), int(newton.GeoType.CONVEX_MESH))


def measure(robot: Robot, duration: float) -> tuple[str, ...]:
    """One row of the table."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sim = Simulation.from_robot(f"{robot.place}:{robot.name}", notes=False)
    except Exception as error:  # the table is to say what happens, whatever it is
        reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
        return (robot.name, robot.kind, "", "", f"refused: {reason.strip(' -')[:90]}", *[""] * 5)
    steps = max(2, round(duration / sim.dt))
    start = hinges(sim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sim.step(2)
        sim.step(steps - 2)
        moved = hinges(sim)
        clock = time.perf_counter()
        sim.step(300)
        sim.synchronize()
        elapsed = (time.perf_counter() - clock) / 300
    statistics = sim.statistics
    collide = sim.model.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES) != 0
    meshes = int((np.isin(sim.model.shape_type.numpy(), MESHES) & collide).sum())
    row = [robot.name, robot.kind, str(sim.model.joint_dof_count), str(meshes), ""]
    row += [f"{np.abs(moved - start).max(initial=0.0):.4f}", str(statistics.not_converged), f"{1e6 * elapsed:.0f}"]
    return (*row, *(beside_mujoco(robot, sim, moved, steps) if robot.kind == "mjcf" else ("", "")))


def hinges(sim: Any) -> np.ndarray:
    """Positions of the joints with scalar coordinates."""
    model, q = sim.model, np.array(sim.joint_q).ravel()
    starts, dofs = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    scalar = np.repeat(np.diff(starts) == np.diff(dofs), np.diff(starts))
    return q[scalar].copy()


def beside_mujoco(robot: Robot, sim: Any, moved: np.ndarray, steps: int) -> tuple[str, str]:
    """Time of MuJoCo's step [us], and the largest difference of joint positions."""
    import mujoco

    try:
        model = mujoco.MjModel.from_xml_path(str(robot.path))
    except ValueError:
        return "", "MuJoCo refuses it"
    model.opt.timestep = sim.dt
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_step(model, data, steps)
    scalar = np.isin(model.jnt_type, (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE))
    q = data.qpos[model.jnt_qposadr[scalar]] - model.qpos0[model.jnt_qposadr[scalar]]
    clock = time.perf_counter()
    mujoco.mj_step(model, data, 300)
    elapsed = (time.perf_counter() - clock) / 300
    same = f"{np.abs(q - moved).max(initial=0.0):.4f}" if len(q) == len(moved) else "other joints"
    return f"{1e6 * elapsed:.0f}", same


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", help="names, separated by commas (default: all)")
    parser.add_argument("--duration", type=float, default=2.0, help="simulated time [s]")
    parser.add_argument("--output", type=Path, help="write the table into this file too")
    arguments = parser.parse_args()
    chosen = arguments.robots.split(",") if arguments.robots else None
    lines = ["| " + " | ".join(COLUMNS) + " |", "| " + " | ".join("---" for _ in COLUMNS) + " |"]
    print("\n".join(lines), flush=True)
    for robot in list_robots():
        if chosen is None or robot.name in chosen:
            lines.append("| " + " | ".join(measure(robot, arguments.duration)) + " |")
            print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
