"""Small kernels of `Simulation`: counting steps, and setting some of the worlds."""

from typing import Any

import warp as wp

from ..solver.status import FREE_MOTION_FAILED, UNSTABLE

ITERATION_BINS = 256
TRIAL_BINS = 2048


@wp.kernel(module="unique", enable_backward=False)
def record_step(
    first_world: int,
    iterations_in: wp.array[wp.int32],
    trials_in: wp.array[wp.int32],
    contact_count_in: wp.array[wp.int32],
    truncated_in: wp.array[wp.int32],
    status_in: wp.array[wp.int32],
    found_in: wp.array[wp.int32],
    found_max: int,
    iterations_out: wp.array[wp.int64],
    trials_out: wp.array[wp.int64],
    totals_out: wp.array[wp.int64],
    maxima_out: wp.array[wp.int32],
) -> None:
    """Add one step of one world to the counters."""
    world = first_world + wp.tid()
    wp.atomic_add(iterations_out, wp.min(iterations_in[world], wp.static(ITERATION_BINS - 1)), wp.int64(1))
    wp.atomic_add(trials_out, wp.min(trials_in[world], wp.static(TRIAL_BINS - 1)), wp.int64(1))
    truncated = truncated_in[world]
    if world == 0:
        truncated += wp.max(found_in[0] - found_max, 0)
    wp.atomic_add(totals_out, 0, wp.int64(1))
    wp.atomic_add(totals_out, 1, wp.int64(contact_count_in[world]))
    wp.atomic_add(totals_out, 2, wp.int64(truncated))
    if status_in[world] != 0:
        wp.atomic_add(totals_out, 3, wp.int64(1))
    if status_in[world] >= FREE_MOTION_FAILED:
        wp.atomic_add(totals_out, 4, wp.int64(1))
    if status_in[world] == UNSTABLE:
        wp.atomic_add(totals_out, 5, wp.int64(1))
    wp.atomic_max(maxima_out, 0, iterations_in[world])
    wp.atomic_max(maxima_out, 1, trials_in[world])


@wp.kernel(module="unique", enable_backward=False)
def assign_worlds(
    mask_in: wp.array[wp.bool], start_in: wp.array[wp.int32], values_in: wp.array[Any], values_out: wp.array[Any]
) -> None:
    """Copy the entries of the chosen worlds."""
    world = wp.tid()
    if mask_in[world]:
        for i in range(start_in[world], start_in[world + 1]):
            values_out[i] = values_in[i]


@wp.func_native("memcpy((char*)target + size * run[1], (const char*)source + size * run[0], size_t(size) * run[2]);")
def copy_run(source: wp.uint64, target: wp.uint64, size: wp.int64, run: wp.vec3i) -> None:
    """Copy rows of ``size`` bytes."""


@wp.kernel(module="unique", enable_backward=False)
def copy_rows(
    runs_in: wp.array[wp.vec3i],
    sources_in: wp.array[wp.uint64],
    targets_in: wp.array[wp.uint64],
    sizes_in: wp.array[wp.int32],
) -> None:
    """Copy runs of rows (from, to, how many) of one array after the other, given by addresses and bytes per row."""
    i = wp.tid()
    for k in range(runs_in.shape[0]):
        copy_run(sources_in[i], targets_in[i], wp.int64(sizes_in[i]), runs_in[k])
