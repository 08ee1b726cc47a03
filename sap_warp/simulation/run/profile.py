"""Time of each stage of a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import warp as wp

from ...core.runtime.capture import capturing
from ...core.runtime.replay import capture_calls
from .run import Run
from .shards import Shard

if TYPE_CHECKING:
    from ..simulation import Simulation

STAGES = {
    "collide": "pipeline.collide",
    "contacts by world": "solver.contact_stage.collect",
    "free motion": "solver.free_motion.compute",
    "contact data": "solver.contact_stage.compute",
    "solve": "solver.contact_solve.solve",
    "continue": "solver.boundary.continue_step",
}
"""Name of each stage of a step that continues, and the method of a shard's objects that launches it."""


def profile_stages(sim: Simulation, steps: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Take ``steps`` steps, at least two, all worlds together, with every stage but those of the last one as a graph.

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
    times = dict.fromkeys(STAGES, 0.0)
    for shard in sim.shards:
        begin, recorded, end = record_stages(shard, sim.dt)
        wp.capture_launch(begin)
        for _ in range(max(steps - 1, 1)):
            for name, graph in recorded:
                start = clock()
                wp.capture_launch(graph)
                wp.synchronize_device(sim.device)
                times[name] += clock() - start
        wp.capture_launch(end)
    sim._steps += max(steps - 1, 1) + 1
    return {name: 1e6 * value / (max(steps - 1, 1) * sim.world_count) for name, value in times.items()}


def record_stages(shard: Shard, dt: float) -> tuple[Any, list[tuple[str, Any]], Any]:
    """Record graphs of the beginning, of each stage of a step that continues, and of the end; nothing is executed."""
    run = Run(shard, dt, together=True)
    graphs: list[tuple[str, Any]] = []

    def record(launch: Callable[[], Any]) -> Any:
        results: list[Any] = []
        graph = capture_calls(shard.model.device, lambda: results.append(launch()))
        return graph, results[0]

    def recording(name: str, launch: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **options: Any) -> Any:
            graph, result = record(lambda: launch(*arguments, **options))
            graphs.append((name, graph))
            return result

        return recorded

    counts, shard.counts = shard.counts, False
    try:
        with capturing():
            with _replaced(shard, recording):
                run.take(run.groups[0], False)
            return record(lambda: run.begin(run.groups[0]))[0], graphs, record(run.finish)[0]
    finally:
        shard.counts = counts


@contextmanager
def _replaced(shard: Shard, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Wrap the methods that launch stages for the duration of the context."""
    methods = {name: _find(shard, path) for name, path in STAGES.items()}
    try:
        for name, (owner, method) in methods.items():
            setattr(owner, method, wrap(name, getattr(owner, method)))
        yield
    finally:
        for owner, method in methods.values():
            vars(owner).pop(method, None)  # the class's own method shows again


def _find(owner: Any, path: str) -> tuple[Any, str]:
    *names, method = path.split(".")
    for name in names:
        owner = getattr(owner, name)
    return owner, method
