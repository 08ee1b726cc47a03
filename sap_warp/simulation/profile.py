"""Where the time of a step goes, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp

from .shards import Shard
from .simulation import Simulation

STAGES = {
    "collide": ("pipeline", "collide"),
    "boundary": ("solver.boundary", "read"),
    "free motion": ("solver.free_motion", "compute"),
    "contacts by world": ("solver.contact_jacobian", "collect"),
    "contact data": ("solver.contact_jacobian", "compute"),
    "solve": ("solver.contact_solve", "solve"),
    "integrate": ("solver.integrate", "write"),
}
"""Name of each stage, and the object of a shard and the method that launch it."""


def profile_stages(sim: Simulation, steps: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Take ``steps`` steps, rounded up to an even number, with every stage as a graph of its own.

    The steps are real: they continue from the current state and end as `Simulation.step` would have ended. Shards run
    one after another here, and between stages there is about a microsecond of Python, which shows with few worlds.

    Args:
        sim: What to advance.
        steps: How far.
        clock: Tells the time [s]; on a busy machine ``time.process_time`` says more.

    Returns:
        Time of each stage per world and step [us].
    """
    sim.prepare()
    pairs = (steps + 1) // 2
    times = dict.fromkeys(STAGES, 0.0)
    for shard in sim.shards:
        recorded = [item for source in (0, 1) for item in record_stages(shard, source, sim.dt)]
        for _ in range(pairs):
            for name, graph in recorded:
                start = clock()
                wp.capture_launch(graph)
                wp.synchronize_device(sim.device)
                times[name] += clock() - start
    sim._steps += 2 * pairs
    return {name: 1e6 * value / (2 * pairs * sim.world_count) for name, value in times.items()}


def record_stages(shard: Shard, source: int, dt: float) -> list[tuple[str, Any]]:
    """One step as graphs in order, one for each stage; nothing is executed."""
    graphs: list[tuple[str, Any]] = []

    def recording(name: str, launch: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any, **options: Any) -> Any:
            with wp.ScopedCapture(shard.model.device) as capture:
                result = launch(*arguments, **options)
            graphs.append((name, capture.graph))
            return result

        return record

    count, shard.count = shard.count, False
    try:
        with _replaced(shard, recording):
            shard.launch(source, dt)
    finally:
        shard.count = count
    return graphs


@contextmanager
def _replaced(shard: Shard, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """While it lasts, the methods that launch stages are wrapped."""
    owners = {name: _find(shard, path) for name, (path, _) in STAGES.items()}
    try:
        for name, (_, method) in STAGES.items():
            setattr(owners[name], method, wrap(name, getattr(owners[name], method)))
        yield
    finally:
        for name, (_, method) in STAGES.items():
            vars(owners[name]).pop(method, None)  # the class's own method shows again


def _find(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner
