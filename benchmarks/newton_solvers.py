"""One Newton program with our solver and with Newton's own: standing quadrupeds, time on the CPU.

    python benchmarks/newton_solvers.py [--worlds 64] [--frames 4] [--repeats 3] [--solvers sap xpbd]

The program is examples/newton/quadruped.py; the solvers take turns. Each has the substeps per frame with which the
example passes its own checks (`SUBSTEPS` in examples/newton/common.py), so both numbers matter: the time of one step,
and of one frame of 1/60 s. `mujoco` is Newton's SolverMuJoCo, which runs mujoco_warp; it, like the others, is written
for GPUs. Collision detection is Newton's for all and is part of the time. Steps are launched one by one, not replayed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import warp as wp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "newton"))
from common import SUBSTEPS, make_viewer
from quadruped import Quadruped


def make(solver: str, worlds: int) -> Quadruped:
    """The example with so many worlds, after the frames in which everything is compiled."""
    example = type("Many", (Quadruped,), {"worlds": worlds})(make_viewer("null", 1, ""), solver)
    example.step()
    return example


def seconds_per_frame(example: Quadruped, frames: int) -> float:
    """Processor time of a frame."""
    start = time.process_time()
    for _ in range(frames):
        example.step()
    return (time.process_time() - start) / frames


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--frames", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--solvers", nargs="+", choices=SUBSTEPS, default=list(SUBSTEPS))
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    with wp.ScopedDevice("cpu"):
        examples = {}
        for name in arguments.solvers:
            try:
                examples[name] = make(name, arguments.worlds)
            except AttributeError as error:  # SolverMuJoCo of Newton 1.7 with mujoco_warp 4.0: the packages do not fit
                print(f"{name} is left out, it cannot be made: {error}")
        times = {name: [] for name in examples}
        for _ in range(arguments.repeats):
            for name, example in examples.items():
                times[name].append(seconds_per_frame(example, arguments.frames))
    print(f"{arguments.worlds} quadrupeds, processor time in us per world, median of {arguments.repeats} turns")
    print("| solver | substeps per frame | one step | one frame | frame over ours |")
    print("| --- | --- | --- | --- | --- |")
    ours = np.array(times.get("sap", [np.nan]))
    for name, found in times.items():
        frame = 1e6 * np.median(found) / arguments.worlds
        ratio = np.median(np.array(found) / ours)
        print(f"| {name} | {SUBSTEPS[name]} | {frame / SUBSTEPS[name]:.1f} | {frame:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
