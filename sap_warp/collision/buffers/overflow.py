"""Selection of contacts when a pass finds more than the caller's buffer holds.

Newton's narrow phase writes contacts as it finds them and drops those after the last row of its buffer. Where that may
happen, it writes into a larger buffer, and the stages below move a selection into the caller's. A caller's buffer that
holds as many contacts as the shapes are estimated to have needs neither the larger buffer nor the extra work.

The rows of the caller's buffer are shared like water between vessels: every world gets the same number, worlds that
need fewer leave theirs to the others, and the remainder goes to the first worlds that can use it. So a world with no
more than its even share keeps every contact, whatever the others do. A world that must give some up keeps its deepest.
Selected contacts keep their order.

Every contact has a key that sorts by depth and, at equal depth, by index. All keys differ, so a world's selection is
one threshold, found by bisection; the outcome does not depend on the order in which threads come. Counts are
integers, so neither does the sharing.

The stages take their share of the work from ``thread`` of ``threads``. On the CPU one thread runs them all in a single
launch. On CUDA one block selects, which has nothing to do unless there are too many contacts, and then many threads
move the contacts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import newton
import warp as wp

from ...core.kernels.contact_gap import contact_gap
from ...core.kernels.deepest import depth_key
from ...core.kernels.lanes import barrier, block_sum, lane
from ...core.kernels.structs import StructArgument
from ...core.kernels.template import Constant, Parameter, Variant, device
from ...core.kernels.types import Ints, Poses
from ...model.contacts import dropped_by_world, set_dropped_by_world
from .counts import Counts, count_pass
from .rows import (
    ContactRows,
    RowArguments,
    Rows,
    close_rows,
    copy_contact,
    copy_contacts,
    invalidate_contact,
    optional_fields,
)

LARGER_FACTOR = 4
"""The larger buffer holds at most this many times the contacts of the caller's ..."""
LARGER_FREE = 1 << 16
"""... but up to this many contacts (6 MB) it is as large as the estimate."""
ALL = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
"""Threshold of a world that keeps all of its contacts."""

sum_counts = block_sum.on(dtype=Constant(wp.int32)).of(Variant())


@wp.struct
class Selection:
    """Tables of the selection; a bin is a world, and the last bin is for contacts of no world if there are several."""

    found_max: int  # rows of the source: more than the target has, or the same if there is nothing to select
    capacity: int  # rows of the target
    shape_world: wp.array[wp.int32]
    shape_body: wp.array[wp.int32]
    found: wp.array[wp.int32]  # contacts by bin; zero between passes
    kept: wp.array[wp.int32]  # contacts that the bin keeps
    listed: wp.array[wp.int32]  # length of the bin's list, 0 if it keeps everything
    start: wp.array[wp.int32]  # where the list begins
    filled: wp.array[wp.int32]
    limit: wp.array[wp.uint64]  # a contact is kept if its key is smaller
    peak_dropped: wp.array[wp.int32]  # most contacts that a pass took from the bin
    key: wp.array[wp.uint64]  # by row of the source
    list: wp.array[wp.int32]  # rows of crowded bins
    live: wp.array[wp.int32]  # [contacts found that are valid, end of the lists]
    chunk: wp.array[wp.int32]  # contacts that are kept, by chunk of rows
    scratch: wp.array[wp.int32]  # one entry per lane and block


@wp.func
def overflows(selection: wp.ref[Selection], source: wp.ref[ContactRows]) -> bool:
    """Return True if there are more contacts than the target holds."""
    return source.counters[0] > selection.capacity


@wp.func
def bin_of(selection: wp.ref[Selection], source: wp.ref[ContactRows], i: int) -> int:
    """Return the bin of a contact; -1 if it is invalid."""
    shape0 = source.shape0[i]
    shape1 = source.shape1[i]
    if shape0 < 0 or shape1 < 0:
        return -1
    world = wp.max(selection.shape_world[shape0], selection.shape_world[shape1])
    return wp.where(world < 0, selection.found.shape[0] - 1, world)


