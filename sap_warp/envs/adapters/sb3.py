"""Tasks as environments of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..registration import find_task
from ..runner import Runner
from .gym import BOUND, box

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError("This needs stable-baselines3: pip install stable-baselines3") from error


class StableBaselinesVecEnv(VecEnv):
    """A task in many worlds, for Stable-Baselines3; arrays are NumPy's."""

    def __init__(self, task: Any, num_envs: int, *, quiet: bool = False, **options: Any):
        """Make the environment, see `sap_warp.envs.TaskVectorEnv`."""
        self.task = find_task(task)(num_envs, **options)
        self.runner = Runner(self.task, quiet=quiet)
        self._actions: Any = None
        super().__init__(num_envs, box(np.inf, self.runner.observation_size), box(BOUND, self.task.action_size))

    @property
    def sim(self) -> Any:
        """The simulation."""
        return self.task.sim

    def reset(self) -> np.ndarray:
        """Begin an episode in all worlds, with the seeds that `seed` gave."""
        if self._seeds[0] is not None:
            self.runner.seed(self._seeds)
        self._reset_seeds()
        self._reset_options()
        return self.task.arrays.to_numpy(self.runner.reset())

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the step."""
        to_numpy = self.task.arrays.to_numpy
        observation, reward, terminated, truncated, ended = self.runner.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        truncated = to_numpy(truncated)
        if ended is not None:
            final = to_numpy(ended.observation)
            for row, world in enumerate(to_numpy(ended.worlds)):
                infos[world] = {
                    "terminal_observation": final[row],
                    "TimeLimit.truncated": bool(truncated[world]),
                    "episode": {"r": float(ended.returns[row]), "l": int(ended.lengths[row]), "t": 0.0},
                    "terms": {name: float(values[row]) for name, values in ended.terms.items()},
                }
        return to_numpy(observation), to_numpy(reward), to_numpy(terminated) | truncated, infos

    def close(self) -> None:
        """Stop the simulation's threads."""
        self.task.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the task, which is equal for all worlds."""
        value = None if attr_name == "render_mode" else getattr(self.task, attr_name)
        return [value] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the task, for all worlds."""
        self._all(indices)
        setattr(self.task, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of the task once, for all worlds."""
        self._all(indices)
        return [getattr(self.task, method_name)(*method_args, **method_kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False: nothing is wrapped."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))

    def _all(self, indices: Any) -> None:
        if len(self._chosen(indices)) != self.num_envs:
            raise ValueError("Worlds share one task: an attribute or a method concerns all of them.")
