"""Stage 3c: lengths of tendons and transmissions, and the rows along them. Models without any pay nothing."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...core.kernels.structs import StructArgument
from ...core.kernels.types import TYPES
from ..equations.data import make_row_stage
from ..model.initial_poses import reference_coordinates
from ..model.layout import LayoutSizes
from ..model.maps import Maps
from .actuation import SapActuation
from .data import NO_SIDE, LengthPart, Lengths, LengthSource, LengthTerm
from .rows import make_length_kernel
from .sources import Length, LengthModel, Part, read_lengths
from .terms import make_advance_kernel, make_term_kernel

_TINY_STEP = 1e-9
"""Time step with which A is the mass matrix [s]."""


def fill_row_input(target: Any, owner: Any, boundary: Any, free_motion: Any) -> None:
    """Let a `RowInput` show the state held by ``boundary``; ``owner`` has layout and sizes."""
    target.layout, target.motion, target.q = owner.layout, free_motion.data, boundary.joint_q
    target.free_dofs = owner.sizes.free_dof_count


def dense_rows(layout: Any, world: int, rows: range, entry: wp.array, data: Any) -> np.ndarray:
    """J of rows of one world, shape [rows, dofs], in Newton's dof order; ``entry`` has the first entry of each row."""
    start, end = layout.world_dof.numpy()[world : world + 2]
    firsts, dofs, values = entry.numpy(), data.entry_dof.numpy(), data.J.numpy()
    J = np.zeros((len(rows), end - start))
    for i, row in enumerate(rows):
        span = slice(firsts[row], firsts[row + 1])
        J[i, dofs[span] - start] = values[span]
    return J[:, np.argsort(layout.dof_newton.numpy()[start:end])]


