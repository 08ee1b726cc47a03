"""Learn to hold a pole up by random search, with NumPy alone.

    python examples/train.py

A task is one class. This one changes the shipped swing-up: the pole begins near upright, and an episode ends if it
falls. `sap-warp train examples/train.py:Balance --algorithm ars` does the same with checkpoints, curves and a film.
"""

from typing import Any, ClassVar

import numpy as np

import sap_warp
from sap_warp.envs import Runner, termination
from sap_warp.envs.tasks.cartpole import CartPoleSwingUp
from sap_warp.envs.training.ars import ARS
from sap_warp.envs.training.progress import Episodes

sap_warp.quiet()


class Balance(CartPoleSwingUp):
    """Hold a pole up for five seconds."""

    time_limit = 5.0
    training: ClassVar = {"ars": {"num_worlds": 64, "iterations": 20}}

    @termination
    def fallen(self) -> Any:
        """More than 0.6 rad from upright."""
        return self.cosine < np.cos(0.6)

    def start(self, worlds: Any, draw: Any) -> tuple[Any, Any]:
        """Within 0.05 of upright and rest."""
        values = draw.uniform(-0.05, 0.05, 4)
        return values[:, :2], values[:, 2:]


def main(iterations: int = 20, num_worlds: int = 64) -> list[float]:
    """Learn for so many updates; returns the mean return of each."""
    learner, episodes, returns = ARS(Runner(Balance(num_worlds), seed=0), seed=0), Episodes(), []
    for iteration in range(iterations):
        returns.append(learner.update(episodes)["mean_return"])
        print(f"update {iteration + 1}: mean return {returns[-1]:.2f}")
    return returns


if __name__ == "__main__":
    main()
