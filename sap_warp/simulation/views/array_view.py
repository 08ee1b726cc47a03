"""Base of views and their parts: they calculate, compare and convert like NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


class ArrayView(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers that NumPy can read and that can be assigned to."""

    name: str
    __hash__ = object.__hash__

    def numpy(self) -> np.ndarray:
        """Return a NumPy array of this shape."""
        raise NotImplementedError

    def assign(self, values: Any) -> None:
        """Copy ``values`` into the array."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Worlds, entries per world, and numbers per entry if there are several."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the numbers."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.name} is one number and has no length.")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply NumPy's arithmetic, which gives NumPy arrays; ``view += x`` assigns."""
        targets = options.pop("out", ())
        given = [each.numpy() if isinstance(each, ArrayView) else each for each in inputs]
        if any(isinstance(each, ArrayView) for each in targets) and (len(targets) > 1 or method != "__call__"):
            return NotImplemented
        if targets and not isinstance(targets[0], ArrayView):
            options["out"] = targets
        result = getattr(function, method)(*given, **options)
        if targets and isinstance(targets[0], ArrayView):
            targets[0].assign(result)
            return targets[0]
        return result
