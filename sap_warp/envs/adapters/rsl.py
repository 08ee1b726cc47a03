"""Tasks as environments of rsl_rl."""

from __future__ import annotations

from typing import Any

from ...core.faq import see
from ..registration import find_task
from ..runner import Runner, Step

try:
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict
except ImportError as error:
    raise ImportError("This needs rsl_rl: pip install 'sap-warp[rl]'" + see("missing-extra")) from error


class RslRlVecEnv(VecEnv):
    """A task in many worlds, for rsl_rl; tensors are on the simulation's device, without copies."""

    def __init__(self, task: Any, num_envs: int, *, seed: int = 0, quiet: bool = False, **options: Any):
        """See `sap_warp.envs.TaskVectorEnv`; observations are in the group "policy"."""
        made = find_task(task)(num_envs, **options | {"arrays": "torch"})
        self._take(Runner(made, seed=seed, quiet=quiet), {"seed": seed, **options})
        self.reset()

    @classmethod
    def of(cls, runner: Runner) -> RslRlVecEnv:
        """The environment of a task that is run already, with arrays of torch or NumPy; `reset` it before a step."""
        env = cls.__new__(cls)
        env._take(runner, {})
        return env

    def _take(self, runner: Runner, about: dict[str, Any]) -> None:
        self.runner, self.task = runner, runner.task
        self.num_envs, self.num_actions = self.task.num_worlds, self.task.action_size
        self.max_episode_length = self.task.step_limit
        self.device = runner.arrays.device or torch.device("cpu")
        self.cfg = {"task": type(self.task).__name__, "num_envs": self.num_envs, **about}
        self._observation = torch.zeros(self.num_envs, runner.observation_size, device=self.device)

    @property
    def sim(self) -> Any:
        """The simulation."""
        return self.task.sim

    @property
    def episode_length_buf(self) -> Any:
        """Control steps of the present episodes; the runner may set it, to spread the ends of episodes."""
        return torch.as_tensor(self.task.steps)

    @episode_length_buf.setter
    def episode_length_buf(self, value: Any) -> None:
        self.runner.set_steps(self._given(value))

    def get_observations(self) -> TensorDict:
        """The present observations."""
        return self.groups(self._observation)

    def reset(self) -> tuple[TensorDict, dict[str, Any]]:
        """Begin an episode in all worlds."""
        self._observation = self.runner.reset()
        return self.get_observations(), {}

    def step(self, actions: Any) -> tuple[TensorDict, Any, Any, dict[str, Any]]:
        """Take a step in all worlds; the extras have what is known of episodes that ended, as "ended"."""
        result: Step = self.runner.step(self._given(actions))
        self._observation = result.observation
        truncated = torch.as_tensor(result.truncated)
        extras: dict[str, Any] = {"time_outs": truncated}
        if result.ended is not None:
            extras["ended"] = result.ended
            extras["log"] = {f"/episode/{name}": values.mean() for name, values in result.ended.terms.items()}
        done = (torch.as_tensor(result.terminated) | truncated).long()
        return self.groups(result.observation), torch.as_tensor(result.reward), done, extras

    def groups(self, observation: Any) -> TensorDict:
        """Observations of the runner, as rsl_rl wants them."""
        return TensorDict({"policy": torch.as_tensor(observation)}, batch_size=[self.num_envs])

    def close(self) -> None:
        """Stop the simulation's threads."""
        self.task.close()

    def _given(self, values: Any) -> Any:
        """A tensor, as the runner's library has it."""
        return values if self.runner.arrays.is_torch else values.numpy()
