"""Count the instructions that one world executes in one step on the CPU, stage by stage.

    python benchmarks/instructions.py [--scene humanoid] [--worlds 4] [--steps 1600]

Times on a shared machine vary more than two versions of the code do; instruction counts do not vary at all. A child
process runs the simulation, and this one steps through its replayed graphs instruction by instruction (ptrace, so Linux
only). That takes about ten microseconds per instruction: use few worlds.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

TRACE_ME, CONTINUE, SINGLE_STEP = 0, 7, 9
MARK = signal.SIGUSR1
"""What the child sends itself before and after a part that counts."""


def run_scene(scene: str, worlds: int, steps: int, preset: str, names: int) -> None:
    """In the child: settle, write the names of the stages, then replay nothing and each stage between two marks."""
    import warp as wp

    from sap_warp.scene.shipped.scenes import build_scene, randomize_start
    from sap_warp.simulation import Simulation
    from sap_warp.simulation.run.profile import record_stages

    wp.config.log_level = wp.LOG_WARNING
    model, built = build_scene(scene, worlds, "cpu")
    randomize_start(model, 1)
    sim = Simulation.from_loaded(built, statistics=False, contact_preset_variant=preset)
    sim.reset()
    sim.step(steps)
    with wp.ScopedCapture("cpu") as nothing:
        pass
    begin, stages, _ = record_stages(sim.shards[0], sim.dt)
    wp.capture_launch(begin)
    graphs = [("nothing", nothing.graph), *stages]
    os.write(names, "\n".join(name for name, _ in graphs).encode())
    os.close(names)
    for _, graph in graphs:
        os.kill(os.getpid(), MARK)
        wp.capture_launch(graph)
        os.kill(os.getpid(), MARK)


def count_instructions(child: int, trace: Any) -> list[int]:
    """Step through a stopped child between its marks; returns the number of instructions of each marked part."""
    counts: list[int] = []
    counting = False
    deliver = 0
    while True:
        trace(SINGLE_STEP if counting else CONTINUE, child, None, ctypes.c_void_p(deliver))
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            return counts
        reason, deliver = os.WSTOPSIG(status), 0
        if reason == MARK:
            counting = not counting
            if counting:
                counts.append(0)
        elif reason == signal.SIGTRAP:
            if counting:
                counts[-1] += 1
        else:
            deliver = reason


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; returns 1 if the child failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", default="humanoid", help="shipped scene (default: %(default)s)")
    parser.add_argument("--worlds", type=int, default=4, metavar="N", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=1600, metavar="N", help="steps before (default: %(default)s)")
    parser.add_argument("--preset", default="approx64", help="default: %(default)s")
    arguments = parser.parse_args(argv)
    if not sys.platform.startswith("linux"):
        parser.error("this needs ptrace, which Linux has")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        libc.ptrace(TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            run_scene(arguments.scene, arguments.worlds, arguments.steps, arguments.preset, writer)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    counts = count_instructions(child, libc.ptrace)
    with os.fdopen(reader) as stream:
        names = stream.read().split("\n")
    if len(counts) != len(names) or not counts:
        return 1
    overhead, total = counts[0], 0.0
    by_stage: dict[str, float] = {}
    for name, count in zip(names[1:], counts[1:], strict=True):
        by_stage[name] = by_stage.get(name, 0.0) + max(count - overhead, 0) / arguments.worlds
    print(f"{arguments.scene}, {arguments.preset}: instructions per world and step, {arguments.worlds} worlds")
    for name, count in by_stage.items():
        print(f"{count:12,.0f}  {name}")
        total += count
    print(f"{total:12,.0f}  all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
