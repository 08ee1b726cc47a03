"""What is done with the rows that Newton's pipeline wrote: mend them, choose among them, note how many there were.

On the CPU it is one launch, because a launch costs as much there as mending some dozens of rows.
"""

from typing import Any

import newton
import warp as wp

from .need import note_contacts, note_stages, record_need
from .normals import Mending, ShapePoses, mend_rows
from .room import ContactRoom
from .rows import ContactRows
from .selection import Selection, select_all


@wp.kernel(enable_backward=False)
def finish_pass(
    shapes: wp.array[ShapePoses],
    body_q: wp.array[wp.transformf],
    capacity: int,
    pair_count: wp.array[wp.int32],
    triangle_count: wp.array[wp.int32],
    rows: wp.array[ContactRows],
    record: wp.array[wp.int32],
) -> None:
    """Mend the caller's buffer and note the need; one thread."""
    mend_rows(shapes, body_q, capacity, 0, 1, rows)
    found = rows[0].counters[0]
    note_contacts(found, capacity, found, capacity, record)
    note_stages(pair_count, triangle_count, rows[0].counters[2], record)


@wp.kernel(enable_backward=False)
def finish_pass_and_select(
    shapes: wp.array[ShapePoses],
    body_q: wp.array[wp.transformf],
    selection: wp.array[Selection],
    pair_count: wp.array[wp.int32],
    triangle_count: wp.array[wp.int32],
    source: wp.array[ContactRows],
    target: wp.array[ContactRows],
    dropped_out: wp.array[wp.int32],
    record: wp.array[wp.int32],
) -> None:
    """Mend the larger buffer, move what fits into the caller's and note the need; one thread."""
    mend_rows(shapes, body_q, selection[0].room, 0, 1, source)
    select_all(selection[0], source, body_q, target, dropped_out)
    note_contacts(target[0].counters[0], selection[0].capacity, source[0].counters[0], selection[0].room, record)
    note_stages(pair_count, triangle_count, target[0].counters[2], record)


class PassEnd:
    """The end of every pass of Newton's pipeline. Nothing is allocated."""

    def __init__(
        self,
        mending: Mending,
        room: ContactRoom | None,
        pair_count: wp.array,
        triangle_count: wp.array,
        record: wp.array,
    ):
        """Prepare.

        Args:
            mending: Of the shapes.
            room: What Newton's pipeline writes into; None if that is the caller's buffer.
            pair_count: Where it counts pairs.
            triangle_count: Where it counts triangle pairs; empty if it does not.
            record: Receives the need.
        """
        self._mending, self._room = mending, room
        self._counts = [pair_count, triangle_count]
        self._record = record

    def finish(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        """Bring the contacts of the last pass into ``buffer``."""
        if self._record.device.is_cpu:
            self._finish_at_once(body_q, buffer)
            return
        room = self._room
        written = buffer if room is None else room.contacts
        self._mending.mend(body_q, written)
        if room is not None:
            room.select(body_q, buffer)
        sizes = [buffer.rigid_contact_max, written.contact_counters, written.rigid_contact_max]
        self._launch(record_need, [buffer.contact_counters, *self._counts, *sizes], [self._record])

    def _finish_at_once(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        shapes, target, room = self._mending.shapes(), self._mending.rows(buffer), self._room
        if room is None:
            inputs = [shapes, body_q, buffer.rigid_contact_max, *self._counts]
            self._launch(finish_pass, inputs, [target, self._record])
            return
        inputs = [shapes, body_q, room.tables, *self._counts, self._mending.rows(room.contacts)]
        self._launch(finish_pass_and_select, inputs, [target, room.dropped_of(buffer), self._record])

    def _launch(self, kernel: Any, inputs: list[Any], outputs: list[Any]) -> None:
        device = self._record.device
        wp.launch(kernel, dim=1, inputs=inputs, outputs=outputs, block_dim=1, device=device, record_tape=False)
