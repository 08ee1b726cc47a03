"""Stage 3b: equations. Nothing is launched, and no memory taken, for a model that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...core.kernels.structs import StructArgument
from ..equations.data import TRANSMISSION, Equations, EquationSource, EquationStage
from ..equations.rows import prepare_equations
from ..equations.sources import Equation, read_equations
from ..model.layout import Layout, LayoutSizes
from ..model.maps import Maps
from ..settings.precisions import solver_variant
from ..tendons.sources import TransmissionModel, read_transmissions
from ..tendons.stage import SapTendons, dense_rows, fill_input
from ..terms.bounded import UNBOUNDED

if TYPE_CHECKING:
    from ...model.model import SapModel
    from ..dynamics.free_motion import SapFreeMotion
    from ..settings.options import SapOptions
    from ..state.stage import SapBoundary


class SapEquations:
    """Owns the equations; `data` can be read after a step.

    Made before the layout is handed to kernels: equations widen the rows of its matrices.
    """

    def __init__(self, model: SapModel, layout: Layout, sizes: LayoutSizes, options: SapOptions, tendons: SapTendons):
        """Find the equations of ``model``, those along ``tendons`` too, and tell ``layout`` which dofs they couple."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.variant = solver_variant(options, model.device)
        self._tendons = tendons
        equations = _all_equations(model.newton_model, tendons.sources)
        self.count = len(equations)
        self.pattern = ([equation.pattern for equation in equations], tendons.pattern)
        self._maps = _EquationMaps(layout, tendons) if equations else None
        order = np.zeros(0, np.int64)
        worlds = np.zeros(0, np.int64)
        if self._maps is not None:
            worlds = np.array([self._maps.world(equation) for equation in equations])
            order = np.argsort(worlds, kind="stable")
        self._order = order
        self._build([equations[i] for i in order], worlds[order])
        self.refresh(equations)
        self._stage: StructArgument | None = None

    def _build(self, equations: list[Equation], worlds: np.ndarray) -> None:
        """Allocate the tables of equations that are ordered by world, and widen the layout."""
        device = self.model.device
        entries = [self._maps.entries(equation) for equation in equations] if self._maps is not None else []
        counts = [len(dofs) for dofs, _ in entries]
        self.data: Any = Equations.of(self.variant)()
        integers = {
            "world_row": np.searchsorted(worlds, np.arange(self.sizes.world_count + 1)),
            "row_entry": np.concatenate([[0], np.cumsum(counts)]),
            "entry_dof": np.concatenate([np.zeros(0), *(dofs for dofs, _ in entries)]),
            "entry_side": np.concatenate([np.zeros(0), *(sides for _, sides in entries)]),
        }
        for name, variable in self.data._cls.vars.items():
            if name == "bounded":
                self.data.bounded = int(self._tendons.count > 0)
                continue
            if name in integers:
                array = wp.array(integers[name].astype(np.int32), dtype=wp.int32, device=device)
            else:
                size = sum(counts) if name == "J" else len(equations)
                array = wp.zeros(size, dtype=variable.type.dtype, device=device)
            setattr(self.data, name, array)
        self.data.low.fill_(-UNBOUNDED)
        self.data.high.fill_(UNBOUNDED)
        self._tendons.assign_equations(_equations_of_terms(equations), self.data)
        self._sources = wp.zeros(len(equations), dtype=EquationSource, device=device)

        reach = self.layout.dof_reach.numpy()
        coupled = self.layout.world_coupled.numpy()
        for world, (dofs, _) in zip(worlds, entries, strict=True):
            if len(dofs):
                reach[dofs] = np.minimum(reach[dofs], dofs[0])
                coupled[world] = 1
        if equations:
            self.layout.dof_reach.assign(reach)
            self.layout.world_coupled.assign(coupled)

    def refresh(self, equations: list[Equation] | None = None) -> bool:
        """Read frames, coefficients and enable flags again; False if other equations than before are asked for."""
        if equations is None:
            sources = read_transmissions(self.model.newton_model)
            equations = _all_equations(self.model.newton_model, sources)
            if ([equation.pattern for equation in equations], sources.pattern) != self.pattern:
                return False
            self._tendons.refresh(sources)
        if self._maps is not None:
            record: Any = EquationSource
            packed = np.zeros(len(equations), dtype=record.numpy_dtype())
            for target, i in enumerate(self._order):
                self._maps.pack(equations[i], packed[target])
            self._sources.assign(wp.array(packed, dtype=EquationSource, device=self.model.device))
        return True

    def compute(self, boundary: SapBoundary, free_motion: SapFreeMotion, dt: float, worlds: WorldRange) -> None:
        """Fill `data` for the state held by ``boundary``."""
        if not self.count:
            return
        if self._stage is None:
            stage: Any = EquationStage.of(self.variant)()
            fill_input(stage.input, self, boundary, free_motion)
            stage.equations = self.data
            self._stage = StructArgument(stage, self.model.device)
        worlds.launch(
            prepare_equations.of(self.variant), self._stage.array, self._sources, dt, device=self.model.device
        )

    def dense(self, world: int = 0) -> np.ndarray:
        """J of one world for inspection, shape [rows, dofs]; columns in Newton's dof order of that world."""
        return dense_rows(self.layout, world, range(*self.range_of(world)), self.data.row_entry, self.data)

    def range_of(self, world: int = 0) -> tuple[int, int]:
        """First equation of a world and the one after its last."""
        first, last = self.data.world_row.numpy()[world : world + 2]
        return int(first), int(last)


