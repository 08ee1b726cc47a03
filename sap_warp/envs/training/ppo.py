"""Proximal policy optimization by rsl_rl, for tasks in many worlds.

rsl_rl collects rollouts and learns from them; here are the settings that tasks and `--set` choose, the episodes that
end meanwhile, random numbers that a seed decides, and what a checkpoint holds.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.faq import see
from .. import Runner
from .progress import Episodes

# rsl_rl imports GitPython, which refuses to load where there is no git. Nothing here asks git for anything.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
try:
    import torch
    from rsl_rl.algorithms import PPO as Algorithm
    from rsl_rl.models import MLPModel
    from rsl_rl.modules import GaussianDistribution
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.utils.logger import Logger

    from ..adapters.rsl import RslRlVecEnv
except ImportError as error:
    reason = " ".join(str(error).split())
    advice = "pip install 'sap-warp[rl]'; random search, --algorithm ars, works without"
    raise ImportError(f"PPO needs torch and rsl_rl ({reason}): {advice}{see('missing-extra')}") from error

NETWORKS = ("actor", "critic")


def use_threads(count: int) -> None:
    """Let torch compute with so many threads."""
    torch.set_num_threads(count)


@dataclass
class PPOSettings:
    """What can be set; the defaults walk and balance."""

    rollout: int = 24
    """Control steps between updates, in every world."""
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the hidden layers of policy and value."""
    epochs: int = 5
    batches: int = 4
    """How often each step is learned from, and into how many parts it is cut."""
    rate: float = 1e-3
    """First step size of Adam."""
    target_kl: float = 0.01
    """Wanted change of the policy in an update; the step size follows it. 0 keeps the step size."""
    discount: float = 0.99
    trace: float = 0.95
    """Lambda of GAE."""
    clip: float = 0.2
    entropy: float = 0.005
    """Weight of the entropy bonus."""
    deviation: float = 0.7
    """First standard deviation of the actions."""
    gradient_norm: float = 1.0

    def for_rsl_rl(self) -> dict[str, Any]:
        """Configuration of rsl_rl's runner."""
        model = {"class_name": MLPModel, "hidden_dims": self.hidden, "activation": "elu", "obs_normalization": True}
        distribution = {"class_name": GaussianDistribution, "init_std": self.deviation, "std_type": "log"}
        return {
            "num_steps_per_env": self.rollout,
            "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
            "actor": model | {"distribution_cfg": distribution},
            "critic": model,
            "algorithm": {
                "class_name": Algorithm,
                "num_learning_epochs": self.epochs,
                "num_mini_batches": self.batches,
                "learning_rate": self.rate,
                "schedule": "adaptive" if self.target_kl > 0.0 else "fixed",
                "desired_kl": self.target_kl,
                "gamma": self.discount,
                "lam": self.trace,
                "clip_param": self.clip,
                "entropy_coef": self.entropy,
                "value_loss_coef": 0.5,
                "max_grad_norm": self.gradient_norm,
                "rnd_cfg": None,
            },
        }


