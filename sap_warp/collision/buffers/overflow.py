"""What happens when a pass finds more contacts than the caller's buffer holds.

Newton's narrow phase writes contacts as it finds them and drops what comes after the last row. Where that may happen,
it writes into a larger buffer, and the stages below move what fits into the caller's. Where the caller's buffer holds
as many contacts as the shapes are estimated to have, there is neither the larger buffer nor the extra work.

The rows are shared like water between vessels: every world gets the same number, worlds that need fewer leave theirs to
the others, and what cannot be divided goes to the first worlds that can use it. So a world with no more than its even
share keeps every contact, whatever the others do. A world that must give some up keeps its deepest. Contacts that stay
keep their order.

Every contact has a key that sorts by depth and, at equal depth, by index. All keys differ, so a world's selection is
one threshold, found by bisection; the outcome does not depend on the order in which threads come. Counts are
integers, so neither does the sharing.

The stages take their share of the work from ``thread`` of ``threads``. On the CPU one thread runs them all in a single
launch. On CUDA one block selects, which has nothing to do unless there are too many contacts, and then a launch of many
threads moves the rows.
"""

from typing import Any, NamedTuple

import newton
import warp as wp

from ...core.kernels.contact_gap import contact_gap
from ...core.kernels.deepest import depth_key
from ...core.kernels.lanes import barrier, lane, make_block_sum
from ...core.kernels.structs import StructArgument
from ...core.kernels.types import Ints, Poses
from ...model.contacts import dropped_by_world, set_dropped_by_world
from .counts import Counts, note_pass
from .rows import ContactRows, RowArguments, Rows, close_rows, copy_row, copy_rows, optional_fields, take_out_row

LARGER_FACTOR = 4
"""The larger buffer holds at most this many times the contacts of the caller's ..."""
LARGER_FREE = 1 << 16
"""... but up to this many contacts (6 MB) it is as large as the estimate."""
ALL = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
"""Threshold of a world that keeps all of its contacts."""

block_sum = make_block_sum(wp.int32)


@wp.struct
class Selection:
    """Tables of the selection; a bin is a world, and the last bin is for contacts of no world if there are several."""

    found_max: int  # rows of the source: more than the target has, or the same if there is nothing to select
    capacity: int  # rows of the target
    shape_world: wp.array[wp.int32]
    shape_body: wp.array[wp.int32]
    found: wp.array[wp.int32]  # contacts by bin; zero between passes
    kept: wp.array[wp.int32]  # places by bin
    listed: wp.array[wp.int32]  # length of the bin's list, 0 if it keeps everything
    start: wp.array[wp.int32]  # where the list begins
    filled: wp.array[wp.int32]
    limit: wp.array[wp.uint64]  # a contact stays if its key is smaller
    peak_dropped: wp.array[wp.int32]  # most contacts that a pass took from the bin
    key: wp.array[wp.uint64]  # by row of the source
    list: wp.array[wp.int32]  # rows of crowded bins
    live: wp.array[wp.int32]  # [contacts found that are none of those taken out, end of the lists]
    chunk: wp.array[wp.int32]  # contacts that stay, by chunk of rows
    scratch: wp.array[wp.int32]  # one entry per lane and block


@wp.func
def overflows(s: wp.ref[Selection], source: wp.ref[ContactRows]) -> bool:
    """Whether there is anything to select."""
    return source.counters[0] > s.capacity


@wp.func
def bin_of(s: wp.ref[Selection], source: wp.ref[ContactRows], i: int) -> int:
    """Bin of a contact; -1 if it was taken out."""
    shape0 = source.shape0[i]
    shape1 = source.shape1[i]
    if shape0 < 0 or shape1 < 0:
        return -1
    world = wp.max(s.shape_world[shape0], s.shape_world[shape1])
    return wp.where(world < 0, s.found.shape[0] - 1, world)


