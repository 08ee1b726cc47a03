"""`SapCollisionPipeline`: from poses to contacts."""

from __future__ import annotations

import enum
import warnings
from typing import Any

import newton
import numpy as np
import warp as wp

from ..core.faq import see
from ..core.runtime.capture import launches
from ..core.runtime.memory_budget import BELT_BYTES, BUFFER_BYTES, CHOICE_BYTES, SORTED_BYTES, check_memory_budget
from ..model.contacts import SapContacts, newton_contacts_of
from ..model.model import SapModel, check_array, check_bool, check_time_step
from ..model.shapes import TRIANGULATED
from .broad.pairs import (
    UnsupportedPair,
    describe,
    find_unsupported_pairs,
    refuse_hydroelastic_pairs,
    warn_if_unreliable,
)
from .buffers.capacity import sap_estimate_rigid_contact_max
from .buffers.counts import LAST, LAST_DROPPED, PEAK
from .buffers.overflow import Overflow, larger_capacity
from .buffers.records import CapacityRecord
from .model import SapCollisionModel, newton_model_of
from .newton_compat import SORTED_TRIANGLES_MAX, AdaptedPipeline, has_surface_velocity, publish_capacity
from .paths import PATHS, NewtonPath, PathChoice, PathParts, choose_path
from .ranges import Ranges
from .repair.coplanar_boxes import GhostContactFilter, find_coplanar_boxes
from .state import CollisionStateLike, sap_collision_state_from_state

BROAD_PHASE_MODES = ("explicit", "sap", "nxn")
"""Names of the broad phases: precomputed pairs, sweep and prune, all pairs."""

_UNSUPPORTED_ACTIONS = ("raise", "warn")
_OPTIONS_OF_PAIRS = {"shape_pairs_filtered", "include_static_kinematic_pairs"}
"""Options of Newton's pipeline that only say which shapes may touch."""


def sap_normalize_broad_phase_mode(mode: Any) -> str:
    """The canonical name of a broad phase: ``"explicit"``, ``"sap"`` or ``"nxn"``.

    Args:
        mode: A name in upper or lower case, or a member of an enum with such a name (Newton's old spelling).

    Raises:
        TypeError: ``mode`` is neither a string nor an enum member.
        ValueError: There is no such broad phase.
    """
    name = mode.name if isinstance(mode, enum.Enum) else mode
    if not isinstance(name, str):
        raise TypeError(f"broad_phase is {mode!r}; expected one of {', '.join(map(repr, BROAD_PHASE_MODES))}.")
    if name.strip().lower() not in BROAD_PHASE_MODES:
        raise ValueError(f"broad_phase is {mode!r}; valid choices are {', '.join(map(repr, BROAD_PHASE_MODES))}.")
    return name.strip().lower()


