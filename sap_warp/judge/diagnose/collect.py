"""Take samples of a running simulation: whole arrays at a time, after complete steps."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ...solver.terms.dof import DRIVE, LOWER, MOTOR, UPPER
from .dynamics import Dynamics
from .facts import join_facts, read_facts
from .rows import read_rows, rigid_slip, rotate_back
from .samples import BodySamples, ContactRows, Facts, JointSamples, Samples, WorldSamples

WEIGHT_SAMPLES = 8
"""Samples of a run in which weights by diag_delassus are computed: they change slowly, and cost most."""
_DRIVE, _MOTOR, _LOWER, _UPPER = (int(bit) for bit in (DRIVE, MOTOR, LOWER, UPPER))


class ShardReader:
    """Reads the worlds of one shard. Numbers of bodies, shapes, dofs and worlds are those of the whole simulation."""

    def __init__(self, shard: Any, first_world: int, detailed: np.ndarray):
        """Read what does not change; ``detailed`` are worlds of the whole simulation."""
        self._shard, self._first_world = shard, first_world
        self.facts: Facts = read_facts(shard.solver, first_world)
        inside = (detailed >= first_world) & (detailed < first_world + shard.world_count)
        self._worlds = detailed[inside] - first_world
        self._dynamics = Dynamics(shard.solver, self._worlds, self.facts.body_alone)
        self.first_body = self.first_shape = self.total_bodies = 0
        layout = shard.solver.layout
        looked_at = np.append(self._worlds + first_world, -1)
        self.watched_bodies = np.flatnonzero(np.isin(self.facts.body_world, looked_at))
        self.watched_dofs = np.flatnonzero(np.isin(self.facts.dof_world, looked_at))
        self._dof_newton = layout.dof_newton.numpy()
        coordinate = layout.dof_coord.numpy()
        self._scalar = np.flatnonzero(coordinate >= 0)
        self._coordinate = coordinate[self._scalar]
        self._poses = self._read_poses()

    def _read_poses(self) -> np.ndarray:
        return self._shard.state.body_q.numpy().astype(np.float64)

    def contacts(self, sample: int, with_weights: bool) -> tuple[ContactRows, np.ndarray]:
        """Return contacts that push, and the imbalance of the watched bodies."""
        shard, solver = self._shard, self._shard.solver
        rows = read_rows(solver, self._worlds)
        imbalance = np.full(solver.model.body_count, np.nan)
        imbalance[self._dynamics.newton_bodies] = self._dynamics.imbalance(rows)
        rows = {name: values[rows["push"] > 0.0] for name, values in rows.items()}
        newton = np.append(solver.layout.body_newton.numpy(), -1)
        origin, root = solver.free_motion.data.origin.numpy(), solver.layout.body_root.numpy()
        moving = np.where(rows["body_a"] >= 0, rows["body_a"], rows["body_b"])
        arm = np.where((rows["body_a"] >= 0)[:, None], rows["r_a"], rows["r_b"])
        point = origin[root[moving]] + arm
        poses = self._read_poses()
        bodies = (newton[rows["body_a"]], newton[rows["body_b"]])
        slip = rigid_slip(rows, point, bodies, self._poses, poses)
        self._poses = poses
        turn = np.where((bodies[0] >= 0)[:, None], poses[bodies[0], 3:], [0.0, 0.0, 0.0, 1.0])
        shape0, shape1 = (
            getattr(shard.contacts, f"rigid_contact_shape{side}").numpy()[rows["source"]] for side in (0, 1)
        )
        empty = np.full(len(point), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(rows["vhat"] != 0.0, -rows["phi0"] / rows["vhat"], np.nan)
        found = ContactRows(
            sample=np.full(len(point), sample),
            world=rows["world"] + self._first_world,
            owner0=self._owner(shape0),
            owner1=self._owner(shape1),
            shape0=shape0 + self.first_shape,
            shape1=shape1 + self.first_shape,
            phi=rows["phi0"],
            point=point,
            reach=reach,
            slip=rotate_back(turn, slip),
            velocity=rotate_back(turn, rows["velocity"]),
            delassus=self._dynamics.joined_weights(rows) if with_weights else empty,
            **{name: rows[name] for name in ("normal", "mu", "weight", "Rt", "Rn", "push", "friction")},
            mode=rows["mode"],
        )
        return found, imbalance[self.watched_bodies]

    def _owner(self, shape: np.ndarray) -> np.ndarray:
        owner, bodies = self.facts.shape_owner[shape], len(self.facts.body_mass)
        return np.where(owner < bodies, owner + self.first_body, owner - bodies + self.total_bodies + self.first_shape)

    def joints(self) -> dict[str, np.ndarray]:
        """Return samples of the watched dofs."""
        shard, solver, terms = self._shard, self._shard.solver, self._shard.solver.contact_stage.terms
        count, h = solver.model.joint_dof_count, shard.dt
        mask = terms.term_mask.numpy()
        v = solver.contact_solve.data.v.numpy().astype(np.float64)[: len(mask)]
        asked, limit = np.zeros(len(mask)), np.full(len(mask), np.inf)
        for bit, efforts in ((_DRIVE, terms.drive), (_MOTOR, terms.motor)):
            has = (mask & bit) != 0
            asked[has] = (efforts.u0.numpy() - efforts.g.numpy() * v)[has]
            limit[has] = efforts.limit.numpy()[has]
        bound = np.zeros(len(mask))
        R = np.maximum(terms.limit_R.numpy(), 1e-300)
        for bit, name, sign in ((_LOWER, "limit_lower", 1.0), (_UPPER, "limit_upper", -1.0)):
            has = (mask & bit) != 0
            push = (getattr(terms, name).numpy()[has] - sign * v[has]) / R[has]
            bound[has] += sign * np.maximum(push, 0.0) / h
        load = -solver.free_motion.data.impulse.numpy().astype(np.float64)[: len(mask)] / h
        found = {}
        order = self._dof_newton[: len(mask)]
        for name, values, fill in (
            ("dof_velocity", v, np.nan),
            ("asked", asked, 0.0),
            ("limit", limit, np.inf),
            ("bound_force", bound, 0.0),
            ("load", load, np.nan),
        ):
            found[name] = np.full(count, fill)
            found[name][order] = values
        dofs = self._dof_newton[self._scalar]
        for name, array in (("position", shard.state.joint_q), ("target", shard.control.joint_target_pos)):
            found[name] = np.full(count, np.nan)
            found[name][dofs] = array.numpy()[self._coordinate]
        found["applied"] = shard.control.joint_f.numpy()
        return {name: values[self.watched_dofs] for name, values in found.items()}

    def bodies(self) -> dict[str, np.ndarray]:
        """Return velocities, spins and external forces of the watched bodies."""
        twist = self._shard.state.body_qd.numpy()[self.watched_bodies]
        force = self._shard.state.body_f.numpy()[self.watched_bodies, :3]
        return {"body_velocity": twist[:, :3], "spin": twist[:, 3:], "force": force}

    def outcome(self) -> dict[str, np.ndarray]:
        """Return the outcome of the last step, by world."""
        solver = self._shard.solver
        rows = solver.contact_stage
        return {
            "status": solver.world_status.numpy().copy(),
            "iterations": solver.contact_solve.iterations.numpy().copy(),
            "contacts": rows.contact_count.numpy().copy(),
            "dropped": rows.truncated_count.numpy().copy(),
            "overflow": np.array([rows.overflow_count()]),
            "energy": solver.contact_solve.data.energy.numpy().copy(),
        }


class Collector:
    """Gathers samples; call it after steps."""

    def __init__(self, sim: Any, samples: int, every: int, worlds: np.ndarray):
        """Prepare for ``samples`` samples, of which ``worlds`` are looked at in detail."""
        first = np.cumsum([0, *(shard.world_count for shard in sim.shards)])
        self._readers = [ShardReader(shard, int(w), worlds) for shard, w in zip(sim.shards, first, strict=False)]
        self._every, self._detailed = every, worlds
        parts = [reader.facts for reader in self._readers]
        bodies, shapes = ([len(getattr(part, name)) for part in parts] for name in ("body_mass", "shape_size"))
        for reader, b, s in zip(self._readers, np.cumsum(bodies) - bodies, np.cumsum(shapes) - shapes, strict=True):
            reader.first_body, reader.first_shape, reader.total_bodies = int(b), int(s), sum(bodies)
        self._facts = join_facts(parts)
        self._weighed = set(np.linspace(samples - 1, 0, WEIGHT_SAMPLES).astype(int).tolist())
        self._contacts: list[ContactRows] = []
        self._series: dict[str, list[np.ndarray]] = {}
        self._taken = 0

    def take(self, sim: Any) -> None:
        """Take a sample of the last step. Waits for the device."""
        sim.synchronize()
        with np.errstate(all="ignore"):  # worlds that diverge have numbers beyond all bounds
            self._take()

    def _take(self) -> None:
        t, readers = self._taken, self._readers
        contacts = [reader.contacts(t, t in self._weighed) for reader in readers]
        self._contacts += [rows for rows, _ in contacts]
        self._append("imbalance", [imbalance for _, imbalance in contacts])
        for read in (ShardReader.bodies, ShardReader.joints, ShardReader.outcome):
            parts = [read(reader) for reader in readers]
            for name in parts[0]:
                self._append(name, [part[name] for part in parts])
        self._taken += 1

    def _append(self, name: str, parts: list[np.ndarray]) -> None:
        self._series.setdefault(name, []).append(np.concatenate(parts))

    def _numbers(self, like: str, parts: list[np.ndarray]) -> np.ndarray:
        """Map indices in the shards to indices in the joined facts."""
        sizes = [len(getattr(reader.facts, like)) for reader in self._readers]
        return np.concatenate([part + start for part, start in zip(parts, np.cumsum(sizes) - sizes, strict=True)])

    def finish(self, sim: Any) -> Samples:
        """Return all samples for the detectors."""
        series = {name: np.array(values) for name, values in self._series.items()}
        series["overflow"] = series["overflow"].sum(axis=1)
        series["velocity"] = series.pop("dof_velocity")
        series["dof"] = self._numbers("dof_name", [reader.watched_dofs for reader in self._readers])
        body = self._numbers("body_mass", [reader.watched_bodies for reader in self._readers])
        return Samples(
            facts=self._facts,
            options=sim.shards[0].solver.options,
            capacity=sim.max_rigid_contact,
            capacity_name=sim._health.capacity.name,
            dt=sim.dt,
            every=self._every,
            worlds=sim.world_count,
            detailed=self._detailed,
            contacts=ContactRows.join(self._contacts),
            joints=JointSamples(**{f.name: series[f.name] for f in fields(JointSamples)}),
            bodies=BodySamples(body, series["body_velocity"], series["spin"], series["imbalance"], series["force"]),
            outcome=WorldSamples(**{f.name: series[f.name] for f in fields(WorldSamples)}),
        )
