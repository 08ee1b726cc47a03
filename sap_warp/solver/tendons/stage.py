"""Stage 3c: tendons and other transmissions, and the equations along them. Models without any pay nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.launch import WorldRange
from ...core.kernels.structs import StructArgument
from ..equations.data import EquationStage
from ..equations.transmissions import PULLEY, TransmissionPart, Transmissions, TransmissionSource, TransmissionTerm
from ..model.initial_poses import reference_coordinates
from ..model.layout import Layout, LayoutSizes
from ..model.maps import Maps
from ..settings.precisions import solver_variant
from .actuation import SapActuation
from .paths import measure_lengths
from .sources import Part, Term, Transmission, TransmissionModel, read_transmissions
from .terms import advance_activations, prepare_terms

if TYPE_CHECKING:
    from ...model.model import SapModel
    from ..dynamics.free_motion import SapFreeMotion
    from ..prepare.equations import SapEquations
    from ..settings.options import SapOptions
    from ..solver import SolverSAP
    from ..state.stage import SapBoundary

_TINY_STEP = 1e-9
"""Time step with which A is the mass matrix [s]."""


def fill_input(
    target: Any, owner: SapTendons | SapEquations, boundary: SapBoundary, free_motion: SapFreeMotion
) -> None:
    """Let an `EquationInput` show the state held by ``boundary``; ``owner`` has layout and sizes."""
    target.layout, target.motion, target.q = owner.layout, free_motion.data, boundary.joint_q
    target.free_dofs = owner.sizes.free_dof_count


def dense_rows(layout: Layout, world: int, rows: range, entry: wp.array, data: Any) -> np.ndarray:
    """J of rows of one world, shape [rows, dofs], in Newton's dof order; ``entry`` has the first entry of each row."""
    start, end = layout.world_dof.numpy()[world : world + 2]
    firsts, dofs, values = entry.numpy(), data.entry_dof.numpy(), data.J.numpy()
    J = np.zeros((len(rows), end - start))
    for i, row in enumerate(rows):
        span = slice(firsts[row], firsts[row + 1])
        J[i, dofs[span] - start] = values[span]
    return J[:, np.argsort(layout.dof_newton.numpy()[start:end])]