class SapCollisionPipeline:
    """Finds the contacts of all worlds at one instant and writes them into a bounded buffer.

    Example:
        ```python
        collision = SapCollisionPipeline(collision_model, rigid_contact_max=256)
        contacts = collision.contacts()
        collision.collide(sap_collision_state_from_state(state_0), contacts)
        solver.step(state_0, state_1, control, contacts, dt)
        ```
    """

    newton_pipeline: newton.CollisionPipeline
    """Newton's pipeline; a faster path replaces parts of it."""

    path: PathChoice
    """The path to the contacts and the reason for it, see `paths`; ``str(path)`` is a sentence."""

    record: CapacityRecord
    """Counts of what passes found and dropped; `check` and the properties below report them."""

    unsupported_pairs: list[UnsupportedPair]
    """Pairs of shapes that may touch and for which there is no narrow phase; empty unless they were let pass."""

    def __init__(
        self,
        collision_model: SapCollisionModel | SapModel | newton.Model,
        *,
        rigid_contact_max: int | None = None,
        broad_phase: Any = None,
        narrow_phase: newton.geometry.NarrowPhase | None = None,
        deterministic: bool | None = None,
        strict_capacity: bool = False,
        unsupported_pairs: str = "raise",
        **newton_options: Any,
    ):
        """Allocate all buffers; `collide` allocates nothing.

        Args:
            collision_model: The model with the shapes.
            rigid_contact_max: Contacts that the buffer can hold, over all worlds; None estimates it.
            broad_phase: ``"explicit"``, ``"sap"`` or ``"nxn"``, or an instance together with ``narrow_phase``.
                None is ``"explicit"`` if the model has precomputed pairs, else ``"sap"``.
            narrow_phase: Expert instance, only together with an instance of a broad phase. On the CPU the launches of
                instances of Newton's own classes are adapted during a pass, those of subclasses are not.
            deterministic: Sort the contacts, so that their order does not depend on how threads were scheduled. On
                the CPU the order is reproducible anyway. None sorts on CUDA where meshes or heightfields may touch.
            strict_capacity: Raise `ContactCapacityError` when the host next asks for a count, instead of one
                warning, if contacts were dropped.
            unsupported_pairs: ``"raise"``, or ``"warn"`` to let such pairs pass through each other.
            **newton_options: Other keywords of `newton.CollisionPipeline`, for example ``shape_pairs_max``,
                ``shape_pairs_filtered``, ``max_triangle_pairs`` or ``reduce_contacts``.

        Raises:
            ValueError: An option has no valid value, shapes may touch that no narrow phase can handle or that are
                hydroelastic, an option needs a larger ``rigid_contact_max``, or memory is too small for it.
            TypeError: An argument is of the wrong type.
        """
        model = newton_model_of(collision_model)
        self.collision_model = (
            collision_model if isinstance(collision_model, SapCollisionModel) else SapCollisionModel(model)
        )
        if deterministic is not None:
            deterministic = check_bool("deterministic", deterministic)
        strict_capacity = check_bool("strict_capacity", strict_capacity)
        if unsupported_pairs not in _UNSUPPORTED_ACTIONS:
            choices = ", ".join(map(repr, _UNSUPPORTED_ACTIONS))
            raise ValueError(f"unsupported_pairs is {unsupported_pairs!r}; valid choices are {choices}.")
        if rigid_contact_max is None:
            rigid_contact_max = sap_estimate_rigid_contact_max(model)
        capacity = _check_capacity(rigid_contact_max)
        expert = _are_expert_instances(broad_phase, narrow_phase)
        mode = broad_phase if expert else _choose_mode(model, broad_phase, newton_options)
        pairs = _explicit_pairs(model, mode, newton_options)
        if deterministic is None:
            deterministic = not expert and not model.device.is_cpu and needs_sorting(model, pairs, newton_options)
        self.path = choose_path(model, pairs, _wanted_of_newton(expert, deterministic, mode, newton_options))
        path = PATHS[self.path.name]
        found_max = larger_capacity(capacity, path.bound(model, pairs))
        _check_budget(capacity, found_max, deterministic, model)
        refuse_hydroelastic_pairs(model, newton_options)
        newton_options.setdefault("verify_buffers", False)  # it prints in every step; `check` reports once
        if found_max > capacity:
            _refuse_options_that_need_newtons_rows(newton_options, capacity, found_max)
            newton_options["requires_grad"] = False  # of the model it would mean outputs that nothing fills
        # Sorting works on buffers of exactly the size that the pipeline was built for.
        pipeline = self.newton_pipeline = AdaptedPipeline(
            model,
            rigid_contact_max=found_max if deterministic else capacity,
            broad_phase=mode,
            narrow_phase=narrow_phase,
            deterministic=deterministic,
            **newton_options,
        )
        pipeline.adapt(capacity, shared_stages=expert)
        publish_capacity(model, capacity)
        self.unsupported_pairs = self._find_unsupported(unsupported_pairs)
        larger = pipeline.contacts_for(found_max) if found_max > capacity else None
        self._overflow = Overflow(model, capacity, larger)
        self.record = CapacityRecord(pipeline, strict_capacity, self._overflow)
        self._path = path(PathParts(pipeline, pairs, self._overflow, self.record))
        coplanar = find_coplanar_boxes(model, pairs)
        self._ghosts = GhostContactFilter(model, coplanar) if len(coplanar) else None

    def contacts(self) -> SapContacts:
        """Allocate a buffer for this pipeline; reuse it in every step."""
        buffer = self.newton_pipeline.contacts()
        self._overflow.prepare(buffer)
        return SapContacts(buffer)

    @launches
    def collide(
        self,
        state: CollisionStateLike,
        contacts: SapContacts | newton.Contacts,
        *,
        dt: float | None = None,
        same_shapes: bool = False,
    ) -> None:
        """Replace the content of ``contacts`` by the contacts at ``state``.

        Can be captured in a graph together with the solver. Never waits and never raises for a full buffer.

        Args:
            state: Body poses.
            contacts: A buffer from `contacts`, or any `newton.Contacts` of the same size.
            dt: Horizon of speculative contacts [s]; only with ``speculative_contact_gap_max``.
            same_shapes: No shape was moved on its body, scaled or replaced and no margin or gap changed since the last
                pass. Else the pass checks that, which takes some 20 ns for each shape that moves.

        Raises:
            TypeError: An argument is of the wrong type or precision.
            ValueError: A length or a device does not fit the model, or ``contacts`` is of another size.
        """
        if dt is not None:
            check_time_step(dt)
        buffer = newton_contacts_of(contacts)
        view = sap_collision_state_from_state(state)
        model = self.newton_pipeline.model
        check_array("state", "body_q", view.body_q, (wp.transformf,), model.body_count, model.device)
        if buffer.device != model.device:
            raise ValueError(f"contacts are on '{buffer.device}'; the model is on '{model.device}'.")
        if buffer.rigid_contact_max != self.rigid_contact_max:
            raise ValueError(
                f"contacts can hold {buffer.rigid_contact_max} contacts; this pipeline was built with "
                f"rigid_contact_max={self.rigid_contact_max}. Use a buffer from its contacts()."
            )
        view.refresh()
        self._path.find(view, buffer, dt, same_shapes)
        if self._ghosts is not None:
            self._ghosts.run(view.body_q, buffer)

    def split(self, bounds: np.ndarray, body_world: np.ndarray) -> Ranges | None:
        """Return the detection for a range of worlds at a time, if its contacts are those of `collide`; else None.

        They are on the CPU, where all pairs are listed and without meshes and height fields. Where a buffer of this
        pipeline is too small for all worlds, `collide` drops contacts that ranges keep.

        Args:
            bounds: First world of each range, and the number of worlds.
            body_world: World of each body, ascending.
        """
        ranges = None if isinstance(self._path, NewtonPath) else self._path.split(bounds, body_world)
        if ranges is not None:
            ranges.ghosts = self._ghosts
        return ranges

    @property
    def broad_phase_mode(self) -> str:
        """``"explicit"``, ``"sap"`` or ``"nxn"``."""
        return str(self.newton_pipeline.broad_phase_mode)

    @property
    def deterministic(self) -> bool:
        """True if contacts are sorted."""
        return bool(self.newton_pipeline.deterministic)

    @property
    def rigid_contact_max(self) -> int:
        """Contacts that a buffer of this pipeline can hold, over all worlds."""
        return int(self.newton_pipeline.rigid_contact_max)

    # Counts. Reading one waits for the device and reports dropped contacts; `collide` does neither.

    @property
    def last_contact_count(self) -> int:
        """Contacts that the last pass left in the buffer, over all worlds."""
        record = self.record.read()
        return int(record[LAST] - record[LAST_DROPPED])

    @property
    def last_overflow(self) -> int:
        """Contacts that the last pass found and dropped because the buffer was full."""
        return int(self.record.read()[LAST_DROPPED])

    @property
    def peak_contact_count(self) -> int:
        """Most contacts that a pass found, kept or not, since construction or `clear_statistics`."""
        return int(self.record.read()[PEAK])

    def check(self) -> None:
        """Report what was dropped since construction or `clear_statistics`: a warning, or an error if strict.

        Raises:
            ContactCapacityError: Something was dropped, and ``strict_capacity`` is set.
        """
        self.record.read()

    def clear_statistics(self) -> None:
        """Set all counts to zero; a later overflow is reported again."""
        self.record.clear()

    def _find_unsupported(self, action: str) -> list[UnsupportedPair]:
        pipeline = self.newton_pipeline
        listed = _pair_list(pipeline.shape_pairs_filtered)
        warn_if_unreliable(pipeline.model, listed)
        pairs = find_unsupported_pairs(pipeline.model, listed)
        if pairs and action == "raise":
            raise ValueError(describe(pairs) + see("unsupported-pairs"))
        if pairs:
            warnings.warn(describe(pairs) + see("unsupported-pairs"), RuntimeWarning, stacklevel=3)
        return pairs


