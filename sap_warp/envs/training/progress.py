"""What a training reports: episodes that ended, a table of all updates, curves and a line or a bar."""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np

from .. import Ended


class Episodes:
    """Collects the episodes that ended, for means over the last of them."""

    def __init__(self, last: int = 256):
        """Remember so many."""
        self._values: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=last))
        self.count = 0
        """Episodes that ended so far."""

    def add(self, ended: Ended) -> None:
        """Take episodes in."""
        self.count += len(ended.lengths)
        self._values["return"].extend(map(float, ended.returns))
        self._values["length"].extend(map(float, ended.lengths))
        for name, values in ended.terms.items():
            self._values[name].extend(map(float, values))

    def means(self) -> dict[str, float]:
        """Means over the last episodes; empty as long as none has ended."""
        return {name: float(np.mean(values)) for name, values in self._values.items()}


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class History:
    """One row for each update of a training."""

    def __init__(self, rows: list[dict[str, float]] | None = None):
        """Go on behind ``rows``."""
        self.rows = list(rows or [])

    def add(self, row: dict[str, float]) -> None:
        """Add a row."""
        self.rows.append(row)

    def write_csv(self, path: Path) -> None:
        """Write all rows."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: f"{value:.6g}" for name, value in row.items()} for row in self.rows])
        write_atomically(path, text.getvalue().encode())

    def write_curves(self, path: Path, title: str, names: list[str]) -> bool:
        """Draw columns over the steps taken; returns False where matplotlib is not installed."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return False
        names = [name for name in names if any(name in row for row in self.rows)]
        columns = min(2, len(names)) or 1
        lines = -(-len(names) // columns) or 1
        figure = Figure(figsize=(5.0 * columns, 2.6 * lines), layout="constrained")
        figure.suptitle(title)
        for place, name in enumerate(names):
            axes = figure.add_subplot(lines, columns, place + 1)
            points = [(row["steps"] / 1e6, row[name]) for row in self.rows if name in row]
            axes.plot(*zip(*points, strict=True), color="tab:blue")
            axes.set_title(name.replace("_", " "), fontsize=10)
            axes.grid(alpha=0.3)
            if place >= len(names) - columns:
                axes.set_xlabel("environment steps [million]")
        image: Any = io.BytesIO()
        figure.savefig(image, format="png", dpi=110)
        write_atomically(path, image.getvalue())
        return True
