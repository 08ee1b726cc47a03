"""Contacts of a few worlds at a time.

While a few worlds take many steps, only their contacts are needed. They are written into a small buffer, which all
ranges of worlds share and which stays in the cache. It holds all contacts of a range: a pass over all worlds drops some
of them if the caller's buffer is too small for all worlds together, and ranges do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import newton
import numpy as np
import warp as wp

from ..model.model import SapState
from .buffers.counts import FIRST, FURTHER, count_totals
from .buffers.overflow import Overflow
from .buffers.records import CapacityRecord
from .buffers.rows import RowArguments
from .narrow.ground import GroundTable
from .newton_compat import AdaptedPipeline
from .repair.coplanar_boxes import GhostContactFilter
from .state import SapCollisionState, sap_collision_state_from_state

Span = tuple[int, int]
"""The first entry and the end, one behind the last entry."""


class Ranges:
    """Finds the contacts of ranges of worlds, each equal to those of a pass over all worlds, in the same order."""

    buffer: newton.Contacts
    """The contacts of the range that `find` was last called for."""

    passes = 1024
    """Limit of the passes of a range before the next range begins: totals over all ranges are kept for each."""

    ghosts: GhostContactFilter | None = None
    """Invalidates ghost contacts, as after a pass over all worlds."""

    def __init__(self, pipeline: AdaptedPipeline, record: CapacityRecord, bodies: np.ndarray, capacity: int):
        """Allocate the buffer.

        Args:
            pipeline: Newton's pipeline.
            record: Receives the counts.
            bodies: The model's first body of each range, and the number of bodies.
            capacity: Contacts that a range can have.
        """
        self._device, self._body = pipeline.device, bodies
        self.buffer = pipeline.contacts_for(max(1, capacity))
        self.overflow = Overflow(pipeline.model, self.buffer.rigid_contact_max)
        self.counts = record.counts_with(wp.zeros(1 + self.passes, dtype=wp.int32, device=pipeline.device))

    def find(self, i: int, state: SapState, is_first: bool) -> None:
        """Replace the content of `buffer` by the contacts of range ``i`` at ``state``.

        ``is_first`` starts the count of its passes, see `count`.
        """
        view = sap_collision_state_from_state(state)
        view.refresh(slice(int(self._body[i]), int(self._body[i + 1])))
        self._find(i, view, FIRST if is_first else FURTHER)

        if self.ghosts is not None:
            self.ghosts.run(view.body_q, self.buffer)

    def count(self) -> None:
        """After all ranges have made as many passes: raise the peak of the record to the most contacts of a pass."""
        wp.launch(count_totals, dim=1, outputs=[self.counts.array], device=self._device, record_tape=False)

    def _find(self, i: int, view: SapCollisionState, kind_of_pass: int) -> None:
        raise NotImplementedError


class GroundRanges(Ranges):
    """Ranges of a `GroundPath`: all contacts are with the ground."""

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
            pipeline: Newton's pipeline.
            table: The pairs; it will belong to this object.
            selects: True if a pass over all worlds selects: the same kernel runs here, though this buffer holds all.
            record: Receives the counts.
            bounds: First world of each range, and the number of worlds.
            body_world: World of each of the model's bodies, ascending.
        """
        self._table, self._selects = table, selects
        self._pair = np.searchsorted(table.sort_by_world(body_world), bounds)
        most = np.concatenate([[0], np.cumsum(table.most_contacts())])[self._pair]
        super().__init__(pipeline, record, np.searchsorted(body_world, bounds), int(np.diff(most).max()))
        self._rows = RowArguments(pipeline.device)

    def _find(self, i: int, view: SapCollisionState, kind_of_pass: int) -> None:
        pairs = int(self._pair[i]), int(self._pair[i + 1])
        rows, nothing = self._rows.of(self.buffer), self.overflow.peak_dropped
        inputs = [*pairs, kind_of_pass, view.body_q, self.overflow.tables, rows]
        self._table.launch(self._selects, inputs, [rows, nothing, self.counts.array])


class PassSpan(NamedTuple):
    """The part of a `ListedPath` that a pass covers."""

    ground: Span
    """Pairs of the `GroundTable`."""

    bodies: Span
    """Bodies of the `BodyPairs`."""


class ListedRanges(Ranges):
    """Ranges of a `ListedPath`: pairs from a list."""

    def __init__(
        self,
        pipeline: AdaptedPipeline,
        record: CapacityRecord,
        bodies: np.ndarray,
        capacity: int,
        spans: Sequence[PassSpan],
    ):
        """Take the spans of all ranges; the other arguments are those of `Ranges`."""
        super().__init__(pipeline, record, bodies, capacity)
        self._spans = spans
        self.find_span: Callable[[SapCollisionState, PassSpan, int], Any] | None = None
        """Fills `buffer` with the contacts of a span; its last argument is the kind of the pass."""

    def _find(self, i: int, view: SapCollisionState, kind_of_pass: int) -> None:
        assert self.find_span is not None
        self.find_span(view, self._spans[i], kind_of_pass)
