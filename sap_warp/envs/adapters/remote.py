"""Runner whose worlds are in other processes, and what the driver knows of its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from ...scale.cluster import ClusterError, Pool, connect, even_shares
from ..arrays import Arrays
from ..registration import find_task, task_name
from ..runner import Ended, Step, check_actions, check_seeds
from ..shard import Description, Shard


class RemoteTask:
    """Sizes and constants of a task; its simulation is elsewhere."""

    def __init__(self, runner: RemoteRunner, about: Description, arrays: Arrays):
        """Store what a worker reports."""
        self._runner, self.arrays, self.xp = runner, arrays, arrays.xp
        self.num_worlds, self.action_size = runner.num_worlds, about.action_size
        self.control_dt, self.step_limit, self.weights = about.control_dt, about.step_limit, about.weights

    @property
    def sim(self) -> Any:
        """Refuse: there is no simulation in this process."""
        raise AttributeError("The simulation is in other processes, with some of the worlds in each.")

    def close(self) -> None:
        """Stop the workers."""
        self._runner.close()


class RemoteRunner:
    """Runs a task in several workers like a `Runner`, with the same bits for any number of workers.

    The driver keeps what it asked of each worker since the worker's last checkpoint. A worker that is lost is started
    again from the checkpoint, does the same again, and has to see the same; nothing is skipped or done twice.
    """

    def __init__(
        self,
        task: Any,
        num_worlds: int,
        *,
        autoreset: bool,
        quiet: bool,
        options: dict[str, Any],
        cluster: dict[str, Any],
    ):
        """Start the workers.

        Args:
            task: Class, name or place.
            num_worlds: Of all workers.
            autoreset: See `Runner`.
            quiet: See `Runner`.
            options: Of the task.
            cluster: Options of `RayVectorEnv` about Ray.
        """
        find_task(task)  # a name that nobody knows is refused before anything starts
        if isinstance(task, str):
            task = task_name(task)
        self.num_worlds, self._every = num_worlds, cluster["checkpoint_every"]
        cpus, gpus, workers = options.get("threads") or 1, cluster["gpus_per_worker"], cluster["workers"]
        own_options, arrays = _options_of_workers(options, gpus)
        self.arrays = Arrays(arrays, wp.get_device("cpu"))
        connection = connect(cluster["address"], cpus=workers and _at_least_machine(workers * cpus))
        if workers is None:
            workers = max(
                1, min(num_worlds, int(connection.total("GPU") / gpus if gpus else connection.total("CPU") / cpus))
            )
        self.shares = even_shares(num_worlds, workers)
        """First world and number of worlds of each worker."""
        self._log: list[list[tuple[str, tuple[Any, ...]]]] = [[] for _ in self.shares]
        self._digests: list[list[int]] = [[] for _ in self.shares]
        self._memory: list[Any] = [None for _ in self.shares]
        self._seeds: list[int] | None = None
        self._since = 0  # steps since the last checkpoint
        try:
            self.pool = Pool(
                connection,
                Shard,
                [(task, count, (first, num_worlds), autoreset, quiet, own_options) for first, count in self.shares],
                [f"worlds {first} to {first + count - 1}" for first, count in self.shares],
                cpus=cpus,
                gpus=gpus,
                timeout=cluster["timeout"],
                start_timeout=cluster["start_timeout"],
                restore=self._restore,
            )
            about = self.pool.ask(0, "describe")
        except BaseException:
            connection.close()
            raise
        self.observation_size = about.observation_size
        """Numbers in an observation."""
        self.task = RemoteTask(self, about, self.arrays)
        self._action_shape = num_worlds, about.action_size
        self.taken = 0
        """Environment steps taken, over all worlds."""

    def seed(self, seed: int | Sequence[int]) -> None:
        """Store seeds, see `Runner.seed`; workers get them with the next reset."""
        self._seeds = check_seeds(seed, self.num_worlds)

    def reset(self, world_mask: np.ndarray | None = None) -> Any:
        """Reset worlds, see `Runner.reset`; a reset of all worlds also repairs what a failed call left behind."""
        parts = [None] * len(self.shares) if world_mask is None else self._split(world_mask)
        torn = self.pool.torn
        seen = self._call("reset", [(part, self._seeds) for part in parts], mend=world_mask is None)
        self._seeds = None
        if torn:
            self.checkpoint()  # what some workers did in the call that failed is in no list
        return self._join(seen)

    def set_steps(self, steps: Any) -> None:
        """Implement `Runner.set_steps`."""
        self._call("set_steps", [(part,) for part in self._split(self.arrays.to_numpy(steps))])

    def step(self, actions: Any) -> Step:
        """Implement `Runner.step`."""
        actions = self.arrays.to_numpy(self.arrays.as_actions(actions))
        check_actions(actions, self._action_shape)
        steps = self._call("step", [(part,) for part in self._split(actions)])
        self.taken += self.num_worlds
        self._since += 1
        if self._since >= self._every:
            self.checkpoint()
        observation, reward, terminated, truncated = map(self._join, zip(*(step[:4] for step in steps), strict=True))
        return Step(observation, reward, terminated, truncated, self._ended(steps))

    def checkpoint(self) -> None:
        """Fetch what decides the future of every worker, and forget its earlier requests."""
        self._memory = self.pool.call("get_memory", [() for _ in self.shares])
        for log, digests in zip(self._log, self._digests, strict=True):
            log.clear()
            digests.clear()
        self._since = 0

    def close(self) -> None:
        """Stop the workers."""
        self.pool.close()

    # Details.

    def _call(self, method: str, given: list[tuple[Any, ...]], mend: bool = False) -> list[Any]:
        answers = self.pool.call(method, given, mend=mend)
        for i, own in enumerate(given):
            self._log[i].append((method, own))
            self._digests[i].append(answers[i][1])
        return [result for result, _ in answers]

    def _restore(self, number: int) -> None:
        """Bring a new worker to where the lost one was.

        Raises:
            ClusterError: It saw something else on the way.
        """
        if self._memory[number] is not None:
            self.pool.ask(number, "set_memory", self._memory[number])
        seen = self.pool.ask(number, "replay", self._log[number])
        if seen != self._digests[number]:
            raise ClusterError(
                f"{self.pool.members[number]} was lost, and its successor sees something else after the same actions. "
                "Either the task keeps something that is neither array nor number (extend Task.get_memory and "
                "set_memory), or its nodes have different processors. Reset all worlds to go on."
            )

    def _split(self, values: np.ndarray) -> list[np.ndarray]:
        return [values[first : first + count] for first, count in self.shares]

    def _join(self, parts: Sequence[np.ndarray]) -> Any:
        return self.arrays.from_numpy(np.concatenate(parts))

    def _ended(self, steps: Sequence[Step]) -> Ended | None:
        """Join what is known of ended episodes, with worlds numbered among all."""
        found = [(step.ended, first) for step, (first, _) in zip(steps, self.shares, strict=True) if step.ended]
        if not found:
            return None
        ends = [ended for ended, _ in found]
        return Ended(
            self._join([ended.worlds + first for ended, first in found]),
            self._join([ended.observation for ended in ends]),
            np.concatenate([ended.returns for ended in ends]),
            np.concatenate([ended.lengths for ended in ends]),
            {name: np.concatenate([ended.terms[name] for ended in ends]) for name in ends[0].terms},
        )


def _at_least_machine(cpus: int) -> int:
    import os

    return max(cpus, os.cpu_count() or 1)


def _options_of_workers(options: dict[str, Any], gpus: float) -> tuple[dict[str, Any], str]:
    """Return options of the task in a worker, and the array library of the driver.

    Raises:
        ValueError: A GPU is asked for, but none for each worker.
    """
    arrays, own = options.get("arrays", "numpy"), dict(options)
    if gpus and options.get("device") is None:
        own["device"] = "cuda"
    on_gpu = str(own.get("device") or "cpu") != "cpu"
    if on_gpu and not gpus:
        raise ValueError(f"device is {own['device']!r}; workers have GPUs if gpus_per_worker says how many.")
    if on_gpu:
        own["arrays"] = "torch"  # NumPy cannot share memory with a GPU
    return own, arrays
