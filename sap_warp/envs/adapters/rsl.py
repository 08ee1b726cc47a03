"""Tasks as environments of rsl_rl."""

from __future__ import annotations

from typing import Any

from ..registration import find_task
from ..runner import Runner, Step

try:
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict
except ImportError as error:
    raise ImportError("This needs rsl_rl: pip install rsl-rl-lib") from error


class RslRlVecEnv(VecEnv):
    """A task in many worlds, for rsl_rl; arrays are torch's, on the simulation's device, without copies."""

    def __init__(self, task: Any, num_envs: int, *, seed: int = 0, quiet: bool = False, **options: Any):
        """See `sap_warp.envs.TaskVectorEnv`; observations are in the group "policy"."""
        self.task = find_task(task)(num_envs, **options | {"arrays": "torch"})
        self.runner = Runner(self.task, seed=seed, quiet=quiet)
        self.num_envs, self.num_actions = self.task.num_worlds, self.task.action_size
        self.max_episode_length = self.task.step_limit
        self.device = self.task.arrays.device
        self.cfg = {"task": type(self.task).__name__, "num_envs": self.num_envs, "seed": seed, **options}
        self._observation = self.runner.reset()

    @property
    def sim(self) -> Any:
        """The simulation."""
        return self.task.sim

    @property
    def episode_length_buf(self) -> Any:
        """Control steps of the present episodes; the runner may set it, to spread the ends of episodes."""
        return self.task.steps

    @episode_length_buf.setter
    def episode_length_buf(self, value: Any) -> None:
        self.runner.set_steps(value)

    def get_observations(self) -> TensorDict:
        """The present observations."""
        return self._groups(self._observation)

    def reset(self) -> tuple[TensorDict, dict[str, Any]]:
        """Begin an episode in all worlds."""
        self._observation = self.runner.reset()
        return self.get_observations(), {}

    def step(self, actions: Any) -> tuple[TensorDict, Any, Any, dict[str, Any]]:
        """Take a step in all worlds."""
        result: Step = self.runner.step(actions)
        self._observation = result.observation
        extras: dict[str, Any] = {"time_outs": result.truncated}
        if result.ended is not None:
            extras["log"] = {f"/episode/{name}": values.mean() for name, values in result.ended.terms.items()}
        done = (result.terminated | result.truncated).long()
        return self._groups(result.observation), result.reward, done, extras

    def close(self) -> None:
        """Stop the simulation's threads."""
        self.task.close()

    def _groups(self, observation: Any) -> TensorDict:
        return TensorDict({"policy": observation}, batch_size=[self.num_envs])
