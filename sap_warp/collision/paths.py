"""The three paths to the contacts of a model, and the choice among them.

A path is built from `PathParts` and does all of a pass in ``find(view, buffer, dt, same_shapes)``: it replaces the
content of ``buffer`` by the contacts at ``view``, whose poses are refreshed, and counts them. ``dt`` is the horizon of
speculative contacts [s], which only Newton's pipeline has. ``bound(model, pairs)`` is the number of contacts that a
pass must be able to write. Nothing is allocated after the constructor.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, TypeAlias

import newton
import numpy as np
import warp as wp

from ..core.kernels.structs import StructArgument, StructCache
from ..core.kernels.template import Variant
from ..model.shapes import COLLIDABLE, TRIANGULATED
from .broad.aabb import Shapes
from .broad.broad_phase import Candidates, owners_of, sort_by_body, travel_of
from .broad.pairs import name_pair
from .buffers.capacity import contact_bound, most_of_pairs
from .buffers.counts import FURTHER, WHOLE
from .buffers.overflow import Overflow, larger_capacity
from .buffers.records import CapacityRecord
from .buffers.rows import RowArguments
from .finish_pass import PassFinisher
from .narrow.ground import GroundTable, ground_bound, is_ground_pair
from .narrow.hulls.tables import make_hulls
from .narrow.narrow_phase import collide_pairs, has_own_pairs, search_pairs
from .newton_compat import AdaptedPipeline, has_surface_velocity
from .ranges import GroundRanges, ListedRanges, PassSpan
from .state import SapCollisionState


@dataclass(frozen=True)
class PathChoice:
    """Which path a pipeline takes, and why."""

    name: str
    """``"ground"``, ``"listed"`` or ``"newton"``, from the fastest to the slowest."""

    reason: str
    """The reason why no faster path suits."""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def choose_path(model: newton.Model, pairs: np.ndarray | None, wanted_of_newton: str = "") -> PathChoice:
    """Choose the fastest path that suits.

    Args:
        model: The model with the shapes.
        pairs: The pairs that may touch, shape [pair_count, 2]; None if a broad phase has to discover them.
        wanted_of_newton: A requirement that only Newton's pipeline meets, as the beginning of a sentence.
    """
    if not model.device.is_cpu:
        return PathChoice("newton", f"the model is on {model.device}; the other paths are for the CPU")
    if wanted_of_newton:
        return PathChoice("newton", f"{wanted_of_newton}, which Newton's own stages do")
    if pairs is None:
        return PathChoice("newton", "there is no list of pairs; its broad phase discovers them")
    if len(pairs) == 0:
        return PathChoice("newton", "no shapes may meet")
    if model.requires_grad:
        return PathChoice("newton", "the model asks for gradients")
    ground = is_ground_pair(model, pairs)
    if ground.all():
        return PathChoice("ground", "every pair is of an infinite resting plane and a simple shape")
    strange = ~np.isin(model.shape_type.numpy()[pairs], COLLIDABLE).all(axis=1)
    if strange.any():
        return PathChoice("newton", f"only it has bounds for {name_pair(model, pairs[strange][0])}")
    if has_surface_velocity(model):
        return PathChoice("newton", "a mesh has surface velocities")
    first = name_pair(model, pairs[~ground][0])
    others = int((~ground).sum()) - 1
    more = f" and {others} other pairs are" if others > 1 else " and another pair are" if others else " are"
    return PathChoice("listed", f"{first}{more} not of an infinite resting plane and a simple shape")


@dataclass(frozen=True)
class PathParts:
    """The objects that a path is built from."""

    pipeline: AdaptedPipeline
    """Newton's pipeline."""

    pairs: np.ndarray | None
    """The pairs that may touch, shape [pair_count, 2]; None if a broad phase has to discover them."""

    overflow: Overflow
    """The buffers that passes write, a larger one if the caller's may be too small."""

    record: CapacityRecord
    """Receives the counts."""


