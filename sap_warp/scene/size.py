"""Estimates of the memory and time that a scene takes, before it is built, and notes if they are large.

The rates were measured on the shipped scenes, on one core of 2 to 3 GHz; they are right within a factor of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import newton

from ..core.long_work import long_work
from ..core.runtime.memory_budget import host_memory
from .text.errors import Complaint

MAX_WORLDS = 2**20
"""Most worlds of a scene."""
MAX_ENTRIES = 2**28
"""Most bodies, shapes and dofs of all worlds together."""
LARGE = 2 * 10**9
"""Bytes of memory above which a simulation gives a note."""

_SECONDS_PER_BODY = 4e-3
"""Time to add a body of the scene with its shape and joint."""
_SECONDS_PER_COPY, _BYTES_PER_COPY = 6e-5, 3000
"""Time to copy one body or shape of a world and finish the model; peak memory for it."""
_BYTES_PER_CONTACT, _BYTES_PER_DOF, _BYTES_PER_HESSIAN_ENTRY = 800, 150, 4
"""Memory of a simulation; fp64 takes up to twice as much."""


@dataclass(frozen=True)
class Cost:
    """An estimate of memory and time."""

    bytes: float
    seconds: float

    def __str__(self) -> str:
        minutes = self.seconds / 60.0
        time = f"{minutes:.0f} minutes" if minutes >= 1.5 else f"{self.seconds:.0f} s"
        return f"about {show_bytes(self.bytes)} and {time}"


def show_bytes(count: float) -> str:
    """Format a number of bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def cost_of_copies(world: newton.ModelBuilder, num_worlds: int) -> Cost:
    """Estimate the cost of copying ``world`` and finishing the model."""
    entries = num_worlds * (world.body_count + world.shape_count)
    return Cost(_BYTES_PER_COPY * entries, _SECONDS_PER_COPY * entries)


def check_size(world: newton.ModelBuilder, num_worlds: int) -> None:
    """Refuse sizes that can only be a mistake or cannot fit, before memory runs out."""
    if num_worlds > MAX_WORLDS:
        raise Complaint(f"found {num_worlds} worlds; at most {MAX_WORLDS} are possible")
    entries = num_worlds * (world.body_count + world.shape_count + world.joint_dof_count)
    if entries > MAX_ENTRIES:
        raise Complaint(
            f"{num_worlds} worlds would have {entries} bodies, shapes and dofs; at most {MAX_ENTRIES} are possible"
        )
    needed, available = cost_of_copies(world, num_worlds).bytes, host_memory()
    if needed > available:
        raise Complaint(
            f"building {num_worlds} worlds takes about {show_bytes(needed)}, and {show_bytes(available)} are "
            f"available; at most {int(num_worlds * available / needed)} worlds fit"
        )


def describe_simulation(dofs: int, contacts: int, num_worlds: int) -> str:
    """Say how much memory worlds with so many dofs and contacts take; empty if it is not much."""
    hessian = _BYTES_PER_HESSIAN_ENTRY * dofs * (dofs + 1) / 2
    total = num_worlds * (hessian + _BYTES_PER_CONTACT * contacts + _BYTES_PER_DOF * dofs)
    if total < LARGE:
        return ""
    matrix, advice = "", "fewer worlds or a smaller max_rigid_contact take less"
    if num_worlds * hessian > total / 4.0:
        matrix = f", {show_bytes(num_worlds * hessian)} of it for matrices of {dofs} dofs"
        advice = "worlds with fewer moving bodies take less"
    available = show_bytes(host_memory())
    return f"a simulation takes about {show_bytes(total)}{matrix}, and {available} are available; {advice}"


@contextmanager
def adding_bodies(count: int) -> Iterator[None]:
    """Say so if it takes long to add the bodies of a scene."""
    seconds = _SECONDS_PER_BODY * count
    with long_work(f"adding {count:,} bodies, about {seconds:.0f} s", seconds):
        yield


@contextmanager
def copying_worlds(world: newton.ModelBuilder, num_worlds: int) -> Iterator[None]:
    """Say so if it takes long to build the worlds."""
    cost = cost_of_copies(world, num_worlds)
    with long_work(f"building {num_worlds:,} worlds: {cost}", cost.seconds):
        yield
