"""Launches that suit the CPU, where a thread of a grid costs tens of nanoseconds and does no work beside others."""

from __future__ import annotations

from typing import Any

import newton
import warp as wp
from newton.geometry import BroadPhaseSAP, NarrowPhase


@wp.kernel(enable_backward=False)
def sort_segments(key: wp.array[float], value: wp.array[int], segment_size: int) -> None:
    """Sort every segment of ``key`` in place, ascending, and permute ``value`` alike (shell sort, Ciura-like gaps)."""
    base = wp.tid() * segment_size
    gap = int(1)
    while gap * 9 < segment_size * 4:
        gap = (gap * 9) // 4 + 1
    while gap >= 1:
        i = int(gap)
        while i < segment_size:
            k = key[base + i]
            v = value[base + i]
            j = int(i)
            while j >= gap and key[base + j - gap] > k:
                key[base + j] = key[base + j - gap]
                value[base + j] = value[base + j - gap]
                j -= gap
            key[base + j] = k
            value[base + j] = v
            i += 1
        if gap == 1:
            gap = 0
        else:
            gap = wp.max((gap * 4) // 9, 1)


_ONE = (
    "total_num_threads",
    "num_tile_blocks",
    "num_mesh_mesh_blocks",
    "mesh_mesh_target_blocks",
    "num_mesh_plane_blocks",
    "mesh_plane_target_blocks",
)
"""Grid sizes of the narrow phase. All its kernels stride over their work by them."""


class UnpaddedLaunches:
    """Lets one thread do the work of grids that Newton sizes for occupancy, 64 to 1280 threads on the CPU.

    The contacts are the same. Used as a context it changes the stages for the time of a pass, and gives instances that
    others may use too back as they were. Subclasses of Newton's stages launch as they like and are left alone.
    """

    def __init__(self, pipeline: newton.CollisionPipeline):
        """Work out the sizes for the stages of ``pipeline``."""
        broad_phase, narrow_phase = pipeline.broad_phase, pipeline.narrow_phase
        self._changes: list[tuple[Any, dict[str, Any]]] = []
        if type(narrow_phase) is NarrowPhase:
            self._changes.append((narrow_phase, dict.fromkeys(_ONE, 1)))
        if type(broad_phase) is BroadPhaseSAP:
            self._changes.append((broad_phase, _sweep_and_prune_sizes(broad_phase)))
        self._before: list[tuple[Any, dict[str, Any]]] = []

    def apply(self) -> None:
        """Change the stages for good."""
        _set(self._changes)

    def __enter__(self) -> None:
        self._before = [(stage, {name: getattr(stage, name, None) for name in new}) for stage, new in self._changes]
        self.apply()

    def __exit__(self, *_: object) -> None:
        _set(self._before)


def _set(values: list[tuple[Any, dict[str, Any]]]) -> None:
    for stage, attributes in values:
        for name, value in attributes.items():
            setattr(stage, name, value)


def _sweep_and_prune_sizes(broad_phase: BroadPhaseSAP) -> dict[str, Any]:
    """Sort small worlds in place: Warp's segmented sort on the CPU clears a 64 K histogram for each world."""
    elements = broad_phase.world_count * broad_phase.max_shapes_per_world
    return {
        "sweep_thread_count_multiplier": 1.5 / max(elements, 1),  # Newton launches int(multiplier * elements)
        "sort_type": "tile",
        "tile_sort_kernel": sort_segments,
        "tile_block_dim": 32,  # the CPU clamps it to one lane
    }
