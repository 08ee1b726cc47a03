"""The same physical scenes in SAP Warp, MuJoCo C and Drake, side by side in one run.

    python benchmarks/compare.py [--quick] [--scenes cube humanoid] [--threads 2] [--output FOLDER]

Every scene is built once with Newton and carried over to the other engines body by body (`export.py`). What is timed:
collision and solver of SAP Warp, replayed as a captured graph; `mj_step` loops in C through `mujoco.rollout`; Drake's
discrete SAP with `Simulator.AdvanceTo`. The runs of the engines alternate. Times are medians of the repeats, ratios
are taken repeat by repeat and given with their quartiles. With one thread it is processor time, with more it is wall
time. Only ratios within one table mean anything: machines drift by more than two versions of the code differ.

Before any time counts, the engines have to agree on the mass, and after settling on the height; a row where they do
not is marked, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import robots
import warp as wp
from engines import DrakeEngine, Engine, MujocoEngine, SapEngine
from export import DIFFERENCES, Unsupported
from rich.console import Console
from rich.table import Table

import sap_warp
from sap_warp.simulation.run.profile import profile_stages

FALL_SECONDS = 2.0
MASS_TOLERANCE = 1e-5
"""Relative."""

_GOALS = {
    ("settled", "MuJoCo C"): {
        **{("cube", 256): 4.0, ("humanoid", 256): 2.5, ("cube", 1): 1.0, ("humanoid", 1): 2.0},
        **{("g1", 64): 2.0, ("clutter", 16): 1.0, ("pile", 16): 3.0},
        **{(name, 1): 2.0 for name in ("stack", "pile", *robots.HULL_SCENES)},
        **{(name, 64): 3.0 for name in ("stack", *robots.HULL_SCENES)},
    },
    ("fall", "MuJoCo C"): {("humanoid", 256): 1.5},
    ("fall, exact_root", "MuJoCo C"): {("humanoid", 256): 1.5},
    ("fall, tight", "MuJoCo C"): {("humanoid", 256): 2.0},
    ("settled", "Drake SAP"): {("humanoid", 1): 40.0, ("clutter", 1): 10.0},
}
GOALS = {(*scene, *case): goal for case, goals in _GOALS.items() for scene, goal in goals.items()}
"""Speed of SAP Warp over another engine that we aim at: by scene, worlds, phase and engine."""

EXACT_SEARCH = {"line_search_variant": "exact_root", "cost_abs_tol": 0.0, "cost_rel_tol": 5e-3}
"""Another line search, with the tolerances that the default one has. Impacts need fewer Newton iterations with it."""

TIGHT = {"contact_preset_variant": "drake", "line_search_variant": "exact_root"}
"""Drake's contacts, solved until the residual is 1e-6 of the impulses or the cost changes by 1e-15 of itself. MuJoCo's
own tolerance, which all rows use, is 1e-8 of a different measure: the gain of an iteration, scaled by the inertia."""


@dataclass
class Timing:
    """Repeated measurements of one engine in one situation."""

    engine: str
    samples: list[float] = field(default_factory=list)
    """Time per world-step of each repeat [us]."""
    mass: float = 0.0
    height: float = 0.0
    contacts: float = 0.0

    @property
    def median(self) -> float:
        """Median time per world-step [us]."""
        return statistics.median(self.samples)


@dataclass
class Row:
    """One situation: a scene, a number of worlds and a phase, in all engines that can run it."""

    scene: str
    worlds: int
    phase: str
    timings: dict[str, Timing]
    stages: dict[str, float] = field(default_factory=dict)
    """Processor time of each stage of SAP Warp [us per world and step]."""
    iterations: float = 0.0
    """Newton iterations of SAP Warp in the last step, mean over worlds."""
    notes: list[str] = field(default_factory=list)
    """Why an engine is missing or not comparable."""

    def ratio(self, engine: str) -> np.ndarray | None:
        """Quartiles of the speed of SAP Warp over ``engine``, repeat by repeat; None if it did not run."""
        if engine not in self.timings:
            return None
        ours, theirs = (np.array(self.timings[name].samples) for name in (SapEngine.name, engine))
        return np.quantile(theirs / ours, (0.25, 0.5, 0.75))

    def goal(self, engine: str) -> float | None:
        """Ratio that we aim at, if there is one."""
        return GOALS.get((self.scene, self.worlds, self.phase, engine))


# Measuring.


class Clock:
    """Processor time of one thread, wall time of several."""

    def __init__(self, threads: int):
        self.now = time.process_time if threads == 1 else time.perf_counter


def steps_for(engine: Engine, seconds: float, clock: Clock) -> int:
    """An even number of steps that takes about ``seconds``."""
    engine.advance(20)
    start = clock.now()
    engine.advance(20)
    once = max(clock.now() - start, 1e-6) / 20
    return int(np.clip(2 * round(seconds / once / 2), 10, 1000))


def measure(
    scene: robots.Scene, worlds: int, engines: list[Engine], phase: str, repeats: int, seconds: float, clock: Clock
) -> Row:
    """Time all engines in turn; a settled phase continues, a falling one starts anew each time."""
    timings = {engine.name: Timing(engine.name) for engine in engines}
    steps = {}
    for engine in engines:
        t = timings[engine.name]
        if phase == "settled":
            engine.settle()
            t.mass, t.height, t.contacts = engine.mass(), engine.height(), engine.contacts()
            steps[engine.name] = steps_for(engine, seconds, clock)
        else:
            engine.restart()
            steps[engine.name] = 2 * round(FALL_SECONDS / scene.dt / 2)
        engine.advance(steps[engine.name])  # warm up: caches, page faults, output buffers
    for _ in range(repeats):
        for engine in engines:
            if phase != "settled":
                engine.restart()
            start = clock.now()
            engine.advance(steps[engine.name])
            elapsed = clock.now() - start
            timings[engine.name].samples.append(1e6 * elapsed / (steps[engine.name] * worlds))
    if phase != "settled":
        for engine in engines:
            t = timings[engine.name]
            t.mass, t.height, t.contacts = engine.mass(), engine.height(), engine.contacts()
    row = Row(scene.name, worlds, phase, timings)
    check_same(row, scene)
    ours = next(engine for engine in engines if isinstance(engine, SapEngine))
    lost = ours.lost()
    row.iterations = float(ours.sim.iterations.mean())
    if phase != "settled":
        ours.restart()
    row.stages = profile_stages(ours.sim, min(steps[ours.name], 400), time.process_time)
    if lost:
        row.notes.append(f"DIFFERENT: {lost} worlds of SAP Warp diverged")
    return row


def check_same(row: Row, scene: robots.Scene) -> None:
    """Note where engines differ in mass, or after settling in height."""
    ours = row.timings[SapEngine.name]
    for name, other in row.timings.items():
        if abs(other.mass - ours.mass) > MASS_TOLERANCE * ours.mass:
            row.notes.append(f"DIFFERENT: mass {other.mass:.6g} kg in {name}, {ours.mass:.6g} kg in SAP Warp")
        if row.phase == "settled" and abs(other.height - ours.height) > scene.tolerance:
            row.notes.append(f"DIFFERENT: height {other.height:.4f} m in {name}, {ours.height:.4f} m in SAP Warp")


def sap_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Options of the solver."""
    return {"contact_preset_variant": arguments.preset, "line_search_variant": arguments.line_search}


