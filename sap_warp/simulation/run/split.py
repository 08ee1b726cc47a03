"""A part of a model's worlds as a model of its own.

Newton cannot cut a finished model, but it says of each of its arrays which kind of entity the rows belong to and which
kind the values point at. That is enough: rows of the chosen worlds are kept, indices are counted from the new start.
Arrays by joint, dof, coordinate and body are slices of the whole model's memory, so a change of a gain or an armature
there is seen here. So are arrays by shape if the shapes of a share lie together; but those of no world (the ground)
belong to every share. Else what steps read is copied whenever steps begin, see `WorldShare.pull`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import newton
import numpy as np
import warp as wp

from ...collision.newton_compat import cut_private_members
from ...core.runtime.capture import launches
from ..kernels import copy_rows

_F = newton.Model.AttributeFrequency
_EQUALITY = "mujoco:equality_constraint"


_MATERIAL = ("shape_material_ke", "shape_material_kd", "shape_material_mu", "sap:shape_material_tau")
_GEOMETRY = ("shape_margin", "shape_gap", "shape_transform", "shape_scale", "shape_collision_radius", "shape_flags")
_BOUNDS = ("shape_collision_aabb_lower", "shape_collision_aabb_upper")
_LIVE = (*_MATERIAL, *_GEOMETRY, *_BOUNDS)
"""Arrays by shape that steps read, so that changes act in the next step."""


class ThreadsError(ValueError):
    """The worlds cannot be split over the threads that were asked for."""


_STARTS = {
    _F.JOINT: "joint_world_start",
    _F.JOINT_DOF: "joint_dof_world_start",
    _F.JOINT_COORD: "joint_coord_world_start",
    _F.JOINT_CONSTRAINT: "joint_constraint_world_start",
    _F.BODY: "body_world_start",
    _F.ARTICULATION: "articulation_world_start",
}
_COUNTS = {
    _F.JOINT: "joint_count",
    _F.JOINT_DOF: "joint_dof_count",
    _F.JOINT_COORD: "joint_coord_count",
    _F.JOINT_CONSTRAINT: "joint_constraint_count",
    _F.BODY: "body_count",
    _F.ARTICULATION: "articulation_count",
}


class WorldShare:
    """Worlds ``first`` to ``last - 1`` of a model."""

    def __init__(self, whole: newton.Model, first: int, last: int):
        """Cut the worlds out of ``whole``, which has local worlds and no moving bodies outside of them."""
        self.first, self.last = first, last
        self._whole = whole
        self._range = {kind: _world_range(whole, name, first, last) for kind, name in _STARTS.items()}
        self._range.update(_custom_ranges(whole, first, last))
        world = whole.shape_world.numpy()
        self._shapes = np.flatnonzero((world < 0) | ((world >= first) & (world < last)))
        starts = np.flatnonzero(np.diff(self._shapes, prepend=-2) != 1)
        # what lies together: from, to, how many
        self._runs = np.stack([self._shapes[starts], starts, np.diff(starts, append=len(self._shapes))], axis=1)
        self._taken: dict[str, Any] = {}
        self._copies: dict[str, wp.array] = {}
        self.model: newton.Model = self._cut()
        """The share; worlds are numbered from 0."""
        self._copy = self._plan_copy()

    @property
    def shapes(self) -> np.ndarray:
        """Index in the whole model of each shape of this part."""
        return self._shapes

    @launches
    def pull(self) -> None:
        """Copy the arrays by shape, which may have been written since; part of the graph that begins steps."""
        if self._copies:
            device = self._whole.device
            wp.launch(copy_rows, dim=len(self._copies), inputs=self._copy, device=device, record_tape=False)

    def refresh(self) -> None:
        """Take over arrays of the whole model that were replaced by others."""
        self._take(self.model)
        self._copy = self._plan_copy()
        self.pull()

    def _plan_copy(self) -> list[wp.array]:
        """Return runs of shapes, and addresses and bytes per row of the arrays."""
        sources = [self._taken[name] for name in self._copies]
        tables = [[array.ptr for array in arrays] for arrays in (sources, self._copies.values())]
        sizes = [wp.types.type_size_in_bytes(array.dtype) for array in sources]
        device = self._whole.device
        return [
            wp.array(self._runs, dtype=wp.vec3i, device=device),
            *(wp.array(table, dtype=wp.uint64, device=device) for table in tables),
            wp.array(sizes, dtype=wp.int32, device=device),
        ]

    def _take(self, part: Any) -> None:
        """Cut all arrays of the whole model that were not cut before."""
        whole = self._whole
        for name, spec, value in model_attributes(whole):
            if self._taken.get(name) is value:
                continue
            self._taken[name] = value
            if name in self._copies:
                continue
            cut = self._cut_attribute(value, spec)
            if cut is not value:
                namespace, _, attribute = name.rpartition(":")
                setattr(_own_namespace(part, whole, namespace), attribute, cut)
                if name in _LIVE and len(self._runs) > 1:
                    self._copies[name] = cut
        # the entry behind the local worlds is the gravity of global entities
        part.gravity = whole.gravity[self.first : self.last + 1]

    def _cut(self) -> newton.Model:
        whole, device = self._whole, self._whole.device
        part: Any = copy.copy(whole)
        self._take(part)
        for kind, name in _COUNTS.items():
            setattr(part, name, len(self._range[kind]))
        part.constraint_mimic_count = len(self._range[_F.CONSTRAINT_MIMIC])
        part.custom_frequency_counts = {
            kind: len(self._range[kind]) if kind in self._range else count
            for kind, count in whole.custom_frequency_counts.items()
        }
        self._cut_equality_targets(part)
        part.shape_count = len(self._shapes)
        part.world_count = self.last - self.first
        pairs = whole.shape_contact_pairs
        if pairs is not None:
            kept = self._cut_pairs(pairs.numpy().reshape(-1, 2))
            part.shape_contact_pairs = wp.array(kept, dtype=wp.vec2i, device=device)
            part.shape_contact_pair_count = len(kept)
        cut_private_members(part, whole, self._cut_pairs)
        part.body_shapes = self._cut_body_shapes()
        part.bvh_shapes = part.bvh_shapes_group_roots = None
        return part

    def _cut_attribute(self, value: Any, spec: Any) -> Any:
        """Return the rows of this part; ``value`` itself if its rows do not belong to worlds."""
        if spec.compaction_policy == "world_start":
            return self._cut_starts(value, spec.frequency)
        if spec.compaction_policy in ("passthrough", "color_groups"):
            return value
        if spec.frequency == _F.SHAPE:
            return self._cut_shapes(value, spec.references)
        if spec.frequency not in self._range:
            return value
        rows = self._range[spec.frequency]
        if isinstance(value, list):
            return value[rows.start : rows.stop]
        if not isinstance(value, wp.array):
            return value
        if spec.compaction_policy == "start":
            starts = value.numpy()[rows.start : rows.stop + 1]
            return wp.array(starts - self._range[spec.references].start, dtype=value.dtype, device=value.device)
        if len(value) < rows.stop:
            return value  # an empty placeholder
        if not rows:
            return wp.empty((0, *value.shape[1:]), dtype=value.dtype, device=value.device)
        if spec.references is None:
            return value[rows.start : rows.stop]
        return self._rebase(value.numpy()[rows.start : rows.stop], spec.references, value)

    def _cut_equality_targets(self, part: Any) -> None:
        """Rebase what an equality constraint was turned into; another attribute says which kind it is."""
        if not self._range.get(_EQUALITY):
            return
        rows = self._range[_EQUALITY]
        target, kind = (
            getattr(self._whole.mujoco, f"equality_constraint_{name}").numpy()[rows.start : rows.stop]
            for name in ("target", "target_kind")
        )
        first = np.select([kind == 1, kind == 2], [self._range[_F.JOINT].start, self._range[_F.CONSTRAINT_MIMIC].start])
        array = part.mujoco.equality_constraint_target
        part.mujoco.equality_constraint_target = wp.array(
            np.where(target < 0, target, target - first), dtype=array.dtype, device=array.device
        )

    def _cut_shapes(self, value: Any, references: Any) -> Any:
        if isinstance(value, list):
            return [value[i] for i in self._shapes] if value else value
        if not isinstance(value, wp.array) or len(value) <= self._shapes[-1]:
            return value
        if references is None and len(self._runs) == 1:
            return value[int(self._shapes[0]) : int(self._shapes[-1]) + 1]
        rows = value.numpy()[self._shapes]
        if references is not None:
            return self._rebase(rows, references, value)
        return wp.array(rows, dtype=value.dtype, device=value.device)

    def _rebase(self, values: np.ndarray, references: Any, like: wp.array) -> wp.array:
        """Count indices from the first entity of this part; -1 stays."""
        first = self.first if references == _F.WORLD else self._range[references].start
        return wp.array(np.where(values < 0, values, values - first), dtype=like.dtype, device=like.device)

    def _cut_starts(self, value: wp.array, frequency: Any) -> wp.array:
        """Return world starts: of every local world, of the global tail, and the total."""
        starts = value.numpy()
        if frequency == _F.SHAPE:
            starts = np.searchsorted(self._shapes, starts)
            total = len(self._shapes)
        elif frequency in self._range:
            starts = starts - self._range[frequency].start
            total = len(self._range[frequency])
        else:  # of particles, which the solver refuses
            total = starts[-1]
        kept = np.append(starts[self.first : self.last + 1], total).astype(np.int32)
        return wp.array(kept, dtype=value.dtype, device=value.device)

    def _cut_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """Return the pairs of which both shapes are in this part, in their order, with its indices."""
        position = np.searchsorted(self._shapes, pairs)
        here = self._shapes[np.minimum(position, len(self._shapes) - 1)] == pairs
        return position[here.all(axis=1)].reshape(-1, 2)

    def _cut_body_shapes(self) -> dict[int, list[int]]:
        bodies = self._range[_F.BODY]
        number = {int(shape): i for i, shape in enumerate(self._shapes)}
        return {
            body if body < 0 else body - bodies.start: [number[s] for s in shapes if s in number]
            for body, shapes in self._whole.body_shapes.items()
            if body < 0 or body in bodies
        }


def world_starts(model: newton.Model) -> dict[str, np.ndarray]:
    """Return first coordinate, dof and body of each world and the ends; a model without worlds is one world."""
    if (model.body_world.numpy() < 0).all():
        counts = {"coord": model.joint_coord_count, "dof": model.joint_dof_count, "body": model.body_count, "world": 1}
        return {name: np.array([0, count]) for name, count in counts.items()}
    last = int(model.world_count) + 1
    arrays = {
        "coord": model.joint_coord_world_start,
        "dof": model.joint_dof_world_start,
        "body": model.body_world_start,
    }
    return {name: array.numpy()[:last].copy() for name, array in arrays.items()} | {"world": np.arange(last)}


def model_attributes(model: newton.Model) -> Iterator[tuple[str, Any, Any]]:
    """Return name (with namespace), specification and value of everything that Newton knows about a model."""
    for name, spec in model.attribute_specs.items():
        namespace, _, attribute = name.rpartition(":")
        owner = getattr(model, namespace, None) if namespace else model
        value = None if spec.deprecated else getattr(owner, attribute, None)
        if value is not None:
            yield name, spec, value


def model_arrays(model: newton.Model) -> dict[str, tuple[Any, ...]]:
    """Return shape, dtype and device of the model's arrays; replacements must be of the same kind."""
    arrays = {name: value for name, _, value in model_attributes(model) if isinstance(value, wp.array)}
    return {name: (a.shape, a.dtype, a.device) for name, a in (arrays | {"gravity": model.gravity}).items()}


