"""All code that relies on the insides of Newton's pipeline: the one file to check when Newton changes.

`tests/test_newton_compat.py` compares it with the installed version.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import newton
import numpy as np
import warp as wp
from newton.geometry import BroadPhaseSAP, NarrowPhase

TESTED = "1.7"
"""Version of Newton that this file was written for, as in ``pyproject.toml``."""

_PADDED_GRIDS = (
    "total_num_threads",
    "num_tile_blocks",
    "num_mesh_mesh_blocks",
    "mesh_mesh_target_blocks",
    "num_mesh_plane_blocks",
    "mesh_plane_target_blocks",
)
"""Grid sizes of the narrow phase. All its kernels stride over their work by them."""

_EXPORT_GRID = "EXPORT_REDUCED_CONTACTS_THREAD_BUDGET_MULTIPLIER"
"""Blocks that export the contacts of meshes and heightfields, for each of ``total_num_threads``; of Newton's module."""

_TILE_KERNELS = (
    "export_reduced_contacts_kernel",
    "mesh_mesh_contacts_kernel",
    "mesh_mesh_contacts_kernel_precomputed",
)
"""Kernels of the narrow phase that use tiles, besides those of its module."""

_SENTINELS = {
    "_empty_shape_support_data": "_shape_support_data",
    "_empty_edge_range": "shape_edge_range",
    "_empty_mesh_properties": "_shape_mesh_properties",
}
"""Arrays with an entry for each shape that a narrow phase makes for callers without them, and the model's own ones."""

SORTED_TRIANGLES_MAX = 1 << 20
"""Pairs of triangles that Newton's deterministic reduction cannot number any more."""

USED_MEMBERS: dict[str, tuple[str, ...]] = {
    "model": (
        *("_contact_capacity_initialized", "_shape_mesh_properties", "_shape_collision_filter_pairs"),
        *("_collision_pipeline", "_rigid_contact_max", "_soft_contact_max", "_fk_articulation_level_start"),
        *("_shape_support_data", "shape_edge_range"),
    ),
    "builder": ("_find_shape_contact_pairs",),
    "pipeline": (
        *("model", "broad_phase", "narrow_phase", "include_static_kinematic_pairs", "geom_transform", "geom_data"),
        *("broad_phase_shape_pairs", "broad_phase_pair_count", "shape_pairs_max", "_rigid_contact_surface_velocity"),
    ),
    "narrow_phase": (
        *("shape_aabb_lower", "shape_aabb_upper", "triangle_pairs", "triangle_pairs_count", *_SENTINELS),
        *(*_PADDED_GRIDS, *_TILE_KERNELS),
    ),
    "narrow_phase_module": (_EXPORT_GRID,),
    "sweep_and_prune": (
        *("world_count", "max_shapes_per_world", "sweep_thread_count_multiplier"),
        *("sort_type", "tile_sort_kernel", "tile_block_dim"),
    ),
}
"""Members of Newton's objects that are read, written or replaced here, private ones and those without a promise."""


_SURFACE_VELOCITY = 2
"""Newton's flag of a mesh that carries its surface along, ``MeshProperties.SURFACE_VELOCITY``."""


def finalize_without_pairs(builder: newton.ModelBuilder, device: Any) -> newton.Model:
    """``builder.finalize`` without the list of all pairs that may collide, whose size and time are quadratic."""
    builder._find_shape_contact_pairs = lambda model: None
    try:
        return builder.finalize(device)
    finally:
        del builder._find_shape_contact_pairs


def publish_capacity(model: newton.Model, capacity: int) -> None:
    """Tell the model, whose contact observables follow it, the size of the buffers that the caller sees."""
    if model.rigid_contact_max != capacity:
        model.rigid_contact_max = capacity
        model._contact_capacity_initialized = True  # Newton's mark of a size that came from a pipeline


def cut_private_members(part: Any, whole: Any, cut_pairs: Callable[[np.ndarray], np.ndarray]) -> None:
    """Give a model ``part`` that was cut from ``whole`` its own filtered pairs, and nothing that belongs to a pipeline.

    Args:
        part: Some worlds.
        whole: All worlds.
        cut_pairs: Keeps pairs of shapes of ``part``, in its numbering.
    """
    filtered = whole._shape_collision_filter_pairs
    kept = cut_pairs(filtered.pairs_array().astype(np.int64))
    part._shape_collision_filter_pairs = type(filtered)(np.sort((kept[:, 0] << 32) | kept[:, 1]))
    part._collision_pipeline = part._rigid_contact_max = part._soft_contact_max = None
    part._contact_capacity_initialized = False
    part._fk_articulation_level_start = None  # of forward kinematics on CUDA