@wp.func
def separation(s: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, i: int) -> float:
    """phi0 of a contact [m]. Origins are subtracted first: worlds may lie far from the origin."""
    arm = source.point1[i]
    origin = wp.vec3f()
    body1 = s.shape_body[source.shape1[i]]
    if body1 >= 0:
        arm = wp.quat_rotate(wp.transform_get_rotation(body_q[body1]), arm)
        origin = wp.transform_get_translation(body_q[body1])
    arm0 = source.point0[i]
    body0 = s.shape_body[source.shape0[i]]
    if body0 >= 0:
        arm0 = wp.quat_rotate(wp.transform_get_rotation(body_q[body0]), arm0)
        origin -= wp.transform_get_translation(body_q[body0])
    return contact_gap(source.normal[i], origin + (arm - arm0), source.margin0[i], source.margin1[i])


@wp.func
def stays(s: wp.ref[Selection], source: wp.ref[ContactRows], i: int) -> bool:
    """Whether contact i is one of those that its bin keeps."""
    bin = bin_of(s, source, i)
    if bin < 0:
        return False
    return s.key[i] < s.limit[bin]


def _over_rows(visit: Any) -> Any:
    """``walk(s, source, body_q, thread, threads)``: if rows overflow, visit a thread's share of those with a bin."""

    @wp.func
    def walk(s: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, thread: int, threads: int) -> None:
        if overflows(s, source):
            rows = wp.min(source.counters[0], s.found_max)
            i = int(thread)
            while i < rows:
                bin = bin_of(s, source, i)
                if bin >= 0:
                    visit(s, source, body_q, i, bin)
                i += threads

    return walk


@wp.func
def count_row(s: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, i: int, bin: int) -> None:
    """Stage 1: contacts of each bin, and the key of each contact."""
    wp.atomic_add(s.found, bin, 1)
    s.key[i] = depth_key(separation(s, source, body_q, i), i)


@wp.func
def list_row(s: wp.ref[Selection], source: wp.ref[ContactRows], body_q: Poses, i: int, bin: int) -> None:
    """Stage 3: the rows of every bin that must select, in any order."""
    if s.listed[bin] > 0:
        s.list[s.start[bin] + wp.atomic_add(s.filled, bin, 1)] = i


count_by_bin, list_crowded = _over_rows(count_row), _over_rows(list_row)


@wp.func
def filled_to(s: wp.ref[Selection], level: int) -> int:
    """Places in use if every bin got up to ``level``; all lanes of the block together."""
    used = int(0)
    bins = s.found.shape[0]
    bin = lane()
    while bin < bins:
        used += wp.min(s.found[bin], level)
        bin += wp.block_dim()
    return block_sum(used, s.scratch, 0)


@wp.func
def bins_above(s: wp.ref[Selection], level: int, end: int) -> int:
    """Bins before ``end`` with more than ``level`` contacts; all lanes of the block together."""
    above = int(0)
    bin = lane()
    while bin < end:
        above += wp.where(s.found[bin] > level, 1, 0)
        bin += wp.block_dim()
    return block_sum(above, s.scratch, 0)


@wp.func
def share_rows(s: wp.ref[Selection], source: wp.ref[ContactRows], dropped_out: Ints) -> None:
    """Stage 2, one block: places of each bin, and where the lists of those begin that must select."""
    if overflows(s, source):
        bins = s.found.shape[0]
        live = filled_to(s, s.found_max)
        level = int(s.found_max)
        end = int(0)  # bins before this one get one place more
        if live > s.capacity:
            # the highest level for which there are enough places
            level = int(0)
            high = s.capacity + 1
            while high - level > 1:
                middle = (level + high) // 2
                if filled_to(s, middle) <= s.capacity:
                    level = middle
                else:
                    high = middle
            rest = s.capacity - filled_to(s, level)
            high = bins
            while high > end:  # the first bin at which the rest is used up
                middle = (end + high) // 2
                if bins_above(s, level, middle) < rest:
                    end = middle + 1
                else:
                    high = middle
        if lane() == 0:
            s.live[0] = live
            s.live[1] = 0
        barrier()
        bin = lane()
        while bin < bins:
            found = s.found[bin]
            kept = wp.min(found, level)
            if found > level and bin < end:
                kept += 1
            s.kept[bin] = kept
            s.listed[bin] = 0
            s.limit[bin] = ALL
            if found > kept:
                s.listed[bin] = found
                s.start[bin] = wp.atomic_add(s.live, 1, found)
                s.filled[bin] = 0
            dropped_out[bin] = found - kept
            s.peak_dropped[bin] = wp.max(s.peak_dropped[bin], found - kept)
            s.found[bin] = 0
            bin += wp.block_dim()
        barrier()


