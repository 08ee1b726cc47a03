"""`sap-warp bench`: measure how fast a scene runs."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import SUMMARIES
from .common import (
    COMPILING,
    DEFAULT_SCENE,
    CommandError,
    add_confine_argument,
    add_option_arguments,
    asked_by_user,
    check_target,
    find_device,
    positive_int,
    positive_seconds,
    print_summary,
    print_table,
    scene_listing,
)
from .run import advance, verdict
from .sources import find_source, load_source

if TYPE_CHECKING:
    from ..simulation import Simulation

STARTED = time.perf_counter()
"""Time at which the command began, after the start of the interpreter."""
DEFAULT_DURATION = 4.0
"""Simulated time of a scene that names none [s]."""


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("bench", help=SUMMARIES["bench"], **scene_listing())
    add = parser.add_argument
    add("--scene", default=DEFAULT_SCENE, help="scene file or name (default: %(default)s)")
    add("--robot", metavar="NAME", help="a robot in place of a scene, see 'sap-warp robots'")
    add("--duration", type=positive_seconds, metavar="S", help="simulated time [s] (default: the scene's, or 4)")
    add("--frames", type=positive_int, metavar="N", help="steps, instead of --duration")
    add("--dt", type=positive_seconds, metavar="S", help="time step [s] (default: the scene's)")
    add("--num-worlds", type=positive_int, metavar="N", help="worlds (default: the scene's)")
    add("--device", metavar="D", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add_option_arguments(parser)
    add("--threads", type=positive_int, default=1, metavar="N", help="CPU threads (default: %(default)s)")
    add("--profile", action="store_true", help="also measure the time of each stage")
    add("--json", type=Path, metavar="FILE", help="also write the summary to FILE")
    add_confine_argument(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if arguments.frames is not None and arguments.duration is not None:
        raise CommandError("--frames and --duration say the same thing; give one of them.")
    check_target(arguments.json)
    source = find_source(arguments)
    options = _solver_options(arguments)
    device = find_device(arguments.device)
    imported = time.perf_counter()
    with asked_by_user():
        sim, defaults = _build(arguments, source, device, options)
    built = time.perf_counter()
    with sim:
        frames = _count_frames(arguments, defaults, sim.dt)
        print(
            f"{sim.name}: {sim.world_count} worlds, {frames} steps of {1e3 * sim.dt:g} ms on {sim.device}", flush=True
        )
        startup = _prepare(sim, imported, built)
        elapsed = advance(sim, frames)
        summary = summarize(sim, frames, elapsed, startup)
        if arguments.profile:
            summary["stages"] = _profile(sim, frames)
        _print(summary)
        _write(arguments.json, summary)
        return verdict(sim)


# Before the run.


def _solver_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Check options given on the command line."""
    from ..solver.settings.options import expand_options

    given = {"contact_preset_variant": arguments.preset, "line_search_variant": arguments.line_search}
    options = {name: value for name, value in given.items() if value is not None}
    with asked_by_user():
        expand_options(**options)
    return options


def _build(
    arguments: argparse.Namespace, source: Any, device: Any, options: Mapping[str, Any]
) -> tuple[Simulation, Mapping[str, float | None]]:
    """Return the simulation, and the ``frames`` or ``duration`` that the scene asks for."""
    from ..simulation import Simulation
    from ..simulation.checkpoint.keyframes import go_home

    loaded = load_source(source, device=device, num_worlds=arguments.num_worlds, confine=arguments.confine)
    sim = Simulation.from_loaded(loaded, dt=arguments.dt, threads=arguments.threads, **options)
    if arguments.robot is not None:
        go_home(sim)
    return sim, {"frames": loaded.frames, "duration": loaded.duration}


def _count_frames(arguments: argparse.Namespace, defaults: Mapping[str, float | None], dt: float) -> int:
    """Return the number of steps: the command line wins over the scene, frames over a duration."""
    for frames, duration in (
        (arguments.frames, arguments.duration),
        (defaults.get("frames"), defaults.get("duration")),
        (None, DEFAULT_DURATION),
    ):
        if frames is not None:
            return int(frames)
        if duration is not None:
            return max(1, math.ceil(round(duration / dt, 6)))
    raise AssertionError("the last pair has a duration")


def _prepare(sim: Simulation, imported: float, built: float) -> dict[str, float]:
    """Compile or load the kernels; returns the parts of the time to the first step [s]."""
    print(COMPILING, flush=True)
    sim.prepare()
    sim.step()
    sim.synchronize()
    ready = time.perf_counter()
    sim.reset()
    sim.statistics.clear()
    parts = {"imports": imported - STARTED, "scene": built - imported, "kernels": ready - built}
    return {**parts, "total": ready - STARTED}


# The run.


