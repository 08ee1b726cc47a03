"""Connection to Ray: checks that it is installed, and joins a running one or starts one."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Self

LEAST_VERSION = (2, 40)
INSTALL = "pip install 'sap-warp[scale]'"

_open: list[Connection] = []
"""Number of connections since this module called ``ray.init``; the last one that closes shuts Ray down."""


def require_ray() -> ModuleType:
    """Import Ray; an error says what to install.

    Raises:
        ImportError: It is missing or too old; the message says what to install.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(f"This needs Ray: {INSTALL}") from error
    found = tuple(int(part) for part in re.findall(r"\d+", ray.__version__)[:2])
    if found < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise ImportError(f"This needs Ray {least} or later, and {ray.__version__} is installed: {INSTALL}")
    return ray


@dataclass(eq=False)
class Connection:
    """A Ray that can be used; the last `close` stops it if `connect` started it, and leaves it if it was joined."""

    address: str
    """Host and port of its head."""
    started: bool
    """Whether `connect` started it."""
    _closed: bool = field(default=False, repr=False)

    def nodes(self) -> list[dict[str, Any]]:
        """Return the present nodes: ``NodeID``, ``NodeManagerHostname``, ``Resources``, ..."""
        return [node for node in require_ray().nodes() if node["Alive"]]

    def total(self, resource: str) -> float:
        """Return how much all nodes together have of ``"CPU"``, ``"GPU"`` or another resource."""
        return float(sum(node["Resources"].get(resource, 0.0) for node in self.nodes()))

    def require(self, workers: int, cpus: float = 1.0, gpus: float = 0.0) -> None:
        """Check that so many workers, each with so many processors and GPUs, can ever run at the same time.

        Raises:
            ValueError: They cannot; the message says what there is.
        """
        for resource, each in (("CPU", cpus), ("GPU", gpus)):
            total = self.total(resource)
            if workers * each > total:
                raise ValueError(
                    f"{workers} workers with {each:g} {resource} each need {workers * each:g} {resource}; the "
                    f"{len(self.nodes())} nodes of the Ray at {self.address} have {total:g}. Take fewer workers, or "
                    "add nodes (ray start --address=...)."
                )

    def close(self) -> None:
        """Close the connection; a Ray that was there before stays, and so does a connection of somebody else."""
        if self._closed:
            return
        self._closed = True
        if self in _open:
            _open.remove(self)
            ray = require_ray()
            if not _open and ray.is_initialized():
                ray.shutdown()

    def __str__(self) -> str:
        how = "started here" if self.started else "joined"
        return f"Ray at {self.address} ({how}): {len(self.nodes())} nodes, {self.total('CPU'):g} CPUs"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(address: str | None = None, *, cpus: int | None = None) -> Connection:
    """Use the Ray that this process is connected to, one that runs, or a new one on this machine.

    Args:
        address: None for a new one on this machine, unless this process is connected already; ``"auto"`` for the one
            that runs on this machine; ``"host:port"`` of the head of a cluster of which this machine is a node.
        cpus: Processors of a new one; None is as many as the machine has.

    Raises:
        ImportError: Ray is missing or too old.
        ConnectionError: Nothing answers at the address.
        ValueError: The address cannot be used from here.
    """
    ray = require_ray()
    if address is not None and "://" in address:
        raise ValueError(
            f"address is {address!r}; run this on a node of the cluster and give host:port of its head, or 'auto'."
        )
    if ray.is_initialized():
        present = _gcs_address(ray)
        if address not in (None, "auto", present):
            raise ValueError(f"This process is connected to the Ray at {present}, and cannot join {address} as well.")
        made = Connection(present, started=any(other.started for other in _open))
        if _open:
            _open.append(made)
    else:
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody asked for it to be sent
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **options)
        else:
            try:
                ray.init(address=address, **options)
            except ConnectionError as error:
                raise ConnectionError(
                    f"No Ray answers at {address!r}. Start one with `ray start --head`, join it from other machines "
                    f"with `ray start --address=HOST:6379`, or leave the address out to start one here. ({error})"
                ) from error
        made = Connection(_gcs_address(ray), started=address is None)
        _open.append(made)
    return made


def _gcs_address(ray: ModuleType) -> str:
    return str(ray.get_runtime_context().gcs_address)