def has_surface_velocity(model: newton.Model) -> bool:
    """Return True if a mesh of the model carries its surface along; Newton then writes surface velocities."""
    properties = model._shape_mesh_properties
    return properties is not None and bool((properties.numpy() & _SURFACE_VELOCITY).any())


_NARROW_PHASE_MODULE = sys.modules[NarrowPhase.__module__]
_Change: TypeAlias = tuple[Any, dict[str, Any]]
"""An object, and values for some of its attributes."""


class StageArrays(NamedTuple):
    """The arrays that the stages of Newton's pipeline share."""

    pose: wp.array
    """World pose of each shape, as of the last pass that computed it."""
    data: wp.array
    """Size and margin of each shape."""
    lower: wp.array
    """Lower corner of the AABB of each shape, with margin and gap, in world frame [m]."""
    upper: wp.array
    pair: wp.array
    """Pairs of shapes for the narrow phase."""
    pair_count: wp.array
    triangle_count: wp.array
    """Pairs of triangles; empty if it counts none."""
    triangle_max: int


class AdaptedPipeline(newton.CollisionPipeline):
    """Newton's pipeline with buffers of any size, launches that suit the CPU, and a way in for another broad phase."""

    buffer_size: int
    """Contacts that a buffer from `contacts` can hold."""

    def adapt(self, buffer_size: int, shared_stages: bool) -> None:
        """Say how large the caller's buffers are, and make the launches suit the device.

        Args:
            buffer_size: Contacts that a buffer from `contacts` can hold.
            shared_stages: True if others may use the stages too; they are then changed during passes only.
        """
        self.buffer_size = buffer_size
        self._launches = _Changes(_unpadded_grids(self) if self.device.is_cpu else [])
        if not shared_stages:
            self._launches.keep()
            self._drop_sentinels()
        if self.device.is_cpu and self.narrow_phase.triangle_pairs is not None:
            # More than one would take turns, and a world's contacts come in an order that depends on its neighbours.
            self._launches.changes.append((_NARROW_PHASE_MODULE, {_EXPORT_GRID: 1}))

    def _drop_sentinels(self) -> None:
        """Replace arrays that Newton made and never reads here by the model's own, to free their memory."""
        for name, own in _SENTINELS.items():
            array, unused = getattr(self.model, own), getattr(self.narrow_phase, name, None)
            if array is not None and unused is not None and len(array) == len(unused):
                setattr(self.narrow_phase, name, array)

    @property
    def rigid_contact_max(self) -> int:
        """Contacts that a buffer from `contacts` can hold."""
        return self.buffer_size

    def contacts(self) -> newton.Contacts:
        """Allocate a buffer; its forces are allocated on first access."""
        buffer = super().contacts()
        del buffer.rigid_contact_force
        buffer.__class__ = _ContactsWithoutForces
        return buffer

    @property
    def arrays(self) -> StageArrays:
        """The arrays that the stages share."""
        narrow_phase = self.narrow_phase
        count, triangles = narrow_phase.triangle_pairs_count, narrow_phase.triangle_pairs
        return StageArrays(
            self.geom_transform,
            self.geom_data,
            narrow_phase.shape_aabb_lower,
            narrow_phase.shape_aabb_upper,
            self.broad_phase_shape_pairs,
            self.broad_phase_pair_count,
            wp.empty(0, dtype=wp.int32, device=self.device) if count is None else count,
            0 if triangles is None else triangles.shape[0],
        )

    @contextlib.contextmanager
    def own_code(self) -> Iterator[None]:
        """Give passes that are captured meanwhile their own copy of Newton's code; they may run beside any others.

        On the CPU, Warp finds the memory of tiles through one pointer in the loaded code, so that two threads in the
        same copy take each other's. Newton uses tiles for meshes; a copy takes milliseconds, from the kernel cache.
        """
        modules = _tile_modules(self.narrow_phase) if self.device.is_cpu else []
        for module in modules:
            module.unload()
        try:
            yield
        finally:
            for module in modules:
                module.unload()  # the graphs keep the copy that they were captured with

    def contacts_for(self, size: int) -> newton.Contacts:
        """Allocate a buffer of another size."""
        usual, self.buffer_size = self.buffer_size, size
        try:
            return self.contacts()
        finally:
            self.buffer_size = usual

    def collide(self, state: Any, contacts: newton.Contacts, **options: Any) -> None:
        """Run Newton's `collide` with launches that suit the device."""
        with self._launches:
            super().collide(state, contacts, **options)

    def collide_with(self, search: Callable[[], None], state: Any, contacts: newton.Contacts) -> None:
        """Run Newton's `collide` without its shape poses, AABBs and pairs, which ``search`` has to provide instead.

        ``search`` also sets the counters of ``contacts``; nobody counts the generation.
        """
        usual = {"model": self.model, "broad_phase": self.broad_phase}
        _set([(self, {"model": _WithoutShapes(self.model), "broad_phase": _Search(search)})])
        try:
            self.collide(state, contacts)
        finally:
            _set([(self, usual)])