def _are_expert_instances(broad_phase: Any, narrow_phase: Any) -> bool:
    """Return True if both stages are given as instances.

    Raises:
        ValueError: Only one of them is.
    """
    broad_is_instance = broad_phase is not None and not isinstance(broad_phase, (str, enum.Enum))
    if broad_is_instance != (narrow_phase is not None):
        given, missing = ("broad_phase", "narrow_phase") if broad_is_instance else ("narrow_phase", "broad_phase")
        raise ValueError(
            f"{given} is an instance, but {missing} is not. Give instances of both, or the name of a broad phase "
            f"({', '.join(map(repr, BROAD_PHASE_MODES))}) and no narrow_phase."
        )
    return broad_is_instance


def _choose_mode(model: newton.Model, broad_phase: Any, newton_options: dict[str, Any]) -> str:
    has_pairs = model.shape_contact_pairs is not None or newton_options.get("shape_pairs_filtered") is not None
    if broad_phase is None:
        return "explicit" if has_pairs else "sap"
    mode = sap_normalize_broad_phase_mode(broad_phase)
    if mode == "explicit" and not has_pairs:
        raise ValueError(
            "broad_phase is 'explicit', but the model has no precomputed pairs (shape_contact_pairs is None). "
            "Pass shape_pairs_filtered, or choose 'sap' or 'nxn'."
        )
    return mode


