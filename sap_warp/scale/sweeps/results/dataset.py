"""Folder of a sweep: its definition, its points, and its rows in Parquet files.

    sweep.json             the definition, versions, and digests of scene and model
    points.parquet         the inputs of every point
    rows/part-000000.parquet, ...   rows, each point once
    failed/part-000000.parquet, ... rows of failures that were tried again

Only the process that runs the sweep writes here, and a lock keeps a second one out. A file is written beside its place,
under a name that readers of Parquet datasets pass over, and renamed: what is there is complete, at every moment.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from ..definition.definition import FORMAT, Definition
from ..definition.points import Point
from ..definition.values import Value
from ..errors import SweepError
from .summary import NUMBERS

RUN_COLUMNS = ("attempt", "wall_seconds", "host", "process")
"""Columns that depend on how and where a row was computed; all others depend on the sweep alone."""
_VERSIONS = ("sap_warp", "warp", "newton", "numpy", "python", "device")
DEFINITION, POINTS, ROWS, FAILED = "sweep.json", "points.parquet", "rows", "failed"
INSTALL = "pip install 'sap-warp[scale]'"


def import_pyarrow() -> Any:
    """Import pyarrow with Parquet and datasets; an error says what to install.

    Raises:
        ImportError: It is missing; the message says what to install.
    """
    try:
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"Sweeps are kept in Parquet files, which needs pyarrow ({error}): {INSTALL}") from None
    return pyarrow


def make_schema(paths: Sequence[str], kinds: Sequence[str], signals: Sequence[str]) -> Any:
    """Return the columns of a row.

    Args:
        paths: Of the parameters, a column each.
        kinds: Of their values: double, int64, bool or string.
        signals: Names of signals that are kept, a column of lists each, and one for their times.
    """
    pa = import_pyarrow()
    text, number = pa.string(), pa.float64()
    fields = [("point", pa.int64()), *zip(paths, (getattr(pa, _ARROW[kind])() for kind in kinds), strict=True)]
    fields += [("seed", pa.int64()), ("status", text), ("success", pa.bool_()), ("ended", text)]
    fields += [(name, number) for name in NUMBERS]
    fields += [(name, pa.list_(number)) for name in (["time", *signals] if signals else [])]
    fields += [(name, text) for name in ("error", "reproduce", "scene", "scene_digest", *_VERSIONS)]
    fields += [("attempt", pa.int64()), ("wall_seconds", number), ("host", text), ("process", pa.int64())]
    names = [name for name, _ in fields]
    for name in names:
        if names.count(name) > 1:
            raise SweepError(f"Two columns would be called {name!r}.")
    return pa.schema(fields)


_ARROW = {"double": "float64", "int64": "int64", "bool": "bool_", "string": "string"}


def kind_of(values: Iterable[Value]) -> str:
    """Return the type of a column that holds such values; words where they are mixed."""
    types = {type(value) for value in values}
    if types <= {int, float}:
        return "int64" if types == {int} else "double"
    return "bool" if types == {bool} else "string"


def as_kind(value: Value, kind: str) -> Any:
    """Return ``value`` as its column holds it."""
    return float(value) if kind == "double" else str(value) if kind == "string" else value


def make_table(schema: Any, paths: Sequence[str], kinds: Sequence[str], rows: Sequence[dict[str, Any]]) -> Any:
    """Return rows of `run_task` as a table."""
    pa = import_pyarrow()
    flat = []
    for row in rows:
        inputs = {p: as_kind(v, kind) for p, v, kind in zip(paths, row["inputs"], kinds, strict=True)}
        flat.append({**row, **inputs, **row["series"]})
    return pa.table([pa.array([row.get(f.name) for row in flat], f.type) for f in schema], schema=schema)


class Dataset:
    """Folder of a sweep, open for reading."""

    def __init__(self, folder: str | os.PathLike[str]):
        """Open a folder; nothing is made.

        Raises:
            SweepError: There is no sweep in it.
        """
        self.folder = Path(folder)
        try:
            self.meta: dict[str, Any] = json.loads((self.folder / DEFINITION).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SweepError(f"There is no sweep in {self.folder}.") from None
        except ValueError as error:
            raise SweepError(f"{self.folder / DEFINITION} is damaged: {error}") from None
        if self.meta.get("format") != FORMAT:
            raise SweepError(f"{self.folder} has format {self.meta.get('format')}; this version reads {FORMAT}.")
        self.definition = Definition.from_json(self.meta["definition"])
        self.kinds: list[str] = self.meta["kinds"]
        self.signals: list[str] = self.meta["signals"]
        self.schema = make_schema(self.definition.paths, self.kinds, self.signals)

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], definition: Definition, points: Sequence[Point], facts: dict[str, Any]
    ) -> Dataset:
        """Begin a sweep in a folder that has none; ``facts`` are further entries of its file.

        Raises:
            SweepError: There is something in the folder already, or it cannot be made.
        """
        pa = import_pyarrow()
        path = Path(folder)
        if (path / DEFINITION).exists():
            raise SweepError(f"There is a sweep in {path} already; go on with it (--resume), or take another folder.")
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(entry.name not in (POINTS, ROWS, LOCK) for entry in path.iterdir()):
                raise SweepError(f"{path} has other files in it; take another folder.")
            (path / ROWS).mkdir(exist_ok=True)
        except OSError as error:
            raise SweepError(f"The folder {path} cannot be made: {error}") from None
        columns = list(zip(*(point.values for point in points), strict=True)) or []
        kinds = [kind_of(column) for column in columns]
        facts = {**facts, "kinds": kinds}
        make_schema(definition.paths, kinds, facts["signals"])
        table = {"point": pa.array(range(len(points)), pa.int64())}
        for name, kind, column in zip(definition.paths, kinds, columns, strict=True):
            table[name] = pa.array([as_kind(value, kind) for value in column])
        table["seed"] = pa.array([point.seed for point in points], pa.int64())
        _write_aside(path / POINTS, lambda aside: pa.parquet.write_table(pa.table(table), aside))
        text = json.dumps({"format": FORMAT, "definition": definition.to_json(), **facts}, indent=1) + "\n"
        _write_aside(path / DEFINITION, lambda aside: aside.write_text(text, encoding="utf-8"))
        return cls(path)

    @property
    def parts(self) -> list[Path]:
        """Return the files of rows, oldest first."""
        return sorted((self.folder / ROWS).glob("part-*.parquet"))

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Return all rows, by point, as a `pyarrow.Table`."""
        pa = import_pyarrow()
        if not self.parts:
            table = self.schema.empty_table()
            return table if columns is None else table.select(list(columns))
        wanted = None if columns is None else [*columns, *(["point"] if "point" not in columns else [])]
        found = pa.dataset.dataset([str(part) for part in self.parts], schema=self.schema, format="parquet")
        table = found.to_table(columns=wanted).sort_by("point")
        return table if columns is None else table.select(list(columns))

    def statuses(self) -> dict[int, str]:
        """Return the status of every point that has a row."""
        table = self.read(["point", "status"])
        return dict(zip(table["point"].to_pylist(), table["status"].to_pylist(), strict=True))

    def check_points(self, points: Sequence[Point]) -> None:
        """Check that the definition still leads to the points that were written down.

        Raises:
            SweepError: It does not, for example because another NumPy draws other numbers.
        """
        stored = import_pyarrow().parquet.read_table(self.folder / POINTS)
        columns = list(zip(*(point.values for point in points), strict=True)) or []
        same = stored.num_rows == len(points) and stored["seed"].to_pylist() == [point.seed for point in points]
        for name, kind, column in zip(self.definition.paths, self.kinds, columns, strict=True):
            same = same and stored[name].to_pylist() == [as_kind(value, kind) for value in column]
        if not same:
            raise SweepError(f"{self.folder} has other points than its definition gives here: begin again elsewhere.")