@wp.func
def find_limit(s: wp.ref[Selection], bin: int) -> None:
    """Stage 4, a lane per bin: the key below which as many contacts lie as there are places."""
    first = s.start[bin]
    last = first + s.listed[bin]
    places = s.kept[bin]
    low = wp.uint64(0)
    high = wp.uint64(ALL)
    limit = wp.uint64(0)
    below = int(0)
    while below != places:
        limit = low + ((high - low) >> wp.uint64(1))
        below = int(0)
        j = int(first)
        while j < last:
            below += wp.where(s.key[s.list[j]] < limit, 1, 0)
            j += 1
        if below < places:
            low = limit
        else:
            high = limit
    s.limit[bin] = limit


@wp.func
def find_limits(s: wp.ref[Selection]) -> None:
    """Stage 4 of all bins that must select."""
    bin = lane()
    while bin < s.found.shape[0]:
        if s.listed[bin] > 0:
            find_limit(s, bin)
        bin += wp.block_dim()


@wp.func
def count_chunk(s: wp.ref[Selection], source: wp.ref[ContactRows], chunk: int, chunks: int) -> None:
    """Stage 5: contacts that stay, in a chunk of adjacent rows."""
    if overflows(s, source):
        rows = wp.min(source.counters[0], s.found_max)
        size = (rows + chunks - 1) // chunks
        count = int(0)
        i = int(chunk * size)
        end = wp.min((chunk + 1) * size, rows)
        while i < end:
            if stays(s, source, i):
                count += 1
            i += 1
        s.chunk[chunk] = count


@wp.func
def write_selected(
    s: wp.ref[Selection],
    source: wp.ref[ContactRows],
    thread: int,
    threads: int,
    chunks: int,
    target: wp.ref[ContactRows],
) -> int:
    """The rows that stay, in their old order; returns how many contacts there would be in a buffer that holds all."""
    rows = wp.min(source.counters[0], s.found_max)
    if thread < chunks:
        fields = optional_fields(source, target)
        size = (rows + chunks - 1) // chunks
        k = int(0)
        before = int(0)
        while before < thread:
            k += s.chunk[before]
            before += 1
        i = int(thread * size)
        end = wp.min((thread + 1) * size, rows)
        while i < end:
            if stays(s, source, i):
                copy_row(source, i, target, k, fields)
                k += 1
            i += 1
    found = s.live[0] + source.counters[0] - rows
    # only if rows were lost before the selection: places that nothing is left for
    empty = wp.min(s.live[0], s.capacity) + thread
    while empty < wp.min(found, s.capacity):
        take_out_row(target, empty)
        empty += threads
    return found


@wp.func
def join_rows(s: wp.ref[Selection], own: int, body_q: Poses, source: Rows, target: Rows, dropped_out: Ints) -> None:
    """Bring the rows of a pass together in the caller's buffer, or those that stay; all stages, for a single thread.

    Args:
        s: Tables.
        own: How many rows we wrote before Newton did: into ``target`` if they all fit there, else into ``source``.
        body_q: Body poses.
        source: Holds Newton's rows, after ours, and the counters.
        target: The caller's buffer.
        dropped_out: Contacts that each bin loses.
    """
    found = source[0].counters[0]
    if found > s.capacity:
        if own <= s.capacity:
            copy_rows(target, source, 0, own, 1)
        count_by_bin(s, source[0], body_q, 0, 1)
        share_rows(s, source[0], dropped_out)
        list_crowded(s, source[0], body_q, 0, 1)
        find_limits(s)
        count_chunk(s, source[0], 0, 1)
        found = write_selected(s, source[0], 0, 1, 1, target[0])
    else:
        copy_rows(source, target, own, found, 1)
    close_rows(target[0], found, source[0].counters[2])


