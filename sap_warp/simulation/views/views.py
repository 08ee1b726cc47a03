"""Views of flat runtime arrays by world and by name: NumPy, DLPack, torch and Warp, without copies."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self, overload

import numpy as np
import warp as wp

from ...core.faq import see
from ...core.runtime.capture import launches
from ..kernels import assign_chosen
from ..run.streams import in_order
from .array_view import ArrayView
from .arrays import HOST_DLPACK, as_mask, as_scalars, broadcast, numpy_dtype, read_only, to_device, to_host, with_3_axes
from .mirrors import Mirror, Mirrors
from .names import Found, ModelNames, check_patterns
from .selection import Selection, is_names
from .view_part import ViewPart

_KEPT_PARTS = 256
"""Most parts of a view that are remembered by name."""

OnWrite = Callable[[Any], None]
"""Function called after an assignment with the mask of its worlds (NumPy or Warp booleans), None for all."""


class HeterogeneousWorldsError(ValueError):
    """Worlds have different sizes, so that there is no array of shape (worlds, ...)."""


class WorldView(ArrayView):
    """View of one array of a simulation: by world, by name of its columns, or entry by entry.

    Example:
        ```python
        sim.joint_q.numpy()                         # (worlds, coords)
        sim.joint_q["left_knee"].numpy()            # (worlds,)
        sim.joint_f["*_knee"] = 2.0                 # all knees of all worlds
        sim.joint_f[mask, ["left_hip", "right_hip"]] = torques
        sim.body_q["torso", 2]                      # heights, (worlds,)
        ```

    Nothing here copies on the CPU, and the memory stays the same as long as the simulation lives: take a view once and
    use it after every step. On CUDA NumPy arrays are copies that follow: they are brought up to date by every step,
    reset and assignment for as long as somebody holds them, which makes those wait; `torch`, `warp` and DLPack share
    the memory.
    """

    def __init__(
        self,
        name: str,
        array: wp.array,
        starts: np.ndarray,
        on_read: Callable[[], None] = lambda: None,
        *,
        kind: str = "",
        names: ModelNames | None = None,
        mirrors: Mirrors | None = None,
        on_write: OnWrite | None = None,
    ):
        """View ``array``.

        Args:
            name: For messages.
            array: Flat, one entry per coordinate, dof, body, shape, actuator or world; vectors, matrices and
                transforms are entries of several numbers.
            starts: First entry of each world, and behind the last one, shape (worlds + 1,).
            on_read: Called when the host reads values.
            kind: What the entries belong to, one of `KINDS`; empty if they have no names.
            names: Of the model.
            mirrors: Where host arrays are kept that follow this one; None makes mirrors of its own.
            on_write: Called after every assignment through the view, with the mask of worlds.
        """
        self.name, self._on_read, self.on_write = name, on_read, on_write
        self._kind, self._names = kind, names
        self.is_parameter = False
        """Whether host arrays are read-only, so that ``on_write`` hears of every change."""
        self._mirrors = Mirrors() if mirrors is None else mirrors
        self.array: wp.array = array[int(starts[0]) : int(starts[-1])]
        """All worlds one after another, on the device."""
        self.offsets: np.ndarray = np.asarray(starts - starts[0])
        """First entry of each world in `array`, and the length at the end, shape (worlds + 1,)."""
        sizes = np.diff(self.offsets)
        self.is_uniform: bool = len(sizes) > 0 and bool((sizes == sizes[0]).all())
        """Whether all worlds have equally many entries."""
        self._tail = tuple(getattr(array.dtype, "_shape_", ()))
        self._host: np.ndarray | None = None
        if self.array.device.is_cpu:
            self._host = self.array.numpy()
        else:
            shape, fill = (len(self.array), *self._tail), self._download
            self._mirror = Mirror(self._mirrors, shape, numpy_dtype(array), fill)
        self._parts: dict[Any, ViewPart] = {}
        self._chosen: tuple[wp.array, ...] = ()

    # What it is.

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Worlds, entries per world, and numbers per entry if there are several.

        Raises:
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        self._check_uniform()
        return (self.world_count, int(self.offsets[1]), *self._tail)

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the numbers."""
        return numpy_dtype(self.array)

    @property
    def device(self) -> Any:
        """Device of the memory."""
        return self.array.device

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns.

        Raises:
            ValueError: Worlds differ; ``find("*", world=i)`` has those of one.
        """
        return self.find("*").names

    def find(self, patterns: Any, world: int | None = None) -> Found:
        """Find columns by name, pattern, or a list of them; see `Simulation.find_joints`."""
        if self._names is None or not self._kind:
            raise TypeError(f"The entries of {self.name} have no names.")
        return self._names.find(self._kind, patterns, world)

    # Reading.

    def warp(self) -> wp.array:
        """Return a Warp array of shape (worlds, entries per world).

        Raises:
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        self._check_uniform()
        return self.array.reshape((self.world_count, int(self.offsets[1])))

    def numpy(self) -> np.ndarray:
        """Return a NumPy array of shape (worlds, entries); poses have 7 and twists 6 numbers behind that.

        It always shows the present values, also after later steps. On the CPU it is the memory itself: what is written
        into it takes part in the next step. On CUDA it is a copy that follows, see above, and read-only, so that
        nothing is written in vain: assign through the view.

        Raises:
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        shape = self.shape
        return self.flat().reshape(shape)

    def flat(self) -> np.ndarray:
        """Return a NumPy array of all worlds one after another, by the rules of `numpy`."""
        values = self._mirror.read() if self._host is None else self._host
        self._on_read()
        return read_only(values) if self.is_parameter else values

    def world(self, index: int) -> np.ndarray:
        """Return a NumPy array of one world, by the rules of `numpy`."""
        index = self._check_world(index)
        return self.flat()[self.offsets[index] : self.offsets[index + 1]]

    def torch(self) -> Any:
        """Return a torch tensor of shape (worlds, entries, ...) on the same device that shares the memory.

        Raises:
            ImportError: torch is not installed.
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        with in_order(self.device):
            return wp.to_torch(self.warp(), requires_grad=False)

    def __getitem__(self, key: Any) -> ViewPart:
        """Select worlds, columns or components, as a view.

        Args:
            key: As for a NumPy array of this `shape`; and names of columns, patterns or lists of them, alone or behind
                the worlds. One plain name of one column takes its axis away, as a number would. Several lists span a
                grid. Where worlds differ in size, the number of one comes first.
        """
        remembered = (key if isinstance(key, str) else tuple(key)) if is_names(key) else None
        if remembered in self._parts:
            return self._parts[remembered]
        if self.is_uniform:
            part = ViewPart(self, Selection.everything(self.shape).take(key, self._columns), key)
        else:
            world, *further = key if isinstance(key, tuple) else (key,)
            try:
                index = self._check_world(world)
            except TypeError:
                self._check_uniform()
            first, last = (int(start) for start in self.offsets[index : index + 2])
            whole = Selection((0, slice(first, last, 1), *self._ends()), (1, len(self.array), *self._tail))
            chosen = whole.take(
                further[0] if len(further) == 1 else (*further,), lambda names, _: self._columns(names, index, first)
            )
            part = ViewPart(self, chosen, key)
        if remembered is not None and len(self._parts) < _KEPT_PARTS:
            self._parts[remembered] = part
        return part

    # Writing.

    def __setitem__(self, key: Any, values: Any) -> None:
        is_whole = key is Ellipsis or (isinstance(key, slice) and key == slice(None))
        if is_whole and (not self.is_uniform or isinstance(values, wp.array) or np.shape(values) in self._shapes()):
            self.assign(values)
        else:
            self[key].assign(values)  # by NumPy's rules

    def assign(self, values: Any, world_mask: Any = None) -> None:
        """Copy ``values`` into the array: of its flat shape, of its shape by world, or one world's for all of them.

        Values and masks that are on the simulation's device stay there.

        Args:
            values: NumPy, torch, Warp, DLPack or nested lists of numbers.
            world_mask: Which worlds, booleans of shape (worlds,); None is all of them.
        """
        if values is self:
            return
        if self._host is None:
            with in_order(self.device):
                self._assign_on_device(values, world_mask)
            self._mirrors.refresh()
        else:
            full = self._fit(to_host(values), np.broadcast_to)
            target = self._host.reshape(full.shape)
            if world_mask is None:
                target[...] = full
            else:
                world_mask = to_host(as_mask(world_mask, self.world_count, self.device))
                chosen = world_mask if self.is_uniform else np.repeat(world_mask, np.diff(self.offsets))
                target[chosen] = full[chosen]
            self._mirrors.refresh()
        if self.on_write is not None:
            self.on_write(world_mask)

    @launches
    def _assign_on_device(self, values: Any, world_mask: Any) -> None:
        source = self._fit(to_device(values, self.device), broadcast)
        if not self._chosen:
            owners = np.repeat(np.arange(self.world_count), 1 if self.is_uniform else np.diff(self.offsets))
            self._chosen = (
                wp.array(owners, dtype=wp.int32, device=self.device),
                wp.ones(self.world_count, dtype=wp.bool, device=self.device),
            )
        owners, everybody = self._chosen
        mask = everybody if world_mask is None else as_mask(world_mask, self.world_count, self.device)
        source, target = (with_3_axes(array) for array in (source, self.scalars().reshape(source.shape)))
        wp.launch(assign_chosen, dim=target.shape, inputs=[mask, owners, source, target], device=self.device)

    def _fit(self, given: Any, spread: Callable[..., Any]) -> Any:
        """Return ``given``, a NumPy or Warp array, in the shape (worlds, ...), or flat if worlds differ in size.

        Raises:
            TypeError: It has no numbers.
            ValueError: It has another shape.
        """
        kind = given.dtype.kind if isinstance(given, np.ndarray) else numpy_dtype(given).kind
        if kind not in "fiu":
            raise TypeError(f"{self.name} takes an array of numbers; got {given.dtype} of shape {given.shape}.")
        given = given if isinstance(given, np.ndarray) else as_scalars(given)
        choices = self._shapes()
        shape = self.shape if self.is_uniform else choices[0]
        if tuple(given.shape) not in choices:
            wanted = " or ".join(map(str, dict.fromkeys(choices)))
            raise ValueError(f"{self.name} takes an array of shape {wanted}; got {tuple(given.shape)}.")
        if tuple(given.shape) in (choices[0], shape):
            return given.reshape(shape)
        return spread(given, shape)

    def _shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes that `assign` takes: flat, by world, and one world's."""
        return [(len(self.array), *self._tail), *([self.shape, self.shape[1:]] if self.is_uniform else [])]

    # Details.

    def scalars(self) -> wp.array:
        """Return the memory as scalars, shape (entries, ...)."""
        return as_scalars(self.array)

    def _ends(self) -> list[slice]:
        return [slice(0, size, 1) for size in self._tail]

    def _download(self, target: np.ndarray) -> None:
        with in_order(self.device):
            target[...] = self.array.numpy()

    def _columns(self, names: Any, world: int | None, first: int = 0) -> tuple[np.ndarray, bool]:
        found = self.find(check_patterns(names), world)
        is_one = isinstance(names, str) and len(found.indices) == 1 and not any(sign in names for sign in "*?[")
        return first + found.indices, is_one

    def _check_uniform(self) -> None:
        if not self.is_uniform:
            sizes = np.diff(self.offsets)
            raise HeterogeneousWorldsError(
                f"{self.name} has between {sizes.min()} and {sizes.max()} entries per world, so there is no array of "
                "shape (worlds, entries). Use flat() with offsets, or world(i), or view[i, names] for one world."
                + see("different-worlds")
            )

    def _check_world(self, index: Any) -> int:
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(f"index is {index!r}; it must be the number of a world.") from None
        if not -self.world_count <= index < self.world_count:
            raise IndexError(f"There is no world {index}: there are {self.world_count}.")
        return index % self.world_count

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Export the memory, or a copy if asked for, also from CUDA to the host (``device="cpu"``)."""
        if copy or (dl_device is not None and tuple(dl_device) != tuple(self.__dlpack_device__())):
            if dl_device is not None and int(dl_device[0]) != HOST_DLPACK:
                raise BufferError(f"{self.name} is on {self.device}; it can be copied to the host only.")
            return np.array(self.numpy()).__dlpack__()
        return self.warp().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __repr__(self) -> str:
        sizes = np.diff(self.offsets)
        shape = f"{self.world_count} x {sizes[0]}" if self.is_uniform else f"{self.world_count} x {sizes.min()}..."
        kind = wp.types.type_repr(self.array.dtype)
        return f"<WorldView {self.name}: {shape} {kind} on {self.array.device}>"


class ViewAttribute:
    """Attribute that shows a view of a simulation; assignments write through the view."""

    def __init__(self, text: str):
        """Store ``text``, which `help` shows."""
        self.__doc__ = text
        self.__name__ = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type) -> WorldView: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        try:
            return owner._views[self.__name__]
        except KeyError:
            reason = owner._no_view.get(self.__name__, "its model has none.")
            raise AttributeError(f"This simulation has no {self.__name__}: {reason}") from None

    def __set__(self, owner: Any, values: Any) -> None:
        view = self.__get__(owner, type(owner))
        if values is not view:
            view[...] = values

    def __delete__(self, owner: Any) -> None:
        raise AttributeError(f"{self.__name__} cannot be deleted.")
