"""Rollouts: results of many candidate control sequences, one candidate in each world.

Planners that sample (predictive sampling, MPPI, the cross-entropy method) ask the same question many times: from this
state, where do these inputs lead? `Rollouts` keeps the worlds, so that an answer costs the steps and little more. They
are in this process, on threads, or in the workers of a Ray cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..simulation import Simulation
from ..simulation.views.arrays import is_tensor, to_host

INPUTS = ("joint_f", "joint_target_q", "joint_target_qd", "joint_act", "ctrl")
"""Views of a simulation that candidates can write."""
RESULTS = ("joint_q", "joint_qd", "body_q", "body_qd")
"""Views that can be recorded."""


@dataclass(frozen=True)
class Trajectories:
    """Course of the candidates, after each of their inputs; torch tensors if the controls were tensors."""

    time: Any
    """Time since the start [s], shape (inputs,)."""
    values: Mapping[str, Any]
    """Recorded values by name, shape (candidates, inputs, ...), in the precision of the simulation."""
    failed: Any
    """True for candidates that met a step which could not be taken and kept their state, shape (candidates,)."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


class Worlds:
    """Worlds of some candidates, all in one process."""

    def __init__(
        self,
        scene: Any,
        candidates: int | None,
        columns: Mapping[str, Any],
        record: Sequence[str],
        hold: int,
        options: Mapping[str, Any],
    ):
        """Build them; see `Rollouts`."""
        if isinstance(scene, Simulation):
            self.sim = scene
        else:
            self.sim = Simulation.from_scene(scene, num_worlds=candidates, **options)
        self._record, self._hold = record, hold
        self._targets = [
            (getattr(self.sim, view), getattr(self.sim, view).find(names)) for view, names in columns.items()
        ]
        self.input_names: tuple[str, ...] = tuple(name for _, found in self._targets for name in found.names)

    def describe(self) -> tuple[tuple[str, ...], float]:
        """Return the names of the entries of an input, and the time step [s]."""
        return self.input_names, self.sim.dt

    def run(self, joint_q: Any, joint_qd: Any, controls: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return what was recorded of each candidate, and which failed."""
        sim, (candidates, horizon, _) = self.sim, controls.shape
        sim.reset(joint_q=joint_q, joint_qd=joint_qd)
        views = {name: getattr(sim, name) for name in self._record}
        kept = {name: np.empty((candidates, horizon, *view.shape[1:]), view.dtype) for name, view in views.items()}
        failed = np.zeros(candidates, bool)
        for k in range(horizon):
            first = 0
            for view, found in self._targets:
                view[:, found.indices] = controls[:, k, first : first + len(found.indices)]
                first += len(found.indices)
            sim.step(self._hold)
            failed |= sim.diverged
            for name, values in kept.items():
                values[:, k] = views[name].numpy()
        return kept, failed


class Rollouts:
    """Worlds in which candidates are run.

    Example:
        ```python
        rollouts = Rollouts("cartpole", 64, inputs={"joint_f": ["slider_to_cart"]}, hold=4)
        found = rollouts(joint_q, joint_qd, controls)  # (coords,), (dofs,), (64, horizon, 1)
        best = found["joint_q"][:, -1, 1].argmax()
        ```
    """

    def __init__(
        self,
        scene: Simulation | str | os.PathLike[str] | Mapping[str, Any],
        candidates: int | None = None,
        *,
        inputs: str | Mapping[str, Sequence[str] | str] = "joint_target_q",
        record: Sequence[str] = ("joint_q", "joint_qd"),
        hold: int = 1,
        workers: int | None = None,
        address: str | None = None,
        gpus_per_worker: float = 0.0,
        timeout: float = 60.0,
        **options: Any,
    ):
        """Build the worlds.

        Args:
            scene: What `Simulation.from_scene` takes, or a simulation, whose worlds are used and changed.
            candidates: How many at once; None for a simulation, which has its number of worlds.
            inputs: Which view the candidates write, one of INPUTS; or views with the names of their columns, in the
                order in which a control has them.
            record: Views that are kept, of RESULTS.
            hold: Steps that each input lasts.
            workers: Processes of a Ray among which the candidates are shared out; None is this process.
            address: Of the Ray, see `sap_warp.scale.cluster.connect`.
            gpus_per_worker: GPUs of each worker.
            timeout: How long workers may take for an answer [s].
            **options: Of `Simulation.from_scene`, for example ``threads`` (of each worker), ``dt`` or a preset.

        Raises:
            ValueError: A view or a number cannot be meant.
        """
        if isinstance(scene, Simulation):
            if options or candidates not in (None, scene.world_count):
                raise ValueError("A simulation has its options and worlds already; give a scene to choose them.")
            if workers is not None:
                raise ValueError("A simulation is in this process; give a scene to have it in workers.")
            candidates = scene.world_count
        elif candidates is None or candidates < 1:
            raise ValueError(f"candidates is {candidates!r}; it must be a whole number of at least 1.")
        if hold < 1:
            raise ValueError(f"hold is {hold!r}; it must be a whole number of steps of at least 1.")
        if workers is None and (address is not None or gpus_per_worker):
            raise ValueError("address and gpus_per_worker are for workers; say how many.")
        if workers is not None and not 1 <= workers <= candidates:
            raise ValueError(f"workers is {workers!r}; it must be from 1 to the number of candidates, {candidates}.")
        self.hold, self.record, self.candidates = int(hold), tuple(record), candidates
        columns = {inputs: "*"} if isinstance(inputs, str) else dict(inputs)
        for given, known, what in ((columns, INPUTS, "inputs"), (record, RESULTS, "record")):
            unknown = [name for name in given if name not in known]
            if unknown or not given:
                raise ValueError(f"{what} names {unknown or 'nothing'}; there is {', '.join(known)}.")
        self._pool: Any = None
        self._worlds: Worlds | None = None
        if workers is None:
            self._worlds = Worlds(scene, candidates, columns, self.record, self.hold, options)
            self.input_names, self._dt = self._worlds.describe()
            """What the entries of a control are."""
            return
        self._pool, self._shares = _start_workers(
            scene, (columns, self.record, self.hold, options), candidates, workers, address, gpus_per_worker, timeout
        )
        self.input_names, self._dt = self._pool.ask(0, "describe")

    @property
    def sim(self) -> Simulation:
        """Simulation with all candidates; there is none on Ray."""
        if self._worlds is None:
            raise AttributeError("The worlds are in other processes, with some of the candidates in each.")
        return self._worlds.sim

    def __call__(self, joint_q: Any, joint_qd: Any, controls: Any) -> Trajectories:
        """Run all candidates from a state.

        Args:
            joint_q: Positions to start from, (coords,) for all alike or (candidates, coords).
            joint_qd: Velocities to start from, likewise.
            controls: Inputs, shape (candidates, inputs over time, entries of an input): NumPy or torch, and so is the
                result.

        Raises:
            ValueError: ``controls`` has another shape.
        """
        given, controls = controls, to_host(controls)
        wanted = (self.candidates, controls.shape[1] if controls.ndim == 3 else "time", len(self.input_names))
        if controls.shape != wanted:
            raise ValueError(f"controls has shape {controls.shape}; expected {wanted}: {', '.join(self.input_names)}.")
        time = self._dt * self.hold * np.arange(1, controls.shape[1] + 1)
        if self._worlds is not None:
            values, failed = self._worlds.run(joint_q, joint_qd, controls)
        else:
            values, failed = self._ask_workers(to_host(joint_q), to_host(joint_qd), controls)
        return Trajectories(*(_like(given, part) for part in (time, values, failed)))

    def _ask_workers(self, q: np.ndarray, qd: np.ndarray, controls: np.ndarray) -> tuple[dict[str, np.ndarray], Any]:
        given = []
        for first, count in self._shares:
            own = slice(first, first + count)
            given.append((*(x[own] if x.ndim == 2 and len(x) > 1 else x for x in (q, qd)), controls[own]))
        answers = self._pool.call("run", given, mend=True)
        values = {name: np.concatenate([kept[name] for kept, _ in answers]) for name in self.record}
        return values, np.concatenate([failed for _, failed in answers])

    def close(self) -> None:
        """Stop threads and workers."""
        if self._worlds is not None:
            self._worlds.sim.close()
        else:
            self._pool.close()


def _start_workers(
    scene: Any,
    given: tuple[Any, ...],
    candidates: int,
    workers: int,
    address: str | None,
    gpus: float,
    timeout: float,
) -> tuple[Any, list[tuple[int, int]]]:
    """Start workers with a share of the candidates each; returns them with first candidate and count."""
    from .cluster import Pool, connect, even_shares

    *some, options = given
    cpus = options.get("threads") or 1
    if gpus:
        options = {"device": "cuda", **options}
    if isinstance(scene, (str, os.PathLike)):
        from ..scene.shipped.scene_files import find_scene_file
        from ..simulation.checkpoint.checkpoint import scene_origin

        scene = scene_origin(scene, find_scene_file(scene), None, None)["scene"]  # a name where other nodes have it too
    shares = even_shares(candidates, workers)
    connection = connect(address, cpus=max(workers * cpus, os.cpu_count() or 1))
    try:
        pool = Pool(
            connection,
            Worlds,
            [(scene, count, *some, options) for _, count in shares],
            [f"candidates {first} to {first + count - 1}" for first, count in shares],
            cpus=cpus,
            gpus=gpus,
            timeout=timeout,
        )
    except BaseException:
        connection.close()
        raise
    return pool, shares


def _like(given: Any, values: Any) -> Any:
    """Return NumPy arrays as tensors if ``given`` is one, on its device."""
    if not is_tensor(given):
        return values
    import torch

    if isinstance(values, dict):
        return {name: torch.from_numpy(value).to(given.device) for name, value in values.items()}
    return torch.from_numpy(values).to(given.device)


def rollout(
    scene: Simulation | str | os.PathLike[str] | Mapping[str, Any],
    states: tuple[Any, Any],
    controls: Any,
    **options: Any,
) -> Trajectories:
    """Run candidates once; to do so repeatedly, keep a `Rollouts`.

    Args:
        scene: See `Rollouts`.
        states: Positions and velocities to start from, of one state for all or of each candidate.
        controls: Inputs of all candidates, shape (candidates, inputs over time, entries of an input).
        **options: See `Rollouts`.
    """
    candidates = None if isinstance(scene, Simulation) else len(controls)
    made = Rollouts(scene, candidates, **options)
    try:
        return made(*states, controls)
    finally:
        if not isinstance(scene, Simulation):
            made.close()