def _custom_ranges(model: newton.Model, first: int, last: int) -> dict[Any, range]:
    """Return the rows of entities without world starts: mimic constraints, MuJoCo's actuators and equalities.

    Raises:
        ThreadsError: Rows of one world do not lie together, or belong to no world.
    """
    ranges: dict[Any, range] = {_F.CONSTRAINT_MIMIC: range(0)}
    for name, spec, array in model_attributes(model):
        if spec.references != _F.WORLD or (
            not isinstance(spec.frequency, str) and spec.frequency != _F.CONSTRAINT_MIMIC
        ):
            continue
        worlds = array.numpy()
        if len(worlds) and (worlds.min() < 0 or (np.diff(worlds) < 0).any()):
            raise ThreadsError(f"{name} is not sorted by world, so the worlds cannot be shared out; use one thread.")
        start, stop = np.searchsorted(worlds, (first, last))
        ranges[spec.frequency] = range(int(start), int(stop))
    tendons = ranges.get("mujoco:tendon", range(0))
    for part in ("joint", "wrap"):
        ranges[f"mujoco:tendon_{part}"] = _tendon_parts(model, tendons, part)
    return ranges


def _tendon_parts(model: newton.Model, tendons: range, part: str) -> range:
    """Return the range of the joints or wraps of some tendons; those of a world lie together."""
    if not len(tendons):
        return range(0)
    first, count = (getattr(model.mujoco, f"tendon_{part}_{name}").numpy()[tendons] for name in ("adr", "num"))
    if not count.any():
        return range(0)
    return range(int(first[count > 0].min()), int((first + count)[count > 0].max()))


def _world_range(model: newton.Model, name: str, first: int, last: int) -> range:
    starts = getattr(model, name).numpy()
    return range(int(starts[first]), int(starts[last]))


def _own_namespace(part: Any, whole: newton.Model, namespace: str) -> Any:
    """Return the part itself, or its own copy of a namespace of custom attributes."""
    if not namespace:
        return part
    if getattr(part, namespace) is getattr(whole, namespace):
        setattr(part, namespace, copy.copy(getattr(whole, namespace)))
    return getattr(part, namespace)
