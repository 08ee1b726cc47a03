"""Stage 3b: constraint rows. Nothing is launched, and no memory taken, for a model that has none."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...core.kernels.structs import StructArgument
from ...core.kernels.types import TYPES
from ..model.layout import LayoutSizes
from ..model.maps import Maps
from ..tendons.sources import LengthModel, read_lengths
from ..tendons.stage import SapLengths, dense_rows, fill_row_input
from ..terms.bounded import UNBOUNDED
from .data import LENGTH, RowSource, make_constraint_data, make_row_stage
from .rows import make_constraint_kernel
from .sources import Row, constraint_rows


class SapConstraints:
    """Owns the rows; `data` can be read after a step. Made before the layout is handed to kernels: rows widen it."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes, options: Any, lengths: SapLengths):
        """Find the rows of ``model``, those along ``lengths`` too, and tell ``layout`` which dofs they couple."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.types = TYPES[options.contact_solve_precision]
        self._lengths = lengths
        rows = _all_rows(model.newton_model, lengths.sources)
        self.count = len(rows)
        self.pattern = ([row.pattern for row in rows], lengths.pattern)
        self._maps = _RowMaps(layout, lengths) if rows else None
        order = np.zeros(0, np.int64)
        worlds = np.zeros(0, np.int64)
        if self._maps is not None:
            worlds = np.array([self._maps.world(row) for row in rows])
            order = np.argsort(worlds, kind="stable")
        self._order = order
        self._build([rows[i] for i in order], worlds[order])
        self.refresh(rows)
        self._kernel: Any = None
        self._stage: StructArgument | None = None

    def _build(self, rows: list[Row], worlds: np.ndarray) -> None:
        device = self.model.device
        entries = [self._maps.entries(row) for row in rows] if self._maps is not None else []
        counts = [len(dofs) for dofs, _ in entries]
        self.data: Any = make_constraint_data(self.types)()
        integers = {
            "world_row": np.searchsorted(worlds, np.arange(self.sizes.world_count + 1)),
            "row_entry": np.concatenate([[0], np.cumsum(counts)]),
            "entry_dof": np.concatenate([np.zeros(0), *(dofs for dofs, _ in entries)]),
            "entry_side": np.concatenate([np.zeros(0), *(sides for _, sides in entries)]),
        }
        for name, variable in self.data._cls.vars.items():
            if name == "bounded":
                self.data.bounded = int(self._lengths.count > 0)
                continue
            if name in integers:
                array = wp.array(integers[name].astype(np.int32), dtype=wp.int32, device=device)
            else:
                size = sum(counts) if name == "J" else len(rows)
                array = wp.zeros(size, dtype=variable.type.dtype, device=device)
            setattr(self.data, name, array)
        self.data.low.fill_(-UNBOUNDED)
        self.data.high.fill_(UNBOUNDED)
        self._lengths.place_rows(_places_of_terms(rows), self.data)
        self._sources = wp.zeros(len(rows), dtype=RowSource, device=device)

        reach = self.layout.dof_reach.numpy()
        coupled = self.layout.world_coupled.numpy()
        for world, (dofs, _) in zip(worlds, entries, strict=True):
            if len(dofs):
                reach[dofs] = np.minimum(reach[dofs], dofs[0])
                coupled[world] = 1
        if rows:
            self.layout.dof_reach.assign(reach)
            self.layout.world_coupled.assign(coupled)

    def refresh(self, rows: list[Row] | None = None) -> bool:
        """Read frames, coefficients and enable flags again; False if other rows than before are asked for."""
        if rows is None:
            sources = read_lengths(self.model.newton_model)
            rows = _all_rows(self.model.newton_model, sources)
            if ([row.pattern for row in rows], sources.pattern) != self.pattern:
                return False
            self._lengths.refresh(sources)
        if self._maps is not None:
            record: Any = RowSource
            packed = np.zeros(len(rows), dtype=record.numpy_dtype())
            for target, i in enumerate(self._order):
                self._maps.pack(rows[i], packed[target])
            self._sources.assign(wp.array(packed, dtype=RowSource, device=self.model.device))
        return True

    def compute(self, boundary: Any, free_motion: Any, dt: float, worlds: WorldRange) -> None:
        """Fill `data` for the state held by ``boundary``."""
        if not self.count:
            return
        if self._stage is None:
            precisions = (free_motion.pose_types, free_motion.types, self.types)
            stage: Any = make_row_stage(*precisions)()
            fill_row_input(stage.input, self, boundary, free_motion)
            stage.rows = self.data
            self._stage = StructArgument(stage, self.model.device)
            self._kernel = make_constraint_kernel(*precisions)
        worlds.launch(self._kernel, self._stage.array, self._sources, dt, device=self.model.device)

    def dense(self, world: int = 0) -> np.ndarray:
        """J of one world for inspection, shape [rows, dofs]; columns in Newton's dof order of that world."""
        return dense_rows(self.layout, world, range(*self.rows(world)), self.data.row_entry, self.data)

    def rows(self, world: int = 0) -> tuple[int, int]:
        """First row of a world and the one after its last."""
        first, last = self.data.world_row.numpy()[world : world + 2]
        return int(first), int(last)