@wp.func
def separation(selection: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, i: int) -> float:
    """Return phi0 of a contact [m]. Origins are subtracted first: worlds may lie far from the origin."""
    arm = source.point1[i]
    origin = wp.vec3f()
    body1 = selection.shape_body[source.shape1[i]]
    if body1 >= 0:
        arm = wp.quat_rotate(wp.transform_get_rotation(body_q[body1]), arm)
        origin = wp.transform_get_translation(body_q[body1])
    arm0 = source.point0[i]
    body0 = selection.shape_body[source.shape0[i]]
    if body0 >= 0:
        arm0 = wp.quat_rotate(wp.transform_get_rotation(body_q[body0]), arm0)
        origin -= wp.transform_get_translation(body_q[body0])
    return contact_gap(source.normal[i], origin + (arm - arm0), source.margin0[i], source.margin1[i])


@wp.func
def is_kept(selection: wp.ref[Selection], source: wp.ref[ContactRows], i: int) -> bool:
    """Return True if the bin of contact i keeps it."""
    bin = bin_of(selection, source, i)
    if bin < 0:
        return False
    return selection.key[i] < selection.limit[bin]


visit: Any = Parameter("visit")
"""``visit(selection, source, body_q, i, bin)``: what `for_each_contact` does with contact i."""


@device
def for_each_contact(
    selection: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, thread: int, threads: int
) -> None:
    """If the contacts overflow, visit a thread's share of the valid ones."""
    if overflows(selection, source):
        rows = wp.min(source.counters[0], selection.found_max)
        i = int(thread)
        while i < rows:
            bin = bin_of(selection, source, i)
            if bin >= 0:
                visit(selection, source, body_q, i, bin)
            i += threads


@wp.func
def count_contact(selection: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, i: int, bin: int) -> None:
    """Stage 1: count the contacts of each bin, and compute the key of each contact."""
    wp.atomic_add(selection.found, bin, 1)
    selection.key[i] = depth_key(separation(selection, source, body_q, i), i)


@wp.func
def list_contact(selection: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, i: int, bin: int) -> None:
    """Stage 3: list the contacts of every bin that must select, in any order."""
    if selection.listed[bin] > 0:
        selection.list[selection.start[bin] + wp.atomic_add(selection.filled, bin, 1)] = i


count_by_bin = for_each_contact.of(Variant(visit=count_contact))
list_crowded = for_each_contact.of(Variant(visit=list_contact))


@wp.func
def filled_to(selection: wp.ref[Selection], level: int) -> int:
    """Count the rows in use if every bin got up to ``level``; all lanes of the block together."""
    used = int(0)
    bins = selection.found.shape[0]
    bin = lane()
    while bin < bins:
        used += wp.min(selection.found[bin], level)
        bin += wp.block_dim()
    return sum_counts(used, selection.scratch, 0)


@wp.func
def bins_above(selection: wp.ref[Selection], level: int, end: int) -> int:
    """Count the bins before ``end`` with more than ``level`` contacts; all lanes of the block together."""
    above = int(0)
    bin = lane()
    while bin < end:
        above += wp.where(selection.found[bin] > level, 1, 0)
        bin += wp.block_dim()
    return sum_counts(above, selection.scratch, 0)


