"""Time the whole step of SAP Warp and of MuJoCo C on the same scenes, side by side in one run on one core.

    python benchmarks/solver_step.py [--quick] [--worlds 1 256] [--line-searches all] [--json FILE]

What is timed: collision and solver of SAP Warp, replayed as one captured graph; `mj_step` loops in C through
`mujoco.rollout` without threads. Both start from the same random poses with the same time step. The runs of the
engines alternate; times are medians of the repeats in processor time, ratios are taken repeat by repeat. Only ratios
within one table mean anything: shared machines drift by more than the differences between two versions of the code.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import mujoco
import mujoco.rollout
import newton.examples
import numpy as np
import warp as wp
from rich.console import Console
from rich.table import Table

import sap_warp
from sap_warp.scenes import build_scene, randomize_start
from sap_warp.simulation import Simulation
from sap_warp.simulation.profile import profile_stages
from sap_warp.solver.options import LINE_SEARCHES, PRESETS

SCENES = ("cube", "humanoid")
SEED = 1
FALL_SECONDS = 2.0
SETTLE_SECONDS = {"cube": 3.0, "humanoid": 8.0}
HEIGHT_TOLERANCE = 0.02
"""Largest difference of the engines' median base height after settling that counts as the same scene [m]."""


# The two engines.


class Engine(Protocol):
    """What the timing loop needs to know."""

    name: str

    def restart(self) -> None:
        """Go to the random initial poses."""

    def settle(self) -> None:
        """Run until the scene has come to rest, and stay there for `advance`."""

    def advance(self, steps: int) -> None:
        """Take so many steps and wait for them; this is what is timed."""

    def median_height(self) -> float:
        """Median over worlds of the first body's height [m]."""


class SapEngine:
    """SAP Warp with one preset and line search."""

    def __init__(self, scene: str, worlds: int, preset: str, line_search: str = "monotone_decay", count: bool = False):
        model, built = build_scene(scene, worlds, "cpu")
        randomize_start(model, SEED)
        self.name = f"SAP Warp {preset}" + ("" if line_search == "monotone_decay" else f" {line_search}")
        self.scene = scene
        options = {"contact_preset_variant": preset, "line_search_variant": line_search}
        self.run = Simulation.from_loaded(built, statistics=count, **options)
        self.restart()
        self.run.prepare()

    @property
    def dt(self) -> float:
        return self.run.dt

    def restart(self) -> None:
        self.run.reset()
        self.run.statistics.clear()

    def settle(self) -> None:
        self.restart()
        self.advance(_steps(SETTLE_SECONDS[self.scene], self.run.dt))
        self.run.statistics.clear()

    def advance(self, steps: int) -> None:
        self.run.step(steps)
        self.run.synchronize()

    def median_height(self) -> float:
        return float(np.median(self.run.base_heights()))


class MujocoEngine:
    """MuJoCo C with its default solver settings."""

    name = "MuJoCo C"

    def __init__(self, scene: str, worlds: int, dt: float, joint_q: np.ndarray):
        self.scene, self.dt, self.worlds = scene, dt, worlds
        self.model = _mujoco_cube() if scene == "cube" else _mujoco_humanoid()
        self.model.opt.timestep = dt
        self.data = mujoco.MjData(self.model)
        self.rollout = mujoco.rollout.Rollout(nthread=0)
        self.initial = self._states(joint_q.reshape(worlds, -1))
        self.start = self.current = self.initial
        self._buffers: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _states(self, joint_q: np.ndarray) -> np.ndarray:
        """MuJoCo's full physics states of Newton's coordinates: the same order, quaternions wxyz instead of xyzw."""
        spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        states = np.empty((self.worlds, mujoco.mj_stateSize(self.model, spec)))
        for world, q in enumerate(joint_q):
            mujoco.mj_resetData(self.model, self.data)
            self.data.qpos[:] = np.concatenate([q[:3], q[6:7], q[3:6], q[7:]])
            mujoco.mj_getState(self.model, self.data, states[world], spec)
        return states

    def restart(self) -> None:
        self.start = self.initial

    def settle(self) -> None:
        self.start = self.initial
        self.advance(_steps(SETTLE_SECONDS[self.scene], self.dt))
        self.start = self.current.copy()

    def advance(self, steps: int) -> None:
        if steps not in self._buffers:  # outside the timed part from the second call on
            self._buffers[steps] = (
                np.empty((self.worlds, steps, self.initial.shape[1])),
                np.empty((self.worlds, steps, self.model.nsensordata)),
            )
        state, sensors = self._buffers[steps]
        self.rollout.rollout(self.model, self.data, self.start, nstep=steps, state=state, sensordata=sensors)
        self.current = state[:, -1]

    def median_height(self) -> float:
        return float(np.median(self.current[:, 3]))  # time, then qpos


