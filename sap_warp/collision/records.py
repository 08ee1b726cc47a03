"""What collision passes found, counted on the device, and what is said when a buffer was too small."""

import warnings
from typing import Any

import numpy as np
import warp as wp

from ..contacts import ContactCapacityError, name_worlds
from ..faq import see
from ..kernels.structs import StructArgument
from .newton_compat import AdaptedPipeline
from .overflow import Overflow

LAST, LAST_DROPPED, PEAK, PEAK_DROPPED, PEAK_PAIRS, PEAK_TRIANGLES, REDUCTION_LOSS, PEAK_LOST = range(8)
"""Entries of a record: of the last pass, and the most of all passes."""


@wp.struct
class PassCounts:
    """Where a pass finds what Newton's stages counted, and where it notes its own counts."""

    pair_count: wp.array[wp.int32]
    triangle_count: wp.array[wp.int32]  # empty if Newton's stages count none
    record: wp.array[wp.int32]
    totals: wp.array[wp.int32]  # of passes over ranges of worlds, see `add_to_totals`


@wp.func
def note_most(record: wp.array[wp.int32], entry: int, value: int) -> None:
    """The larger one stays."""
    record[entry] = wp.max(record[entry], value)


@wp.func
def note_contacts(c: wp.ref[PassCounts], count: int, capacity: int, written: int, found_max: int) -> None:
    """Contacts that should be in the caller's buffer and its size; the same of the buffer that they were found in."""
    record = c.record
    dropped = wp.max(count - capacity, 0)
    record[wp.static(LAST)] = count
    record[wp.static(LAST_DROPPED)] = dropped
    note_most(record, wp.static(PEAK), count)
    note_most(record, wp.static(PEAK_DROPPED), dropped)
    note_most(record, wp.static(PEAK_LOST), written - found_max)


@wp.func
def note_stages(c: wp.ref[PassCounts], loss: int) -> None:
    """Pairs of shapes and of triangles that Newton's stages found, and its flag of lost candidates."""
    note_most(c.record, wp.static(PEAK_PAIRS), c.pair_count[0])
    if c.triangle_count.shape[0] > 0:
        note_most(c.record, wp.static(PEAK_TRIANGLES), c.triangle_count[0])
    note_most(c.record, wp.static(REDUCTION_LOSS), loss)


@wp.func
def add_to_totals(totals: wp.array[wp.int32], found: int, is_first: bool) -> None:
    """Add the contacts of one range of worlds to those of the ranges before it at the same pass.

    Args:
        totals: The number of the pass that was last counted, then the contacts of each pass.
        found: Contacts of the range.
        is_first: Whether it is the range's first pass since the last `note_totals`.
    """
    i = wp.where(is_first, 0, totals[0]) + 1
    totals[0] = i
    totals[i] = totals[i] + found


@wp.kernel(enable_backward=False)
def note_totals(counts: wp.array[PassCounts]) -> None:
    """The most contacts of all ranges at any pass, into the record. The totals are zero again then."""
    i = int(1)
    while i <= counts[0].totals[0]:
        note_most(counts[0].record, wp.static(PEAK), counts[0].totals[i])
        counts[0].totals[i] = 0
        i += 1


@wp.kernel(enable_backward=False)
def note_pass(
    counters: wp.array[wp.int32],
    capacity: int,
    written: wp.array[wp.int32],
    found_max: int,
    counts: wp.array[PassCounts],
) -> None:
    """What a pass found, by the counters of the caller's buffer and of the one that was written, with their sizes."""
    note_contacts(counts[0], counters[0], capacity, written[0], found_max)
    note_stages(counts[0], counters[2])


class CapacityRecord:
    """Keeps the counts of every collision pass on the device, and reports them when the host asks."""

    def __init__(self, pipeline: AdaptedPipeline, strict: bool, overflow: Overflow):
        """Watch the passes of ``pipeline``; ``strict`` makes dropped contacts an error."""
        self.strict = strict
        self._arrays, self._pair_max = pipeline.arrays, pipeline.shape_pairs_max
        self._overflow = overflow
        self._record = wp.zeros(8, dtype=wp.int32, device=pipeline.device)
        self._counts = self.counts_with(wp.empty(0, dtype=wp.int32, device=pipeline.device))
        self._warned = False

    @property
    def counts(self) -> wp.array:
        """The `PassCounts` as an argument of kernels."""
        return self._counts.array

    def counts_with(self, totals: wp.array) -> StructArgument:
        """The same with totals over ranges of worlds."""
        counts: Any = PassCounts()
        counts.pair_count, counts.triangle_count = self._arrays.pair_count, self._arrays.triangle_count
        counts.record, counts.totals = self._record, totals
        return StructArgument(counts, totals.device)

    def read(self) -> np.ndarray:
        """Wait for the device and return the record; warn once, or raise if strict, when something was dropped.

        Raises:
            ContactCapacityError: Something was dropped since the last `clear` and ``strict`` is set.
        """
        record = self._record.numpy()
        problems = self._full_buffer(record) + self.inner_problems()
        if problems and self.strict:
            raise ContactCapacityError(" ".join(problems) + see("dropped-contacts"))
        if problems and not self._warned:
            self._warned = True
            warnings.warn(" ".join(problems) + see("dropped-contacts"), RuntimeWarning, stacklevel=3)
        return record

    @property
    def counters(self) -> list[wp.array]:
        """Arrays that passes add to: the record, and the most contacts that each bin lost, empty if none can."""
        return [self._record, self._overflow.peak_dropped]

    def clear(self) -> None:
        """Forget the past; a later overflow is reported again."""
        for array in self.counters:
            array.zero_()
        self._warned = False

    def _where(self, record: np.ndarray) -> str:
        """Which worlds lost contacts, as far as it is known."""
        worlds = name_worlds(self._overflow.peak_dropped.numpy())
        where = f", in {worlds}" if worlds else ""
        if record[PEAK_LOST] > 0:
            where += f"; {record[PEAK_LOST]} of them in the order they were found, whatever their world and depth"
        return where

    def _full_buffer(self, record: np.ndarray) -> list[str]:
        if record[PEAK_DROPPED] <= 0:
            return []
        return [
            f"The contact buffer was too small: a collision pass found {record[PEAK]} contacts and dropped "
            f"{record[PEAK_DROPPED]}{self._where(record)}. Set rigid_contact_max={record[PEAK]} or more."
        ]

    def inner_problems(self) -> list[str]:
        """What buffers inside of Newton's stages could not hold, and what to set. Waits for the device."""
        record = self._record.numpy()
        problems = []
        if record[PEAK_PAIRS] > self._pair_max:
            problems.append(
                f"The broad phase found {record[PEAK_PAIRS]} shape pairs and has room for {self._pair_max}. "
                f"Set shape_pairs_max={record[PEAK_PAIRS]} or more."
            )
        if record[PEAK_TRIANGLES] > self._arrays.triangle_max:
            problems.append(
                f"The narrow phase found {record[PEAK_TRIANGLES]} triangle pairs and has room for "
                f"{self._arrays.triangle_max}. Set max_triangle_pairs={record[PEAK_TRIANGLES]} or more."
            )
        if record[REDUCTION_LOSS] > 0:
            problems.append("Contact reduction of mesh pairs lost candidates. Raise max_triangle_pairs.")
        return problems
