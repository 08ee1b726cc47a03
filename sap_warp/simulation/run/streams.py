"""Order between Warp's stream and torch's, which may be another one on a GPU.

Whoever hands tensors over need not synchronize: what reads or writes them here waits for what torch was told before,
and what torch is told afterwards waits for this. Both wait on the device; the host does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp


def torch_stream(device: Any) -> wp.Stream | None:
    """Return the present stream of torch on ``device`` if it differs from Warp's; torch is not imported."""
    torch = sys.modules.get("torch")
    if device.is_cpu or torch is None or not torch.cuda.is_initialized():
        return None
    stream = torch.cuda.current_stream(wp.device_to_torch(device))
    return None if stream.cuda_stream == device.stream.cuda_stream else wp.stream_from_torch(stream)


@contextmanager
def in_order(device: Any) -> Iterator[None]:
    """Run what is launched inside after torch's work so far and before its later work."""
    other = torch_stream(device)
    if other is None:
        yield
        return
    device.stream.wait_stream(other)
    try:
        yield
    finally:
        other.wait_stream(device.stream)