def _mujoco_cube() -> Any:
    return mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><geom type="plane" size="5 5 .1" friction=".8"/>
        <body pos="0 0 .3"><freejoint/><geom type="box" size=".1 .1 .1" density="1000" friction=".8"/></body>
        </worldbody></mujoco>"""
    )


def _mujoco_humanoid() -> Any:
    """Newton's file, where the humanoid touches only the floor as in our scene, and without sensors."""
    spec = mujoco.MjSpec.from_file(newton.examples.get_asset("nv_humanoid.xml"))
    for sensor in list(spec.sensors):  # SAP Warp computes none; one of them names a site that does not exist
        spec.delete(sensor)
    model = spec.compile()
    floor = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, "floor")
    model.geom_contype[:], model.geom_conaffinity[:] = 0, 1
    model.geom_contype[floor], model.geom_conaffinity[floor] = 1, 0
    return model


# Timing.


@dataclass
class Timing:
    """Repeated measurements of one engine in one situation."""

    scene: str
    worlds: int
    phase: str
    engine: str
    samples: list[float] = field(default_factory=list)
    """Time per world-step of each repeat [us]."""

    @property
    def median(self) -> float:
        """Median time per world-step [us]."""
        return statistics.median(self.samples)

    def speed_over(self, other: Timing) -> np.ndarray:
        """Quartiles of the ratio of speeds, taken repeat by repeat: neighbours in time share the machine's mood."""
        return np.quantile(np.array(other.samples) / np.array(self.samples), (0.25, 0.5, 0.75))


def _steps(seconds: float, dt: float) -> int:
    return 2 * round(seconds / dt / 2)


def compare_engines(
    scene: str, worlds: int, engines: list[Engine], phase: str, steps: int, repeats: int
) -> list[Timing]:
    """Time all engines in turn, ``repeats`` times; a settled phase continues, a falling one starts anew each time."""
    timings = [Timing(scene, worlds, phase, engine.name) for engine in engines]
    for engine in engines:
        if phase == "settled":
            engine.settle()
        else:
            engine.restart()
        engine.advance(steps)  # warm up: caches, page faults, output buffers
    for _ in range(repeats):
        for engine, timing in zip(engines, timings, strict=True):
            if phase == "fall":
                engine.restart()
            start = time.process_time()
            engine.advance(steps)
            timing.samples.append(1e6 * (time.process_time() - start) / (steps * worlds))
    return timings


def check_same_scene(engines: list[Engine]) -> dict[str, float]:
    """Median height of each engine at the end of the settled phase [m]."""
    return {engine.name: engine.median_height() for engine in engines}


# Iterations of the three line searches.


@dataclass
class Iterations:
    """Newton iterations and line search trials per world and step, and the time they cost."""

    scene: str
    worlds: int
    phase: str
    line_search: str
    contacts: float
    iterations: dict[str, float]
    trials: dict[str, float]
    not_converged: int
    time: float
    """Time per world-step, one measurement [us]."""


def count_iterations(scene: str, worlds: int, preset: str) -> list[Iterations]:
    """Iterations with each line search, while the scene falls and after it has settled."""
    rows = []
    for line_search in LINE_SEARCHES:
        engine = SapEngine(scene, worlds, preset, line_search, count=True)
        for phase in ("fall", "settled"):
            if phase == "settled":
                engine.settle()
            else:
                engine.restart()
            steps = _steps(FALL_SECONDS if phase == "fall" else 1.0, engine.run.dt)
            start = time.process_time()
            engine.advance(steps)
            elapsed = time.process_time() - start
            counts = engine.run.statistics
            rows.append(
                Iterations(
                    scene,
                    worlds,
                    phase,
                    line_search,
                    counts.mean_contacts,
                    asdict(counts.iterations),
                    asdict(counts.line_search_trials),
                    counts.not_converged,
                    1e6 * elapsed / (steps * worlds),
                )
            )
    return rows


# Stages of the step.


def time_stages(scene: str, worlds: int, preset: str, repeats: int) -> dict[str, float]:
    """Time per world-step of each stage [us], replayed as a graph of its own on a settled scene."""
    engine = SapEngine(scene, worlds, preset)
    engine.settle()
    count = 2 * max(5, 10000 // worlds)
    samples: dict[str, list[float]] = {}
    for _ in range(repeats):
        times = profile_stages(engine.run, count)
        start = time.process_time()
        engine.advance(count)
        times["whole step"] = 1e6 * (time.process_time() - start) / (count * worlds)
        for name, value in times.items():
            samples.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in samples.items()}


# Report.


