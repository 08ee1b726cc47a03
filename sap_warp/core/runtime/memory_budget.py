"""Check that contact buffers fit into memory, before any of them is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

WORLD_BYTES = 254
"""Memory of the solver for each contact that a world can hold."""
BUFFER_BYTES = 84
"""Memory for each contact that a buffer of the collision pipeline can hold."""
CHOICE_BYTES = 136
"""Memory for each contact of the larger buffer from which the deepest contacts of a full one are chosen."""
SORTED_BYTES = 364
"""Memory for each contact of a buffer whose contacts are sorted."""
BELT_BYTES = 12
"""Further memory for each contact of a buffer if surfaces move along themselves."""

USABLE = 0.9
"""Part of the available memory that contacts may take; the rest of a simulation needs some too."""


def host_memory() -> float:
    """Return the available memory of the host [bytes]; infinite where the system does not tell."""
    free = float("inf")
    try:
        free = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = min(float(line.split()[1]) * 1024.0 for line in lines if line.startswith("MemAvailable:"))
        group = Path("/sys/fs/cgroup")  # of a container, which may allow less
        limit = float((group / "memory.max").read_text(encoding="ascii"))
        free = min(free, limit - float((group / "memory.current").read_text(encoding="ascii")))
    except (AttributeError, OSError, ValueError):
        pass
    return free


def available_memory(device: Any) -> float:
    """Return the memory that can be allocated on a Warp device [bytes]."""
    return host_memory() if device.is_cpu else float(device.free_memory)


def check_memory_budget(option: str, value: int, unit: int, device: Any) -> None:
    """Refuse a number of contacts whose buffers would not fit on ``device``.

    Args:
        option: Its name, for the message.
        value: The number.
        unit: Bytes that one more takes.
        device: Where the buffers will be.

    Raises:
        ValueError: They do not fit; says how many would.
    """
    problem = memory_problem(value, unit, device)
    if problem:
        raise ValueError(f"{option} is {value}; {problem}.")


def memory_problem(value: int, unit: int, device: Any) -> str:
    """Say why ``value`` contacts of ``unit`` bytes do not fit on ``device``, and how many would; empty if they fit."""
    available = available_memory(device)
    if value * unit <= USABLE * available:
        return ""
    fits = int(USABLE * available) // unit
    return (
        f"buffers for that many contacts take {_gigabytes(value * unit)}, and {_gigabytes(available)} of memory are "
        f"available on {device}: {f'at most {fits} fit' if fits else 'not even 1 fits'}"
    )


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