class PPO:
    """The learner."""

    def __init__(self, runner: Runner, settings: PPOSettings | None = None, seed: int = 0):
        """Begin with a random policy.

        Args:
            runner: Runs the task.
            settings: See there.
            seed: Of weights and actions; the task has its own.
        """
        self.runner, self.settings = runner, settings or PPOSettings()
        self.env = RslRlVecEnv.of(runner)
        self.device = torch.device(self.env.device)
        self._gpus = [self.device] if self.device.type == "cuda" else []
        self._begun = False
        with torch.random.fork_rng(self._gpus), redirect_stdout(io.StringIO()):  # it prints its networks
            torch.manual_seed(seed)
            self._trainer = OnPolicyRunner(self.env, self.settings.for_rsl_rl(), device=str(self.device))
            self._random = self._random_state()
        self._log = self._trainer.logger = _Log()

    def policy(self, observation: Any) -> Any:
        """The most likely actions for observations of the runner's library."""
        with torch.inference_mode():
            actions = self._trainer.alg.get_policy()(self.env.groups(observation))
        return actions if self.runner.arrays.is_torch else actions.numpy()

    def begin(self) -> None:
        """Start episodes in all worlds, at different points of them."""
        self.env.reset()
        self.runner.spread()
        self._begun = True

    def update(self, episodes: Episodes) -> dict[str, float]:
        """Collect a rollout and learn from it; returns what a log shows."""
        if not self._begun:
            self.begin()
        self._log.episodes = episodes
        with self._own_random_numbers():
            self._trainer.learn(1)
        return self._log.row

    def state(self) -> dict[str, Any]:
        """What has been learned, and what decides how it goes on."""
        saved = self._trainer.alg.save()
        tensors = {f"{part}/{name}": value for part in NETWORKS for name, value in saved[f"{part}_state_dict"].items()}
        for place, values in saved["optimizer_state_dict"]["state"].items():
            tensors |= {f"optimizer/{place}/{name}": value for name, value in values.items()}
        tensors |= {f"random/{place}": value for place, value in enumerate(self._random)}
        arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
        return {**arrays, "rate": np.float64(self._trainer.alg.learning_rate)}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there.

        Raises:
            ValueError: It belongs to another network or to another PPO.
        """
        parts: dict[str, dict[str, Any]] = {name: {} for name in (*NETWORKS, "optimizer", "random")}
        for name, value in state.items():
            part, _, rest = name.partition("/")
            if part in parts:
                parts[part][rest] = torch.from_numpy(np.array(value))
        if not parts["actor"]:
            raise ValueError("This policy was learned by another PPO than the one of rsl_rl; train it again.")
        moments: dict[int, dict[str, Any]] = {}
        for name, value in parts["optimizer"].items():
            place, _, kind = name.partition("/")
            moments.setdefault(int(place), {})[kind] = value
        alg = self._trainer.alg
        groups = alg.optimizer.state_dict()["param_groups"]
        groups[0]["lr"] = float(state["rate"])
        saved: dict[str, Any] = {f"{part}_state_dict": parts[part] for part in NETWORKS}
        saved["optimizer_state_dict"] = {"state": moments, "param_groups": groups}
        try:
            alg.load(saved, None, True)
        except RuntimeError as error:
            raise ValueError(f"The checkpoint has another network: {error}") from error
        self._random = list(parts["random"].values())

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        """Lend torch's generators, which rsl_rl draws from, to this training; others' draws do not change it then."""
        with torch.random.fork_rng(self._gpus):
            torch.set_rng_state(self._random[0])
            for gpu, state in zip(self._gpus, self._random[1:], strict=False):
                torch.cuda.set_rng_state(state, gpu)
            yield
            self._random = self._random_state()

    def _random_state(self) -> list[Any]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(gpu) for gpu in self._gpus)]


class _Log(Logger):
    """Takes the place of rsl_rl's logger, which writes files of its own and prints: keeps episodes and one row."""

    def __init__(self) -> None:
        self.writer = None
        self.episodes = Episodes()
        self.row: dict[str, float] = {}

    def init_logging_writer(self) -> None:
        """Nothing is written."""

    def process_env_step(self, rewards: Any, dones: Any, extras: dict[str, Any], intrinsic_rewards: Any = None) -> None:
        """Collect the episodes that ended."""
        if "ended" in extras:
            self.episodes.add(extras["ended"])

    def log(self, *, loss_dict: dict[str, float], learning_rate: float, action_std: Any, **others: Any) -> None:
        """Keep what a table shows of the update."""
        losses = {f"{name}_loss" if name != "entropy" else name: value for name, value in loss_dict.items()}
        self.row = {**losses, "rate": learning_rate, "deviation": float(action_std.detach().mean())}
