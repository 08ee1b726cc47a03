"""Scratch of a stage: memory that worlds share, one after the other, where that is less than one part for each."""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import warp as wp

from .lanes import block_size, for_warps
from .template import Template, instance, sizes


@wp.struct
class WorldStarts:
    """Where a world's own entries begin, minus where its block's share begins; all zero where worlds share nothing."""

    body: int
    dof: int
    row: int  # contact row
    hessian: int  # entry of the Hessian


@wp.struct
class ScratchShare:
    """What one block has of the scratch that worlds share, one after the other; see `Scratch`."""

    shared: int  # 0 if every world has its own
    body: int
    dof: int
    row: int
    hessian: int


_SLOT = for_warps(
    "return WIDTH == 32 ? blockIdx.x : (blockIdx.x * blockDim.x + threadIdx.x) / WIDTH;", "return blockIdx.x;"
)


@wp.func_native(f"#ifdef __CUDA_ARCH__\n{_SLOT}#else\n    return 0;\n#endif\n")
def slot_number() -> int:
    """Which of the worlds at work this one is; the CPU works on one world after the other."""
    ...


@wp.func
def world_starts(share: ScratchShare, body: int, dof: int, row: int, hessian: int) -> WorldStarts:
    """The shift of a `rebase_scratch_of` for a world whose own entries begin at these numbers."""
    starts = WorldStarts()
    if share.shared != 0:
        k = slot_number()
        starts.body = body - k * share.body
        starts.dof = dof - k * share.dof
        starts.row = row - k * share.row
        starts.hessian = hessian - k * share.hessian
    return starts


WARPS_PER_MULTIPROCESSOR = 16
"""Warps of a kernel with scratch on CUDA. About half of them run at a time; the others even out unlike worlds."""


def most_blocks(device: Any, lanes: int) -> int:
    """Blocks of a kernel with scratch on a device that may have many worlds; one on the CPU."""
    if device.is_cpu:
        return 1
    warps = 1 if lanes >= 32 else -(-block_size(lanes, device) // 32)  # larger blocks: as if they had one
    return device.sm_count * -(-WARPS_PER_MULTIPROCESSOR // warps)


def worlds_at_work(device: Any, lanes: int) -> int:
    """Worlds that the blocks of such a kernel work on at a time, at most."""
    return most_blocks(device, lanes) * (block_size(lanes, device) // lanes)


class Scratch:
    """How much memory the scratch of the stages takes: that of the largest world, for each at work.

    The CPU works on one world after the other: one world's scratch serves them all and stays in the cache. On CUDA
    there is a number of blocks that does not grow with the worlds, and each works on one world after the other, or on
    several tiny ones at a time.
    Where worlds differ so much that this would take more memory, or are few, every world has its own scratch.
    """

    def __init__(self, layout: Any, sizes: Any, device: Any, rows: int = 0):
        """Measure the largest world; ``rows`` are contact rows that each can hold."""
        most: Any = ScratchShare()
        most.body, most.dof = (
            int(np.diff(start.numpy()).max(initial=0)) for start in (layout.world_body, layout.world_dof)
        )
        most.row, most.hessian = rows, most.dof * (most.dof + 1) // 2
        worlds = sizes.world_count
        self._blocks = most_blocks(device, sizes.lanes)
        self.at_work = at_work = min(worlds, worlds_at_work(device, sizes.lanes))
        """Worlds that have scratch at a time."""
        own = (sizes.body_count, sizes.dof_count, sizes.hessian_count)
        common = (at_work * count for count in (most.body, most.dof, most.hessian))
        most.shared = int(device.is_cpu or all(ours <= all_ for ours, all_ in zip(common, own, strict=True)))
        self.share = most
        """For the struct of a stage."""
        share = at_work if most.shared else 0
        self.body_count = share * most.body or sizes.body_count
        self.dof_count = share * most.dof or sizes.dof_count
        self.row_count = (share or worlds) * rows
        self.hessian_count = share * most.hessian or sizes.hessian_count

    @property
    def max_blocks(self) -> int:
        """Blocks that a launch may have, for `WorldRange.launch`."""
        return self._blocks if self.share.shared else 0


def rebase_scratch_of(struct: Any, scratch: Iterable[tuple[str, str]] = (), prefix: str = "") -> Any:
    """The device function ``rebase(s, starts)``: arrays of a local struct that worlds share hold one world's entries.

    ``scratch`` lists these arrays with the number of the first entry that they hold, in terms of the fields of
    `WorldStarts`; by default these are the scratch fields that the struct declares. ``prefix`` is the path from s to
    the struct that has them. To be called before ``assume_contiguous``.
    """

    def make(variant: Any) -> Any:
        listed = scratch or ((name, of.count) for name, of in sizes(struct, variant).items() if of.is_scratch)
        return _rebase(instance(struct, variant), tuple(listed), prefix)

    return Template(make)


@functools.cache
def _rebase(struct: Any, scratch: tuple[tuple[str, str], ...], prefix: str) -> Any:
    arrays = ((prefix + name, at) for name, at in scratch)
    shifts = "".join(f"s.{name}.data -= {at}; s.{name}.shape.dims[0] += {at};\n" for name, at in arrays)
    names = "const int body = starts.body, dof = starts.dof, row = starts.row, hessian = starts.hessian;\n"
    unused = "(void)body; (void)dof; (void)row; (void)hessian;\n"

    @wp.func_native(names + unused + shifts)
    def rebase_scratch(s: wp.ref[struct], starts: wp.ref[WorldStarts]): ...

    return rebase_scratch
