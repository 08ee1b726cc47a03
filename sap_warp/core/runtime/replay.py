"""Graphs of the CPU that call their kernels directly, without looking each of them up again.

When Warp replays a graph of the CPU, it finds every kernel by its name and puts its arguments together anew: about
2,000 instructions for each launch, more than half of a step of a small robot. Here, launches that follow one another
become one launch of `call_each`, with a table of their functions, bounds and arguments, and of the memory that is set
to zero or another byte between them. What else a graph does (copies) stays in its place between two such launches. The
calls are the same, in the same order.

This leans on how Warp launches on the CPU: a kernel is a C function of bounds and arguments, which
``wp_cpu_launch_kernel`` of its runtime calls, or records while a graph is captured, and ``memset`` of its device sets
memory. A Warp that does it in another way captures as usual.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import warp as wp
from warp._src import context

TABLE_CALLS = 256
"""Most calls in one table."""


# the number of calls, then function, bounds and arguments of each; or a byte, where it goes and how often
@wp.func_native("""
#ifndef __CUDA_ARCH__
    const wp::uint64* call = calls.data + 1;
    for (wp::uint64 i = 0; i < calls.data[0]; ++i, call += 3) {
        void* first = reinterpret_cast<void*>(call[1]);
        if (call[0] < 256)
            memset(first, (int)call[0], call[2]);
        else
            reinterpret_cast<void (*)(void*, void*)>(call[0])(first, reinterpret_cast<void*>(call[2]));
    }
#endif
""")
def call_all(calls: wp.array[wp.uint64]):
    """Call every kernel of a table."""
    ...


@wp.kernel(module="unique", enable_backward=False)
def call_each(calls: wp.array[wp.uint64]) -> None:
    """Make all calls of a table in one thread."""
    call_all(calls)


def capture_calls(device: Any, launch: Callable[[], Any]) -> Any:
    """Capture what ``launch()`` launches, and return the graph."""
    with wp.ScopedCapture(device) as capture, _tables(wp.get_device(device)) as kept:
        launch()
    capture.graph.calls = kept  # the graph reads them as long as it lives
    return capture.graph


class _Table:
    """Consecutive calls of a graph which is being captured."""

    def __init__(self) -> None:
        """Record the launch that makes the calls."""
        self.values = np.zeros(1 + 3 * TABLE_CALLS, dtype=np.uint64)
        self.array = wp.array(self.values, dtype=wp.uint64, device="cpu", copy=False)
        self.kept: list[Any] = []
        wp.launch(call_each, dim=1, inputs=[self.array], device="cpu", block_dim=1, record_tape=False)

    @property
    def is_full(self) -> bool:
        return len(self.kept) == TABLE_CALLS

    def add(self, function: Any, bounds: Any, arguments: Any) -> None:
        """Add a call; bounds and arguments are copied, as Warp does, because a kept launch may change them later."""
        bounds, arguments = (type(value).from_buffer_copy(value) for value in (bounds, arguments))
        self._append((function.value, ctypes.addressof(bounds), ctypes.addressof(arguments)), (bounds, arguments))

    def add_bytes(self, pointer: int, byte: int, size: int) -> None:
        """Add a call that sets memory."""
        self._append((byte, pointer, size), None)

    def _append(self, call: tuple[int, int, int], kept: Any) -> None:
        at = 1 + 3 * len(self.kept)
        self.values[at : at + 3] = call
        self.kept.append(kept)
        self.values[0] = len(self.kept)


@contextmanager
def _tables(device: Any) -> Iterator[list[_Table]]:
    """Put launches that are recorded on the CPU into tables, which are yielded."""
    core = context.runtime.core
    usual: Any
    usual, usual_bytes = getattr(core, "wp_cpu_launch_kernel", None), device.memset
    if not device.is_cpu or len(getattr(usual, "argtypes", None) or ()) != 5:
        yield []
        return
    state = core.wp_apic_get_recording_state()
    tables: list[_Table] = []
    operations = 0  # recorded when the last table had begun
    is_beginning = False
    thread = threading.get_ident()

    def is_foreign() -> bool:
        return threading.get_ident() != thread  # runs at once: a capture is its own thread's

    def last_table() -> _Table:
        nonlocal operations, is_beginning
        if not tables or tables[-1].is_full or core.wp_apic_get_operation_count(state) != operations:
            is_beginning = True
            tables.append(_Table())
            is_beginning = False
            operations = core.wp_apic_get_operation_count(state)
        return tables[-1]

    def record(function: Any, bounds: Any, arguments: Any, adjoint: Any, info: Any) -> None:
        if is_beginning or is_foreign() or adjoint is not None or arguments is None:
            usual(function, bounds, arguments, adjoint, info)
        else:
            last_table().add(function, bounds._obj, arguments._obj)

    def record_bytes(pointer: int, byte: int, size: int) -> bool:
        if is_beginning or is_foreign():
            return bool(usual_bytes(pointer, byte, size))
        last_table().add_bytes(pointer, byte, size)
        return True

    core.wp_cpu_launch_kernel, device.memset = record, record_bytes
    try:
        yield tables
    finally:
        core.wp_cpu_launch_kernel, device.memset = usual, usual_bytes
