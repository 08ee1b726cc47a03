"""Episodes of a task in all worlds: actions in, observations and rewards out; finished worlds begin anew."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from ..simulation.run.health import FAILED_FROM
from .draws import Draws, mix, world_keys
from .task import Task
from .terms import Term

START, ADVANCE, NOISE = 1, 2, 3
"""Random streams of a world."""
FAILED = int(FAILED_FROM)
BOUND = 1.0
"""Largest magnitude of an action; others are clipped."""


class Ended(NamedTuple):
    """Data of worlds whose episode ended in a step."""

    worlds: Any
    """Indices of the worlds, ascending, shape (n,)."""
    observation: Any
    """Last observation, shape (n, observations)."""
    returns: np.ndarray
    """Sum of rewards over the episode, shape (n,)."""
    lengths: np.ndarray
    """Number of control steps, shape (n,)."""
    terms: dict[str, np.ndarray]
    """Sum of each weighted reward over the episode, and mean of each metric, shape (n,)."""

    def only(self, chosen: np.ndarray) -> Ended:
        """Return the data of some of them; ``chosen`` are n booleans."""
        terms = {name: values[chosen] for name, values in self.terms.items()}
        return Ended(self.worlds[chosen], self.observation[chosen], self.returns[chosen], self.lengths[chosen], terms)


class Step(NamedTuple):
    """Outcome of a step, arrays of the task's library over all worlds; they are not used again."""

    observation: Any
    """What the policy sees next, shape (worlds, observations); the first of the next episode where one ended."""
    reward: Any
    """Rewards, shape (worlds,)."""
    terminated: Any
    """True for worlds that reached an end, shape (worlds,)."""
    truncated: Any
    """True for worlds that ran out of time and could have gone on, shape (worlds,)."""
    ended: Ended | None
    """Data of worlds whose episode ended; None if there are none."""


def check_actions(actions: Any, shape: tuple[int, int], numbers: bool = True) -> None:
    """Refuse actions of another shape and, if ``numbers``, NaN and infinity.

    Raises:
        ValueError: They are.
    """
    if actions.shape != shape:
        raise ValueError(f"actions have shape {tuple(actions.shape)}; expected {shape}.")
    flat = actions.reshape(-1)
    if numbers and isnan(flat @ flat):
        worlds = np.flatnonzero(np.isnan(np.asarray(actions)).any(axis=1))
        raise ValueError(f"actions of worlds {worlds[:8].tolist()} are not numbers.")


def _add_rows(total: Any, rows: Any) -> Any:
    """Add rows one after the other: libraries choose another order of summation when there are few worlds."""
    for row in rows:
        total += row
    return total


def check_seeds(seed: int | Sequence[int], worlds: int) -> list[int]:
    """Return one seed per world: seed + i, or the entries of a list.

    Raises:
        ValueError: The list has another length, or there is a negative one.
    """
    single = isinstance(seed, (int, np.integer))
    seeds = [int(seed) + i for i in range(worlds)] if single else [int(value) for value in seed]  # type: ignore
    if len(seeds) != worlds or min(seeds) < 0:
        raise ValueError(f"seed is {seed!r}; it must be a number from 0, or a list of {worlds} of them.")
    return seeds