def print_table(console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print one table; numbers are aligned right."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_timings(console: Console, timings: list[Timing]) -> None:
    """One row per situation and engine, with the ratio to MuJoCo in the same situation."""
    rows = []
    for t in timings:
        low, middle, high = t.speed_over(_mujoco_timing(timings, t))
        ratio = "1" if t.engine == MujocoEngine.name else f"{middle:.2f}  ({low:.2f} to {high:.2f})"
        rows.append((f"{t.scene}, {t.phase}", str(t.worlds), t.engine, f"{t.median:.2f}", ratio))
    header = ("scene", "worlds", "engine", "us/world-step", "speed / MuJoCo, quartiles")
    print_table(console, "Whole step, one core (above 1: faster than MuJoCo C)", header, rows)


def _mujoco_timing(timings: list[Timing], t: Timing) -> Timing:
    """MuJoCo in the same situation."""
    same = (o for o in timings if (o.scene, o.worlds, o.phase) == (t.scene, t.worlds, t.phase))
    return next(o for o in same if o.engine == MujocoEngine.name)


def print_iterations(console: Console, rows: list[Iterations], preset: str) -> None:
    """Mean and tail of iterations and trials."""
    header = (
        "scene",
        "line search",
        "contacts",
        "Newton mean",
        "p99",
        "max",
        "trials mean",
        "p99",
        "max",
        "failed",
        "us",
    )
    cells = [
        (
            f"{r.scene}, {r.phase}",
            r.line_search,
            f"{r.contacts:.1f}",
            *(f"{r.iterations['mean']:.2f}", f"{r.iterations['p99']}", f"{r.iterations['max']}"),
            *(f"{r.trials['mean']:.2f}", f"{r.trials['p99']}", f"{r.trials['max']}"),
            str(r.not_converged),
            f"{r.time:.1f}",
        )
        for r in rows
    ]
    title = f"Newton iterations and line search trials per world-step, {preset}, {rows[0].worlds} worlds"
    print_table(console, title, header, cells)


def print_stages(console: Console, stages: dict[str, dict[str, float]], worlds: int, preset: str) -> None:
    """Stages in columns, scenes in rows."""
    names = list(next(iter(stages.values())))
    rows = [(scene, *(f"{times[name]:.2f}" for name in names)) for scene, times in stages.items()]
    print_table(
        console, f"Time per stage, settled, {preset}, {worlds} worlds, us per world-step", ("scene", *names), rows
    )


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer worlds and repeats: about a minute")
    parser.add_argument("--worlds", type=int, nargs="+", metavar="N", help="world counts (default: 1 256, quick: 64)")
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--presets", nargs="+", choices=tuple(PRESETS), default=["approx32", "approx64"])
    parser.add_argument(
        "--line-searches", choices=("default", "all"), default="default", help="which to time against MuJoCo"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="default 7, quick: 3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers to FILE")
    arguments = parser.parse_args(argv)
    arguments.worlds = arguments.worlds or ([64] if arguments.quick else [1, 256])
    arguments.repeats = arguments.repeats or (3 if arguments.quick else 7)
    if min(*arguments.worlds, arguments.repeats) < 1:
        parser.error("worlds and repeats must be at least 1")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything; returns 1 if the engines did not settle at the same height."""
    arguments = parse_arguments(argv)
    wp.config.log_level = wp.LOG_WARNING
    # Without a terminal rich would squeeze the tables into 80 columns.
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(
        f"SAP Warp {sap_warp.__version__}, MuJoCo {mujoco.__version__}, {platform.processor() or platform.machine()}. "
        "Machines are noisy: compare ratios within one run, not times between runs.",
        highlight=False,
    )
    searches = LINE_SEARCHES if arguments.line_searches == "all" else LINE_SEARCHES[:1]
    timings: list[Timing] = []
    heights: dict[str, dict[str, float]] = {}
    for scene in arguments.scenes:
        for worlds in arguments.worlds:
            print(f"{scene}, {worlds} worlds ...", file=sys.stderr, flush=True)
            saps = [SapEngine(scene, worlds, p, s) for p in arguments.presets for s in searches]
            first = saps[0].run
            engines: list[Engine] = [*saps, MujocoEngine(scene, worlds, first.dt, first.model.joint_q.numpy())]
            for phase, seconds in (("fall", FALL_SECONDS), ("settled", 1.0)):
                repeats = arguments.repeats * (5 if worlds == 1 else 1)
                timings += compare_engines(scene, worlds, engines, phase, _steps(seconds, first.dt), repeats)
            heights[f"{scene}, {worlds} worlds"] = check_same_scene(engines)
    print_timings(console, timings)

    many = max(arguments.worlds)
    preset = arguments.presets[-1]
    print("iterations and stages ...", file=sys.stderr, flush=True)
    iterations = [row for scene in arguments.scenes for row in count_iterations(scene, min(many, 64), preset)]
    print_iterations(console, iterations, preset)
    stages = {scene: time_stages(scene, many, preset, arguments.repeats) for scene in arguments.scenes}
    print_stages(console, stages, many, preset)

    same = True
    for what, values in heights.items():
        close = max(values.values()) - min(values.values()) <= HEIGHT_TOLERANCE
        same &= close
        listed = ", ".join(f"{name} {height:.4f} m" for name, height in values.items())
        console.print(f"{'ok' if close else 'DIFFERENT'}: median height of the base, {what}: {listed}", highlight=False)
    if arguments.json:
        report = {
            "versions": {"sap_warp": sap_warp.__version__, "mujoco": mujoco.__version__, "warp": wp.__version__},
            "machine": platform.platform(),
            "timings": [
                asdict(t) | {"median": t.median, "speed_over_mujoco": t.speed_over(_mujoco_timing(timings, t)).tolist()}
                for t in timings
            ],
            "iterations": [asdict(row) for row in iterations],
            "stages": stages,
            "heights": heights,
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
