"""`RayVectorEnv`: an environment whose worlds are in the workers of a Ray cluster."""

from __future__ import annotations

from typing import Any

from ...scale.cluster import Place
from .gym import TaskVectorEnv
from .remote import RemoteRunner


class RayVectorEnv(TaskVectorEnv):
    """A `TaskVectorEnv` whose worlds are spread over the workers of a Ray cluster.

    Spaces, seeds, modes and infos are the same, and so is every bit of what comes back, for any number of workers.
    A worker that is lost is replaced, and goes on exactly where it was. One that does not answer within ``timeout`` is
    stopped, and `sap_warp.scale.cluster.ClusterError` says so; ``reset()`` of all worlds goes on from there.

    Example:
        ::

            env = RayVectorEnv("Ant", 512, workers=4)                       # on this machine
            env = RayVectorEnv("Ant", 65536, workers=256, address="auto")   # on a cluster
    """

    def __init__(
        self,
        task: Any,
        num_envs: int = 1,
        workers: int | None = None,
        address: str | None = None,
        *,
        gpus_per_worker: float = 0.0,
        timeout: float = 60.0,
        start_timeout: float = 600.0,
        checkpoint_every: int = 100,
        **options: Any,
    ):
        """Connect to Ray and start the workers.

        Args:
            task: Its class, its name, or where it is; workers have to be able to import it.
            num_envs: Number of worlds of all workers.
            workers: How many processes; None is as many as there are processors, or GPUs.
            address: See `sap_warp.scale.cluster.connect`.
            gpus_per_worker: GPUs of each worker, mostly 1; its worlds are on the first then.
            timeout: How long a step or reset may take [s].
            start_timeout: How long the start of a worker may take, compiling included [s].
            checkpoint_every: Steps after which the driver fetches what is needed to replace a worker, and which have to
                be done again at most.
            **options: Of `TaskVectorEnv` and of the task; ``threads`` are those of each worker.

        Raises:
            ImportError: Ray is missing or too old.
            ValueError: There are more workers than worlds, or than the cluster has room for.
        """
        if workers is not None and not 1 <= workers <= num_envs:
            raise ValueError(f"workers is {workers!r}; it must be from 1 to the number of worlds, {num_envs}.")
        if checkpoint_every < 1:
            raise ValueError(f"checkpoint_every is {checkpoint_every!r}; it must be a number of steps from 1.")
        if options.get("render_mode") is not None:
            raise ValueError("render_mode is for environments in this process: the worlds are in the workers.")
        self._cluster = {
            "workers": workers,
            "address": address,
            "gpus_per_worker": gpus_per_worker,
            "timeout": timeout,
            "start_timeout": start_timeout,
            "checkpoint_every": checkpoint_every,
        }
        super().__init__(task, num_envs, **options)

    @property
    def places(self) -> list[Place]:
        """Return where the workers run."""
        return self.runner.pool.places

    def _make(self, task: Any, num_envs: int, autoreset: bool, quiet: bool, options: dict[str, Any]) -> Any:
        return RemoteRunner(task, num_envs, autoreset=autoreset, quiet=quiet, options=options, cluster=self._cluster)