class Runner:
    """Runs the episodes of a task in all worlds."""

    def __init__(
        self,
        task: Task,
        *,
        seed: int | Sequence[int] = 0,
        autoreset: bool = True,
        quiet: bool = False,
        share: tuple[int, int] | None = None,
    ):
        """Take over ``task``; call `reset` before the first step.

        Args:
            task: What to run.
            seed: Of the random numbers; see `reset`.
            autoreset: Whether worlds whose episode ended begin the next one within the same step.
            quiet: Whether observations have no noise.
            share: Where the task has some of more worlds: number of the first of them, and how many there are in all.
                Seeds are those of all, and the worlds do what they would do among all.
        """
        self._share = share or (0, task.num_worlds)
        self._randomizes = False
        self.task, self.autoreset, self.quiet = task, autoreset, quiet
        self.num_worlds, self.arrays = task.num_worlds, task.arrays
        worlds, make = self.num_worlds, task.arrays.zeros
        self._methods = {kind: [getattr(task, name) for name in names] for kind, names in task.terms.items()}
        self._value_methods = self._methods["reward"] + self._methods["metric"]
        self._values = make(len(self._value_methods), worlds)
        self._sums = make(len(self._value_methods), worlds)
        self._names = [*task.weights, *task.terms["metric"]]
        factors = np.array([weight * task.control_dt for weight in task.weights.values()], np.float32)
        self._weights, self._factors, self._paid = factors.tolist(), factors[:, None], len(factors)
        self._value_rows = list(zip(self._values, self._value_methods, strict=True))
        self._skipped = make(worlds, dtype="int64")  # steps that were not taken, but set
        self._spare = 0  # control steps for which no world runs out of time, at least
        self._action_shape = worlds, task.action_size
        self._status = [self.arrays.share(shard.solver.world_status) for shard in task.sim.shards]
        self.episodes = np.zeros(worlds, np.uint64)
        """Episodes begun, shape (worlds,)."""
        self._noisy = not quiet and any(term.noise for term in task.terms["observation"].values())
        self._on_gpu = not task.sim.device.is_cpu
        self._advances = type(task).advance is not Task.advance
        self._start_q, self._start_qd = task.initial_q + 0.0, task.initial_qd + 0.0
        self.taken = 0
        """Environment steps taken, over all worlds."""
        self.seed(seed)
        task.derive()
        self.observation_size = 0
        """Numbers in an observation."""
        self._parts = self._measure()

    # Episodes.

    def seed(self, seed: int | Sequence[int]) -> None:
        """Restart the random numbers: world i takes seed + i, or the i-th of a list; call `reset` afterwards."""
        first, worlds = self._share
        seeds = check_seeds(seed, worlds)
        own = seeds[first : first + self.num_worlds]
        self._keys = mix(np.array([value % 2**64 for value in own], np.uint64) + np.uint64(1))
        self._start_keys = world_keys(self._keys, START)
        self.episodes[:] = 0
        if self.task.randomization:
            terms = None if self._randomizes else self.task.randomization
            self.task.sim.randomize(terms, seed=seeds[0], first_world=first)
            self._randomizes = True

    def reset(self, world_mask: np.ndarray | None = None) -> Any:
        """Begin an episode in all worlds, or in those of a mask; returns the observation of all worlds."""
        chosen = np.arange(self.num_worlds) if world_mask is None else np.flatnonzero(world_mask)
        if len(chosen):
            mask = np.ones(self.num_worlds, bool) if world_mask is None else world_mask
            self._begin(chosen, self.arrays.from_numpy(mask))
        return self._observe()

    def spread(self) -> None:
        """Put worlds at random points of their episodes, so that they do not all run out of time together."""
        limit = self.task.step_limit
        self.set_steps(Draws(world_keys(self._keys, 0), self.arrays.from_numpy).integers(0, limit))

    def set_steps(self, steps: Any) -> None:
        """Set how many control steps the present episodes have taken, shape (worlds,)."""
        self._skipped = self._skipped + (steps - self.task.steps)
        self.task.steps[:] = steps
        self._spare = 0

    def step(self, actions: Any) -> Step:
        """Take a control step with ``actions`` of shape (worlds, actions).

        Raises:
            ValueError: The actions have another shape; or, on the CPU, one is not a finite number.
        """
        task = self.task
        self._act(actions)
        if self._on_gpu:
            with self.arrays.stream():
                task.sim.step(task.substeps)
        else:
            task.sim.step(task.substeps)
        task.steps += 1
        self.taken += self.num_worlds
        if self._advances:
            task.advance(self._draw(ADVANCE))
        task.derive()
        terminated = task.terminated = self._find_terminated()
        self._spare -= 1
        if self._spare > 0:
            truncated, done = self.arrays.zeros(self.num_worlds, dtype="bool"), terminated
        else:
            truncated = (task.steps >= task.step_limit) & ~terminated
            done = terminated | truncated
            self._spare = task.step_limit - int(task.steps.max())
        reward = self._find_rewards()
        observation = self._observe()
        ended = None
        if self.arrays.any(done):
            ended = self._end(done, observation)
            if self.autoreset:
                self._begin(self.arrays.to_numpy(ended.worlds), done)
                observation = self._observe()
        return Step(observation, reward, terminated, truncated, ended)

    # Details.

    def _act(self, given: Any) -> None:
        """Check and clip actions, and hand them to the simulation."""
        task = self.task
        actions = self.arrays.as_actions(given)
        check_actions(actions, self._action_shape, numbers=not self._on_gpu)  # there nobody waits; the world diverges
        task.previous_action, task.action = task.action, self.arrays.clip(actions, BOUND)
        task.apply(task.action)

    def _find_terminated(self) -> Any:
        """Return worlds at an end, and those that could not take a step."""
        status = self._status[0] if len(self._status) == 1 else self.task.xp.concatenate(self._status)
        terminated = status >= FAILED
        for method in self._methods["termination"]:
            terminated |= method()
        return terminated

    def _find_rewards(self) -> Any:
        for row, method in self._value_rows:
            row[:] = method()
        self._sums += self._values
        paid = [weight * row for weight, row in zip(self._weights, self._values, strict=False)]
        return _add_rows(self.arrays.zeros(self.num_worlds), paid)

    def _end(self, done: Any, observation: Any) -> Ended:
        """Collect the data of the episodes that end, before it is lost."""
        task, to_numpy = self.task, self.arrays.to_numpy
        worlds = task.worlds[done]
        lengths, sums = to_numpy(task.steps[worlds] - self._skipped[worlds]), to_numpy(self._sums[:, worlds])
        sums[: self._paid] *= self._factors
        sums[self._paid :] /= lengths
        terms = dict(zip(self._names, sums, strict=True))
        returns = _add_rows(np.zeros(len(lengths), np.float32), sums[: self._paid])
        return Ended(worlds, observation[worlds], returns, lengths, terms)

    def _begin(self, worlds: np.ndarray, mask: Any) -> None:
        """Begin an episode in some worlds, given as mask and as indices."""
        task, indices = self.task, self.arrays.from_numpy(worlds)
        self.episodes[worlds] += np.uint64(1)
        keys = world_keys(self._start_keys[worlds], self.episodes[worlds])
        q, qd = task.start(indices, Draws(keys, self.arrays.from_numpy))
        self._start_q[indices] = task.initial_q[indices] if q is None else q
        self._start_qd[indices] = task.initial_qd[indices] if qd is None else qd
        with self.arrays.stream():
            task.sim.reset(mask, self._start_q, self._start_qd)
        task.steps[indices] = self._skipped[indices] = 0
        task.action[indices] = 0.0
        self._sums[:, indices] = 0.0
        task.derive()

    def _draw(self, stream: int) -> Draws:
        """Return the random numbers of this step for all worlds; nothing is computed unless some are drawn."""
        counts = stream, self.episodes, self.task.steps
        return Draws(lambda: world_keys(self._keys, *map(self._count, counts)), self.arrays.from_numpy)

    def _count(self, value: Any) -> Any:
        return value if isinstance(value, (int, np.ndarray)) else self.arrays.to_numpy(value)

    def _measure(self) -> list[tuple[Any, Term, list[Any]]]:
        """Return method, mark and columns of each observation.

        Raises:
            ValueError: A term returns something else than numbers for each world.
        """
        parts, begin = [], 0
        for name, term in self.task.terms["observation"].items():
            method = getattr(self.task, name)
            values, columns = method(), []
            for value in values if isinstance(values, tuple) else (values,):
                shape = tuple(getattr(value, "shape", ()))
                if len(shape) not in (1, 2) or shape[0] != self.num_worlds:
                    raise ValueError(
                        f"{type(self.task).__name__}.{name} returns an array of shape {shape}; expected "
                        f"({self.num_worlds},) or ({self.num_worlds}, n)."
                    )
                columns.append(begin if len(shape) == 1 else slice(begin, begin + shape[1]))
                begin += 1 if len(shape) == 1 else shape[1]
            parts.append((method, term, columns))
        self.observation_size = begin
        return parts

    def _observe(self) -> Any:
        result = self.arrays.empty(self.num_worlds, self.observation_size)
        draw = self._draw(NOISE) if self._noisy else None
        for method, term, columns in self._parts:
            values = method()
            if type(values) is not tuple:
                values = (values,)
            scaled, noise = term.scale != 1.0, 0.0 if draw is None else term.noise
            for column, value in zip(columns, values, strict=True):
                if noise and draw is not None:
                    size = None if isinstance(column, int) else column.stop - column.start
                    value = value + draw.uniform(-noise, noise, size)
                result[:, column] = value * term.scale if scaled else value
        return result
