"""Augmented random search: a linear policy, changed in random directions that are tried in many worlds at once.

It needs NumPy alone. Each pair of directions, one the opposite of the other, takes its own worlds for one episode; the
best of them decide the step. Observations are normalized by their running mean and deviation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import Runner
from .progress import Episodes


@dataclass
class ARSSettings:
    """What can be set."""

    rate: float = 0.05
    """Step size."""
    noise: float = 0.05
    """Size of the changes that are tried."""
    best: float = 0.5
    """Share of the directions that decide the step."""
    repeats: int = 1
    """Worlds that try the same direction, from different starts."""


class ARS:
    """The learner."""

    def __init__(self, runner: Runner, settings: ARSSettings | None = None, seed: int = 0):
        """Begin with the policy that does nothing.

        Args:
            runner: Runs the task.
            settings: See there.
            seed: Of the directions; the task has its own.

        Raises:
            ValueError: The task has torch's arrays.
        """
        self.runner, self.settings = runner, settings or ARSSettings()
        if runner.arrays.is_torch:
            raise ValueError('Random search uses NumPy: make the task with arrays="numpy".')
        size = runner.observation_size
        self.weights = np.zeros((runner.task.action_size, size + 1), np.float32)
        """Policy: actions are these times the normalized observation and a 1 behind it."""
        self._mean, self._square, self._count = np.zeros(size), np.zeros(size), 0.0
        self._random = np.random.default_rng(seed)

    def policy(self, observation: Any) -> np.ndarray:
        """Actions for observations of shape (n, observations)."""
        return self._features(np.asarray(observation)) @ self.weights.T

    def begin(self) -> None:
        """Every update starts its own episodes; learning, unlike playing, needs pairs of worlds.

        Raises:
            ValueError: The worlds cannot be divided into pairs.
        """
        worlds, each = self.runner.num_worlds, self.settings.repeats
        if worlds % (2 * each):
            raise ValueError(
                f"Random search tries pairs of directions in {each} worlds each; {worlds} worlds are no multiple of "
                f"{2 * each}."
            )

    def update(self, episodes: Episodes) -> dict[str, float]:
        """Try directions for an episode each, and take a step. `begin` says whether there are worlds for that."""
        self.begin()
        settings, worlds = self.settings, self.runner.num_worlds
        count = worlds // (2 * settings.repeats)
        directions = self._random.standard_normal((count, *self.weights.shape)).astype(np.float32)
        change = np.repeat(np.concatenate([directions, -directions]), settings.repeats, axis=0)
        returns = self._try(self.weights + settings.noise * change, episodes)
        up, down = returns.reshape(2, count, settings.repeats).mean(axis=2)
        chosen = np.argsort(-np.maximum(up, down), kind="stable")[: max(1, round(settings.best * count))]
        spread = np.concatenate([up[chosen], down[chosen]]).std() + 1e-8
        step = np.tensordot(up[chosen] - down[chosen], directions[chosen], 1) / (len(chosen) * spread)
        self.weights += np.float32(settings.rate) * step.astype(np.float32)
        return {"mean_return": float(returns.mean()), "best_return": float(returns.max())}

    def state(self) -> dict[str, Any]:
        """What has been learned, and what decides how it goes on."""
        random = json.dumps(self._random.bit_generator.state).encode()
        return {
            "weights": self.weights.copy(),
            "statistics": np.array([self._mean, self._square]),
            "count": np.float64(self._count),
            "random": np.frombuffer(random, np.uint8),
        }

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there.

        Raises:
            ValueError: It belongs to another policy.
        """
        if state["weights"].shape != self.weights.shape:
            raise ValueError(f"The policy is {state['weights'].shape}; the task needs {self.weights.shape}.")
        self.weights = np.array(state["weights"])
        self._mean, self._square = np.array(state["statistics"])
        self._count = float(state["count"])
        self._random.bit_generator.state = json.loads(bytes(state["random"]).decode())

    def _features(self, observation: np.ndarray) -> np.ndarray:
        """Normalized observation with a 1 behind it, shape (n, observations + 1)."""
        result = np.ones((len(observation), observation.shape[1] + 1), np.float32)
        deviation = np.sqrt(self._square / max(self._count, 1.0)) if self._count > 1.0 else np.ones_like(self._mean)
        result[:, :-1] = (observation - self._mean) / np.maximum(deviation, 1e-3)
        return result

    def _learn_scale(self, observation: np.ndarray) -> None:
        """Take observations into the running mean and deviation."""
        count, mean = len(observation), observation.mean(axis=0, dtype=np.float64)
        total, delta = self._count + count, mean - self._mean
        self._square += ((observation - mean) ** 2).sum(axis=0) + delta**2 * self._count * count / total
        self._mean += delta * count / total
        self._count = total

    def _try(self, weights: np.ndarray, episodes: Episodes) -> np.ndarray:
        """Return of one episode in each world, with the policy of that world."""
        runner = self.runner
        observation = runner.reset()
        alive, returns = np.ones(runner.num_worlds, bool), np.zeros(runner.num_worlds)
        seen = []
        for _ in range(runner.task.step_limit):
            seen.append(observation[alive])
            actions = np.matmul(weights, self._features(observation)[:, :, None])[:, :, 0]
            step = runner.step(actions)
            returns += step.reward * alive
            observation = step.observation
            if step.ended is not None:
                first = alive[step.ended.worlds]
                episodes.add(step.ended.only(first))
                alive[step.ended.worlds] = False
                if not alive.any():
                    break
        self._learn_scale(np.concatenate(seen))
        return returns
