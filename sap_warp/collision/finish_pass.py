"""What is done with the rows that Newton's narrow phase wrote: repair them, choose among them, count them.

On the CPU it is one launch, because a launch costs as much there as the repair of some dozens of rows.
"""

import functools
from typing import Any

import newton
import numpy as np
import warp as wp

from ..core.kernels.structs import StructCache
from ..core.kernels.types import Ints, Poses
from .buffers.counts import WHOLE, Counts, note_pass, note_range
from .buffers.overflow import Overflow, Selection, join_rows
from .buffers.records import CapacityRecord
from .buffers.rows import RowArguments, Rows, close_rows
from .newton_compat import AdaptedPipeline
from .ranges import Ranges
from .repair.internal_edges import HFIELD, MESH, make_fields
from .repair.normals import ShapePoses, make_repair_kernel, make_repair_rows

CUDA_THREADS = 16384
"""Threads that share the repair of rows on CUDA."""


@functools.cache
def make_end_kernel(selects: bool, own_search: bool, has_triangles: bool) -> Any:
    """The kernel for one thread.

    Args:
        selects: Whether Newton may have written into a larger buffer, ``source``; else that is the caller's.
        own_search: Whether Newton's pipeline left the counting of passes to us.
        has_triangles: Whether there are height fields or meshes.
    """
    repair_rows = make_repair_rows(has_triangles)

    @wp.kernel(module="unique", enable_backward=False)
    def end_pass(
        shapes: wp.array[ShapePoses],
        body_q: Poses,
        own_rows: Ints,
        kind_of_pass: int,
        selection: wp.array[Selection],
        source: Rows,
        target: Rows,
        dropped_out: Ints,
        counts: Counts,
    ) -> None:
        """Repair Newton's rows, which follow our own ones, bring all into the caller's buffer and note the counts."""
        own = own_rows[0]
        capacity = selection[0].capacity
        found_max = selection[0].found_max
        repair_rows(shapes, body_q, found_max, own, 1, source)
        found = source[0].counters[0]
        if wp.static(selects):
            if found_max > capacity:
                join_rows(selection[0], own, body_q, source, target, dropped_out)
            else:
                close_rows(target[0], found, target[0].counters[2])
        elif wp.static(own_search):
            close_rows(target[0], found, target[0].counters[2])
        loss = target[0].counters[2]
        if kind_of_pass == WHOLE:
            note_pass(counts[0], target[0].counters[0], capacity, found, found_max, loss)
        else:
            note_range(counts[0], kind_of_pass, found, capacity, loss)

    return end_pass


class PassEnd:
    """The end of every pass with Newton's narrow phase. Nothing is allocated."""

    def __init__(
        self, pipeline: AdaptedPipeline, overflow: Overflow, record: CapacityRecord, own_rows: wp.array | None = None
    ):
        """Prepare.

        Args:
            pipeline: Newton's.
            overflow: What it writes into.
            record: Receives the counts.
            own_rows: How many rows were written before Newton's; None if its pipeline finds all contacts.
        """
        self._model, self._pose, self._device = pipeline.model, pipeline.arrays.pose, pipeline.device
        self._overflow, self._record = overflow, record
        self._rows, self._structs = RowArguments(self._device), StructCache(self._device)
        self._own_search = own_rows is not None
        self._fields = make_fields(pipeline.model)
        self._has_triangles = bool(np.isin(pipeline.model.shape_type.numpy(), (int(HFIELD), int(MESH))).any())
        self._own_rows = wp.zeros(1, dtype=wp.int32, device=self._device) if own_rows is None else own_rows

    def run(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        """Bring the contacts of the last pass into ``buffer``."""
        if self._device.is_cpu:
            self._run_thread(body_q, buffer, WHOLE, self._overflow, self._record.counts)
            return
        overflow, rows = self._overflow, self._rows
        written, counts = overflow.written(buffer), self._record.counts
        found_max = written.rigid_contact_max
        threads = min(found_max, CUDA_THREADS)
        selects = written is not buffer
        overflow.dropped_of(buffer)
        inputs = [self._shapes(), body_q, found_max, threads, int(not selects)]
        self._launch(make_repair_kernel(self._has_triangles), threads, inputs, [rows.of(written), counts])
        if selects:
            overflow.select(body_q, buffer, counts)

    def run_range(self, body_q: wp.array, ranges: Ranges, kind_of_pass: int) -> None:
        """The same for a pass over a range of worlds. CPU only."""
        self._run_thread(body_q, ranges.buffer, kind_of_pass, ranges.overflow, ranges.counts.array)

    def _run_thread(
        self, body_q: wp.array, buffer: newton.Contacts, kind_of_pass: int, overflow: Overflow, counts: wp.array
    ) -> None:
        selects = self._overflow.larger is not None
        kernel = make_end_kernel(selects, self._own_search, self._has_triangles)
        inputs = [self._shapes(), body_q, self._own_rows, kind_of_pass, overflow.tables]
        rows = self._rows.of(overflow.written(buffer)), self._rows.of(buffer)
        self._launch(kernel, 1, [*inputs, rows[0]], [rows[1], overflow.dropped_of(buffer), counts])

    def _shapes(self) -> wp.array:
        model = self._model
        places = {"body": model.shape_body, "kind": model.shape_type, "pose": self._pose}
        places |= {"scale": model.shape_scale, "source": model.shape_source_ptr}
        return self._structs.get(places, self._make_shapes)

    def _make_shapes(self) -> Any:
        shapes: Any = ShapePoses()
        shapes.fields = self._fields
        return shapes

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], outputs: list[Any]) -> None:
        block_dim, device = 1 if dim == 1 else 256, self._device
        wp.launch(
            kernel, dim=dim, inputs=inputs, outputs=outputs, block_dim=block_dim, device=device, record_tape=False
        )
