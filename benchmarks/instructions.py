"""Count the instructions that one world executes in one step on the CPU, stage by stage.

    python benchmarks/instructions.py [--scene humanoid] [--worlds 4] [--steps 1600] [--headers]

With --headers it leaves out each header of `sap_warp/core/native` in turn and prints what the step costs with the Warp
functions in its place: the gain of the header. A header should gain at least 5 % of some scene's step.

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
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TRACE_ME, CONTINUE, SINGLE_STEP = 0, 7, 9
MARK = signal.SIGUSR1
"""What the child sends itself before and after a part that counts."""


TIMED_STEPS = 4000
"""World-steps in each of the batches that are timed; the fastest of `BATCHES` counts."""
BATCHES = 9


def run_scene(scene: str, worlds: int, steps: int, preset: str, without: Sequence[str], names: int) -> None:
    """In the child: settle, replay nothing and each stage between two marks, then write time and names."""
    from sap_warp.core.native import without as native_without

    with native_without(*without):
        _run_scene(scene, worlds, steps, preset, names)


def make_simulation(name: str, worlds: int, preset: str) -> Any:
    """A shipped scene, or one of those that `compare.py` times."""
    import robots

    from sap_warp.scene.shipped.scenes import build_scene, randomize_start
    from sap_warp.simulation import Simulation

    options = {"statistics": False, "contact_preset_variant": preset}
    if name in robots.SCENES:
        scene = robots.SCENES[name]
        model = robots.build(scene, worlds)
        return Simulation(model, dt=scene.dt, max_rigid_contact=scene.max_rigid_contact, **options)
    model, built = build_scene(name, worlds, "cpu")
    randomize_start(model, 1)
    sim = Simulation.from_loaded(built, **options)
    sim.reset()
    return sim


def _run_scene(scene: str, worlds: int, steps: int, preset: str, names: int) -> None:
    import warp as wp

    from sap_warp.simulation.run.profile import record_stages

    wp.config.log_level = wp.LOG_WARNING
    sim = make_simulation(scene, worlds, preset)
    sim.step(steps)
    with wp.ScopedCapture("cpu") as nothing:
        pass
    begin, stages, _ = record_stages(sim.shards[0], sim.dt)
    wp.capture_launch(begin)
    graphs = [("nothing", nothing.graph), *stages]
    for _, graph in graphs:
        os.kill(os.getpid(), MARK)
        wp.capture_launch(graph)
        os.kill(os.getpid(), MARK)
    batch = max(TIMED_STEPS // worlds, 1)
    seconds = []
    for _ in range(BATCHES):
        start = time.process_time()
        sim.step(batch)
        seconds.append((time.process_time() - start) / (batch * worlds))
    os.write(names, "\n".join([repr(min(seconds)), *(name for name, _ in graphs)]).encode())
    os.close(names)


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


@dataclass(frozen=True)
class Cost:
    """What a world costs in one step."""

    stages: dict[str, float]
    """Instructions by stage."""
    seconds: float
    """Processor time of the whole step [s]."""

    @property
    def instructions(self) -> float:
        """Instructions of all stages together."""
        return sum(self.stages.values())


def measure(scene: str, worlds: int, steps: int, preset: str, without: Sequence[str] = ()) -> Cost | None:
    """Run the scene in a child and count; None if the child failed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        libc.ptrace(TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            run_scene(scene, worlds, steps, preset, without, writer)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    counts = count_instructions(child, libc.ptrace)
    with os.fdopen(reader) as stream:
        seconds, *names = stream.read().split("\n")
    if len(counts) != len(names) or not counts:
        return None
    stages: dict[str, float] = {}
    for name, count in zip(names[1:], counts[1:], strict=True):
        stages[name] = stages.get(name, 0.0) + max(count - counts[0], 0) / worlds
    return Cost(stages, float(seconds))


def print_headers(whole: Cost, scene: tuple[str, int, int, str]) -> int:
    """Measure without each header and print what it gains; returns 1 if a child failed."""
    from sap_warp.core.native import HEADERS

    print(f"\n{'without':>12}  instructions        microseconds")
    for header in (name.removesuffix(".h") for name in HEADERS if name != "vectors.h"):
        plain = measure(*scene, without=[header])
        if plain is None:
            return 1
        more, slower = plain.instructions / whole.instructions - 1.0, plain.seconds / whole.seconds - 1.0
        print(f"{header:>12}  {plain.instructions:8,.0f} {more:+7.1%}   {plain.seconds * 1e6:8.2f} {slower:+7.1%}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; returns 1 if the child failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", default="humanoid", help="shipped, or one of compare.py (default: %(default)s)")
    parser.add_argument("--worlds", type=int, default=4, metavar="N", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=1600, metavar="N", help="steps before (default: %(default)s)")
    parser.add_argument("--preset", default="approx64", help="default: %(default)s")
    parser.add_argument("--headers", action="store_true", help="what each native header gains")
    arguments = parser.parse_args(argv)
    if not sys.platform.startswith("linux"):
        parser.error("this needs ptrace, which Linux has")
    scene = (arguments.scene, arguments.worlds, arguments.steps, arguments.preset)
    whole = measure(*scene)
    if whole is None:
        return 1
    print(f"{arguments.scene}, {arguments.preset}: instructions per world and step, {arguments.worlds} worlds")
    for name, count in whole.stages.items():
        print(f"{count:12,.0f}  {name}")
    print(f"{whole.instructions:12,.0f}  all, {whole.seconds * 1e6:.2f} microseconds")
    return print_headers(whole, scene) if arguments.headers else 0


if __name__ == "__main__":
    sys.exit(main())
