"""Collect signals while a simulation runs."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import warp as wp

from ...core.kernels.template import Variant
from ...core.runtime.capture import launches
from .catalog import Signal, find_signals
from .kernels import gather

CHUNK = 256
"""Samples that are kept on the device before they are read together."""


class SignalRecording:
    """Signals over time: samples are copied on the device every ``every`` steps, and read in bundles.

    Example:
        ```python
        with sim.record(["joint_q:left_knee", "energy"], every=5) as record:
            sim.step(400)
        record["energy"]  # shape (80, worlds)
        record.plot("energy.png")
        ```
    """

    def __init__(
        self, sim: Any, signals: str | Iterable[str], every: int = 1, worlds: Iterable[int] | int | None = None
    ):
        """Begin; the first sample is taken after the next ``every`` steps. See `Simulation.record`."""
        self.signals: list[Signal] = find_signals(sim, signals)
        """What is recorded."""
        self.every: int = every
        """Steps between samples."""
        self.worlds: np.ndarray = _choose(worlds, sim.world_count)
        """Which worlds."""
        self._sim = sim
        device = sim.device
        columns = len(self.signals) * len(self.worlds)
        self._samples = wp.zeros((CHUNK, columns), dtype=wp.float64, device=device)
        self._row = 0
        self._chunks: list[np.ndarray] = []
        self._times: list[float] = []
        self._steps: list[int] = []
        self._refresh: list[Callable[[], None]] = []
        self._gathers = self._plan(device)
        self._remove: Callable[[], None] | None = sim.add_callback(self._sample, every)

    def _plan(self, device: Any) -> list[tuple[Any, int, list[wp.array]]]:
        """Plan one launch for each array that signals are entries of."""
        wanted: dict[int, tuple[Any, list[tuple[int, int]]]] = {}
        seen: set[int] = set()
        for s, signal in enumerate(self.signals):
            for step in signal.source.refresh:
                if id(step) not in seen:
                    seen.add(id(step))
                    self._refresh.append(step)
            for part in signal.source.parts:
                pairs = wanted.setdefault(part.array.ptr, (part, []))[1]
                for w, world in enumerate(self.worlds):
                    entry = int(signal.entries[world]) - part.first
                    if 0 <= entry < part.array.size:
                        pairs.append((entry, s * len(self.worlds) + w))
        gathers = []
        for part, pairs in wanted.values():
            if pairs:
                entry, column = (wp.array(x, dtype=wp.int32, device=device) for x in zip(*pairs, strict=True))
                kernel = gather.of(Variant(dtype=part.array.dtype))
                gathers.append((kernel, len(pairs), [part.array, entry, column]))
        return gathers

    @launches
    def _sample(self, sim: Any) -> None:
        if self._row == CHUNK:
            self._flush()
        for step in self._refresh:
            step()
        for kernel, count, inputs in self._gathers:
            wp.launch(kernel, count, inputs=[self._row, *inputs], outputs=[self._samples], device=sim.device)
        self._row += 1
        self._times.append(sim.time)
        self._steps.append(sim.step_count)

    def _flush(self) -> None:
        if self._row:
            self._chunks.append(self._samples.numpy()[: self._row].copy())
            self._row = 0

    def stop(self) -> None:
        """Take no more samples; a second call does nothing."""
        if self._remove is not None:
            self._remove()
            self._remove = None

    def clear(self) -> None:
        """Forget the samples so far."""
        self._row = 0
        self._chunks, self._times, self._steps = [], [], []

    # What was recorded.

    @property
    def names(self) -> list[str]:
        """Names of the signals."""
        return [signal.name for signal in self.signals]

    @property
    def time(self) -> np.ndarray:
        """Time of each sample [s], shape (samples,)."""
        return np.array(self._times)

    @property
    def step(self) -> np.ndarray:
        """Number of the step after which each sample was taken, shape (samples,)."""
        return np.array(self._steps, np.int64)

    @property
    def values(self) -> np.ndarray:
        """All samples, shape (samples, signals, worlds)."""
        self._flush()
        shape = (-1, len(self.signals), len(self.worlds))
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0].reshape(shape) if self._chunks else np.zeros((0, *shape[1:]))

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, name: str) -> np.ndarray:
        """Return samples of one signal, shape (samples, worlds); a vector has one more axis."""
        names = self.names
        if name in names:
            return self.values[:, names.index(name)]
        parts = [i for i, known in enumerate(names) if known.rpartition(".")[0] == name]
        if not parts:
            raise KeyError(f"{name!r} was not recorded; there is: {', '.join(names)}.")
        return np.moveaxis(self.values[:, parts], 1, 2)

    def __repr__(self) -> str:
        state = "recording" if self._remove is not None else "stopped"
        return (
            f"<SignalRecording of {', '.join(self.names)}: {len(self)} samples of {len(self.worlds)} worlds, {state}>"
        )

    # Files.

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write one line for each sample and world, with a header."""
        from .files import write_csv

        return write_csv(self, Path(path))

    def to_npz(self, path: str | os.PathLike[str]) -> Path:
        """Write ``time``, ``step``, ``worlds``, ``names`` and ``values``, for `numpy.load`."""
        from .files import write_npz

        return write_npz(self, Path(path))

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write the table of `to_csv` as Parquet; needs pyarrow."""
        from .files import write_parquet

        return write_parquet(self, Path(path))

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw all signals over time, by quantity; needs matplotlib."""
        from .files import write_plot

        return write_plot(self, Path(path))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the format of the file's ending: .csv, .npz, .parquet, or a drawing (.png, .svg, .pdf)."""
        from .files import write_any

        return write_any(self, Path(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _choose(given: Any, count: int) -> np.ndarray:
    if given is None:
        return np.arange(count)
    many = [given] if isinstance(given, (int, np.integer)) else given
    try:
        chosen = np.array([operator.index(world) for world in many], int)
    except TypeError:
        raise TypeError(f"worlds is {given!r}; it must be the number of a world, or several.") from None
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= count:
        raise ValueError(f"worlds is {given!r}; there are worlds 0 to {count - 1}.")
    return chosen
