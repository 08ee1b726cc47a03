"""Room for more contacts than the buffer holds, so that a full buffer loses the right ones.

Newton's narrow phase writes contacts as it finds them and drops what comes after the last place. Here it writes into a
larger buffer, and `selection` moves what fits into the caller's. Where the caller's buffer holds as many contacts as
the shapes are estimated to have, there is neither the larger buffer nor the extra pass.
"""

from typing import Any, NamedTuple

import newton
import warp as wp

from ..contacts import dropped_by_world, set_dropped_by_world
from ..kernels.structs import StructArgument, StructCache
from . import selection as stages
from .rows import ContactRows, row_arrays

ROOM_FACTOR = 4
"""The larger buffer holds at most this many times the contacts of the caller's ..."""
ROOM_FREE = 1 << 16
"""... but up to this many contacts (6 MB) it is as large as the estimate."""


class Grid(NamedTuple):
    """How the stages are spread over threads."""

    threads: int
    chunks: int
    blocks: int
    lanes: int


SERIAL_GRID = Grid(threads=1, chunks=1, blocks=1, lanes=1)
CUDA_GRID = Grid(threads=16384, chunks=512, blocks=1024, lanes=64)


def contact_room(capacity: int, estimate: int) -> int:
    """Contacts that a pass must be able to write for a buffer of ``capacity``, if ``estimate`` are expected at most."""
    if capacity >= estimate:
        return capacity
    return min(estimate, max(ROOM_FACTOR * capacity, ROOM_FREE))


class ContactRoom:
    """The larger buffer and the tables of the selection; `select` allocates nothing."""

    contacts: newton.Contacts
    """What Newton's pipeline writes into."""

    dropped: wp.array
    """Contacts that the last overflowing pass took from each bin, for buffers that bring no array of their own."""

    peak_dropped: wp.array
    """Most contacts that any pass took from each bin."""

    def __init__(self, model: newton.Model, contacts: newton.Contacts, capacity: int, grid: Grid | None = None):
        """Prepare the selection of ``capacity`` rows out of ``contacts``.

        Args:
            model: Whose shapes.
            contacts: What Newton's pipeline will write into.
            capacity: Rows of the buffers that `select` will fill.
            grid: Sizes of the launches of `select`. None suits CUDA, or the CPU, where a single thread will do
                all stages in one launch without `select`.
        """
        device = model.device
        if grid is None:
            grid = SERIAL_GRID if device.is_cpu else CUDA_GRID
        self.contacts = contacts
        self.capacity = capacity
        self.bins = bin_count(model)
        room = contacts.rigid_contact_max
        self._grid = grid
        tables: Any = stages.Selection()
        tables.room, tables.capacity = room, capacity
        tables.shape_world, tables.shape_body = model.shape_world, model.shape_body
        for name in ("found", "kept", "listed", "start", "filled", "peak_dropped"):
            setattr(tables, name, wp.zeros(self.bins, dtype=wp.int32, device=device))
        tables.limit = wp.zeros(self.bins, dtype=wp.uint64, device=device)
        tables.key = wp.zeros(room, dtype=wp.uint64, device=device)
        tables.list = wp.zeros(room, dtype=wp.int32, device=device)
        tables.live = wp.zeros(2, dtype=wp.int32, device=device)
        tables.chunk = wp.zeros(grid.chunks, dtype=wp.int32, device=device)
        tables.scratch = wp.zeros(grid.blocks * grid.lanes, dtype=wp.int32, device=device)
        self._tables = StructArgument(tables, device)
        self._rows = StructCache(device)
        self.peak_dropped = tables.peak_dropped
        self.dropped = wp.zeros(self.bins, dtype=wp.int32, device=device)

    @property
    def tables(self) -> wp.array:
        """The `Selection` as an argument of kernels."""
        return self._tables.array

    def rows(self, buffer: newton.Contacts) -> wp.array:
        """The `ContactRows` of ``buffer`` as an argument of kernels."""
        return self._rows.get(row_arrays(buffer), ContactRows)

    def dropped_of(self, buffer: newton.Contacts) -> wp.array:
        """The array that ``buffer`` carries for the contacts lost by each world; a common one if it brings none."""
        dropped = dropped_by_world(buffer)
        if dropped is None or dropped.shape[0] != self.bins or dropped.device != self.dropped.device:
            dropped = self.dropped
            set_dropped_by_world(buffer, dropped)
        return dropped

    def select(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        """Fill ``buffer`` with the contacts that stay: six launches, no wait. The CPU does it in `finish`."""
        source, target, tables = self.rows(self.contacts), self.rows(buffer), self.tables
        dropped = self.dropped_of(buffer)
        threads, chunks, blocks, lanes = self._grid
        self._launch(stages.stage_count, threads, [tables, source, body_q, threads], [])
        self._launch(stages.stage_share, lanes, [tables, source], [dropped])
        self._launch(stages.stage_list, threads, [tables, source, threads], [])
        self._launch(stages.stage_limits, blocks * lanes, [tables, source, blocks], [])
        self._launch(stages.stage_chunks, chunks, [tables, source, chunks], [])
        self._launch(stages.stage_write, threads, [tables, source, threads, chunks], [target])

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], outputs: list[Any]) -> None:
        block_dim, device = self._grid.lanes, self.dropped.device  # one size, so that CUDA compiles once
        wp.launch(
            kernel, dim=dim, inputs=inputs, outputs=outputs, block_dim=block_dim, device=device, record_tape=False
        )


def bin_count(model: newton.Model) -> int:
    """One bin per world, and one more for contacts of no world if there is more than one world."""
    return model.world_count + 1 if model.world_count > 1 else 1