class SapTendons:
    """Owns transmissions and their terms; `data` can be read after a step. Made before the equations, which need it."""

    def __init__(self, model: SapModel, layout: Layout, sizes: LayoutSizes, options: SapOptions):
        """Find the transmissions of ``model``."""
        self.model, self.layout, self.sizes = model, layout, sizes
        self.variant, self._sigma = solver_variant(options, model.device), float(options.contact_sigma)
        self.sources: TransmissionModel = read_transmissions(model.newton_model)
        self.actuation = SapActuation(model)
        self.count = len(self.sources.transmissions)
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
        transmissions, device = self.sources.transmissions, self.model.device
        self._dofs = [self._dofs_of(transmission) for transmission in transmissions]
        worlds = np.array([self._world_of(transmission) for transmission in transmissions])
        order = np.argsort(worlds, kind="stable")
        self.place = np.argsort(order)
        """Index of each transmission in `data`, by its number in the sources."""
        self._order = order
        self.term_worlds = worlds[[term.transmission for term in self.sources.terms]].astype(np.int64)
        counts = [len(self._dofs[i]) for i in order]
        parts = sum(len(transmission.parts) for transmission in transmissions)
        integers = {
            "world_transmission": np.searchsorted(worlds[order], np.arange(self.sizes.world_count + 1)),
            "entry": np.concatenate([[0], np.cumsum(counts)]),
            "entry_dof": np.concatenate([np.zeros(0, np.int64), *(self._dofs[i] for i in order)]),
        }
        data: Any = Transmissions()
        for name, values in integers.items():
            setattr(data, name, wp.array(values.astype(np.int32), dtype=wp.int32, device=device))
        data.J = wp.zeros(sum(counts), dtype=wp.float64, device=device)
        data.length = wp.zeros(self.count, dtype=wp.float64, device=device)
        data.kinematic_rate = wp.zeros(self.count, dtype=wp.float64, device=device)
        data.source = wp.zeros(self.count, dtype=TransmissionSource, device=device)
        data.part = wp.zeros(parts, dtype=TransmissionPart, device=device)
        self.data = data
        self._pack_transmissions()

    def _dofs_of(self, transmission: Transmission) -> np.ndarray:
        """Free dofs that can change the length, growing: those above some of its bodies, but not above all."""
        maps = self._maps
        joints = {int(maps.dof[part.dof]) for part in transmission.parts if part.dof >= 0}
        if joints:
            return np.array(sorted(e for e in joints if e < maps.free), np.int64)
        bodies = {part.body for part in transmission.parts if part.kind != PULLEY}
        chains = [set(maps.path(body)) for body in bodies]
        shared = set.intersection(*chains) if len(chains) > 1 else set()
        return np.array(sorted(set().union(*chains) - shared), np.int64)

    def _world_of(self, transmission: Transmission) -> int:
        """World of the first part that can move; a transmission of kinematic parts alone belongs anywhere."""
        maps = self._maps
        for part in transmission.parts:
            if part.dof >= 0 and maps.dof[part.dof] < maps.free:
                return int(maps.body_world[maps.dof_body[maps.dof[part.dof]]])
            if part.body >= 0 and maps.chain[maps.body[part.body]] >= 0:
                return int(maps.body_world[maps.body[part.body]])
        return 0

    def dofs_of_term(self, term: int) -> np.ndarray:
        """Solver dofs of the equation of a term, growing."""
        entry = self.sources.terms[term]
        dofs = self._dofs[entry.transmission]
        return dofs if entry.other < 0 else np.union1d(dofs, self._dofs[entry.other])

    def _pack_transmissions(self) -> None:
        source_record: Any = TransmissionSource
        part_record: Any = TransmissionPart
        packed = np.zeros(self.count, dtype=source_record.numpy_dtype())
        parts = np.zeros(len(self.data.part), dtype=part_record.numpy_dtype())
        first = 0
        for target, i in enumerate(self._order):
            transmission, out = self.sources.transmissions[i], packed[target]
            out["kind"], out["axes"], out["rod"] = int(transmission.kind), int(transmission.axes), transmission.rod
            out["first"], out["last"] = first, first + len(transmission.parts)
            out["force"], out["torque"] = transmission.gear[:3], transmission.gear[3:]
            for part in transmission.parts:
                self._pack_part(part, parts[first])
                first += 1
        self.data.source.assign(wp.array(packed, dtype=TransmissionSource, device=self.model.device))
        self.data.part.assign(wp.array(parts, dtype=TransmissionPart, device=self.model.device))

    def _pack_part(self, part: Part, out: Any) -> None:
        maps = self._maps
        out["kind"], out["coord"], out["factor"], out["ref"] = int(part.kind), part.coord, part.factor, part.ref
        out["dof"] = maps.dof[part.dof] if part.dof >= 0 else -1
        out["body"] = maps.body[part.body] if part.body >= 0 else -1
        out["p"] = part.pose[:3]
        out["r"] = np.array(part.pose[3:]) / np.linalg.norm(part.pose[3:])
        out["side"] = maps.body[part.side] if part.side >= 0 else part.side
        out["side_p"] = part.side_p

    def assign_equations(self, equation_of_term: np.ndarray, equations: Any) -> None:
        """Let terms fill the equations of these numbers in ``equations``, which are `Equations`."""
        if self.count:
            self._equation_of_term, self._equations = equation_of_term, equations
            self._term_order = np.argsort(self.term_worlds, kind="stable")
            self._terms = wp.zeros(len(self.sources.terms), dtype=TransmissionTerm, device=self.model.device)
            starts = np.searchsorted(self.term_worlds[self._term_order], np.arange(self.sizes.world_count + 1))
            self._world_term = wp.array(starts.astype(np.int32), dtype=wp.int32, device=self.model.device)
            self._pack_terms()

    def _pack_terms(self) -> None:
        record: Any = TransmissionTerm
        packed = np.zeros(len(self.sources.terms), dtype=record.numpy_dtype())
        for target, i in enumerate(self._term_order):
            term, out = self.sources.terms[i], packed[target]
            out["kind"], out["row"], out["actuator"] = int(term.kind), self._equation_of_term[i], term.actuator
            out["transmission"] = self.place[term.transmission]
            out["other"] = self.place[term.other] if term.other >= 0 else -1
            out["gear"], out["stiffness"], out["damping"] = term.gear, term.stiffness, term.damping
            out["rest"], out["rest_other"] = term.rest or 0.0, term.rest_other or 0.0
            out["enabled"] = int(term.enabled)
            for k, value in enumerate(term.polynomial):
                out[f"c{k}"] = value
        self._terms.assign(wp.array(packed, dtype=TransmissionTerm, device=self.model.device))

    def refresh(self, sources: TransmissionModel) -> None:
        """Take over values of a model that has the same transmissions and terms as before; `measure` comes next."""
        self.sources = sources
        self.actuation.refresh()
        if self.count:
            self._pack_transmissions()

    def measure(self, solver: SolverSAP) -> None:
        """Find the rest lengths that the model leaves to its own pose, and the strength of muscles."""
        terms = self.sources.terms
        springs = [term for term in terms if term.rest is None and term.stiffness > 0.0]
        equal = [term for term in terms if term.rest is None and term.stiffness <= 0.0]
        if springs:
            lengths = self._lengths_at(solver, _spring_pose(self.model.newton_model))
            for term in springs:
                term.rest = float(lengths[term.transmission])
        if equal:
            lengths = self._lengths_at(solver, reference_coordinates(self.model.newton_model))
            for term in equal:
                term.rest = float(lengths[term.transmission])
                if term.rest_other is None:
                    term.rest_other = float(lengths[term.other])
        if self.actuation.has_weak_muscles():
            self._lengths_at(solver, reference_coordinates(self.model.newton_model))
            solver.free_motion.compute(solver.boundary, _TINY_STEP, solver.all_worlds)
            self.actuation.scale_muscles(self.sources, lambda term: self._acceleration(solver, term))
        if self.count:
            solver.free_motion.data.energy_watch.zero_()
            self._pack_terms()

    def _lengths_at(self, solver: SolverSAP, q: np.ndarray) -> np.ndarray:
        """Lengths at coordinates ``q``, in the order of the sources."""
        state = self.model.newton_model.state()
        state.joint_q.assign(q.astype(np.float32))
        newton.eval_fk(self.model.newton_model, state.joint_q, state.joint_qd, state)
        solver.boundary.begin(solver.checked(state), solver.model_control, solver.all_worlds)
        self.measure_lengths(solver.boundary, solver.free_motion, solver.all_worlds)
        return self.data.length.numpy()[self.place]

    def _acceleration(self, solver: SolverSAP, term: Term) -> float:
        """Size of the acceleration that a unit force of an actuator causes."""
        world = int(self.term_worlds[self.sources.terms.index(term)])
        M = solver.free_motion.dynamics_matrix(world).astype(np.float64)
        J = self.jacobian(world)[self._in_world(world).index(term.transmission)] * term.gear
        return float(np.linalg.norm(np.linalg.solve(M, J)))

    def measure_lengths(self, boundary: SapBoundary, free_motion: SapFreeMotion, worlds: WorldRange) -> None:
        """Fill `data` for the state held by ``boundary``."""
        if self._stage is None:
            stage: Any = EquationStage.of(self.variant)()
            fill_input(stage.input, self, boundary, free_motion)
            stage.input.transmissions = self.data
            stage.equations, stage.terms, stage.world_term = self._equations, self._terms, self._world_term
            stage.sigma = self._sigma
            device = self.model.device
            self._stage = StructArgument(stage.input, device), StructArgument(stage, device)
        worlds.launch(measure_lengths.of(self.variant), self._stage[0].array, device=self.model.device)

    def compute(
        self,
        boundary: SapBoundary,
        free_motion: SapFreeMotion,
        ctrl: wp.array | None,
        dt: float,
        worlds: WorldRange,
    ) -> None:
        """Fill the equations of all terms for the state held by ``boundary``."""
        if not self.count:
            return
        self.measure_lengths(boundary, free_motion, worlds)
        stage, actuators = self._stage[1].array, self.actuation.arrays(ctrl)
        worlds.launch(prepare_terms.of(self.variant), stage, actuators, dt, device=self.model.device)

    def advance(self, ctrl: wp.array | None, dt: float, worlds: WorldRange) -> None:
        """Let activations follow their inputs for one step."""
        if self.count and self.actuation.has_dynamics:
            stage, actuators = self._stage[1].array, self.actuation.arrays(ctrl)
            worlds.launch(advance_activations.of(self.variant), stage, actuators, dt, device=self.model.device)

    # For inspection

    def _in_world(self, world: int) -> list[int]:
        first, last = self.data.world_transmission.numpy()[world : world + 2]
        return [int(i) for i in self._order[first:last]]

    def tendon_lengths(self) -> np.ndarray:
        """Lengths of all tendons at the start of the last step [m or rad], in Newton's order."""
        if not self.sources.tendons:
            return np.zeros(0)
        return self.data.length.numpy()[self.place[: self.sources.tendons]]

    def jacobian(self, world: int = 0) -> np.ndarray:
        """J of one world, shape [transmissions, dofs]; columns in Newton's dof order of that world."""
        first, last = self.data.world_transmission.numpy()[world : world + 2]
        return dense_rows(self.layout, world, range(first, last), self.data.entry, self.data)


def _spring_pose(model: newton.Model) -> np.ndarray:
    """Reference coordinates, but scalar joints where their springs are at rest."""
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
