"""The record of all collision passes, kept on the device, and the reports of buffers that were too small."""

import warnings
from typing import Any

import numpy as np
import warp as wp

from ...core.faq import see
from ...core.kernels.structs import StructArgument
from ...model.contacts import ContactCapacityError, name_worlds
from ..newton_compat import AdaptedPipeline
from .counts import PEAK, PEAK_DROPPED, PEAK_LOST, PEAK_PAIRS, PEAK_TRIANGLES, REDUCTION_LOSS, PassCounts
from .overflow import Overflow


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
        """`PassCounts` of this record as an argument of kernels."""
        return self._counts.array

    def counts_with(self, totals: wp.array) -> StructArgument:
        """Make the `PassCounts` of this record with ``totals`` over ranges of worlds."""
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
        """Name the worlds that lost contacts, as far as they are known."""
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
        """Report buffers inside Newton's stages that were too small, and the setting to raise. Waits for the device."""
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
