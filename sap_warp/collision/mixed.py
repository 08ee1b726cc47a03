# mypy: disable-error-code="valid-type"
"""Contacts of all kinds of pairs on the CPU: the ground the short way, the rest by way of a broad phase of our own.

Newton's pipeline places and bounds every shape of the model, visual ones too, and compares shapes pair by pair. Here
one launch finds the contacts with the ground (`ground`), compares bodies before shapes (`groups`), and lists the pairs
whose boxes overlap (`nearby`), placing only their shapes. Newton's narrow phase takes it from there; it has nothing to
do if nothing is near. A last launch does what `finish` does.

Contacts are those of Newton's pipeline, in another order: first the ground's, then those of Newton's narrow phase.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import newton
import numpy as np
import warp as wp

from ..kernels.structs import StructCache
from .bounds import KNOWN_KINDS, Shapes, flat_shapes
from .ground import GroundContacts, GroundPairs, find_contacts, is_ground_pair
from .groups import Groups, flat_groups, sort_pairs
from .nearby import meet_groups
from .need import note_contacts, note_stages
from .normals import LAST_ROWS, Mending, ShapePoses, mend_rows
from .room import ContactRoom
from .rows import ContactRows, copy_rows, flat_rows, next_generation
from .selection import Selection, select_all
from .state import SapCollisionState

PASS, OWN = wp.constant(0), wp.constant(1)
"""Places in the tally: number of the pass, rows that were written before Newton's."""


@wp.kernel(module="unique", enable_backward=False)  # products and sums apart: poses are Newton's to the last bit
def meet_bodies(
    ground: wp.array[GroundPairs],
    ground_count: int,
    groups: wp.array[Groups],
    group_count: int,
    shapes: wp.array[Shapes],
    body_q: wp.array[wp.transformf],
    with_kinematic: int,
    capacity: int,
    room: int,
    rest_in: wp.array[ContactRows],
    target_in: wp.array[ContactRows],
    candidate: wp.array[wp.vec2i],
    candidate_count: wp.array[wp.int32],
    tally: wp.array[wp.int32],
) -> None:
    """Write our contacts, list the pairs for Newton and let its counter begin after our rows; one thread.

    Rows from ``capacity`` on go to ``rest_in``, which is where Newton writes, up to ``room``.
    """
    now = next_generation(tally[PASS])
    tally[PASS] = now
    last = room - wp.min(room, LAST_ROWS)
    while last < room:
        rest_in[0].tids[last] = -1  # `mend_rows` tells by it what Newton left unwritten
        last += 1
    found = find_contacts(ground, 0, ground_count, body_q, with_kinematic, capacity, room, rest_in, target_in)
    g = groups[0]
    s = shapes[0]
    rest = rest_in[0]
    flat_groups(g)
    flat_shapes(s)
    flat_rows(rest)
    candidate_count[0] = meet_groups(g, s, group_count, body_q, with_kinematic, now, candidate)
    tally[OWN] = found
    rest.counters[0] = found
    rest.counters[1] = 0
    rest.counters[2] = 0


@wp.kernel(enable_backward=False)
def finish_mixed(
    shapes: wp.array[ShapePoses],
    body_q: wp.array[wp.transformf],
    tally: wp.array[wp.int32],
    capacity: int,
    pair_count: wp.array[wp.int32],
    triangle_count: wp.array[wp.int32],
    rows: wp.array[ContactRows],
    record: wp.array[wp.int32],
) -> None:
    """Mend Newton's rows in the caller's buffer and note the need; one thread."""
    mend_rows(shapes, body_q, capacity, tally[OWN], 1, rows)
    found = rows[0].counters[0]
    rows[0].generation[0] = next_generation(rows[0].generation[0])
    note_contacts(found, capacity, found, capacity, record)
    note_stages(pair_count, triangle_count, rows[0].counters[2], record)


@wp.kernel(enable_backward=False)
def finish_mixed_and_select(
    shapes: wp.array[ShapePoses],
    body_q: wp.array[wp.transformf],
    tally: wp.array[wp.int32],
    selection: wp.array[Selection],
    pair_count: wp.array[wp.int32],
    triangle_count: wp.array[wp.int32],
    source: wp.array[ContactRows],
    target: wp.array[ContactRows],
    dropped_out: wp.array[wp.int32],
    record: wp.array[wp.int32],
) -> None:
    """Mend Newton's rows in the larger buffer and put them after ours; or choose among all. One thread."""
    own = tally[OWN]
    capacity = selection[0].capacity
    room = selection[0].room
    mend_rows(shapes, body_q, room, own, 1, source)
    found = source[0].counters[0]
    if found > capacity:
        copy_rows(target, source, 0, 1, wp.min(own, capacity))
        select_all(selection[0], source, body_q, target, dropped_out)
    else:
        copy_rows(source, target, own, 1, found)
        target[0].counters[0] = found
        target[0].counters[1] = 0
        target[0].counters[2] = source[0].counters[2]
        target[0].generation[0] = next_generation(target[0].generation[0])
    note_contacts(target[0].counters[0], capacity, found, room, record)
    note_stages(pair_count, triangle_count, target[0].counters[2], record)


class _WithoutShapes:
    """A model as Newton's pipeline sees it when there is nothing to place and to bound."""

    shape_count = 0

    def __init__(self, model: newton.Model):
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _Search:
    """Stands in for Newton's broad phase of listed pairs."""

    def __init__(self, search: Callable[[], None]):
        self._search = search

    def launch(self, *_: Any, **__: Any) -> None:
        """What Newton's pipeline calls after it has placed the shapes."""
        self._search()


