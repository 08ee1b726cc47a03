"""Run a task: one model, a world for each point, and a row for each world."""

from __future__ import annotations

import json
import math
import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from ....core.runtime.capture import capturing
from ....scene import SapSceneError
from ..definition.conditions import Condition, parse_condition
from ..definition.definition import Definition
from ..definition.points import Point
from ..definition.targets import WorldTarget, find_target
from ..errors import SweepError
from ..results.summary import SIGNALS, find_end, summarize
from .job import Job, Task, digest_scene, open_scene

Beat = Callable[[], None]
"""Function called regularly by running work; may raise to stop it."""
CHUNK = 50
"""Samples between two beats."""
MAX_ERROR = 4000
"""Characters of an error that a row keeps."""


@cache
def versions() -> dict[str, str]:
    """Return what the numbers of a row depend on beside its inputs."""
    names = {"sap_warp": "sap-warp", "warp": "warp-lang", "newton": "newton", "numpy": "numpy"}
    return {**{key: version(name) for key, name in names.items()}, "python": platform.python_version()}


def run_task(job: Job, task: Task, beat: Beat) -> list[dict[str, Any]]:
    """Return rows of all points of a task. A point that cannot be run has its error in its row."""
    began = time.perf_counter()
    try:
        rows = run_batch(job, dict(task.overrides), task.points, beat)
    except SapSceneError as error:  # which all of them share
        rows = [failed_row(job, point, f"{type(error).__name__}: {error}") for point in task.points]
    except Exception as error:
        if len(task.points) > 1:  # who was it? the others are not to suffer
            singles = (Task(task.number, task.overrides, (point,), task.attempt) for point in task.points)
            return [row for single in singles for row in run_task(job, single, beat)]
        rows = [failed_row(job, task.points[0], f"{type(error).__name__}: {error}")]
    share = (time.perf_counter() - began) / len(rows)
    for row in rows:
        row |= {"attempt": task.attempt, "wall_seconds": share, "host": socket.gethostname(), "process": os.getpid()}
    return rows


def make_simulation(job: Job, overrides: dict[str, Any], worlds: int, seeds: Sequence[int | None] = ()) -> Any:
    """Make the simulation of some points, at their starts; worlds overlap, so that their bits can agree.

    Raises:
        SweepError: The scene is not the one that the sweep is about.
        SapSceneError: The scene cannot be loaded with these values.
    """
    from ....scene import load_sap_scene
    from ....scene.shipped.scenes import randomize_worlds
    from ....simulation import Simulation

    definition = job.definition
    scene = open_scene(definition.scene)
    if digest_scene(scene) != job.scene_digest:
        raise SweepError(f"The scene {definition.scene!r} is not what it was when the sweep began.")
    fixed = {"replicate.spacing": [0.0, 0.0, 0.0]}
    loaded = load_sap_scene(
        scene,
        overrides={**overrides, **fixed},
        num_worlds=worlds,
        device=job.device or definition.device,
        confine=definition.confine,
    )
    if any(seed is not None for seed in seeds):
        randomize_worlds(loaded.sap_model.newton_model, seeds)
        loaded.sap_state = loaded.sap_model.state()
    given = {"contact_preset_variant": definition.preset, "line_search_variant": definition.line_search}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Simulation.from_loaded(loaded, dt=definition.dt, notes=False, **options)


