"""Views of flat runtime arrays by world: NumPy, DLPack, torch and Warp, without copies."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from ..kernels.capture import launches
from .kernels import assign_worlds


class HeterogeneousWorldsError(ValueError):
    """Worlds have different sizes, so that there is no array of shape (worlds, ...)."""


class WorldView:
    """One array of a simulation, entry by entry or world by world.

    Nothing here copies on the CPU, and the memory stays the same as long as the simulation lives: take a view once and
    use it after every step. On CUDA `numpy` has to copy; `torch` and DLPack do not.
    """

    def __init__(self, name: str, array: wp.array, starts: np.ndarray, on_read: Callable[[], None] = lambda: None):
        """View ``array``.

        Args:
            name: For messages.
            array: Flat, one entry per coordinate, dof, body or world.
            starts: First entry of each world, and behind the last one, shape (worlds + 1,).
            on_read: Called when the host reads values.
        """
        self.name, self._on_read = name, on_read
        self.array: wp.array = array[int(starts[0]) : int(starts[-1])]
        """All worlds one after another, on the device."""
        self.offsets: np.ndarray = np.asarray(starts - starts[0])
        """First entry of each world in `array`, and the length at the end, shape (worlds + 1,)."""

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return len(self.offsets) - 1

    @property
    def is_uniform(self) -> bool:
        """Whether all worlds have equally many entries."""
        return len(np.unique(np.diff(self.offsets))) <= 1

    def warp(self) -> wp.array:
        """Warp array of shape (worlds, entries per world).

        Raises:
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        sizes = np.diff(self.offsets)
        if not self.is_uniform:
            raise HeterogeneousWorldsError(
                f"{self.name} has between {sizes.min()} and {sizes.max()} entries per world, so there is no array of "
                "shape (worlds, entries). Use flat() with offsets, or world(i)."
            )
        return self.array.reshape((self.world_count, int(sizes[0])))

    def numpy(self) -> np.ndarray:
        """NumPy array of shape (worlds, entries), poses with 7 and twists with 6 numbers behind that.

        On the CPU it is a view: what is written into it takes part in the next step. On CUDA it is a copy of the
        present values and read-only, so that nothing is written in vain.

        Raises:
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        return self._read(self.warp())

    def flat(self) -> np.ndarray:
        """NumPy array of all worlds one after another; the same rules as for `numpy`."""
        return self._read(self.array)

    def world(self, index: int) -> np.ndarray:
        """NumPy array of one world; the same rules as for `numpy`."""
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(f"index is {index!r}; it must be the number of a world.") from None
        if not -self.world_count <= index < self.world_count:
            raise IndexError(f"There is no world {index}: there are {self.world_count}.")
        index %= self.world_count
        return self.flat()[self.offsets[index] : self.offsets[index + 1]]

    def torch(self) -> Any:
        """Torch tensor of shape (worlds, entries, ...) on the same device, sharing the memory.

        Raises:
            ImportError: torch is not installed.
            HeterogeneousWorldsError: Worlds have different sizes.
        """
        return wp.to_torch(self.warp(), requires_grad=False)

    def assign(self, values: Any, world_mask: Any = None) -> None:
        """Copy ``values`` into the array: of its flat shape, of its shape by world, or one world's for all of them.

        Args:
            values: NumPy, Warp or nested lists.
            world_mask: Which worlds, booleans of shape (worlds,); None is all of them.
        """
        given = values.numpy() if isinstance(values, wp.array) else np.asarray(values)
        if given.dtype.kind not in "fiu":
            raise TypeError(f"{self.name} takes an array of numbers; got {given.dtype} of shape {given.shape}.")
        target = self.array.numpy()
        rows = target.reshape(self.warp().numpy().shape) if self.is_uniform else target
        if given.shape in (target.shape, rows.shape):
            full = given.reshape(target.shape)
        elif self.is_uniform and given.shape == rows.shape[1:]:
            full = np.broadcast_to(given, rows.shape).reshape(target.shape)
        else:
            choices = [target.shape, *([rows.shape, rows.shape[1:]] if self.is_uniform else [])]
            wanted = " or ".join(str(shape) for shape in dict.fromkeys(choices))
            raise ValueError(f"{self.name} takes an array of shape {wanted}; got {given.shape}.")
        if world_mask is None:
            self.array.assign(full.astype(target.dtype))
        else:
            self._assign_worlds(full.astype(target.dtype), as_mask(world_mask, self.world_count, self.array.device))

    @launches
    def _assign_worlds(self, values: np.ndarray, mask: wp.array) -> None:
        device = self.array.device
        source = wp.array(values, dtype=self.array.dtype, device=device)
        start = wp.array(self.offsets.astype(np.int32), dtype=wp.int32, device=device)
        wp.launch(assign_worlds, dim=self.world_count, inputs=[mask, start, source, self.array], device=device)

    def _read(self, array: wp.array) -> np.ndarray:
        values = array.numpy()
        if not array.device.is_cpu:
            values.flags.writeable = False
        self._on_read()
        return values

    def __dlpack__(self, **options: Any) -> Any:
        return self.warp().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        sizes = np.diff(self.offsets)
        shape = f"{self.world_count} x {sizes[0]}" if self.is_uniform else f"{self.world_count} x {sizes.min()}..."
        kind = wp.types.type_repr(self.array.dtype)
        return f"<WorldView {self.name}: {shape} {kind} on {self.array.device}>"


def as_mask(given: Any, worlds: int, device: Any) -> wp.array:
    """Warp booleans of shape (worlds,).

    Raises:
        TypeError: ``given`` has no booleans.
        ValueError: It has another shape.
    """
    values = given if isinstance(given, wp.array) else np.asarray(given)
    if values.dtype not in (wp.bool, np.dtype(bool)):
        raise TypeError("world_mask must be an array of booleans.")
    newton_has_one_more = isinstance(values, wp.array) and values.shape == (worlds + 1,)  # for what is in no world
    if values.shape != (worlds,) and not newton_has_one_more:
        raise ValueError(f"world_mask has shape {values.shape}; expected ({worlds},).")
    if isinstance(values, wp.array):
        return values[:worlds]
    return wp.array(values, dtype=wp.bool, device=device)