def _profile(sim: Simulation, frames: int) -> dict[str, float]:
    """Run once more from the start with the stages apart; returns the time of each [us per world-step]."""
    from ..simulation.run.profile import profile_stages

    sim.reset()
    return profile_stages(sim, frames)


# The report.


def summarize(sim: Simulation, frames: int, elapsed: float, startup: Mapping[str, float]) -> dict[str, Any]:
    """Return what the command reports about a run of ``frames`` steps that took ``elapsed`` seconds."""
    worlds, counts = sim.world_count, sim.statistics
    solver = sim.shards[0].solver.options
    iterations, path = counts.iterations, sim.shards[0].pipeline.path
    return {
        "scene": sim.name,
        "device": str(sim.device),
        "dt": sim.dt,
        "frames": frames,
        "num_worlds": worlds,
        "max_rigid_contact_per_env": sim.max_rigid_contact,
        "rigid_contact_capacity": sim.rigid_contact_max,
        "collision_path": {"name": path.name, "reason": path.reason},
        "cuda_graph": bool(sim.device.is_cuda),
        **({"gpu": describe_gpu(sim.device, sim.solver.block_dim)} if sim.device.is_cuda else {}),
        "elapsed": elapsed,
        "fps": frames / elapsed,
        "realtime_ratio": frames * sim.dt / elapsed,
        "threads": sim.threads,
        "preset": sim.preset,
        "line_search": solver.line_search_variant,
        "world_steps_per_second": worlds * frames / elapsed,
        "microseconds_per_world_step": 1e6 * elapsed / (worlds * frames),
        "mean_contacts": counts.mean_contacts,
        "newton_iterations": {"mean": iterations.mean, "p99": iterations.p99, "max": iterations.max},
        "not_converged": counts.not_converged,
        "truncated_contacts": counts.truncated_contacts,
        "bytes_per_world": sim.byte_count / worlds,
        "startup": dict(startup),
    }


def describe_gpu(device: Any, lanes: int) -> dict[str, Any]:
    """Return what a time on a GPU depends on; ``lanes`` share a world."""
    import warp as wp

    from .. import __version__

    driver = wp.get_cuda_driver_version()
    return {
        "name": device.name,
        "architecture": f"sm_{device.arch}",
        "multiprocessors": device.sm_count,
        "memory": device.total_memory,
        "driver": ".".join(map(str, driver)) if driver else "unknown",
        "warp": wp.__version__,
        "sap_warp": __version__,
        "lanes_per_world": lanes,
    }


_FORMATS = {
    "dt": "{:g} s",
    "elapsed": "{:.3f} s, stepping only",
    "fps": "{:,.1f} steps of all worlds per second",
    "realtime_ratio": "{:,.2f} for each world",
    "world_steps_per_second": "{:,.0f}",
    "microseconds_per_world_step": "{:.2f}",
    "mean_contacts": "{:.2f} per world",
    "bytes_per_world": "{:,.0f}",
}


def _print(summary: Mapping[str, Any]) -> None:
    rows = []
    for key, value in summary.items():
        if key == "newton_iterations":
            text = f"{value['mean']:.2f} mean, {value['p99']} p99, {value['max']} max"
        elif key == "startup":
            parts = ", ".join(f"{name} {value[name]:.2f}" for name in ("imports", "scene", "kernels"))
            text = f"{value['total']:.2f} s from the start of the command to the first step ({parts})"
        elif key == "collision_path":
            text = f"{value['name']}: {value['reason']}"
        elif key == "cuda_graph":
            text = "yes" if value else "no: the graph is replayed on the CPU"
        elif key == "gpu":
            text = (
                f"{value['name']}, {value['architecture']}, {value['multiprocessors']} multiprocessors, "
                f"{value['memory'] / 1e9:.1f} GB, CUDA {value['driver']}, Warp {value['warp']}, "
                f"SAP Warp {value['sap_warp']}, {value['lanes_per_world']} lanes per world"
            )
        elif key == "stages":
            continue
        else:
            text = _FORMATS.get(key, "{}").format(value)
        rows.append((key, text))
    print_summary("Benchmark", rows)
    if "gpu" in summary:
        print("Times on GPUs are not known yet. Please send us this summary (--json FILE, --profile).")
    if "stages" in summary:
        stages = summary["stages"]
        total = sum(stages.values())
        lines = [(name, f"{us:.2f}", f"{100.0 * us / total:.0f} %") for name, us in stages.items()]
        title = "Time per stage, measured apart in a second run from the same start"
        print_table(title, ("stage", "us per world-step", "share"), [*lines, ("sum", f"{total:.2f}", "")])


def _write(path: Path | None, summary: Mapping[str, Any]) -> None:
    if path is not None:
        with asked_by_user():
            path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        print(f"written to {path}")
