"""Array library of a task: NumPy on the CPU, torch if asked for or if the worlds are on a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..core.faq import see


class Arrays:
    """Makes and views arrays of one library on one device."""

    def __init__(self, library: str, device: Any):
        """Use ``library``, "numpy" or "torch", on the Warp device ``device``.

        Raises:
            ValueError: There is no such library, or it cannot use the device.
            ImportError: torch is not installed.
        """
        if library not in ("numpy", "torch"):
            raise ValueError(f'arrays is {library!r}; it is "numpy" or "torch".')
        self.is_torch = library == "torch"
        self.device: Any = None
        if not self.is_torch:
            if not device.is_cpu:
                raise ValueError(f'NumPy cannot share memory with {device}; use arrays="torch".')
            self.xp: Any = np
            return
        self.xp, self.device = import_torch(), _torch_device(device)

    def view(self, view: Any) -> Any:
        """Return an array of shape (worlds, ...) that shares the memory of a `WorldView`."""
        return view.torch() if self.is_torch else view.numpy()

    def share(self, array: Any) -> Any:
        """Return an array that shares the memory of a Warp array."""
        if not self.is_torch:
            return array.numpy()
        import warp as wp

        return wp.to_torch(array, requires_grad=False)

    def zeros(self, *shape: int, dtype: str = "float32") -> Any:
        """Return an array of zeros."""
        options = {"device": self.device} if self.is_torch else {}
        return self.xp.zeros(shape, dtype=getattr(self.xp, dtype), **options)

    def empty(self, *shape: int) -> Any:
        """Return a float32 array that is to be filled."""
        options = {"device": self.device} if self.is_torch else {}
        return self.xp.empty(shape, dtype=self.xp.float32, **options)

    def from_numpy(self, values: np.ndarray) -> Any:
        """Return an array with these values, in the same memory where possible."""
        return self.xp.from_numpy(np.ascontiguousarray(values)).to(self.device) if self.is_torch else values

    def to_numpy(self, values: Any) -> np.ndarray:
        """Return a NumPy array with these values, in the same memory where possible."""
        return values.detach().cpu().numpy() if self.is_torch else values

    def as_actions(self, values: Any) -> Any:
        """Return what a policy gave as a float32 array of this library."""
        if self.is_torch:
            return self.xp.as_tensor(values, dtype=self.xp.float32, device=self.device).detach()
        return np.asarray(values, np.float32)

    def clip(self, values: Any, bound: float) -> Any:
        """Return a new array of values clipped to between minus ``bound`` and ``bound``."""
        if self.is_torch:
            return values.clip(-bound, bound)
        return np.minimum(np.maximum(values, -bound), bound)  # half the time of NumPy's own for few numbers

    def any(self, values: Any) -> bool:
        """Return True if one of some booleans is true; on a GPU this waits."""
        return bool(values.any() if self.is_torch else np.count_nonzero(values))

    def stream(self) -> AbstractContextManager[Any]:
        """Let Warp launch in the order of torch's own work on a GPU; nobody has to wait then."""
        if not self.is_torch or self.device.type != "cuda":
            return nullcontext()
        import warp as wp

        return wp.ScopedStream(wp.stream_from_torch(self.xp.cuda.current_stream(self.device)))


def import_torch() -> Any:
    """Import torch; an error says what to install.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("This needs torch: pip install 'sap-warp[rl]'" + see("missing-extra")) from error
    return torch


def _torch_device(device: Any) -> Any:
    import warp as wp

    return import_torch().device(wp.device_to_torch(device))