@wp.kernel(enable_backward=False)
def stage_select(selection: wp.array[Selection], source: Rows, body_q: Poses, chunks: int, dropped_out: Ints) -> None:
    """Stages 1 to 5, by one block."""
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
    """Stage 6: the rows that stay, the counters, and what is noted of the pass."""
    found = int(source[0].counters[0])
    if overflows(selection[0], source[0]):
        found = write_selected(selection[0], source[0], wp.tid(), threads, chunks, target[0])
    else:
        copy_rows(source, target, wp.tid(), found, threads)
    if wp.tid() == 0:
        loss = source[0].counters[2]
        close_rows(target[0], found, loss)
        s = selection[0]
        note_pass(counts[0], target[0].counters[0], s.capacity, source[0].counters[0], s.found_max, loss)


class Grid(NamedTuple):
    """How the stages are spread over threads."""

    threads: int
    chunks: int
    lanes: int


SERIAL_GRID = Grid(threads=1, chunks=1, lanes=1)
CUDA_GRID = Grid(threads=16384, chunks=512, lanes=256)


def larger_capacity(capacity: int, estimate: int) -> int:
    """Contacts that a pass must be able to write for a buffer of ``capacity``, if ``estimate`` are expected at most."""
    if capacity >= estimate:
        return capacity
    return min(estimate, max(LARGER_FACTOR * capacity, LARGER_FREE))


class Overflow:
    """The larger buffer, if there is one, and the tables of the selection; `select` allocates nothing."""

    larger: newton.Contacts | None
    """What a pass writes into instead of the caller's buffer; None if that can hold all contacts."""

    peak_dropped: wp.array
    """Most contacts that any pass took from each bin; empty if nothing is selected."""

    def __init__(
        self, model: newton.Model, capacity: int, larger: newton.Contacts | None = None, grid: Grid | None = None
    ):
        """Prepare the selection of ``capacity`` rows out of ``larger``.

        Args:
            model: Whose shapes.
            capacity: Rows of the caller's buffers.
            larger: What a pass will write into; None if the caller's buffers can hold all contacts.
            grid: Sizes of the launches of `select`. None suits CUDA, or the CPU, where a single thread will do
                all stages in one launch without `select`.
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
        """What a pass for ``buffer`` writes into."""
        return buffer if self.larger is None else self.larger

    def prepare(self, buffer: newton.Contacts) -> None:
        """Let a new buffer bring its own array for the contacts lost by each world, if some may be lost."""
        if self.larger is not None:
            set_dropped_by_world(buffer, wp.zeros_like(self._dropped))

    def dropped_of(self, buffer: newton.Contacts) -> wp.array:
        """The array that ``buffer`` carries for the contacts lost by each world; a common one if it brings none."""
        if self.larger is None:
            set_dropped_by_world(buffer, None)
            return self._dropped
        dropped = dropped_by_world(buffer)
        if dropped is None or dropped.shape[0] != self.bins or dropped.device != self._dropped.device:
            dropped = self._dropped
            set_dropped_by_world(buffer, dropped)
        return dropped

    def select(self, body_q: wp.array, buffer: newton.Contacts, counts: wp.array) -> None:
        """Fill ``buffer`` with the contacts that stay: two launches, no wait. The CPU does it in `join_rows`.

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
    """One bin per world, and one more for contacts of no world if there is more than one world."""
    return model.world_count + 1 if model.world_count > 1 else 1