def _explicit_pairs(model: newton.Model, mode: Any, newton_options: dict[str, Any]) -> np.ndarray | None:
    """Return the pairs that the explicit broad phase will test; None for other broad phases."""
    if mode != "explicit" and not isinstance(mode, newton.geometry.BroadPhaseExplicit):
        return None
    pairs = newton_options.get("shape_pairs_filtered")
    return _pair_list(model.shape_contact_pairs if pairs is None else pairs)


def _pair_list(pairs: wp.array | None) -> np.ndarray | None:
    return None if pairs is None else np.asarray(pairs.numpy()).reshape(-1, 2)


def needs_sorting(model: newton.Model, pairs: np.ndarray | None, newton_options: dict[str, Any]) -> bool:
    """Return True if the order of contacts would make a world depend on its neighbours on CUDA.

    Args:
        model: The model with the shapes.
        pairs: The pairs that may touch, shape [pair_count, 2]; None if a broad phase has to discover them.
        newton_options: With more triangle pairs than Newton can number, it cannot sort.
    """
    kinds = model.shape_type.numpy() if pairs is None else model.shape_type.numpy()[pairs]
    has_triangles = bool(np.isin(kinds, TRIANGULATED).any())
    return has_triangles and newton_options.get("max_triangle_pairs", 0) < SORTED_TRIANGLES_MAX


def _wanted_of_newton(expert: bool, deterministic: bool, mode: Any, newton_options: dict[str, Any]) -> str:
    """Name the option that only Newton's own stages provide, as the beginning of a sentence; empty if there is none."""
    if expert:
        return "broad and narrow phase are given as instances"
    options = {"deterministic"} if deterministic else set(newton_options) - _OPTIONS_OF_PAIRS
    if options:
        return f"{min(options)} is set"
    return f"broad_phase is {mode!r}" if mode != "explicit" else ""


def _refuse_options_that_need_newtons_rows(options: dict[str, Any], capacity: int, found_max: int) -> None:
    """Matching and gradients refer to the rows as Newton wrote them, which a selection would move.

    Raises:
        ValueError: One of them is asked for.
    """
    wanted = [name for name in ("requires_grad", "contact_report") if options.get(name)]
    if options.get("contact_matching", "disabled") != "disabled":
        wanted.append("contact_matching")
    if wanted:
        raise ValueError(
            f"{wanted[0]} needs a buffer that cannot overflow: rigid_contact_max is {capacity}, and these shapes may "
            f"have {found_max} contacts. Set rigid_contact_max={found_max} or more, or None."
        )


def _check_budget(capacity: int, found_max: int, deterministic: bool, model: newton.Model) -> None:
    """Refuse a buffer that, with the larger one beside it, does not fit into memory."""
    unit = SORTED_BYTES if deterministic else BUFFER_BYTES
    unit += BELT_BYTES if has_surface_velocity(model) else 0
    if found_max > capacity:
        unit += CHOICE_BYTES * found_max // capacity
    check_memory_budget("rigid_contact_max", capacity, unit, model.device)


def _check_capacity(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"rigid_contact_max is {value!r}; it must be a whole number of contacts, or None.")
    if value <= 0:
        raise ValueError(f"rigid_contact_max is {value}; it must be positive, or None for an estimate.")
    return int(value)