@wp.func
def share_rows(selection: wp.ref[Selection], source: wp.ref[ContactRows], dropped_out: Ints) -> None:
    """Stage 2, one block: find the rows of each bin, and where the lists of those begin that must select."""
    if overflows(selection, source):
        bins = selection.found.shape[0]
        live = filled_to(selection, selection.found_max)
        level = int(selection.found_max)
        end = int(0)  # bins before this one get one row more
        if live > selection.capacity:
            # the highest level for which there are enough rows
            level = int(0)
            high = selection.capacity + 1
            while high - level > 1:
                middle = (level + high) // 2
                if filled_to(selection, middle) <= selection.capacity:
                    level = middle
                else:
                    high = middle
            rest = selection.capacity - filled_to(selection, level)
            high = bins
            while high > end:  # the first bin at which the rest is used up
                middle = (end + high) // 2
                if bins_above(selection, level, middle) < rest:
                    end = middle + 1
                else:
                    high = middle
        if lane() == 0:
            selection.live[0] = live
            selection.live[1] = 0
        barrier()
        bin = lane()
        while bin < bins:
            found = selection.found[bin]
            kept = wp.min(found, level)
            if found > level and bin < end:
                kept += 1
            selection.kept[bin] = kept
            selection.listed[bin] = 0
            selection.limit[bin] = ALL
            if found > kept:
                selection.listed[bin] = found
                selection.start[bin] = wp.atomic_add(selection.live, 1, found)
                selection.filled[bin] = 0
            dropped_out[bin] = found - kept
            selection.peak_dropped[bin] = wp.max(selection.peak_dropped[bin], found - kept)
            selection.found[bin] = 0
            bin += wp.block_dim()
        barrier()


@wp.func
def find_limit(selection: wp.ref[Selection], bin: int) -> None:
    """Stage 4, a lane per bin: find the key below which as many contacts lie as the bin keeps."""
    first = selection.start[bin]
    last = first + selection.listed[bin]
    kept = selection.kept[bin]
    low = wp.uint64(0)
    high = wp.uint64(ALL)
    limit = wp.uint64(0)
    below = int(0)
    while below != kept:
        limit = low + ((high - low) >> wp.uint64(1))
        below = int(0)
        j = int(first)
        while j < last:
            below += wp.where(selection.key[selection.list[j]] < limit, 1, 0)
            j += 1
        if below < kept:
            low = limit
        else:
            high = limit
    selection.limit[bin] = limit


@wp.func
def find_limits(selection: wp.ref[Selection]) -> None:
    """Stage 4: find the limit of every bin that must select."""
    bin = lane()
    while bin < selection.found.shape[0]:
        if selection.listed[bin] > 0:
            find_limit(selection, bin)
        bin += wp.block_dim()


@wp.func
def count_chunk(selection: wp.ref[Selection], source: wp.ref[ContactRows], chunk: int, chunks: int) -> None:
    """Stage 5: count the contacts that are kept, in a chunk of adjacent rows."""
    if overflows(selection, source):
        rows = wp.min(source.counters[0], selection.found_max)
        size = (rows + chunks - 1) // chunks
        count = int(0)
        i = int(chunk * size)
        end = wp.min((chunk + 1) * size, rows)
        while i < end:
            if is_kept(selection, source, i):
                count += 1
            i += 1
        selection.chunk[chunk] = count


@wp.func
def write_selected(
    selection: wp.ref[Selection],
    source: wp.ref[ContactRows],
    thread: int,
    threads: int,
    chunks: int,
    target: wp.ref[ContactRows],
) -> int:
    """Copy the contacts that are kept, in order; return how many there would be in a buffer that holds all."""
    rows = wp.min(source.counters[0], selection.found_max)
    if thread < chunks:
        fields = optional_fields(source, target)
        size = (rows + chunks - 1) // chunks
        k = int(0)
        before = int(0)
        while before < thread:
            k += selection.chunk[before]
            before += 1
        i = int(thread * size)
        end = wp.min((thread + 1) * size, rows)
        while i < end:
            if is_kept(selection, source, i):
                copy_contact(source, i, target, k, fields)
                k += 1
            i += 1
    found = selection.live[0] + source.counters[0] - rows
    # only if contacts were lost before the selection: rows without a contact
    empty = wp.min(selection.live[0], selection.capacity) + thread
    while empty < wp.min(found, selection.capacity):
        invalidate_contact(target, empty)
        empty += threads
    return found


