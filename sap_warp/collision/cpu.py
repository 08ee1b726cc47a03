"""Launches that suit the CPU, where a thread of a grid costs tens of nanoseconds and does no work beside others."""

from __future__ import annotations

import newton
import warp as wp
from newton.geometry import BroadPhaseSAP


@wp.kernel(enable_backward=False)
def sort_segments(key: wp.array[float], value: wp.array[int], segment_size: int) -> None:
    """Sort every segment of ``key`` in place, ascending, and permute ``value`` alike (shell sort, Ciura-like gaps)."""
    base = wp.tid() * segment_size
    gap = int(1)
    while gap * 9 < segment_size * 4:
        gap = (gap * 9) // 4 + 1
    while gap >= 1:
        for i in range(gap, segment_size):
            k = key[base + i]
            v = value[base + i]
            j = int(i)
            while j >= gap and key[base + j - gap] > k:
                key[base + j] = key[base + j - gap]
                value[base + j] = value[base + j - gap]
                j -= gap
            key[base + j] = k
            value[base + j] = v
        if gap == 1:
            gap = 0
        else:
            gap = wp.max((gap * 4) // 9, 1)


def unpad_launches(pipeline: newton.CollisionPipeline) -> None:
    """Let one thread do the work of grids that Newton sizes for occupancy, 64 to 1280 threads on the CPU.

    All these kernels stride over their work by the number of threads, so the contacts are the same.
    """
    narrow_phase = pipeline.narrow_phase
    narrow_phase.total_num_threads = 1
    narrow_phase.num_tile_blocks = 1
    narrow_phase.num_mesh_mesh_blocks = narrow_phase.mesh_mesh_target_blocks = 1
    narrow_phase.num_mesh_plane_blocks = narrow_phase.mesh_plane_target_blocks = 1
    if isinstance(pipeline.broad_phase, BroadPhaseSAP):
        _unpad_sweep_and_prune(pipeline.broad_phase)


def _unpad_sweep_and_prune(broad_phase: BroadPhaseSAP) -> None:
    """Sort small worlds in place: Warp's segmented sort on the CPU clears a 64 K histogram for each world."""
    elements = broad_phase.world_count * broad_phase.max_shapes_per_world
    broad_phase.sweep_thread_count_multiplier = 1.5 / max(elements, 1)  # Newton launches int(multiplier * elements)
    broad_phase.sort_type = "tile"
    broad_phase.tile_sort_kernel = sort_segments
    broad_phase.tile_block_dim = 32  # the CPU clamps it to one lane
