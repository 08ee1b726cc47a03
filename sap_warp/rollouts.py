"""Rollouts: what many candidate control sequences lead to, one candidate in each world.

Planners that sample (predictive sampling, MPPI, the cross-entropy method) ask the same question many times: from this
state, where do these inputs lead? `Rollouts` keeps the worlds, so that an answer costs the steps and little more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .simulation import Simulation

INPUTS = ("joint_f", "joint_target_q", "joint_target_qd", "joint_act", "ctrl")
"""Views of a simulation that candidates can write."""
RESULTS = ("joint_q", "joint_qd", "body_q", "body_qd")
"""Views that can be recorded."""


@dataclass(frozen=True)
class Trajectories:
    """Where the candidates went, after each of their inputs."""

    time: np.ndarray
    """Since the start [s], shape (inputs,)."""
    values: Mapping[str, np.ndarray]
    """What was recorded, by name, shape (candidates, inputs, ...)."""
    failed: np.ndarray
    """Which candidates met a step that could not be taken, and kept their state from there on, shape (candidates,)."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]


class Rollouts:
    """Worlds for candidates.

    Example:
        ::

            rollouts = Rollouts("cartpole", 64, inputs={"joint_f": ["slider_to_cart"]}, hold=4)
            found = rollouts(joint_q, joint_qd, controls)  # (coords,), (dofs,), (64, horizon, 1)
            best = found["joint_q"][:, -1, 1].argmax()
    """

    def __init__(
        self,
        scene: Simulation | str | os.PathLike[str] | Mapping[str, Any],
        candidates: int | None = None,
        *,
        inputs: str | Mapping[str, Sequence[str] | str] = "joint_target_q",
        record: Sequence[str] = ("joint_q", "joint_qd"),
        hold: int = 1,
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
            **options: Of `Simulation.from_scene`, for example ``threads``, ``dt`` or a preset.

        Raises:
            ValueError: A view or a number cannot be meant.
        """
        if isinstance(scene, Simulation):
            if options or candidates not in (None, scene.world_count):
                raise ValueError("A simulation has its options and worlds already; give a scene to choose them.")
            self.sim = scene
        else:
            if candidates is None or candidates < 1:
                raise ValueError(f"candidates is {candidates!r}; it must be a whole number of at least 1.")
            self.sim = Simulation.from_scene(scene, num_worlds=candidates, **options)
        if hold < 1:
            raise ValueError(f"hold is {hold!r}; it must be a whole number of steps of at least 1.")
        self.hold = int(hold)
        columns = {inputs: "*"} if isinstance(inputs, str) else dict(inputs)
        for given, known, what in ((columns, INPUTS, "inputs"), (record, RESULTS, "record")):
            unknown = [name for name in given if name not in known]
            if unknown or not given:
                raise ValueError(f"{what} names {unknown or 'nothing'}; there is {', '.join(known)}.")
        self.record = tuple(record)
        self._targets = [
            (getattr(self.sim, view), getattr(self.sim, view).find(names)) for view, names in columns.items()
        ]
        self.input_names: tuple[str, ...] = tuple(name for _, found in self._targets for name in found.names)
        """What the entries of a control are."""

    @property
    def candidates(self) -> int:
        """How many run at once."""
        return self.sim.world_count

    def __call__(self, joint_q: Any, joint_qd: Any, controls: Any) -> Trajectories:
        """Run all candidates from a state.

        Args:
            joint_q: Positions to start from, (coords,) for all alike or (candidates, coords).
            joint_qd: Velocities to start from, likewise.
            controls: Inputs, shape (candidates, inputs over time, entries of an input): NumPy or torch.

        Raises:
            ValueError: ``controls`` has another shape.
        """
        controls = np.asarray(controls)
        wanted = (self.candidates, controls.shape[1] if controls.ndim == 3 else "time", len(self.input_names))
        if controls.shape != wanted:
            raise ValueError(f"controls has shape {controls.shape}; expected {wanted}: {', '.join(self.input_names)}.")
        sim, horizon = self.sim, controls.shape[1]
        sim.reset(joint_q=joint_q, joint_qd=joint_qd)
        kept = {name: np.empty((self.candidates, horizon, *getattr(sim, name).shape[1:])) for name in self.record}
        failed = np.zeros(self.candidates, bool)
        for k in range(horizon):
            first = 0
            for view, found in self._targets:
                view[:, found.indices] = controls[:, k, first : first + len(found.indices)]
                first += len(found.indices)
            sim.step(self.hold)
            failed |= sim.diverged
            for name, values in kept.items():
                values[:, k] = getattr(sim, name).numpy()
        return Trajectories(sim.dt * self.hold * np.arange(1, horizon + 1), kept, failed)

    def close(self) -> None:
        """Stop the threads of the simulation."""
        self.sim.close()


def rollout(
    scene: Simulation | str | os.PathLike[str] | Mapping[str, Any],
    states: tuple[Any, Any],
    controls: Any,
    **options: Any,
) -> Trajectories:
    """Run candidates once; whoever does so again and again keeps a `Rollouts`.

    Args:
        scene: See `Rollouts`.
        states: Positions and velocities to start from, of one state for all or of each candidate.
        controls: Inputs of all candidates, shape (candidates, inputs over time, entries of an input).
        **options: See `Rollouts`.
    """
    candidates = None if isinstance(scene, Simulation) else len(controls)
    return Rollouts(scene, candidates, **options)(*states, controls)