def _all_equations(model: newton.Model, transmissions: TransmissionModel) -> list[Equation]:
    terms = range(len(transmissions.terms))
    return [*read_equations(model), *(Equation(TRANSMISSION, True, term=i) for i in terms)]


def _equations_of_terms(equations: list[Equation]) -> np.ndarray:
    """Number of the equation of each term."""
    numbers = {equation.term: i for i, equation in enumerate(equations) if equation.term >= 0}
    return np.array([numbers[i] for i in range(len(numbers))], np.int64)


class _EquationMaps(Maps):
    """Finds which dofs equations couple, and packs their records."""

    def __init__(self, layout: Layout, tendons: SapTendons):
        """Read the tables of ``layout``."""
        super().__init__(layout)
        self._tendons = tendons

    def world(self, equation: Equation) -> int:
        """World whose unknowns an equation couples; one of kinematic dofs alone belongs anywhere."""
        if equation.term >= 0:
            return int(self._tendons.term_worlds[equation.term])
        for dof in equation.dofs:
            if dof >= 0 and self.dof[dof] < self.free:
                return int(self.body_world[self.dof_body[self.dof[dof]]])
        for body in (equation.a, equation.b):
            if body >= 0 and self.chain[self.body[body]] >= 0:
                return int(self.body_world[self.body[body]])
        return 0

    def entries(self, equation: Equation) -> tuple[np.ndarray, np.ndarray]:
        """Dofs of an equation, growing, and the side of each."""
        if equation.term >= 0:
            dofs = self._tendons.dofs_of_term(equation.term)
            return dofs, np.zeros(len(dofs), np.int64)
        if equation.dofs[0] >= 0:
            sides = {int(self.dof[d]): side for side, d in enumerate(equation.dofs) if d >= 0}
            sides = {e: side for e, side in sides.items() if e < self.free}
        else:
            a, b = set(self.path(equation.a)), set(self.path(equation.b))
            sides = {e: -1 for e in a - b} | {e: 1 for e in b - a}
        growing = sorted(sides)
        return np.array(growing, np.int64), np.array([sides[e] for e in growing], np.int64)

    def pack(self, equation: Equation, out: Any) -> None:
        """Write ``equation`` into a record of `EquationSource`."""
        out["kind"], out["enabled"] = int(equation.kind), int(equation.enabled)
        out["a"], out["b"] = (int(self.body[i]) if i >= 0 else -1 for i in (equation.a, equation.b))
        out["p_aF"], out["p_bM"] = equation.X_a[:3], equation.X_b[:3]
        out["r_aF"], out["r_bM"] = (X[3:] / np.linalg.norm(X[3:]) for X in (equation.X_a, equation.X_b))
        out["n"], out["axis"] = equation.n, equation.axis
        out["coord_1"], out["coord_2"] = equation.coords
        out["dof_1"], out["dof_2"] = (int(self.dof[d]) if d >= 0 else -1 for d in equation.dofs)
        for i, value in enumerate(equation.polynomial):
            out[f"c{i}"] = value