class SapLengths:
    """Owns lengths and their terms; `data` can be read after a step. Made before the constraints that hold the rows."""

    def __init__(self, model: Any, layout: Any, sizes: LayoutSizes, options: Any):
        """Find the lengths of ``model``, a `SapModel`."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.types, self._sigma = TYPES[options.contact_solve_precision], float(options.contact_sigma)
        self.sources: LengthModel = read_lengths(model.newton_model)
        self.actuation = SapActuation(model)
        self.count = len(self.sources.lengths)
        self.data: Any = None
        self._stage: Any = None
        if self.count:
            self._maps = Maps(layout)
            self._tabulate()

    @property
    def pattern(self) -> Any:
        """What decides the tables."""
        return self.sources.pattern

    def _tabulate(self) -> None:
        lengths, device = self.sources.lengths, self.model.device
        self._dofs = [self._dofs_of(length) for length in lengths]
        worlds = np.array([self._world_of(length) for length in lengths])
        order = np.argsort(worlds, kind="stable")
        self.place = np.argsort(order)
        """Where each length lies, by its number in the sources."""
        self._order = order
        self.term_worlds = worlds[[term.length for term in self.sources.terms]].astype(np.int64)
        counts = [len(self._dofs[i]) for i in order]
        parts = sum(len(length.parts) for length in lengths)
        integers = {
            "world_length": np.searchsorted(worlds[order], np.arange(self.sizes.world_count + 1)),
            "entry": np.concatenate([[0], np.cumsum(counts)]),
            "entry_dof": np.concatenate([np.zeros(0, np.int64), *(self._dofs[i] for i in order)]),
        }
        data: Any = Lengths()
        for name, values in integers.items():
            setattr(data, name, wp.array(values.astype(np.int32), dtype=wp.int32, device=device))
        data.J = wp.zeros(sum(counts), dtype=wp.float64, device=device)
        data.length = wp.zeros(len(lengths), dtype=wp.float64, device=device)
        data.prescribed = wp.zeros(len(lengths), dtype=wp.float64, device=device)
        data.source = wp.zeros(len(lengths), dtype=LengthSource, device=device)
        data.part = wp.zeros(parts, dtype=LengthPart, device=device)
        self.data = data
        self._pack_lengths()

    def _dofs_of(self, length: Length) -> np.ndarray:
        """Free dofs that can change a length, growing: those above some of its bodies, but not above all."""
        maps = self._maps
        joints = {int(maps.dof[part.dof]) for part in length.parts if part.dof >= 0}
        if joints:
            return np.array(sorted(e for e in joints if e < maps.free), np.int64)
        bodies = {part.body for part in length.parts if part.kind != _PULLEY}
        chains = [set(maps.path(body)) for body in bodies]
        shared = set.intersection(*chains) if len(chains) > 1 else set()
        return np.array(sorted(set().union(*chains) - shared), np.int64)

    def _world_of(self, length: Length) -> int:
        maps = self._maps
        for part in length.parts:
            if part.dof >= 0 and maps.dof[part.dof] < maps.free:
                return int(maps.body_world[maps.dof_body[maps.dof[part.dof]]])
            if part.body >= 0 and maps.chain[maps.body[part.body]] >= 0:
                return int(maps.body_world[maps.body[part.body]])
        return 0

    def dofs_of_term(self, term: int) -> np.ndarray:
        """Solver dofs of the row of a term, growing."""
        entry = self.sources.terms[term]
        dofs = self._dofs[entry.length]
        return dofs if entry.other < 0 else np.union1d(dofs, self._dofs[entry.other])

    def _pack_lengths(self) -> None:
        source_record: Any = LengthSource
        part_record: Any = LengthPart
        packed = np.zeros(self.count, dtype=source_record.numpy_dtype())
        parts = np.zeros(len(self.data.part), dtype=part_record.numpy_dtype())
        first = 0
        for target, i in enumerate(self._order):
            length, out = self.sources.lengths[i], packed[target]
            out["kind"], out["axes"], out["rod"] = int(length.kind), int(length.axes), length.rod
            out["first"], out["last"] = first, first + len(length.parts)
            out["force"], out["torque"] = length.gear[:3], length.gear[3:]
            for part in length.parts:
                self._pack_part(part, parts[first])
                first += 1
        self.data.source.assign(wp.array(packed, dtype=LengthSource, device=self.model.device))
        self.data.part.assign(wp.array(parts, dtype=LengthPart, device=self.model.device))

    def _pack_part(self, part: Part, out: Any) -> None:
        maps = self._maps
        out["kind"], out["coord"], out["factor"], out["ref"] = int(part.kind), part.coord, part.factor, part.ref
        out["dof"] = maps.dof[part.dof] if part.dof >= 0 else -1
        out["body"] = maps.body[part.body] if part.body >= 0 else -1
        out["p"] = part.pose[:3]
        out["r"] = np.array(part.pose[3:]) / np.linalg.norm(part.pose[3:])
        out["side"] = maps.body[part.side] if part.side >= 0 else part.side
        out["side_p"] = part.side_p

    def place_rows(self, row_of_term: np.ndarray, rows: Any) -> None:
        """Take over where the rows of the terms lie in ``rows``, a `ConstraintData`."""
        if self.count:
            self._row_of_term, self._rows = row_of_term, rows
            self._term_order = np.argsort(self.term_worlds, kind="stable")
            self._terms = wp.zeros(len(self.sources.terms), dtype=LengthTerm, device=self.model.device)
            starts = np.searchsorted(self.term_worlds[self._term_order], np.arange(self.sizes.world_count + 1))
            self._world_term = wp.array(starts.astype(np.int32), dtype=wp.int32, device=self.model.device)
            self._pack_terms()

    def _pack_terms(self) -> None:
        record: Any = LengthTerm
        packed = np.zeros(len(self.sources.terms), dtype=record.numpy_dtype())
        for target, i in enumerate(self._term_order):
            term, out = self.sources.terms[i], packed[target]
            out["kind"], out["row"], out["actuator"] = int(term.kind), self._row_of_term[i], term.actuator
            out["t"], out["t2"] = self.place[term.length], self.place[term.other] if term.other >= 0 else -1
            out["gear"], out["stiffness"], out["damping"] = term.gear, term.stiffness, term.damping
            out["rest"], out["rest2"] = term.rest or 0.0, term.rest_other or 0.0
            out["enabled"] = int(term.enabled)
            for k, value in enumerate(term.polynomial):
                out[f"c{k}"] = value
        self._terms.assign(wp.array(packed, dtype=LengthTerm, device=self.model.device))

    def refresh(self, sources: LengthModel) -> None:
        """Take over values of a model that has the same lengths and terms as before; `measure` comes next."""
        self.sources = sources
        self.actuation.refresh()
        if self.count:
            self._pack_lengths()

    def measure(self, solver: Any) -> None:
        """Find the rest lengths that the model leaves to its own pose, and the strength of muscles."""
        terms = self.sources.terms
        springs = [term for term in terms if term.rest is None and term.stiffness > 0.0]
        equal = [term for term in terms if term.rest is None and term.stiffness <= 0.0]
        if springs:
            lengths = self._lengths_at(solver, _spring_pose(self.model.newton_model))
            for term in springs:
                term.rest = float(lengths[term.length])
        if equal:
            lengths = self._lengths_at(solver, reference_coordinates(self.model.newton_model))
            for term in equal:
                term.rest = float(lengths[term.length])
                if term.rest_other is None:
                    term.rest_other = float(lengths[term.other])
        if self.actuation.has_weak_muscles():
            self._lengths_at(solver, reference_coordinates(self.model.newton_model))
            solver.free_motion.compute(solver.boundary, _TINY_STEP, solver.all_worlds)
            self.actuation.scale_muscles(self.sources, lambda term: self._acceleration(solver, term))
        if self.count:
            solver.free_motion.data.energy_watch.zero_()
            self._pack_terms()

    def _lengths_at(self, solver: Any, q: np.ndarray) -> np.ndarray:
        """Lengths at coordinates ``q``, in the order of the sources."""
        state = self.model.newton_model.state()
        state.joint_q.assign(q.astype(np.float32))
        newton.eval_fk(self.model.newton_model, state.joint_q, state.joint_qd, state)
        solver.boundary.begin(solver.checked(state), solver.model_control, solver.all_worlds)
        self.measure_lengths(solver.boundary, solver.free_motion, solver.all_worlds)
        return self.data.length.numpy()[self.place]

    def _acceleration(self, solver: Any, term: Any) -> float:
        """Size of the acceleration that a unit force of an actuator causes."""
        world = int(self.term_worlds[self.sources.terms.index(term)])
        M = solver.free_motion.dynamics_matrix(world).astype(np.float64)
        J = self.jacobian(world)[self._in_world(world).index(term.length)] * term.gear
        return float(np.linalg.norm(np.linalg.solve(M, J)))

    def measure_lengths(self, boundary: Any, free_motion: Any, worlds: WorldRange) -> None:
        """Fill `data` for the state held by ``boundary``."""
        types = (free_motion.pose_types, free_motion.types)
        if self._stage is None:
            stage: Any = make_row_stage(*types, self.types)()
            fill_row_input(stage.input, self, boundary, free_motion)
            stage.input.lengths = self.data
            stage.rows, stage.terms, stage.world_term = self._rows, self._terms, self._world_term
            stage.sigma = self._sigma
            device = self.model.device
            self._stage = StructArgument(stage.input, device), StructArgument(stage, device)
        kernel = make_length_kernel(*types)
        worlds.launch(kernel, self._stage[0].array, device=self.model.device)

    def compute(self, boundary: Any, free_motion: Any, ctrl: Any, dt: float, worlds: WorldRange) -> None:
        """Fill the rows of all terms for the state held by ``boundary``."""
        if not self.count:
            return
        self.measure_lengths(boundary, free_motion, worlds)
        kernel = make_term_kernel(free_motion.pose_types, free_motion.types, self.types)
        stage, actuators = self._stage[1].array, self.actuation.arrays(ctrl)
        worlds.launch(kernel, stage, actuators, dt, device=self.model.device)

    def advance(self, free_motion: Any, ctrl: Any, dt: float, worlds: WorldRange) -> None:
        """Let activations follow their inputs for one step."""
        if self.count and self.actuation.has_dynamics:
            kernel = make_advance_kernel(free_motion.pose_types, free_motion.types, self.types)
            stage, actuators = self._stage[1].array, self.actuation.arrays(ctrl)
            worlds.launch(kernel, stage, actuators, dt, device=self.model.device)

    # For inspection

    def _in_world(self, world: int) -> list[int]:
        first, last = self.data.world_length.numpy()[world : world + 2]
        return [int(i) for i in self._order[first:last]]

    def tendon_lengths(self) -> np.ndarray:
        """Lengths of all tendons at the start of the last step [m or rad], in Newton's order."""
        if not self.sources.tendons:
            return np.zeros(0)
        return self.data.length.numpy()[self.place[: self.sources.tendons]]

    def jacobian(self, world: int = 0) -> np.ndarray:
        """J of the lengths of one world, shape [lengths, dofs]; columns in Newton's dof order of that world."""
        first, last = self.data.world_length.numpy()[world : world + 2]
        return dense_rows(self.layout, world, range(first, last), self.data.entry, self.data)


_PULLEY = 4
assert NO_SIDE < 0


def _spring_pose(model: newton.Model) -> np.ndarray:
    """The same with scalar joints where their springs are at rest."""
    q, start, dofs = reference_coordinates(model), model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    attributes: Any = getattr(model, "mujoco", None)
    rest, ref = (getattr(attributes, name, None) for name in ("dof_springref", "dof_ref"))
    if rest is None or ref is None:
        return q
    away = rest.numpy() - ref.numpy()
    for joint in range(model.joint_count):
        count = dofs[joint + 1] - dofs[joint]
        if count == start[joint + 1] - start[joint]:
            q[start[joint] : start[joint + 1]] = away[dofs[joint] : dofs[joint + 1]]
    return q
