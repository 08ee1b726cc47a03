"""Result of a sweep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .dataset import RUN_COLUMNS, Dataset, import_pyarrow


class SweepResult:
    """Rows of a sweep, read from its folder whenever they are asked for."""

    def __init__(self, folder: str | os.PathLike[str]):
        """Open the folder of a sweep, also of one that still runs.

        Raises:
            SweepError: There is none.
        """
        self.dataset = Dataset(folder)

    @property
    def folder(self) -> Path:
        """Return the folder."""
        return self.dataset.folder

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the paths of the varied parameters."""
        return self.dataset.definition.paths

    @property
    def point_count(self) -> int:
        """Return the number of points of the whole sweep."""
        return int(import_pyarrow().parquet.read_metadata(self.folder / "points.parquet").num_rows)

    def __len__(self) -> int:
        """Return the number of points that have a row."""
        return len(self.dataset.statuses())

    @property
    def failures(self) -> dict[int, str]:
        """Return errors of points that could not be run, by their number."""
        table = self.dataset.read(["point", "status", "error"]).to_pylist()
        return {row["point"]: row["error"] for row in table if row["status"] == "failed"}

    def table(self, run_columns: bool = True) -> Any:
        """Return all rows by point as a `pyarrow.Table`; ``.to_pandas()`` makes a data frame of it.

        Args:
            run_columns: Whether with columns that say how and where a row was computed. All others are the same, bit
                by bit, for every engine, number of workers and size of batches.
        """
        table = self.dataset.read()
        return table if run_columns else table.drop_columns(list(RUN_COLUMNS))

    def __getitem__(self, column: str) -> np.ndarray:
        """Return one column by point: a parameter, a number, ``"success"``, ..."""
        return np.array(self.dataset.read([column])[column].to_pylist())

    def plot(self, path: str | os.PathLike[str], y: str = "success", x: str | None = None) -> Path:
        """Draw a number over a parameter; see `sap_warp.scale.sweeps.results.plot`."""
        from .plot import write_plot

        return write_plot(self.dataset, Path(path), y, x)

    def __repr__(self) -> str:
        return f"<SweepResult {self.folder}: {len(self)} of {self.point_count} points, {len(self.failures)} failed>"