LOCK = ".lock"


class Writer:
    """Adds rows to the folder; only one process may do so."""

    def __init__(self, dataset: Dataset):
        """Take the lock, and remove what a process that was killed left half written.

        Raises:
            SweepError: Another process has it.
        """
        self.dataset = dataset
        self._lock = (dataset.folder / LOCK).open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise SweepError(f"Another process runs the sweep in {dataset.folder} now: {owner}.") from None
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()} on {os.uname().nodename}")
        self._lock.flush()
        for folder in (dataset.folder, dataset.folder / ROWS, dataset.folder / FAILED):
            for left in folder.glob(".*.tmp"):
                left.unlink()

    def add(self, tables: Sequence[Any]) -> None:
        """Write rows as another file."""
        pa = import_pyarrow()
        parts = self.dataset.parts
        number = int(parts[-1].stem.rpartition("-")[2]) + 1 if parts else 0
        table = pa.concat_tables(tables)
        self._put(self.dataset.folder / ROWS / f"part-{number:06d}.parquet", table)

    def take_failures_out(self) -> int:
        """Move rows of failures to a folder of their own, so that they count as not run; returns their number."""
        pa = import_pyarrow()
        count = 0
        for part in self.dataset.parts:
            table = pa.parquet.read_table(part, schema=self.dataset.schema)
            bad = pa.compute.equal(table["status"], "failed")
            failures = table.filter(bad)
            if not failures.num_rows:
                continue
            count += failures.num_rows
            folder = self.dataset.folder / FAILED
            folder.mkdir(exist_ok=True)
            number = len(list(folder.glob("part-*.parquet")))
            self._put(folder / f"part-{number:06d}.parquet", failures)
            rest = table.filter(pa.compute.invert(bad))
            if rest.num_rows:
                self._put(part, rest)
            else:
                part.unlink()
        return count

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, path: Path, table: Any) -> None:
        _write_aside(path, lambda aside: import_pyarrow().parquet.write_table(table, aside))


def _write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Let ``write`` make a file beside ``path``, sync it to the disk, and rename it."""
    aside = path.with_name(f".{path.name}.tmp")
    write(aside)
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