class GroundPath:
    """All contacts are with the ground: one launch finds, writes, selects and counts them. CPU only."""

    def __init__(self, parts: PathParts):
        """Prepare the table of pairs."""
        self._parts = parts
        self._table = self._make_table()
        self._count = len(self._table.shapes)
        self._rows = RowArguments(parts.pipeline.device)

    def find(self, view: SapCollisionState, buffer: newton.Contacts, dt: float | None, same_shapes: bool) -> None:
        """Fill ``buffer``."""
        overflow, rows = self._parts.overflow, self._rows
        written = overflow.written(buffer)
        if buffer.clear_buffers:
            buffer.clear(bump_generation=False)
        if buffer.rigid_contact_match_index is not None:
            buffer.rigid_contact_match_index.fill_(-1)  # as Newton does where it matches nothing
        inputs = [0, self._count, WHOLE, view.body_q, overflow.tables, rows.of(written)]
        outputs = [rows.of(buffer), overflow.dropped_of(buffer), self._parts.record.counts]
        self._table.launch(written is not buffer, inputs, outputs)

    @staticmethod
    def bound(model: newton.Model, pairs: np.ndarray | None) -> int:
        """Return the number of contacts that a pass must be able to write."""
        assert pairs is not None
        return ground_bound(model, pairs)

    def split(self, bounds: np.ndarray, body_world: np.ndarray) -> GroundRanges | None:
        """See `SapCollisionPipeline.split`."""
        parts = self._parts
        selects = parts.overflow.larger is not None
        return GroundRanges(parts.pipeline, self._make_table(), selects, parts.record, bounds, body_world)

    def _make_table(self) -> GroundTable:
        pipeline, pairs = self._parts.pipeline, self._parts.pairs
        assert pairs is not None
        return GroundTable(pipeline.model, pairs, pipeline.include_static_kinematic_pairs)


