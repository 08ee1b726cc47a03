"""Parts of a view: some worlds, columns or components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...core.runtime.capture import launches
from ..kernels import scatter
from ..run.streams import in_order
from .array_view import ArrayView
from .arrays import as_scalars, broadcast, read_only, restride, to_device, to_host, with_3_axes
from .mirrors import Mirror
from .selection import Selection

if TYPE_CHECKING:
    from .views import WorldView


class ViewPart(ArrayView):
    """Some worlds, columns or components of a `WorldView`; `WorldView` says how to get one."""

    def __init__(self, whole: WorldView, selection: Selection, key: Any):
        """Store the selection without a copy; ``key`` is shown in messages."""
        self._whole, self._selection, self._key = whole, selection, key
        self.name = f"{whole.name}[{_tell(key)}]"
        self._shape = selection.shape
        self._memory: np.ndarray | None = None
        self._indices: list[wp.array] = []
        if whole._host is not None and selection.is_strided:
            self._memory = whole._host.reshape(selection.sizes)[(*selection.axes, ...)]
        else:
            self._mirror = Mirror(whole._mirrors, self._shape, whole.dtype, self._fetch)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the elements."""
        return self._whole.dtype

    @property
    def device(self) -> Any:
        """Device of the memory."""
        return self._whole.device

    def numpy(self) -> np.ndarray:
        """Return a NumPy array of this shape that shows the present values, also after later steps.

        On the CPU it is the memory itself if entries are at equal distances. Else, and on CUDA, it is a copy that
        follows, as `WorldView.numpy` has it, and read-only.
        """
        values = self._mirror.read() if self._memory is None else self._memory
        self._whole._on_read()
        return read_only(values) if self._whole.is_parameter else values

    def warp(self) -> Any:
        """Return a Warp array of scalars of this shape that shares the memory; an indexed array if they lie apart.

        One number is an array of length 1.
        """
        array, axes = self._whole.scalars().reshape(self._selection.sizes), self._selection.axes
        if self._selection.is_strided:
            last = axes[-1]
            return array[axes if self._shape else (*axes[:-1], slice(last, last + 1))]  # type: ignore[operator]
        free = [i for i, axis in enumerate(axes) if not isinstance(axis, int)]
        array = array[tuple(axis if isinstance(axis, int) else slice(None) for axis in axes)]
        indices = [wp.array(self._selection.indices(i), dtype=wp.int32, device=self.device) for i in free]
        return wp.indexedarray(array, indices)

    def torch(self) -> Any:
        """Return a torch tensor of this shape on the same device that shares the memory.

        Raises:
            ValueError: The entries lie apart, and torch has no such views.
        """
        if not self._selection.is_strided:
            raise ValueError(
                f"The chosen entries of {self._whole.name} are not at equal distances, so torch cannot share them. "
                f"Take {self._whole.name}.torch()[:, {self._whole.name}.find(...).indices], which is a copy."
            )
        with in_order(self.device):
            tensor = wp.to_torch(self._whole.scalars(), requires_grad=False)
        return tensor.reshape(self._selection.sizes)[self._selection.axes]

    def __getitem__(self, key: Any) -> ViewPart:
        return ViewPart(self._whole, self._selection.take(key, self._whole._columns), (self._key, key))

    def __setitem__(self, key: Any, values: Any) -> None:
        (self if key is Ellipsis else self[key]).assign(values)

    def assign(self, values: Any) -> None:
        """Copy ``values`` in; by NumPy's rules they are repeated to this shape.

        Raises:
            TypeError: They are no numbers.
            ValueError: They have another shape.
        """
        if values is self:
            return
        whole = self._whole
        try:
            if whole._host is None:
                with in_order(self.device):
                    self._scatter(values)
            else:
                self._write(to_host(values))
        except ValueError as error:
            given = getattr(values, "shape", None) or np.shape(values)
            raise ValueError(f"{whole.name}: {tuple(given)} does not fit what was chosen, {self._shape}.") from error
        whole._mirrors.refresh()
        if whole.on_write is not None:
            whole.on_write(self._mask())

    def _write(self, values: np.ndarray) -> None:
        if values.dtype.kind not in "fiu":
            raise TypeError(f"{self._whole.name} takes numbers; got {values.dtype} of shape {values.shape}.")
        if self._memory is not None:
            self._memory[...] = values
            return
        memory, grid = self._whole._host.reshape(self._selection.sizes), self._selection.grid  # type: ignore[union-attr]
        memory[grid] = np.broadcast_to(values, self._shape).reshape(np.broadcast_shapes(*(p.shape for p in grid)))

    def _fetch(self, target: np.ndarray) -> None:
        """Copy the selection into ``target``."""
        host = self._whole._host
        if host is None:
            with in_order(self.device):
                host = self._whole.array.numpy()
        target[...] = host.reshape(self._selection.sizes)[self._selection.grid].reshape(self._shape)

    @launches
    def _scatter(self, values: Any) -> None:
        whole, device = self._whole, self.device
        if not self._indices:
            indices = [self._selection.indices(i) for i in range(len(self._selection.axes))]
            indices += [np.zeros(1, int)] * (3 - len(indices))
            self._indices = [wp.array(each, dtype=wp.int32, device=device) for each in indices]
        source = broadcast(as_scalars(to_device(values, device)), self._shape or (1,))
        steps = iter(source.strides)
        strides = tuple(0 if isinstance(axis, int) else next(steps) for axis in self._selection.axes)
        sizes = tuple(len(self._selection.indices(i)) for i in range(len(strides)))
        source = with_3_axes(restride(source, sizes, strides))
        target = with_3_axes(whole.scalars().reshape(self._selection.sizes))
        wp.launch(scatter, dim=source.shape, inputs=[*self._indices, source, target], device=device)

    def _mask(self) -> np.ndarray | None:
        """Return the mask of the worlds that are written."""
        if self._selection.sizes[0] != self._whole.world_count:  # one of worlds that differ in size
            first = self._selection.indices(1)[:1]
            worlds = np.searchsorted(self._whole.offsets, first, side="right") - 1
        else:
            worlds = self._selection.indices(0)
        if len(worlds) == self._whole.world_count:
            return None
        mask = np.zeros(self._whole.world_count, dtype=bool)
        mask[worlds] = True
        return mask

    def __repr__(self) -> str:
        return f"<{self.name}: shape {self._shape} of {self.dtype} on {self.device}>"


def _tell(key: Any) -> str:
    """Return the text of a key, as short as in the code that gave it."""
    if isinstance(key, tuple):
        return ", ".join(_tell(each) for each in key)
    if isinstance(key, slice):
        return ":".join("" if end is None else str(end) for end in (key.start, key.stop, key.step)).rstrip(":") or ":"
    return "..." if key is Ellipsis or hasattr(key, "shape") else repr(key)
