"""The end of a pass: repair the contacts that Newton's narrow phase wrote, select among them and count them.

On the CPU it is one launch, because a launch costs as much there as the repair of some dozens of contacts.
"""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from ..core.kernels.launch import plain_kernel
from ..core.kernels.structs import StructCache
from ..core.kernels.template import Parameter, Variant
from ..core.kernels.types import Ints, Poses
from ..model.shapes import TRIANGULATED
from .buffers.counts import WHOLE, Counts, count_pass, count_range
from .buffers.overflow import Overflow, Selection, join_contacts
from .buffers.records import CapacityRecord
from .buffers.rows import RowArguments, Rows, close_rows
from .newton_compat import AdaptedPipeline
from .ranges import Ranges
from .repair.internal_edges import make_height_fields
from .repair.normals import ShapePoses, repair_all, repair_contacts

CUDA_THREADS = 16384
"""Threads that share the repair of contacts on CUDA."""

selects = Parameter("selects")
"""True if Newton may have written into a larger buffer, ``source``; else that is the caller's."""

own_search = Parameter("own_search")
"""True if Newton's pipeline left the counting of passes to us."""


@plain_kernel
def finish_pass(
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
    """Repair Newton's contacts, which follow our own ones, bring all into the caller's buffer and count the pass.

    One thread.
    """
    own = own_rows[0]
    capacity = selection[0].capacity
    found_max = selection[0].found_max
    repair_contacts(shapes, body_q, found_max, own, 1, source)
    found = source[0].counters[0]
    if wp.static(selects):
        if found_max > capacity:
            join_contacts(selection[0], own, body_q, source, target, dropped_out)
        else:
            close_rows(target[0], found, target[0].counters[2])
    elif wp.static(own_search):
        close_rows(target[0], found, target[0].counters[2])
    loss = target[0].counters[2]
    if kind_of_pass == WHOLE:
        count_pass(counts[0], target[0].counters[0], capacity, found, found_max, loss)
    else:
        count_range(counts[0], kind_of_pass, found, capacity, loss)


class PassFinisher:
    """Finishes every pass with Newton's narrow phase. Nothing is allocated after the constructor."""

    def __init__(
        self, pipeline: AdaptedPipeline, overflow: Overflow, record: CapacityRecord, own_rows: wp.array | None = None
    ):
        """Prepare.

        Args:
            pipeline: Newton's pipeline.
            overflow: The buffers that it writes.
            record: Receives the counts.
            own_rows: How many contacts were written before Newton's; None if its pipeline finds all contacts.
        """
        self._model, self._pose, self._device = pipeline.model, pipeline.arrays.pose, pipeline.device
        self._overflow, self._record = overflow, record
        self._rows, self._structs = RowArguments(self._device), StructCache(self._device)
        self._own_search = own_rows is not None
        self._fields = make_height_fields(pipeline.model)
        self._has_triangles = bool(np.isin(pipeline.model.shape_type.numpy(), TRIANGULATED).any())
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
        kernel = repair_all.of(Variant(has_triangles=self._has_triangles))
        self._launch(kernel, threads, inputs, [rows.of(written), counts])
        if selects:
            overflow.select(body_q, buffer, counts)

    def run_range(self, body_q: wp.array, ranges: Ranges, kind_of_pass: int) -> None:
        """Bring the contacts of a pass over a range of worlds into its buffer. CPU only."""
        self._run_thread(body_q, ranges.buffer, kind_of_pass, ranges.overflow, ranges.counts.array)

    def _run_thread(
        self, body_q: wp.array, buffer: newton.Contacts, kind_of_pass: int, overflow: Overflow, counts: wp.array
    ) -> None:
        variant = Variant(
            selects=self._overflow.larger is not None,
            own_search=self._own_search,
            has_triangles=self._has_triangles,
        )
        inputs = [self._shapes(), body_q, self._own_rows, kind_of_pass, overflow.tables]
        rows = self._rows.of(overflow.written(buffer)), self._rows.of(buffer)
        outputs = [rows[1], overflow.dropped_of(buffer), counts]
        self._launch(finish_pass.of(variant), 1, [*inputs, rows[0]], outputs)

    def _shapes(self) -> wp.array:
        model = self._model
        arrays = {"body": model.shape_body, "kind": model.shape_type, "pose": self._pose}
        arrays |= {"scale": model.shape_scale, "source": model.shape_source_ptr}
        return self._structs.get(arrays, self._make_shapes)

    def _make_shapes(self) -> Any:
        shapes: Any = ShapePoses()
        shapes.fields = self._fields
        return shapes

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], outputs: list[Any]) -> None:
        block_dim, device = 1 if dim == 1 else 256, self._device
        wp.launch(
            kernel, dim=dim, inputs=inputs, outputs=outputs, block_dim=block_dim, device=device, record_tape=False
        )
