"""Ray clusters: finding and joining one, and workers with warm kernels.

Nothing here decides who does what; that is Ray's, and of those who use it.
"""

from .connection import Connection, connect, require_ray
from .kernels import pack_kernels, unpack_kernels
from .pool import Place, Pool, even_shares
from .workers import ClusterError, WorkerSetup, machine_id, prepare_worker, worker_environment, worker_setup

__all__ = [
    "ClusterError",
    "Connection",
    "Place",
    "Pool",
    "WorkerSetup",
    "connect",
    "even_shares",
    "machine_id",
    "pack_kernels",
    "prepare_worker",
    "require_ray",
    "unpack_kernels",
    "worker_environment",
    "worker_setup",
]