def compare_scene(scene: robots.Scene, arguments: argparse.Namespace) -> list[Row]:
    """One world in all engines, then many worlds in those that have batches."""
    clock = Clock(arguments.threads)
    many = max(arguments.threads, scene.worlds // (4 if arguments.quick else 1))
    rows = []
    for worlds in (1, many) if arguments.threads == 1 else (many,):
        engines: list[Engine] = [SapEngine(scene, worlds, arguments.threads, **sap_options(arguments))]
        notes = []
        others: list[Any] = [lambda w=worlds: MujocoEngine(scene, w, arguments.threads)]
        if worlds == 1 and "drake" in arguments.engines:
            others.append(lambda: DrakeEngine(scene))
        for make in others:
            try:
                engines.append(make())
            except Unsupported as error:
                notes.append(f"left out: {error}")
        phases = {"settled": engines}
        if scene.falls and worlds > 1:
            phases = {"fall": engines, **phases}
            if arguments.line_search == "monotone_decay":
                exact = sap_options(arguments) | EXACT_SEARCH
                phases["fall, exact_root"] = [SapEngine(scene, worlds, arguments.threads, **exact), *engines[1:]]
            phases["fall, tight"] = [SapEngine(scene, worlds, arguments.threads, **TIGHT), *engines[1:]]
        for phase, taking_part in phases.items():
            row = measure(scene, worlds, taking_part, phase, arguments.repeats, arguments.seconds, clock)
            row.notes += notes
            rows.append(row)
    return rows


def compare_threads(arguments: argparse.Namespace) -> dict[str, Any]:
    """Speed of two threads over one in wall time, for which two cores must be idle, and the processor time they use."""
    scene = robots.SCENES["humanoid"]
    worlds = 64 if arguments.quick else 256
    ours = [SapEngine(scene, worlds, threads, **sap_options(arguments)) for threads in (1, 2)]
    engines: list[Engine] = [*ours, *(MujocoEngine(scene, worlds, threads) for threads in (1, 2))]
    clock = Clock(2)
    steps = np.repeat([steps_for(engine, arguments.seconds, clock) for engine in engines[::2]], 2).tolist()
    for engine in engines:
        engine.settle()
    walls, works = [], []
    for _ in range(2 * arguments.repeats):
        wall, work = [], []
        for engine, count in zip(engines, steps, strict=True):
            start, used = time.perf_counter(), time.process_time()
            engine.advance(count)
            wall.append(time.perf_counter() - start)
            work.append(time.process_time() - used)
        walls.append((wall[0] / wall[1], wall[2] / wall[3]))
        works.append(work[1] / work[0])
    same = bool((ours[0].sim.joint_q.flat() == ours[1].sim.joint_q.flat()).all())
    speedup, theirs = np.quantile(walls, (0.25, 0.5, 0.75), axis=0).T.tolist()
    return {
        "worlds": worlds,
        "speedup": speedup,
        "mujoco_speedup": theirs,
        "processor_time": float(np.median(works)),
        "bitwise_equal": same,
    }


# Report.

HEADER = ("scene", "worlds", "contacts", "SAP Warp us", "MuJoCo us", "SAP / MuJoCo", "Drake us", "SAP / Drake", "goal")


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    t = row.timings
    names = (SapEngine.name, MujocoEngine.name, DrakeEngine.name)
    contacts = " / ".join(f"{t[name].contacts:.1f}" for name in names if name in t)
    line = [f"{row.scene}, {row.phase}", str(row.worlds), contacts, f"{t[SapEngine.name].median:.2f}"]
    verdicts = []
    for name in names[1:]:
        ratio = row.ratio(name)
        if ratio is None:
            line += ["-", "-"]
            continue
        low, middle, high = ratio
        digits = 2 if middle < 10 else 0
        line += [f"{t[name].median:.1f}", f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"]
        goal = row.goal(name)
        if goal is not None:
            verdicts.append(f"{goal:g} x {'met' if middle >= goal else 'missed'}")
    marks = "*" if any(note.startswith("DIFFERENT") for note in row.notes) else ""
    return (line[0] + marks, *line[1:], ", ".join(verdicts))


def describe_machine() -> str:
    """Processor family and cores, in general words."""
    family = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        family = names[0] if names else family
    return f"{os.cpu_count()} cores, {family}, {platform.system()}"


def to_markdown(rows: list[Row], threads: dict[str, Any] | None, title: str) -> str:
    """The table, the notes and the differences that remain."""
    lines = [title, "", "| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    notes = [
        f"{row.scene}, {row.worlds} world{'s' * (row.worlds > 1)}, {row.phase}: {note}"
        for row in rows
        for note in row.notes
    ]
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    if threads:
        low, middle, high = threads["speedup"]
        equal = "bitwise equal" if threads["bitwise_equal"] else "NOT equal"
        lines += ["", f"Two threads over one, humanoid, {threads['worlds']} worlds, wall time: {middle:.2f} "]
        lines[-1] += (
            f"({low:.2f} to {high:.2f}); processor time {threads['processor_time']:.2f} times as much; {equal}. "
        )
        low, middle, high = threads["mujoco_speedup"]
        lines[-1] += f"MuJoCo C in the same rounds: {middle:.2f} ({low:.2f} to {high:.2f})."
    stages = list(rows[0].stages)
    lines += ["", "SAP Warp by stage, processor time in microseconds per world and step:", ""]
    lines += ["| scene | worlds | " + " | ".join(stages) + " |", "|" + " --- |" * (2 + len(stages))]
    for row in rows:
        lines += [
            f"| {row.scene}, {row.phase} | {row.worlds} | " + " | ".join(f"{us:.2f}" for us in row.stages.values())
        ]
        lines[-1] += " |"
    lines += ["", "What the engines do not share:", "", *(f"- {name}: {text}" for name, text in DIFFERENCES.items())]
    return "\n".join(lines) + "\n"


def plot(rows: list[Row], path: Path) -> None:
    """Speed of SAP Warp over the other engines, with quartiles."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11.0, 0.42 * len(rows) + 1.6), sharey=False)
    for axis, engine, color in zip(axes, (MujocoEngine.name, DrakeEngine.name), ("#2a6f97", "#bc6c25"), strict=True):
        shown = [(row, ratio) for row in rows if (ratio := row.ratio(engine)) is not None]
        if not shown:
            axis.set_axis_off()
            continue
        labels = [f"{row.scene}, {row.phase}, {row.worlds} world{'s' * (row.worlds > 1)}" for row, _ in shown]
        low, middle, high = np.array([ratio for _, ratio in shown]).T
        places = np.arange(len(shown))
        axis.barh(places, middle, color=color, xerr=[middle - low, high - middle], capsize=3, height=0.65)
        goals = [(i, row.goal(engine)) for i, (row, _) in enumerate(shown) if row.goal(engine)]
        if goals:
            axis.scatter([g for _, g in goals], [i for i, _ in goals], marker="|", s=180, color="black", zorder=3)
            axis.plot([], [], "|", color="black", markersize=10, label="goal")
            axis.legend(loc="lower right", frameon=False)
        axis.axvline(1.0, color="gray", linewidth=1.0)
        axis.set_yticks(places, labels)
        axis.invert_yaxis()
        axis.set_xlabel(f"speed of SAP Warp / {engine}")
        aims = dict(goals)
        for i, value in enumerate(middle):
            end = max(high[i], aims.get(i, 0.0)) if aims.get(i, 0.0) < 1.5 * high[i] else high[i]
            axis.annotate(f"{value:.1f}", (end, i), xytext=(5, 0), textcoords="offset points", va="center", size=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.15)
        axis.set_xlim(left=0.0)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def existing_folder(text: str) -> Path:
    """An argument that names a folder to write to."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return Path(text)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the worlds and fewer repeats: 3 minutes")
    parser.add_argument("--scenes", nargs="+", choices=tuple(robots.SCENES), default=list(robots.SCENES))
    parser.add_argument(
        "--engines", nargs="*", choices=("drake",), default=["drake"], help="besides SAP Warp and MuJoCo"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of SAP Warp and of MuJoCo")
    parser.add_argument("--preset", default="approx64", help="fp64 as the other engines (default: %(default)s)")
    parser.add_argument("--line-search", default="monotone_decay", help="default: %(default)s")
    parser.add_argument("--repeats", type=int, metavar="N", help="default 7, quick: 3")
    parser.add_argument(
        "--output", type=existing_folder, metavar="FOLDER", help="write compare.md, compare.json and compare.png"
    )
    arguments = parser.parse_args(argv)
    arguments.repeats = arguments.repeats or (3 if arguments.quick else 7)
    arguments.seconds = 0.1 if arguments.quick else 0.3
    if min(arguments.threads, arguments.repeats) < 1:
        parser.error("threads and repeats must be at least 1")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything; returns 1 if engines did not simulate the same thing."""
    arguments = parse_arguments(argv)
    wp.config.log_level = wp.LOG_WARNING
    console = Console() if sys.stdout.isatty() else Console(width=180)
    started = time.perf_counter()
    rows: list[Row] = []
    for name in arguments.scenes:
        print(f"{time.perf_counter() - started:5.0f} s  {name} ...", file=sys.stderr, flush=True)
        rows += compare_scene(robots.SCENES[name], arguments)
    threads = compare_threads(arguments) if (os.cpu_count() or 1) > 1 and arguments.threads == 1 else None
    versions = {"SAP Warp": sap_warp.__version__, "MuJoCo": mujoco.__version__, "Warp": wp.__version__}
    if any(DrakeEngine.name in row.timings for row in rows):
        versions["Drake"] = version("drake")
    title = (
        f"Time per world and step in microseconds, ratios of speed with quartiles over {arguments.repeats} repeats; "
        f"{arguments.preset}, {arguments.line_search}, {arguments.threads} thread{'s' * (arguments.threads > 1)}; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + f"; {describe_machine()}. Contacts in the order of the engines."
    )
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(HEADER):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    for line in to_markdown(rows, threads, title).split("\n\n", 2)[2].splitlines():
        console.print(line, highlight=False, markup=False)
    if arguments.output:
        write_results(arguments.output, rows, threads, title, versions)
    different = any(note.startswith("DIFFERENT") for row in rows for note in row.notes)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    return 1 if different or (threads is not None and not threads["bitwise_equal"]) else 0


def write_results(
    folder: Path, rows: list[Row], threads: dict[str, Any] | None, title: str, versions: dict[str, str]
) -> None:
    """Markdown, JSON and the plot."""
    (folder / "compare.md").write_text(to_markdown(rows, threads, title), encoding="utf-8")
    names = (MujocoEngine.name, DrakeEngine.name)
    report = {
        "versions": versions,
        "machine": describe_machine(),
        "rows": [
            asdict(row) | {"speed_over": {n: list(r) for n in names if (r := row.ratio(n)) is not None}} for row in rows
        ],
        "threads": threads,
        "differences": DIFFERENCES,
    }
    (folder / "compare.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    plot(rows, folder / "compare.png")


if __name__ == "__main__":
    sys.exit(main())