class MixedContacts:
    """Finds the contacts of a model with pairs of many kinds. Nothing is allocated after the constructor."""

    def __init__(
        self,
        pipeline: newton.CollisionPipeline,
        pairs: np.ndarray,
        room: ContactRoom | None,
        triangle_count: wp.array,
        record: wp.array,
    ):
        """Prepare the pairs; ``suits`` must hold for them.

        Args:
            pipeline: Newton's.
            pairs: Shape [pair_count, 2].
            room: What Newton's pipeline writes into; None if that is the caller's buffer.
            triangle_count: Where it counts triangle pairs; empty if it does not.
            record: Receives the need.
        """
        model, device = pipeline.model, pipeline.device
        self._pipeline, self._model, self._room, self._record = pipeline, model, room, record
        self._with_kinematic = bool(pipeline.include_static_kinematic_pairs)
        ground = is_ground_pair(model, pairs)
        self._ground = GroundContacts(model, pairs[ground], self._with_kinematic)
        bodies = model.shape_body.numpy()[pairs]
        may_meet = (bodies >= 0).any(axis=1) & (bodies[:, 0] != bodies[:, 1])
        self._groups = sort_pairs(model, pairs[~ground & may_meet])
        self._mending = Mending(model, pipeline.geom_transform)
        self._counts = [pipeline.broad_phase_pair_count, triangle_count]
        self._stamps = {name: wp.zeros(model.shape_count, dtype=wp.int32, device=device) for name in ("posed", "boxed")}
        self._tally = wp.zeros(2, dtype=wp.int32, device=device)
        self._structs = StructCache(device)
        self._without_shapes: Any = _WithoutShapes(model)

    @staticmethod
    def suits(pipeline: newton.CollisionPipeline, pairs: np.ndarray | None) -> bool:
        """Whether all of ``pairs`` are of kinds that this class can bound, and nothing but contacts is asked for."""
        model, narrow_phase = pipeline.model, pipeline.narrow_phase
        if not model.device.is_cpu or model.requires_grad or pairs is None or len(pairs) == 0:
            return False
        plain = type(narrow_phase) is newton.geometry.NarrowPhase and narrow_phase.hydroelastic_sdf is None
        if not plain or getattr(pipeline, "_rigid_contact_surface_velocity", False):
            return False
        return bool(np.isin(model.shape_type.numpy()[pairs], KNOWN_KINDS).all())

    def find(self, view: SapCollisionState, buffer: newton.Contacts) -> None:
        """Fill ``buffer`` and note the need."""
        written = buffer if self._room is None else self._room.contacts
        if buffer.clear_buffers and written is not buffer:
            buffer.clear(bump_generation=False)
        with self._as_broad_phase(lambda: self._search(view.body_q, buffer, written)):
            self._pipeline.collide(view, written)
        self._finish(view.body_q, buffer)

    @contextmanager
    def _as_broad_phase(self, search: Callable[[], None]) -> Iterator[None]:
        """Let Newton's pipeline place no shapes and ``search`` our way, for the time of a pass."""
        pipeline = self._pipeline
        before = pipeline.broad_phase
        pipeline.model, pipeline.broad_phase = self._without_shapes, _Search(search)
        try:
            yield
        finally:
            pipeline.model, pipeline.broad_phase = self._model, before

    def _search(self, body_q: wp.array, buffer: newton.Contacts, written: newton.Contacts) -> None:
        groups, pipeline = self._groups, self._pipeline
        inputs = [
            *self._ground.table(),
            self._structs.get(groups, Groups),
            groups["body"].shape[0],
            self._structs.get(self._shapes(), Shapes),
            body_q,
            int(self._with_kinematic),
            buffer.rigid_contact_max,
            written.rigid_contact_max,
            self._mending.rows(written),
        ]
        found = [pipeline.broad_phase_shape_pairs, pipeline.broad_phase_pair_count, self._tally]
        self._launch(meet_bodies, inputs, [self._mending.rows(buffer), *found])

    def _shapes(self) -> dict[str, wp.array]:
        """The arrays of `Shapes`; those of the model may have been replaced since the last pass."""
        model, pipeline = self._model, self._pipeline
        return {
            "body": model.shape_body,
            "kind": model.shape_type,
            "local": model.shape_transform,
            "size": model.shape_scale,
            "margin": model.shape_margin,
            "gap": model.shape_gap,
            "local_lower": model.shape_collision_aabb_lower,
            "local_upper": model.shape_collision_aabb_upper,
            "body_flags": model.body_flags,
            "pose": pipeline.geom_transform,
            "data": pipeline.geom_data,
            "lower": pipeline.narrow_phase.shape_aabb_lower,
            "upper": pipeline.narrow_phase.shape_aabb_upper,
            **self._stamps,
        }

    def _finish(self, body_q: wp.array, buffer: newton.Contacts) -> None:
        mending, room = self._mending, self._room
        inputs, target = [mending.shapes(), body_q, self._tally], mending.rows(buffer)
        if room is None:
            inputs += [buffer.rigid_contact_max, *self._counts]
            self._launch(finish_mixed, inputs, [target, self._record])
            return
        inputs += [room.tables, *self._counts, mending.rows(room.contacts)]
        self._launch(finish_mixed_and_select, inputs, [target, room.dropped_of(buffer), self._record])

    def _launch(self, kernel: Any, inputs: list[Any], outputs: list[Any]) -> None:
        device = self._record.device
        wp.launch(kernel, dim=1, inputs=inputs, outputs=outputs, block_dim=1, device=device, record_tape=False)
