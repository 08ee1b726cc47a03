"""Which worlds the stages of a step take at a time.

On the CPU a few worlds go through all stages before the next few begin: what one stage wrote is then still in the cache
of the core when the next one reads it, however many worlds there are. A GPU takes all worlds at once.
"""

from dataclasses import dataclass
from typing import Any

from .layout import LayoutSizes

CACHE_BYTES = 1 << 19
"""Share of a core's cache that the data of the worlds of a part may take."""
ENTRY_BYTES, DOF_BYTES, BODY_BYTES = 20, 500, 1000
"""About what a step reads and writes for each entry of A, each dof and each body, contacts included."""


@dataclass(frozen=True)
class Part:
    """The worlds ``first`` to ``first + count - 1``, each by ``lanes`` threads of one block."""

    first: int
    count: int
    lanes: int

    @property
    def threads(self) -> int:
        """Size of a launch."""
        return self.count * self.lanes


def split_worlds(sizes: LayoutSizes, lanes: int, device: Any) -> tuple[Part, ...]:
    """Parts that together are all worlds."""
    worlds = sizes.world_count
    total = ENTRY_BYTES * sizes.entry_count + DOF_BYTES * sizes.dof_count + BODY_BYTES * sizes.body_count
    size = max(1, CACHE_BYTES * worlds // max(total, 1)) if device.is_cpu else worlds
    return tuple(Part(first, min(size, worlds - first), lanes) for first in range(0, worlds, size))
