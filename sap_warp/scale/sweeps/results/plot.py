"""Plot of a number of a sweep over one of its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ....look.signals.files import import_matplotlib
from ..errors import SweepError
from .dataset import Dataset
from .summary import NUMBERS

FEW = 8
"""Most values of a further parameter that have a line each."""
MANY = 60
"""Number of values of the parameter from which on points are drawn instead of lines."""
ENDINGS = (".png", ".svg", ".pdf")


def check_plot(dataset_paths: tuple[str, ...], path: Path, y: str, x: str | None, has_seeds: bool = True) -> None:
    """Check the arguments before the work begins.

    Raises:
        SweepError: There is no such number or parameter, or such a file cannot be written.
        ImportError: matplotlib is missing.
    """
    if path.suffix.lower() not in ENDINGS:
        raise SweepError(f"cannot draw {path}: the ending of the name says what, one of {', '.join(ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise SweepError(f"cannot write {path}: there is no folder {path.absolute().parent}.")
    if y not in NUMBERS and y != "success":
        raise SweepError(f"There is no number {y!r} to draw; there is: success, {', '.join(NUMBERS)}.")
    known = [*dataset_paths, *(["seed"] if has_seeds else [])]
    if x is not None and x not in known:
        raise SweepError(f"{x!r} is not varied in this sweep; there is: {', '.join(known)}.")
    import_matplotlib()


def write_plot(dataset: Dataset, path: Path, y: str = "success", x: str | None = None) -> Path:
    """Draw a number over a parameter; runs that differ in something else are drawn as their mean and range.

    Args:
        dataset: The sweep.
        path: File to write: .png, .svg or .pdf.
        y: One of NUMBERS, or ``"success"``.
        x: A parameter, or ``"seed"``; None is the first one. If there is another one with few values, each has a line.
    """
    paths = dataset.definition.paths
    has_seeds = dataset.definition.seeds is not None
    check_plot(paths, path, y, x, has_seeds)
    x = x or (paths[0] if paths else "seed")
    others = [name for name in paths if name != x]
    rows = dataset.read([x, y, "status", *others]).to_pylist()
    rows = [row for row in rows if row["status"] == "ok"]
    if not rows:
        raise SweepError(f"No point of {dataset.folder} has numbers to draw.")
    by = next((name for name in others if 1 < len({row[name] for row in rows}) <= FEW), None)
    Figure, Canvas = import_matplotlib()
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    Canvas(figure)
    axis = figure.subplots()
    for value in sorted({row[by] for row in rows}, key=str) if by else [None]:
        group = [row for row in rows if by is None or row[by] == value]
        _draw(axis, group, x, y, "" if by is None else f"{by} = {_show(value)}")
    unit = "" if y == "success" else NUMBERS[y][0]
    axis.set_ylabel(f"{y} [{unit}]" if unit else y)
    axis.set_xlabel(x)
    _scale(axis, dataset, x)
    axis.grid(True, alpha=0.3)
    if by is not None:
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=130)
    return path


def _draw(axis: Any, rows: list[dict[str, Any]], x: str, y: str, label: str) -> None:
    """Draw mean and range of ``y`` at each value of ``x``; single points where there are too many values for a line."""
    groups: dict[Any, list[float]] = {}
    for row in rows:
        groups.setdefault(row[x], []).append(float(row[y]))
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in groups)
    at = sorted(groups) if numeric else sorted(groups, key=str)
    ticks = at if numeric else list(map(str, at))
    mean = [float(np.mean(groups[value])) for value in at]
    if len(at) > MANY:
        axis.plot(ticks, mean, ".", markersize=3.0, label=label)
        return
    (line,) = axis.plot(ticks, mean, marker="o", markersize=3.5, linewidth=1.2, label=label)
    low, high = ([float(pick(groups[value])) for value in at] for pick in (min, max))
    if low != high:
        axis.fill_between(ticks, low, high, alpha=0.15, color=line.get_color())


def _scale(axis: Any, dataset: Dataset, x: str) -> None:
    """Return the scale of an axis: logarithmic if values have equal factors between them."""
    found = [v for v in dataset.definition.variations if v.path == x]
    if not found:
        return
    values = [value for value in found[0].values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if found[0].log or (len(values) == len(found[0].values) > 2 and min(values) > 0.0 and _grows(values)):
        axis.set_xscale("log")


def _grows(values: list[Any]) -> bool:
    """Return True if values grow by nearly equal factors."""
    factors = np.diff(np.log(np.array(sorted(values), float)))
    return bool(factors.min() > 0.2 and np.ptp(factors) < 0.05 * factors.max())


def _show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
