"""Files of recorded signals: tables, arrays and drawings."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.faq import see
from .catalog import QUANTITIES

if TYPE_CHECKING:
    from .recording import SignalRecording

_INSTALL = "pip install 'sap-warp[plot]', or write .csv." + see("missing-extra")
SUFFIXES = (".csv", ".npz", ".parquet", ".png", ".svg", ".pdf")
FEW_WORLDS = 6
"""Most worlds that have a line each in a drawing; more are drawn as mean and range."""


def check_signal_file(path: Path) -> None:
    """Check the name and folder of a file before the work begins.

    Raises:
        ValueError: The kind of file is not known, or its folder does not exist.
        ImportError: A package for it is missing.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"cannot write {path}: the ending of the name says what, one of {', '.join(SUFFIXES)}.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.absolute().parent}.")
    if suffix == ".parquet":
        import_pyarrow()
    elif suffix in (".png", ".svg", ".pdf"):
        import_matplotlib()


def import_pyarrow() -> Any:
    """Import pyarrow with Parquet; an error says what to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"Parquet needs pyarrow ({error}): {_INSTALL}") from None
    return pyarrow


def import_matplotlib() -> Any:
    """Return classes of a figure and its canvas; an error says what to install."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"Drawings need matplotlib ({error}): {_INSTALL}") from None
    return Figure, FigureCanvasAgg


def write_any(record: SignalRecording, path: Path) -> Path:
    """Implement `SignalRecording.save`."""
    check_signal_file(path)
    writers: dict[str, Callable[[SignalRecording, Path], Path]] = {
        ".csv": write_csv,
        ".npz": write_npz,
        ".parquet": write_parquet,
    }
    return writers.get(path.suffix.lower(), write_plot)(record, path)


def _columns(record: SignalRecording) -> dict[str, np.ndarray]:
    """Return the table: samples one after another, worlds of each together."""
    worlds, samples = len(record.worlds), len(record)
    table: dict[str, np.ndarray] = {"time": np.repeat(record.time, worlds), "step": np.repeat(record.step, worlds)}
    table["world"] = np.tile(record.worlds, samples)
    values = record.values
    for i, name in enumerate(record.names):
        table[name] = values[:, i].ravel()
    return table


def write_csv(record: SignalRecording, path: Path) -> Path:
    """Implement `SignalRecording.to_csv`."""
    table = _columns(record)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows([f"{value:.9g}" for value in row] for row in zip(*table.values(), strict=True))
    return path


def write_npz(record: SignalRecording, path: Path) -> Path:
    """Implement `SignalRecording.to_npz`."""
    arrays: dict[str, Any] = {
        "time": record.time,
        "step": record.step,
        "worlds": record.worlds,
        "names": np.array(record.names),
    }
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays, values=record.values)
    return path


def write_parquet(record: SignalRecording, path: Path) -> Path:
    """Implement `SignalRecording.to_parquet`."""
    pyarrow = import_pyarrow()
    pyarrow.parquet.write_table(pyarrow.table(_columns(record)), path)
    return path


def write_plot(record: SignalRecording, path: Path) -> Path:
    """Implement `SignalRecording.plot`."""
    Figure, Canvas = import_matplotlib()
    groups: dict[str, list[int]] = {}
    for i, signal in enumerate(record.signals):
        groups.setdefault(signal.quantity, []).append(i)
    figure = Figure(figsize=(8.0, 0.6 + 2.3 * len(groups)), layout="constrained")
    Canvas(figure)
    axes = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (quantity, members) in zip(axes, groups.items(), strict=True):
        for i in members:
            _draw(axis, record, i)
        unit = QUANTITIES[quantity].unit
        axis.set_ylabel(f"{quantity} [{unit}]" if unit else quantity)
        axis.grid(True, alpha=0.3)
        if len(members) > 1 or 1 < len(record.worlds) <= FEW_WORLDS:
            axis.legend(fontsize="x-small", loc="upper right", ncols=1 + len(axis.lines) // 6)
    axes[-1].set_xlabel("time [s]")
    figure.savefig(path, dpi=130)
    return path


def _draw(axis: Any, record: SignalRecording, i: int) -> None:
    """Draw one signal: a line for each of a few worlds, or mean and range of many."""
    values, name = record.values[:, i], record.names[i].partition(":")[2] or record.names[i]
    if len(record.worlds) > FEW_WORLDS:
        (line,) = axis.plot(record.time, values.mean(axis=1), label=name, linewidth=1.2)
        axis.fill_between(record.time, values.min(axis=1), values.max(axis=1), alpha=0.2, color=line.get_color())
        return
    for k, world in enumerate(record.worlds):
        label = name if len(record.worlds) == 1 else f"{name}, world {world}"
        axis.plot(record.time, values[:, k], label=label, linewidth=1.2)
