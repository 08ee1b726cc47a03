"""One `Randomize` term on the device: its stream, the entries it is for, and the values they had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...model.joint_types import JOINT_TYPES, QUATERNION_JOINTS
from ...model.model_values import FINITE, is_bad
from ...randomization import HOW, Choice, Distribution, Every, LogUniform, Normal, Randomize, Uniform
from ..parameters import PARAMETERS
from ..views.views import WorldView
from .streams import Stream, Target, draw_values, restore_values, scale_inertias, split_seed, stream_number

if TYPE_CHECKING:
    from ..core import SimulationCore

_PRESENT = ("joint_q", "joint_qd")
"""Views whose nominal value is the present one of each world."""
_INPUTS = ("gravity", *_PRESENT, "body_f", "joint_f", "joint_act", "joint_target_q", "joint_target_qd", "ctrl")
_KINDS: tuple[type, ...] = (Uniform, LogUniform, Normal, Choice)


class Term:
    """Device data of one term."""

    def __init__(self, sim: SimulationCore, given: Randomize, seed: int, taken: dict[str, int], check: bool = True):
        """Find the entries of the term.

        Args:
            sim: Whose.
            given: The term.
            seed: Of all streams.
            taken: Streams so far; one of the same name gets another number.
            check: Whether the present values are nominal, so that it can be told what may come.

        Raises:
            ValueError: It cannot be: no such view or column, a rotation, or a number that is not possible.
        """
        self.given, self._sim = given, sim
        view = self._find_view()
        columns, components = self._columns(view), self._components(view)
        self._refuse_rotations(view, columns)
        entry, world, index = _spread(view, columns, components, given.shared or given.what == "body_inertia")
        device = sim.device
        self._entry, self._world, self._index = (
            wp.array(each.astype(np.int32), dtype=wp.int32, device=device) for each in (entry, world, index)
        )
        self.values: wp.array = _flat(view.array)
        keeps = given.what not in _PRESENT
        self.nominal: wp.array = wp.clone(self.values) if keeps else wp.empty(0, self.values.dtype, device=device)
        """Values that factors and differences are for; empty for those that a world has."""
        self.inertia: wp.array | None = None
        """Nominal inertias that follow masses."""
        self._good = wp.empty(0, self.values.dtype, device=device)
        if given.what in PARAMETERS or given.what == "ground_mu":
            self._good = _flat(sim._parameters.good(given.what))
        if given.what == "body_mass" and given.with_inertia:
            self.inertia = wp.clone(_flat(sim._views["body_inertia"].array))
        if check:
            self._check(entry)
        self.stream = self._make_stream(seed, taken)

    def aim(self, seed: int, first_world: int) -> None:
        """Take the numbers of another seed, and of worlds counted from another first world."""
        self.stream.seed0, self.stream.seed1 = split_seed(seed)
        self.stream.first_world = first_world

    def draw(self, mask: wp.array, row: int, draws: wp.array) -> None:
        """Draw new values for chosen worlds."""
        given, device = self.given, self._sim.device
        target: Any = Target()
        target.row, target.how, target.keeps_zero = row, HOW.index(given.how), int(given.what == "body_mass")
        target.entry, target.world, target.index = self._entry, self._world, self._index
        inputs = [mask, self.stream, target, draws, self.nominal]
        outputs = [self.values, self._good]
        wp.launch(draw_values, dim=len(self._entry), inputs=inputs, outputs=outputs, device=device)
        self._follow_masses(mask)

    def restore(self, mask: wp.array) -> None:
        """Restore nominal values in chosen worlds."""
        inputs = [mask, self._entry, self._world, self.nominal]
        outputs = [self.values, self._good]
        wp.launch(restore_values, dim=len(self._entry), inputs=inputs, outputs=outputs, device=self._sim.device)
        self._follow_masses(mask)

    def _follow_masses(self, mask: wp.array) -> None:
        if self.inertia is not None:
            view = self._sim._views["body_inertia"]
            inputs = [mask, self._entry, self._world, self.nominal, self.inertia, self.values]
            outputs = [_flat(view.array), _flat(self._sim._parameters.good("body_inertia"))]
            wp.launch(scale_inertias, dim=len(self._entry), inputs=inputs, outputs=outputs, device=self._sim.device)

    def _find_view(self) -> WorldView:
        known = [name for name in (*PARAMETERS, "ground_mu", *_INPUTS) if name in self._sim._views]
        if self.given.what not in known:
            raise ValueError(f"{self.given.what!r} cannot be randomized; there are {', '.join(known)}.")
        if isinstance(self.given.when, Every) and self.given.when.hold is not None and self.given.what in _PRESENT:
            raise ValueError(f"{self.given.what} has no nominal value that could return after a hold.")
        return self._sim._views[self.given.what]

    def _columns(self, view: WorldView) -> np.ndarray | None:
        """Return the columns of every world; None for all of them."""
        if self.given.names is None:
            return None
        return view.find(self.given.names).indices

    def _components(self, view: WorldView) -> np.ndarray:
        size = int(np.prod(getattr(view.array.dtype, "_shape_", ()), dtype=int))
        chosen = range(size) if self.given.components is None else self.given.components
        if any(not 0 <= i < size for i in chosen):
            raise ValueError(f"components of {self.given.what} are 0 to {size - 1}; found {list(chosen)}.")
        if self.given.what == "body_inertia" and (self.given.how != "scale" or len(list(chosen)) != size):
            raise ValueError('body_inertia can be randomized by how="scale" and as a whole: else it may be none.')
        return np.array(list(chosen))

    def _refuse_rotations(self, view: WorldView, columns: np.ndarray | None) -> None:
        """Refuse quaternions: their four numbers cannot be drawn one by one."""
        if self.given.what not in ("joint_q", "joint_target_q"):
            return
        model = self._sim.model
        start, turns = model.joint_q_start.numpy(), np.zeros(model.joint_coord_count, bool)
        for kind in QUATERNION_JOINTS:
            joints = np.flatnonzero(model.joint_type.numpy() == kind)
            turns[(start[joints] + JOINT_TYPES[kind].quaternion)[:, None] + np.arange(4)] = True
        turns = turns[int(self._sim._names.starts_of("coord")[0]) :][: len(view.array)]
        entry = _spread(view, columns, np.zeros(1, int), False)[0]
        if turns[entry].any():
            raise ValueError(
                f"{self.given.what}: the chosen columns contain rotations (qx, qy, qz, qw), which cannot be drawn one "
                'by one. Give names of others, for example names="root.[xyz]".'
            )

    def _check(self, entry: np.ndarray) -> None:
        """Refuse a distribution that could give an impossible number."""
        given, rule = self.given, FINITE
        if given.what in PARAMETERS:
            rule = PARAMETERS[given.what].rule
        elif given.what == "ground_mu":
            rule = "finite and not negative"
        if given.what == "shape_scale" and (given.how != "scale" or not self._sim._parameters.are_simple(entry // 3)):
            raise ValueError(
                'shape_scale can be randomized by how="scale", for spheres, boxes, capsules, cylinders, cones and '
                "ellipsoids; choose them by names."
            )
        base = self.values.numpy()[entry].astype(np.float64)
        if given.what == "body_mass":
            base = base[base > 0.0]
        for bound in given.distribution.bounds:
            with np.errstate(invalid="ignore"):
                found = {"set": np.full_like(base, bound), "scale": base * bound, "offset": base + bound}[given.how]
            bad = is_bad(found, rule)
            if given.what in ("body_mass", "body_inertia", "shape_scale"):
                bad |= (found <= 0.0) & (base > 0.0)
                rule = "positive"
            if isinstance(given.distribution, Normal) and rule == FINITE and not np.isfinite(bound):
                bad[:] = False  # so far away never comes
            if bad.any():
                hint = " Give low and high." if isinstance(given.distribution, Normal) else ""
                raise ValueError(
                    f"{given.what} has to be {rule}; {given.how!r} with {given.distribution} could make it "
                    f"{found[bad][0]:g}.{hint}"
                )

    def _make_stream(self, seed: int, taken: dict[str, int]) -> Any:
        given = self.given
        when = given.when if isinstance(given.when, str) else "every"
        name = f"{given.what} {given.names} {given.components} {when}"
        taken[name] = taken.get(name, -1) + 1
        number = f"{name} {taken[name]}" if taken[name] else name
        stream = make_stream(given.distribution, seed, number, self._sim.device)
        stream.probability = given.when.probability if isinstance(given.when, Every) else 1.0
        return stream


def make_stream(distribution: Distribution, seed: int, name: str, device: Any) -> Any:
    """Return the stream of that name."""
    stream: Any = Stream()
    stream.seed0, stream.seed1 = split_seed(seed)
    stream.number = stream_number(name)
    stream.kind = _KINDS.index(type(distribution))
    if isinstance(distribution, Normal):
        stream.a, stream.b = distribution.mean, distribution.std
    elif not isinstance(distribution, Choice):
        stream.a, stream.b = distribution.low, distribution.high
    stream.low, stream.high = distribution.bounds
    values = distribution.values if isinstance(distribution, Choice) else (0.0,)
    stream.choices = wp.array(values, dtype=wp.float64, device=device)
    stream.probability = 1.0
    return stream


def _flat(array: wp.array) -> wp.array:
    """Return an array as one axis of numbers, without a copy."""
    scalars = array.view(array.dtype._wp_scalar_type_) if hasattr(array.dtype, "_shape_") else array
    return scalars.reshape((int(np.prod(scalars.shape)),))


def _spread(
    view: WorldView, columns: np.ndarray | None, components: np.ndarray, shared: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return memory index, world, and index in the stream of every number."""
    size = max(int(np.prod(getattr(view.array.dtype, "_shape_", ()), dtype=int)), 1)
    if columns is None:
        world = np.repeat(np.arange(view.world_count), np.diff(view.offsets))
        column = np.arange(len(view.array)) - view.offsets[world]
    else:
        world = np.repeat(np.arange(view.world_count), len(columns))
        column = np.tile(columns, view.world_count)
    entry = ((view.offsets[world] + column) * size)[:, None] + components
    index = np.zeros_like(entry) if shared else column[:, None] * size + components
    if view.name == "body_inertia":  # one factor for a matrix
        index = np.broadcast_to(column[:, None], entry.shape)
    return entry.ravel(), np.repeat(world, len(components)), index.ravel()