def run_batch(job: Job, overrides: dict[str, Any], points: Sequence[Point], beat: Beat) -> list[dict[str, Any]]:
    """Return rows of points that share a model.

    Raises:
        Exception: Whatever keeps one of them from being run.
    """
    definition = job.definition
    until, success = conditions(definition)
    beat()
    # What Newton copies and clears while a model is built would be recorded into a graph that another worker captures,
    # and done by each of its replays.
    with capturing():
        simulation = make_simulation(job, overrides, len(points), [point.seed for point in points])
    with simulation as sim:
        for i, path in enumerate(definition.paths):
            target = find_target(path)
            if isinstance(target, WorldTarget):
                target.write(sim, np.array([float(point.values[i]) for point in points]))
        with capturing():
            record = sim.record(wanted_signals(definition), every=definition.every)
        kept = expand(sim, definition.record)
        aliases = {name: expand(sim, [name])[0] for name in condition_signals(definition)}
        left = sample_count(definition, sim.dt)
        while left > 0:
            beat()
            count = min(CHUNK, left)
            sim.step(count * definition.every)
            left -= count
            if until is not None and _all_ended(_by_world(record, aliases), until):
                break
        times, worlds = record.time, _by_world(record, aliases)
        device = f"{sim.device.alias} ({sim.device.name})"
    common = {"status": "ok", "error": None, "device": device, **_common(job)}
    rows = []
    for point, samples in zip(points, worlds, strict=True):
        numbers = summarize(samples, times, until, success)
        count = numbers.pop("samples")
        series = {name: np.array(samples[name][:count]) for name in kept}
        if kept:
            series["time"] = times[:count].copy()
        rows.append({**_inputs(job, point), **common, **numbers, "series": series})
    return rows


def failed_row(job: Job, point: Point, error: str) -> dict[str, Any]:
    """Return the row of a point that could not be run."""
    return {**_inputs(job, point), **_common(job), "status": "failed", "error": error[:MAX_ERROR], "series": {}}


def conditions(definition: Definition) -> tuple[Condition | None, Condition | None]:
    """Return the condition that ends a run, and the one that makes it a success."""
    texts = (definition.until, definition.success)
    until, success = (None if text is None else parse_condition(text) for text in texts)
    return until, success


def wanted_signals(definition: Definition) -> list[str]:
    """Return the sampled signals: for the numbers, for conditions, and those to keep."""
    return [*SIGNALS, *condition_signals(definition), *definition.record]


def condition_signals(definition: Definition) -> list[str]:
    """Return signals of the conditions, as they are written there."""
    return [name for condition in conditions(definition) if condition for name in condition.signals]


def expand(sim: Any, names: Sequence[str]) -> list[str]:
    """Return full names of signals."""
    from ....look.signals.catalog import find_signals

    return [signal.name for signal in find_signals(sim, names)] if names else []


def sample_count(definition: Definition, dt: float) -> int:
    """Return the number of samples of a run."""
    return max(1, math.ceil(round(definition.seconds / (dt * definition.every), 6)))


def _by_world(record: Any, aliases: dict[str, str]) -> list[dict[str, np.ndarray]]:
    """Return samples of each world by signal, also by the names that conditions use."""
    values, names = record.values, record.names
    found = [{name: values[:, i, world] for i, name in enumerate(names)} for world in range(values.shape[2])]
    for samples in found:
        samples |= {alias: samples[name] for alias, name in aliases.items()}
    return found


def _all_ended(worlds: list[dict[str, np.ndarray]], until: Condition) -> bool:
    return all(find_end(samples["status"], until.holds(samples))[1] != "time" for samples in worlds)


def _inputs(job: Job, point: Point) -> dict[str, Any]:
    return {"point": point.number, "seed": point.seed, "inputs": point.values, "reproduce": reproduce(job, point)}


def reproduce(job: Job, point: Point) -> str:
    """Return all that makes this point, as JSON; `run_point` and ``sap-warp sweep --point`` run it again."""
    values = dict(zip(job.definition.paths, point.values, strict=True))
    return json.dumps({"scene": _scene_name(job), "values": values, "seed": point.seed})


def _common(job: Job) -> dict[str, Any]:
    return {"scene": _scene_name(job), "scene_digest": job.scene_digest, **versions()}


def _scene_name(job: Job) -> str:
    scene = job.definition.scene
    return scene if isinstance(scene, str) else "(given as a mapping; sweep.json has it)"
