"""Some of the worlds of an environment, in a process of their own."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .memory import get_memory, set_memory
from .registration import find_task
from .runner import Runner, Step


@dataclass(frozen=True)
class Description:
    """What the driver has to know of a task that runs elsewhere."""

    observation_size: int
    action_size: int
    control_dt: float
    step_limit: int
    weights: dict[str, float]


class Shard:
    """Runner whose arrays leave the process as NumPy's, with a digest of the observations."""

    def __init__(
        self, task: Any, worlds: int, share: tuple[int, int], autoreset: bool, quiet: bool, options: dict[str, Any]
    ):
        """Build the worlds ``share[0]`` and following of ``share[1]`` worlds; the rest is as for `Runner`."""
        task = find_task(task)(worlds, **options)
        self._runner = Runner(task, autoreset=autoreset, quiet=quiet, share=share)
        self._to_numpy = task.arrays.to_numpy

    def describe(self) -> Description:
        """Return sizes and constants of the task."""
        task = self._runner.task
        size = self._runner.observation_size
        return Description(size, task.action_size, task.control_dt, task.step_limit, dict(task.weights))

    def reset(self, mask: np.ndarray | None, seeds: Sequence[int] | None) -> tuple[np.ndarray, int]:
        """Seed if there are seeds (those of all worlds), then reset; see `Runner.seed` and `Runner.reset`."""
        if seeds is not None:
            self._runner.seed(seeds)
        observation = self._to_numpy(self._runner.reset(mask))
        return observation, _digest(observation)

    def set_steps(self, steps: np.ndarray) -> tuple[None, int]:
        """Implement `Runner.set_steps`."""
        self._runner.set_steps(self._runner.arrays.from_numpy(steps))
        return None, 0

    def step(self, actions: np.ndarray) -> tuple[Step, int]:
        """Implement `Runner.step`."""
        found = self._runner.step(actions)
        convert, ended = self._to_numpy, found.ended
        if ended is not None:
            ended = ended._replace(worlds=convert(ended.worlds), observation=convert(ended.observation))
        observation, reward, terminated, truncated = (convert(array) for array in found[:4])
        step = Step(observation, reward, terminated, truncated, ended)
        return step, _digest(step.observation, step.reward)

    def get_memory(self) -> dict[str, Any]:
        """Return the state, see `sap_warp.envs.memory`."""
        return get_memory(self._runner)

    def set_memory(self, saved: dict[str, Any]) -> None:
        """Continue from such a state."""
        set_memory(self._runner, saved)

    def replay(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> list[int]:
        """Repeat earlier requests, and return the digests of the observations."""
        return [getattr(self, method)(*given)[1] for method, given in calls]


def _digest(*arrays: np.ndarray) -> int:
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return value