class ListedPath:
    """Pairs from a list: the ground as in `GroundPath`, the rest by a broad phase of our own. CPU only.

    Pairs that are near are collided by `narrow`, and those that it does not know by Newton's narrow phase. Contacts
    with the ground come first, then our own, then those of Newton's narrow phase.
    """

    def __init__(self, parts: PathParts):
        """Sort the pairs."""
        self._pipeline, self._overflow, pairs = parts.pipeline, parts.overflow, parts.pairs
        assert pairs is not None
        model, device = parts.pipeline.model, parts.pipeline.device
        self._model, self._arrays, self._record, self._pairs = model, parts.pipeline.arrays, parts.record, pairs
        ground = is_ground_pair(model, pairs)
        self._ground = GroundTable(model, pairs[ground], parts.pipeline.include_static_kinematic_pairs)
        self._ground.sort_by_world(model.body_world.numpy())
        owners = model.shape_body.numpy()[pairs]
        may_touch = (owners >= 0).any(axis=1) & (owners[:, 0] != owners[:, 1])
        moving = pairs[~ground & may_touch]
        bodies = sort_by_body(model, moving)
        self._bodies, self._travel = StructArgument(bodies, device), StructArgument(travel_of(bodies), device)
        self._ground.use_travel(owners_of(bodies, model.shape_count), self._travel.struct.travelled)
        self._hulls = StructArgument(make_hulls(model, moving), device)
        self._aabb_pass = wp.zeros(model.shape_count, dtype=wp.int32, device=device)
        found: Any = Candidates()
        found.pair, found.count = self._arrays.pair, self._arrays.pair_count
        self._has_own_pairs = has_own_pairs(model, moving)
        found.near, found.near_count = found.pair, found.count
        if self._has_own_pairs:
            found.near, found.near_count = wp.empty_like(found.pair), wp.empty_like(found.count)
        found.near_number = wp.empty(len(found.near), dtype=wp.int32, device=device)
        found.pass_number, found.own_rows = (wp.zeros(1, dtype=wp.int32, device=device) for _ in range(2))
        self._candidates = StructArgument(found, device)
        self._rows, self._structs = RowArguments(device), StructCache(device)
        self._finisher = PassFinisher(parts.pipeline, parts.overflow, parts.record, found.own_rows)
        self._all = PassSpan((0, len(self._ground.shapes)), (0, bodies.count))

    def find(self, view: SapCollisionState, buffer: newton.Contacts, dt: float | None, same_shapes: bool) -> None:
        """Fill ``buffer``."""
        written = self._overflow.written(buffer)
        if buffer.clear_buffers and written is not buffer:
            buffer.clear(bump_generation=False)
        self._search(view, self._all, same_shapes, self._overflow, buffer)
        self._finisher.run(view.body_q, buffer)

    def split(self, bounds: np.ndarray, body_world: np.ndarray) -> ListedRanges | None:
        """See `SapCollisionPipeline.split`."""
        if np.isin(self._model.shape_type.numpy()[self._pairs], TRIANGULATED).any():
            return None  # Newton shares one buffer among all pairs of triangles
        body = self._bodies.struct.body.numpy()
        first_body = np.searchsorted(np.where(body < 0, -1, body_world[body]), bounds)
        first_body[0] = 0  # the first range checks whether fixtures have changed
        first_pair = np.searchsorted(body_world[self._model.shape_body.numpy()[self._ground.shapes]], bounds)
        steps = [list(itertools.pairwise(first.tolist())) for first in (first_pair, first_body)]
        most = most_of_pairs(self._model, self._pairs, body_world, bounds)
        capacity = min(most, larger_capacity(self._overflow.capacity, most))
        bodies = np.searchsorted(body_world, bounds)
        spans = [PassSpan(*span) for span in zip(*steps, strict=True)]
        ranges = ListedRanges(self._pipeline, self._record, bodies, capacity, spans)

        def find(view: SapCollisionState, span: PassSpan, kind_of_pass: int) -> None:
            self._search(view, span, kind_of_pass == FURTHER, ranges.overflow, ranges.buffer)
            self._finisher.run_range(view.body_q, ranges, kind_of_pass)

        ranges.find_span = find
        return ranges

    @staticmethod
    def bound(model: newton.Model, pairs: np.ndarray | None) -> int:
        """Return the number of contacts that a pass must be able to write."""
        return contact_bound(model, pairs)

    def _search(
        self, view: SapCollisionState, span: PassSpan, same: bool, overflow: Overflow, buffer: newton.Contacts
    ) -> None:
        """Write the contacts of ``span`` where ``overflow`` says; Newton's narrow phase collides the rest."""
        written = overflow.written(buffer)

        def search() -> None:
            travel, shapes = self._travel.array, self._shapes()
            pairs = [
                self._ground.argument(),
                wp.vec2i(*span.ground),
                self._bodies.array,
                wp.vec2i(*span.bodies),
                travel,
            ]
            rows = [overflow.tables, self._rows.of(written), self._rows.of(buffer)]
            self._launch(search_pairs, [*pairs, shapes, view.body_q, int(same), *rows])
            if self._has_own_pairs:
                self._launch(collide_pairs.of(Variant()), [shapes, self._hulls.array, travel, *rows])

        self._pipeline.collide_with(search, view, written)

    def _launch(self, kernel: Any, inputs: list[Any]) -> None:
        outputs, device = [self._candidates.array], self._pipeline.device
        wp.launch(kernel, dim=1, inputs=inputs, outputs=outputs, block_dim=1, device=device, record_tape=False)

    def _shapes(self) -> wp.array:
        """Return the `Shapes`; arrays of the model may have been replaced since the last pass."""
        model, arrays = self._model, self._arrays
        fields = {
            "body": model.shape_body,
            "kind": model.shape_type,
            "local": model.shape_transform,
            "size": model.shape_scale,
            "margin": model.shape_margin,
            "gap": model.shape_gap,
            "local_lower": model.shape_collision_aabb_lower,
            "local_upper": model.shape_collision_aabb_upper,
            "body_flags": model.body_flags,
            "source": model.shape_source_ptr,
            "pose": arrays.pose,
            "data": arrays.data,
            "lower": arrays.lower,
            "upper": arrays.upper,
            "aabb_pass": self._aabb_pass,
        }
        return self._structs.get(fields, Shapes)


class NewtonPath:
    """Newton's pipeline as it is, on both devices."""

    def __init__(self, parts: PathParts):
        """Prepare to finish passes."""
        self._pipeline, self._overflow = parts.pipeline, parts.overflow
        self._finisher = PassFinisher(parts.pipeline, parts.overflow, parts.record)

    def find(self, view: SapCollisionState, buffer: newton.Contacts, dt: float | None, same_shapes: bool) -> None:
        """Fill ``buffer``."""
        written = self._overflow.written(buffer)
        if buffer.clear_buffers and written is not buffer:
            buffer.clear(bump_generation=False)
        self._pipeline.collide(view, written, dt=dt)
        self._finisher.run(view.body_q, buffer)

    @staticmethod
    def bound(model: newton.Model, pairs: np.ndarray | None) -> int:
        """Return the number of contacts that a pass must be able to write."""
        return contact_bound(model, pairs)


CollisionPath: TypeAlias = GroundPath | ListedPath | NewtonPath
PATHS: dict[str, type[CollisionPath]] = {"ground": GroundPath, "listed": ListedPath, "newton": NewtonPath}
"""The class of each path by the name of a `PathChoice`."""