def _all_rows(model: newton.Model, lengths: LengthModel) -> list[Row]:
    return [*constraint_rows(model), *(Row(LENGTH, True, term=i) for i in range(len(lengths.terms)))]


def _places_of_terms(rows: list[Row]) -> np.ndarray:
    """Where the row of each term lies."""
    places = {row.term: i for i, row in enumerate(rows) if row.term >= 0}
    return np.array([places[i] for i in range(len(places))], np.int64)


class _RowMaps(Maps):
    """What rows couple."""

    def __init__(self, layout: Any, lengths: SapLengths):
        super().__init__(layout)
        self._lengths = lengths

    def world(self, row: Row) -> int:
        """World whose unknowns a row couples; a row of prescribed dofs alone belongs anywhere."""
        if row.term >= 0:
            return int(self._lengths.term_worlds[row.term])
        for dof in row.dofs:
            if dof >= 0 and self.dof[dof] < self.free:
                return int(self.body_world[self.dof_body[self.dof[dof]]])
        for body in (row.a, row.b):
            if body >= 0 and self.chain[self.body[body]] >= 0:
                return int(self.body_world[self.body[body]])
        return 0

    def entries(self, row: Row) -> tuple[np.ndarray, np.ndarray]:
        """Dofs of a row, growing, and the side of each."""
        if row.term >= 0:
            dofs = self._lengths.dofs_of_term(row.term)
            return dofs, np.zeros(len(dofs), np.int64)
        if row.dofs[0] >= 0:
            sides = {int(self.dof[d]): side for side, d in enumerate(row.dofs) if d >= 0}
            sides = {e: side for e, side in sides.items() if e < self.free}
        else:
            a, b = set(self.path(row.a)), set(self.path(row.b))
            sides = {e: -1 for e in a - b} | {e: 1 for e in b - a}
        growing = sorted(sides)
        return np.array(growing, np.int64), np.array([sides[e] for e in growing], np.int64)

    def pack(self, row: Row, out: Any) -> None:
        """Write ``row`` into a record of `RowSource`."""
        out["kind"], out["enabled"] = int(row.kind), int(row.enabled)
        out["a"], out["b"] = (int(self.body[i]) if i >= 0 else -1 for i in (row.a, row.b))
        out["p_aF"], out["p_bM"] = row.X_a[:3], row.X_b[:3]
        out["r_aF"], out["r_bM"] = (X[3:] / np.linalg.norm(X[3:]) for X in (row.X_a, row.X_b))
        out["n"], out["axis"] = row.n, row.axis
        out["coord_1"], out["coord_2"] = row.coords
        out["dof_1"], out["dof_2"] = (int(self.dof[d]) if d >= 0 else -1 for d in row.dofs)
        for i, value in enumerate(row.polynomial):
            out[f"c{i}"] = value