class _ContactsWithoutForces(newton.Contacts):
    """Newton's buffer without forces, which no step reads or writes."""

    _FORCE = "rigid_contact_force"

    def __getattr__(self, name: str) -> Any:
        """Allocate the forces on first access."""
        if name != self._FORCE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        forces = wp.zeros(self.rigid_contact_max, dtype=wp.vec3, device=self.device)
        setattr(self, name, forces)
        return forces


class _WithoutShapes:
    """A model that shows Newton's pipeline no shapes, so that it computes neither poses nor AABBs."""

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
        """Run the search; Newton's pipeline calls this after it has computed poses of shapes."""
        self._search()


# A thread of a grid costs tens of nanoseconds on the CPU, and does no work beside others.


def _unpadded_grids(pipeline: newton.CollisionPipeline) -> list[_Change]:
    """Let one thread do the work of grids that Newton sizes for occupancy, 64 to 1280 threads on the CPU.

    The contacts are the same. Subclasses of Newton's stages launch as they like and are left alone.
    """
    broad_phase, narrow_phase = pipeline.broad_phase, pipeline.narrow_phase
    changes: list[_Change] = []
    if type(narrow_phase) is NarrowPhase:
        changes.append((narrow_phase, dict.fromkeys(_PADDED_GRIDS, 1)))
    if type(broad_phase) is BroadPhaseSAP:
        changes.append((broad_phase, _sweep_and_prune_sizes(broad_phase)))
    return changes


class _Changes:
    """Attributes of objects that others may use too, and their values during a pass."""

    def __init__(self, changes: list[_Change]):
        self.changes = changes
        self._before: list[_Change] = []

    def keep(self) -> None:
        """Make the changes for good: nobody else uses the objects."""
        _set(self.changes)
        self.changes = []

    def __enter__(self) -> None:
        self._before = [(owner, {name: getattr(owner, name, None) for name in new}) for owner, new in self.changes]
        _set(self.changes)

    def __exit__(self, *_: object) -> None:
        _set(self._before)


def _tile_modules(narrow_phase: Any) -> list[Any]:
    """Return the Warp modules of a narrow phase that use tiles, which it does for meshes and heightfields only."""
    if narrow_phase.triangle_pairs is None:
        return []
    kernels = [getattr(narrow_phase, name) for name in _TILE_KERNELS]
    return [wp.get_module(_NARROW_PHASE_MODULE.__name__), *{kernel.module for kernel in kernels if kernel is not None}]


def _set(values: list[_Change]) -> None:
    for stage, attributes in values:
        for name, value in attributes.items():
            setattr(stage, name, value)


def _sweep_and_prune_sizes(broad_phase: BroadPhaseSAP) -> dict[str, Any]:
    """Sort small worlds in place: Warp's segmented sort on the CPU clears a 64 K histogram for each world."""
    elements = broad_phase.world_count * broad_phase.max_shapes_per_world
    return {
        "sweep_thread_count_multiplier": 1.5 / max(elements, 1),  # Newton launches int(multiplier * elements)
        "sort_type": "tile",
        "tile_sort_kernel": sort_segments,
        "tile_block_dim": 32,  # the CPU clamps it to one lane
    }


@wp.kernel(enable_backward=False)
def sort_segments(key: wp.array[float], value: wp.array[int], segment_size: int) -> None:
    """Sort every segment of ``key`` in place, ascending, and permute ``value`` with it (shell sort)."""
    base = wp.tid() * segment_size
    gap = int(1)
    while gap * 9 < segment_size * 4:
        gap = (gap * 9) // 4 + 1
    while gap >= 1:
        i = int(gap)
        while i < segment_size:
            k = key[base + i]
            v = value[base + i]
            j = int(i)
            while j >= gap and key[base + j - gap] > k:
                key[base + j] = key[base + j - gap]
                value[base + j] = value[base + j - gap]
                j -= gap
            key[base + j] = k
            value[base + j] = v
            i += 1
        if gap == 1:
            gap = 0
        else:
            gap = wp.max((gap * 4) // 9, 1)
