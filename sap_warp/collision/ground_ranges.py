"""Contacts with the ground of a few worlds at a time.

While a few worlds take many steps, only their contacts are of interest. They go into a small buffer, the same for all
ranges of worlds, which stays in the cache.
"""

from __future__ import annotations

import newton
import numpy as np
import warp as wp

from ..model import SapState
from .counts import note_totals
from .ground import FIRST, FURTHER, GroundTable
from .newton_compat import AdaptedPipeline
from .overflow import Overflow
from .records import CapacityRecord
from .rows import RowArguments
from .state import sap_collision_state_from_state


class GroundRanges:
    """Finds the contacts of ranges of worlds; the rows of a range are those of a pass over all worlds, in order."""

    buffer: newton.Contacts
    """The contacts of the range that was last looked at."""

    passes = 1024
    """The most passes that a range may make before the next one: so many totals over all ranges are kept."""

    def __init__(
        self,
        pipeline: AdaptedPipeline,
        table: GroundTable,
        selects: bool,
        record: CapacityRecord,
        bounds: np.ndarray,
        body_world: np.ndarray,
    ):
        """Sort pairs by world.

        Args:
            pipeline: Allocates the buffer.
            table: The pairs; it will belong to this object.
            selects: Whether a pass over all worlds selects, see `make_ground_kernel`. Here the buffer holds all.
            record: Receives the counts.
            bounds: First world of each range, and the number of worlds.
            body_world: World of each of the model's bodies, growing.
        """
        model, device = pipeline.model, pipeline.device
        world = body_world[model.shape_body.numpy()[table.shapes]]
        order = np.argsort(world, kind="stable")
        table.sort(order)
        self._table, self._selects, self._device = table, selects, device
        self._pair = np.searchsorted(world[order], bounds)
        self._body = np.searchsorted(body_world, bounds)
        most = np.concatenate([[0], np.cumsum(table.most_contacts())])[self._pair]
        self.buffer = pipeline.contacts_for(max(1, int(np.diff(most).max())))
        self._overflow = Overflow(model, self.buffer.rigid_contact_max)
        self._rows = RowArguments(device)
        self._counts = record.counts_with(wp.zeros(1 + self.passes, dtype=wp.int32, device=device))

    def find(self, i: int, state: SapState, is_first: bool) -> None:
        """Replace the content of `buffer` by the contacts of range ``i`` at ``state``.

        ``is_first`` starts the count of its passes, see `note`.
        """
        view = sap_collision_state_from_state(state)
        view.refresh(slice(int(self._body[i]), int(self._body[i + 1])))
        pairs = int(self._pair[i]), int(self._pair[i + 1])
        kind_of_pass = FIRST if is_first else FURTHER
        rows, nothing = self._rows.of(self.buffer), self._overflow.peak_dropped
        inputs = [*pairs, kind_of_pass, view.body_q, self._overflow.tables, rows]
        self._table.launch(self._selects, inputs, [rows, nothing, self._counts.array])

    def note(self) -> None:
        """After all ranges have made as many passes: note the most contacts of these passes in the record."""
        wp.launch(note_totals, dim=1, outputs=[self._counts.array], device=self._device, record_tape=False)