@wp.func
def join_contacts(
    selection: wp.ref[Selection], own: int, body_q: Poses, source: Rows, target: Rows, dropped_out: Ints
) -> None:
    """Bring the contacts of a pass, or a selection of them, into the caller's buffer; all stages, for a single thread.

    Args:
        selection: Tables.
        own: How many contacts we wrote before Newton did: into ``target`` if they all fit there, else into ``source``.
        body_q: Body poses.
        source: Holds Newton's contacts, after ours, and the counters.
        target: The caller's buffer.
        dropped_out: Contacts that each bin loses.
    """
    found = source[0].counters[0]
    if found > selection.capacity:
        if own <= selection.capacity:
            copy_contacts(target, source, 0, own, 1)
        count_by_bin(selection, source[0], body_q, 0, 1)
        share_rows(selection, source[0], dropped_out)
        list_crowded(selection, source[0], body_q, 0, 1)
        find_limits(selection)
        count_chunk(selection, source[0], 0, 1)
        found = write_selected(selection, source[0], 0, 1, 1, target[0])
    else:
        copy_contacts(source, target, own, found, 1)
    close_rows(target[0], found, source[0].counters[2])


@wp.kernel(enable_backward=False)
def stage_select(selection: wp.array[Selection], source: Rows, body_q: Poses, chunks: int, dropped_out: Ints) -> None:
    """Run stages 1 to 5 in one block."""
    if overflows(selection[0], source[0]):
        count_by_bin(selection[0], source[0], body_q, lane(), wp.block_dim())
        barrier()
        share_rows(selection[0], source[0], dropped_out)
        list_crowded(selection[0], source[0], body_q, lane(), wp.block_dim())
        barrier()
        find_limits(selection[0])
        barrier()
        chunk = lane()
        while chunk < chunks:
            count_chunk(selection[0], source[0], chunk, chunks)
            chunk += wp.block_dim()


@wp.kernel(enable_backward=False)
def stage_write(
    selection: wp.array[Selection], source: Rows, threads: int, chunks: int, target: Rows, counts: Counts
) -> None:
    """Stage 6: write the kept contacts and the counters, and count the pass."""
    found = int(source[0].counters[0])
    if overflows(selection[0], source[0]):
        found = write_selected(selection[0], source[0], wp.tid(), threads, chunks, target[0])
    else:
        copy_contacts(source, target, wp.tid(), found, threads)
    if wp.tid() == 0:
        loss = source[0].counters[2]
        close_rows(target[0], found, loss)
        tables = selection[0]
        count_pass(counts[0], target[0].counters[0], tables.capacity, source[0].counters[0], tables.found_max, loss)


class Grid(NamedTuple):
    """Sizes of the launches of the stages."""

    threads: int
    chunks: int
    lanes: int


SERIAL_GRID = Grid(threads=1, chunks=1, lanes=1)
CUDA_GRID = Grid(threads=16384, chunks=512, lanes=256)


def larger_capacity(capacity: int, estimate: int) -> int:
    """Return how many contacts a pass must be able to write for a buffer of ``capacity``; ``estimate`` is the most."""
    if capacity >= estimate:
        return capacity
    return min(estimate, max(LARGER_FACTOR * capacity, LARGER_FREE))


