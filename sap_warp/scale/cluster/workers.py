"""Setup of a worker before its first kernel: checks for the driver's code, and takes over compiled kernels."""

from __future__ import annotations

import hashlib
import os
import socket
import warnings
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = Path(__file__).resolve().parents[2]
_unpacked: set[int] = set()
"""Archives of kernels that this process has put into the cache."""


class ClusterError(RuntimeError):
    """A failure of the cluster, not of the work: a worker was lost, hangs, or has other code."""


@dataclass(frozen=True)
class WorkerSetup:
    """Information for workers; `worker_setup` makes it in the driver."""

    machine: str
    """The driver's machine, see `machine_id`."""
    cache: str
    """Path of Warp's kernel cache there."""
    code: str
    """Identifier of the package there, see `code_id`."""
    log_level: int
    """Log level of Warp."""


def machine_id() -> str:
    """Return a text that is equal for processes that share memory and disks: machine, boot and name."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}".strip()


@cache
def code_id() -> str:
    """Return versions of the package, Warp and Newton, and a digest of the package's files."""
    digest = hashlib.sha256()
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.h")]):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    versions = []
    for name in ("sap-warp", "warp-lang", "newton"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} of unknown version")
    return f"{', '.join(versions)}, files {digest.hexdigest()[:12]}"


def worker_setup() -> WorkerSetup:
    """Return the argument of `prepare_worker`; called in the driver."""
    import warp as wp

    from .kernels import kernel_cache

    return WorkerSetup(machine_id(), str(kernel_cache()), code_id(), int(wp.config.log_level))


def worker_environment() -> dict[str, Any]:
    """Return Ray's ``runtime_env`` with which workers find the package where the driver found it."""
    paths = [str(PACKAGE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"env_vars": {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in paths if path))}}


def prepare_worker(setup: WorkerSetup, kernels: np.ndarray | None = None) -> None:
    """Make a worker ready; called in it before anything is simulated. A second call costs nothing.

    On the driver's machine the kernel cache is the driver's, on another one that machine's own. ``kernels``, what
    `pack_kernels` made, are put into it unless they are there.

    Raises:
        ClusterError: The worker has another version of the package.
    """
    import warp as wp

    from .kernels import kernel_cache, unpack_kernels

    if setup.code != code_id():
        raise ClusterError(
            f"The worker on {socket.gethostname()} has other code than the driver: {code_id()} in {PACKAGE} instead of "
            f"{setup.code}. Install the same packages on all nodes."
        )
    wp.config.log_level = setup.log_level
    if is_near(setup):
        os.environ.setdefault("WARP_CACHE_PATH", str(Path(setup.cache).parent))  # Warp adds its version
        wp.init()
        wp.config.kernel_cache_dir = setup.cache
    if kernels is None or (mark := zlib.crc32(kernels.tobytes())) in _unpacked:
        return
    try:
        unpack_kernels(kernels)
        _unpacked.add(mark)
    except OSError as error:
        warnings.warn(
            f"Compiled kernels cannot be kept in {kernel_cache()} on {socket.gethostname()} ({error}); this worker "
            "compiles them. Set WARP_CACHE_PATH there to a folder that can be written.",
            stacklevel=2,
        )


def is_near(setup: WorkerSetup) -> bool:
    """Return True if the driver's kernel cache can be used from here."""
    return machine_id() == setup.machine and Path(setup.cache).is_dir()
