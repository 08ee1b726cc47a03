"""Proximal policy optimization with torch, for tasks in many worlds.

Clipped surrogate with advantages from GAE(lambda); the step size follows the change of the policy (KL), so that one
setting serves many tasks. Observations are normalized by their running mean and deviation, which belong to the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.faq import see
from .. import Runner
from .progress import Episodes

try:
    import torch
except ImportError as error:
    raise ImportError("PPO needs torch: pip install 'sap-warp[rl]'" + see("missing-extra")) from error


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


class Normalizer(torch.nn.Module):
    """Running mean and deviation of observations."""

    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    def forward(self, values: Any) -> Any:
        """Normalize; far values are cut."""
        return ((values - self.mean) / torch.sqrt(self.variance + 1e-8)).clip(-10.0, 10.0)

    def learn(self, values: Any) -> None:
        """Take rows of ``values`` into account (the parallel form of Welford's sums)."""
        count, mean, variance = values.shape[0], values.mean(0), values.var(0, unbiased=False)
        total = self.count + count
        delta, share = mean - self.mean, float(count / total)
        self.mean += delta * share
        self.variance += (variance - self.variance) * share + delta**2 * share * (1.0 - share)
        self.count.copy_(total)


def _network(sizes: list[int], gain: float) -> Any:
    layers: list[Any] = []
    for i in range(len(sizes) - 1):
        layer = torch.nn.Linear(sizes[i], sizes[i + 1])
        last = i == len(sizes) - 2
        torch.nn.init.orthogonal_(layer.weight, gain if last else 2.0**0.5)
        torch.nn.init.zeros_(layer.bias)
        layers += [layer] if last else [layer, torch.nn.ELU()]
    return torch.nn.Sequential(*layers)


class Agent(torch.nn.Module):
    """Policy (a normal distribution) and value."""

    def __init__(self, observations: int, actions: int, settings: PPOSettings):
        super().__init__()
        self.normalizer = Normalizer(observations)
        self.policy = _network([observations, *settings.hidden, actions], 0.01)
        self.value = _network([observations, *settings.hidden, 1], 1.0)
        self.log_deviation = torch.nn.Parameter(torch.full((actions,), float(np.log(settings.deviation))))

    def act(self, observation: Any) -> Any:
        """The most likely actions."""
        return self.policy(self.normalizer(observation))


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
        self.device = runner.arrays.device or torch.device("cpu")
        torch.manual_seed(seed)
        self.agent = Agent(runner.observation_size, runner.task.action_size, self.settings).to(self.device)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=self.settings.rate)
        self._random = torch.Generator(self.device).manual_seed(seed)
        self._observation: Any = None
        self._raw: list[Any] = []

    def policy(self, observation: Any) -> Any:
        """The most likely actions for observations of the runner's library."""
        with torch.inference_mode():
            actions = self.agent.act(self._tensor(observation))
        return actions if self.runner.arrays.is_torch else actions.numpy()

    def begin(self) -> None:
        """Start episodes in all worlds, at different points of them."""
        self._observation = self._tensor(self.runner.reset())
        self.runner.spread()

    def update(self, episodes: Episodes) -> dict[str, float]:
        """Collect a rollout and learn from it; returns what a log shows."""
        if self._observation is None:
            self.begin()
        with torch.inference_mode():
            data = self._collect(episodes)
        data = {name: value.clone() for name, value in data.items()}  # which gradients may be taken of
        return self._learn(data)

    # State.

    def state(self) -> dict[str, Any]:
        """What has been learned, and what decides how it goes on."""
        arrays = {f"agent/{name}": value.detach().cpu().numpy() for name, value in self.agent.state_dict().items()}
        for place, values in self.optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer/{place}/{name}": value.cpu().numpy() for name, value in values.items()}
        rate = np.float64(self.optimizer.param_groups[0]["lr"])
        return {**arrays, "rate": rate, "random": self._random.get_state().numpy()}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there.

        Raises:
            ValueError: It belongs to another network.
        """
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
        agent = {name.removeprefix("agent/"): value for name, value in tensors.items() if name.startswith("agent/")}
        try:
            self.agent.load_state_dict(agent)
        except RuntimeError as error:
            raise ValueError(f"The checkpoint has another network: {error}") from error
        moments: dict[int, dict[str, Any]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                _, place, kind = name.split("/")
                moments.setdefault(int(place), {})[kind] = value
        groups = self.optimizer.state_dict()["param_groups"]
        groups[0]["lr"] = float(state["rate"])
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self._random.set_state(tensors["random"])

    # Details.

    def _tensor(self, values: Any) -> Any:
        return torch.as_tensor(values, device=self.device)

    def _collect(self, episodes: Episodes) -> dict[str, Any]:
        """Take steps in all worlds: what was seen, done and earned, shape (steps, worlds, ...)."""
        agent, settings, runner = self.agent, self.settings, self.runner
        names = ("seen", "action", "likelihood", "mean", "value", "reward", "done")
        rows: dict[str, list[Any]] = {name: [] for name in names}
        deviation = agent.log_deviation.exp()
        for _ in range(settings.rollout):
            seen = agent.normalizer(self._observation)
            mean, value = agent.policy(seen), agent.value(seen)[:, 0]
            noise = torch.randn(mean.shape, generator=self._random, device=self.device)
            action = mean + deviation * noise
            likelihood = -(0.5 * noise**2 + agent.log_deviation).sum(1)
            step = runner.step(action if runner.arrays.is_torch else action.numpy())
            reward = self._tensor(step.reward)
            if step.ended is not None:
                episodes.add(step.ended)
                reward = reward.clone()
                worlds = self._tensor(step.ended.worlds)
                cut = self._tensor(step.truncated)[worlds]  # these could have gone on: what they would have earned
                final = agent.value(agent.normalizer(self._tensor(step.ended.observation)))[:, 0]
                reward[worlds] += settings.discount * final * cut
            done = self._tensor(step.terminated) | self._tensor(step.truncated)
            for name, item in zip(names, (seen, action, likelihood, mean, value, reward, done), strict=True):
                rows[name].append(item)
            self._raw.append(self._observation)
            self._observation = self._tensor(step.observation)
        data = {name: torch.stack(values) for name, values in rows.items()}
        last = agent.value(agent.normalizer(self._observation))[:, 0]
        data["advantage"] = self._advantages(data, last)
        data["target"] = data["advantage"] + data["value"]
        agent.normalizer.learn(torch.cat(self._raw))
        self._raw.clear()
        return data

    def _advantages(self, data: dict[str, Any], value: Any) -> Any:
        """GAE, from the last step to the first."""
        settings, result = self.settings, torch.empty_like(data["reward"])
        total = torch.zeros_like(value)
        for step in reversed(range(len(result))):
            alive = (~data["done"][step]).float()
            delta = data["reward"][step] + settings.discount * alive * value - data["value"][step]
            total = delta + settings.discount * settings.trace * alive * total
            result[step], value = total, data["value"][step]
        return result

    def _learn(self, data: dict[str, Any]) -> dict[str, float]:
        settings, agent = self.settings, self.agent
        flat = {name: data[name].flatten(0, 1) for name in data if name not in ("reward", "done")}
        flat["advantage"] = (flat["advantage"] - flat["advantage"].mean()) / (flat["advantage"].std() + 1e-8)
        before = agent.log_deviation.detach().clone()
        count = len(flat["value"])
        parts = settings.batches
        losses, changes = [], []
        for _ in range(settings.epochs):
            order = torch.randperm(count, generator=self._random, device=self.device)
            for places in order.chunk(parts):
                batch = {name: values[places] for name, values in flat.items()}
                loss, change = self._loss(batch, before)
                self._follow(change)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(agent.parameters(), settings.gradient_norm)
                self.optimizer.step()
                losses.append(float(loss.detach()))
                changes.append(change)
        return {
            "loss": float(np.mean(losses)),
            "kl": float(np.mean(changes)),
            "rate": self.optimizer.param_groups[0]["lr"],
            "deviation": float(agent.log_deviation.detach().exp().mean()),
        }

    def _loss(self, batch: dict[str, Any], before: Any) -> tuple[Any, float]:
        """Loss, and how far the policy is from the one that acted (KL divergence)."""
        settings, agent = self.settings, self.agent
        mean, value = agent.policy(batch["seen"]), agent.value(batch["seen"])[:, 0]
        log_deviation = agent.log_deviation
        distance = (batch["action"] - mean) * torch.exp(-log_deviation)
        likelihood = -(0.5 * distance**2 + log_deviation).sum(1)
        ratio = torch.exp(likelihood - batch["likelihood"])
        advantage = batch["advantage"]
        surrogate = torch.minimum(ratio * advantage, ratio.clip(1.0 - settings.clip, 1.0 + settings.clip) * advantage)
        moved = value - batch["value"]
        error = (value - batch["target"]) ** 2
        cut = (batch["value"] + moved.clip(-settings.clip, settings.clip) - batch["target"]) ** 2
        loss = 0.5 * torch.maximum(error, cut).mean() - surrogate.mean() - settings.entropy * log_deviation.sum()
        with torch.no_grad():
            spread = torch.exp(2.0 * (before - log_deviation))
            shift = (batch["mean"] - mean) ** 2 * torch.exp(-2.0 * log_deviation)
            change = (log_deviation - before + 0.5 * (spread + shift - 1.0)).sum(1).mean()
        return loss, float(change)

    def _follow(self, change: float) -> None:
        """Let the step size follow the change of the policy."""
        target = self.settings.target_kl
        if target <= 0.0:
            return
        for group in self.optimizer.param_groups:
            if change > 2.0 * target:
                group["lr"] = max(1e-5, group["lr"] / 1.5)
            elif 0.0 < change < 0.5 * target:
                group["lr"] = min(1e-2, group["lr"] * 1.5)