class Overflow:
    """The larger buffer, if there is one, and the tables of the selection. `select` allocates nothing."""

    larger: newton.Contacts | None
    """The buffer that a pass writes instead of the caller's; None if the caller's can hold all contacts."""

    peak_dropped: wp.array
    """Most contacts that any pass took from each bin; empty if nothing is selected."""

    def __init__(
        self, model: newton.Model, capacity: int, larger: newton.Contacts | None = None, grid: Grid | None = None
    ):
        """Prepare the selection of ``capacity`` contacts out of ``larger``.

        Args:
            model: The model with the shapes.
            capacity: Rows of the caller's buffers.
            larger: The buffer that passes will write; None if the caller's buffers can hold all contacts.
            grid: Sizes of the launches of `select`. None suits CUDA, or the CPU, where a single thread does all
                stages in one launch without `select`.
        """
        device = model.device
        self.larger, self.capacity, self.bins = larger, capacity, bin_count(model)
        self._grid = grid or (SERIAL_GRID if device.is_cpu else CUDA_GRID)
        self._rows = RowArguments(device)
        found_max = capacity if larger is None else larger.rigid_contact_max
        tables: Any = Selection()
        tables.found_max, tables.capacity = found_max, capacity
        if larger is not None:
            tables.shape_world, tables.shape_body = model.shape_world, model.shape_body
            for name in ("found", "kept", "listed", "start", "filled", "peak_dropped"):
                setattr(tables, name, wp.zeros(self.bins, dtype=wp.int32, device=device))
            tables.limit = wp.zeros(self.bins, dtype=wp.uint64, device=device)
            tables.key = wp.zeros(found_max, dtype=wp.uint64, device=device)
            tables.list = wp.zeros(found_max, dtype=wp.int32, device=device)
            tables.live = wp.zeros(2, dtype=wp.int32, device=device)
            tables.chunk = wp.zeros(self._grid.chunks, dtype=wp.int32, device=device)
            tables.scratch = wp.zeros(self._grid.lanes, dtype=wp.int32, device=device)
        self._tables = StructArgument(tables, device)
        bins = 0 if larger is None else self.bins
        self._dropped = wp.zeros(bins, dtype=wp.int32, device=device)  # for buffers that bring no array of their own
        self.peak_dropped = self._dropped if larger is None else tables.peak_dropped

    @property
    def tables(self) -> wp.array:
        """The `Selection` as an argument of kernels."""
        return self._tables.array

    def written(self, buffer: newton.Contacts) -> newton.Contacts:
        """Return the buffer that a pass for ``buffer`` writes."""
        return buffer if self.larger is None else self.larger

    def prepare(self, buffer: newton.Contacts) -> None:
        """Let a new buffer bring its own array for the contacts lost by each world, if some may be lost."""
        if self.larger is not None:
            set_dropped_by_world(buffer, wp.zeros_like(self._dropped))

    def dropped_of(self, buffer: newton.Contacts) -> wp.array:
        """Return the array of ``buffer`` for the contacts lost by each world; a common one if it has none."""
        if self.larger is None:
            set_dropped_by_world(buffer, None)
            return self._dropped
        dropped = dropped_by_world(buffer)
        if dropped is None or dropped.shape[0] != self.bins or dropped.device != self._dropped.device:
            dropped = self._dropped
            set_dropped_by_world(buffer, dropped)
        return dropped

    def select(self, body_q: wp.array, buffer: newton.Contacts, counts: wp.array) -> None:
        """Fill ``buffer`` with the contacts that are kept: two launches, no wait. The CPU uses `join_contacts` instead.

        ``counts`` are the `PassCounts` that receive what the pass found.
        """
        source, target, tables = self._rows.of(self.written(buffer)), self._rows.of(buffer), self.tables
        threads, chunks, lanes = self._grid
        self._launch(stage_select, lanes, [tables, source, body_q, chunks], [self.dropped_of(buffer)])
        self._launch(stage_write, threads, [tables, source, threads, chunks], [target, counts])

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], outputs: list[Any]) -> None:
        block_dim, device = self._grid.lanes, self._dropped.device  # one size, so that CUDA compiles once
        wp.launch(
            kernel, dim=dim, inputs=inputs, outputs=outputs, block_dim=block_dim, device=device, record_tape=False
        )


def bin_count(model: newton.Model) -> int:
    """Return the number of bins: one per world, and one more for contacts of no world if there are several worlds."""
    return model.world_count + 1 if model.world_count > 1 else 1
