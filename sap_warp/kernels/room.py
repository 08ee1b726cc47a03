"""Whether contact buffers fit into memory, before any of them is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

WORLD_PLACE = 254
"""Bytes of the solver for each contact that a world can hold."""
BUFFER_PLACE = 96
"""Bytes of each contact that a buffer of the collision pipeline can hold, ..."""
CHOICE_PLACE = 108
"""... that the larger buffer can hold from which a full one is filled, ..."""
SORTED_PLACE = 376
"""... and that a buffer can hold whose contacts are sorted."""

USABLE = 0.9
"""Part of the available memory that contacts may take; the rest of a simulation needs some too."""


def available_memory(device: Any) -> int | None:
    """Memory that can be allocated on a Warp device [bytes]; None if nobody knows."""
    if not device.is_cpu:
        return int(device.free_memory)
    known = [value for value in (_system_memory(), _container_memory()) if value is not None]
    return min(known, default=None)


def check_room(option: str, value: int, unit: int, device: Any) -> None:
    """Refuse a number of contacts whose buffers would not fit on ``device``.

    Args:
        option: Its name, for the message.
        value: The number.
        unit: Bytes that one more takes.
        device: Where the buffers will be.

    Raises:
        ValueError: They do not fit; says how many would.
    """
    problem = room_problem(value, unit, device)
    if problem:
        raise ValueError(f"{option} is {value}; {problem}.")


def room_problem(value: int, unit: int, device: Any) -> str:
    """Why ``value`` contacts of ``unit`` bytes do not fit on ``device``, and how many would; empty if they do."""
    available = available_memory(device)
    if available is None or value * unit <= USABLE * available:
        return ""
    fits = int(USABLE * available) // unit
    return (
        f"buffers for that many contacts take {_gigabytes(value * unit)}, and {_gigabytes(available)} of memory are "
        f"available on {device}: {f'at most {fits} fit' if fits else 'not even 1 fits'}"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def _system_memory() -> int | None:
    """What Linux calls available; elsewhere all memory there is."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _container_memory() -> int | None:
    """What is left of the limit of a Linux container."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = ((folder / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
        return int(limit) - int(used) if limit.isdigit() else None
    except OSError:
        return None
