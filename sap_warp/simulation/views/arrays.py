"""Arrays that users give: NumPy, lists, Warp, torch, and objects with DLPack or CUDA's array interface.

Values that are on the right device already are used where they are.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import warp as wp

HOST_DLPACK, CUDA_DLPACK = 1, 2
"""Types of devices in DLPack."""


def is_tensor(values: Any) -> bool:
    """Return True for a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def to_host(values: Any) -> np.ndarray:
    """Return a NumPy array with ``values``, without a copy if they are on the host; waits for the device otherwise."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, wp.array):
        return values.numpy()
    if is_tensor(values):
        return values.detach().cpu().numpy()
    if _is_on_cuda(values):
        return _wrap(values, wp.get_device("cuda")).numpy()
    return np.asarray(values)


def to_device(values: Any, device: Any) -> wp.array:
    """Return a Warp array with ``values`` on ``device``, without a copy if they are there, never over the host."""
    if is_tensor(values):
        values = wp.from_torch(values.detach() if values.ndim else values.detach().reshape(1), requires_grad=False)
    elif not isinstance(values, wp.array):
        values = _wrap(values, device) if _is_on_cuda(values) else _upload(np.asarray(values), device)
    return values if values.device == device else values.to(device)


def _is_on_cuda(values: Any) -> bool:
    if hasattr(values, "__cuda_array_interface__"):
        return True
    return hasattr(values, "__dlpack_device__") and int(values.__dlpack_device__()[0]) == CUDA_DLPACK


def _wrap(values: Any, device: Any) -> wp.array:
    """Return a Warp array with the memory of a CUDA array on ``device``, unless the array knows its device."""
    if hasattr(values, "__dlpack_device__"):
        return wp.from_dlpack(values)
    told = values.__cuda_array_interface__
    strides = None if told.get("strides") is None else tuple(told["strides"])
    dtype = wp.dtype_from_numpy(np.dtype(told["typestr"]))
    shape = tuple(told["shape"]) or (1,)
    made: Any = wp.array(ptr=told["data"][0], dtype=dtype, shape=shape, strides=strides, device=device)
    made.keeps_memory_of = values
    return made


def _upload(values: np.ndarray, device: Any) -> wp.array:
    if values.dtype.kind not in "bfiu":
        raise TypeError(f"Expected an array of numbers; got {values.dtype} of shape {values.shape}.")
    return wp.array(np.ascontiguousarray(values), device=device)


def broadcast(values: wp.array, shape: tuple[int, ...]) -> wp.array:
    """Broadcast ``values`` to ``shape`` by NumPy's rules without a copy: repeated entries have stride 0.

    Raises:
        ValueError: The shapes do not fit.
    """
    lead = len(shape) - values.ndim
    own = (1,) * lead + tuple(values.shape)
    if lead < 0 or any(have not in (1, want) for have, want in zip(own, shape, strict=True)):
        raise ValueError(f"could not broadcast {tuple(values.shape)} to {shape}")
    strides = (0,) * lead + tuple(values.strides)
    return restride(values, shape, tuple(0 if have == 1 else step for have, step in zip(own, strides, strict=True)))


def restride(array: wp.array, shape: tuple[int, ...], strides: tuple[int, ...]) -> wp.array:
    """Return an array of another shape in the same memory; strides in bytes."""
    made: Any = wp.array(ptr=array.ptr, dtype=array.dtype, shape=shape, strides=strides, device=array.device)
    made.keeps_memory_of = array
    return made


def with_3_axes(array: wp.array) -> wp.array:
    """Return the array with axes of length 1 appended, in the same memory."""
    missing = 3 - array.ndim
    return restride(array, (*array.shape, *(1,) * missing), (*array.strides, *(0,) * missing)) if missing else array


def as_scalars(array: wp.array) -> wp.array:
    """Return the array as scalars in the same memory; vectors, matrices and transforms get further axes."""
    return array.view(array.dtype._wp_scalar_type_) if hasattr(array.dtype, "_shape_") else array


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a read-only array in the same memory."""
    values = values.view()
    values.flags.writeable = False
    return values


def as_mask(given: Any, worlds: int, device: Any) -> wp.array:
    """Return Warp booleans of shape (worlds,).

    Raises:
        TypeError: ``given`` has no booleans.
        ValueError: It has another shape.
    """
    values = given if isinstance(given, (wp.array, np.ndarray)) else None
    if values is None:
        on_device = is_tensor(given) or _is_on_cuda(given)
        values = to_device(given, device) if on_device else np.asarray(given)
    values = check_mask(values, worlds, isinstance(values, wp.array))
    if isinstance(values, wp.array):
        return values if values.device == device else values.to(device)
    return wp.array(values, dtype=wp.bool, device=device)


def check_mask(values: Any, worlds: int, may_have_more: bool) -> Any:
    """Return the first ``worlds`` entries of a mask.

    Args:
        values: NumPy or Warp array.
        worlds: How many there are.
        may_have_more: Whether it may be one of Newton's, which have an entry more for what is in no world.

    Raises:
        TypeError: It has no booleans.
        ValueError: It has another shape.
    """
    if values.dtype not in (wp.bool, np.dtype(bool)):
        raise TypeError("world_mask must be an array of booleans.")
    if values.shape != (worlds,) and not (may_have_more and values.shape == (worlds + 1,)):
        raise ValueError(f"world_mask has shape {tuple(values.shape)}; expected ({worlds},).")
    return values[:worlds]


def numpy_dtype(array: wp.array) -> np.dtype:
    """Return NumPy's dtype of the numbers in an array."""
    return np.dtype(wp.dtype_to_numpy(getattr(array.dtype, "_wp_scalar_type_", array.dtype)))
