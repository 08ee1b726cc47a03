"""Compile kernels in parallel, and the largest one while the model is still being built."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import warp as wp

from ...core.notes import say
from ...solver.minimize.solve import solve_kernel
from ...solver.settings.options import expand_options, override_options

_ahead: dict[Any, tuple[ThreadPoolExecutor, Future[None]]] = {}
"""Module that is being compiled ahead, if any, and the threads for it."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ahead.clear)  # threads do not come along


_NOT_COMPILED = {"max_rigid_contact", "rigid_contact_max", "strict_capacity"}
"""Options that change no kernel."""


ANNOUNCED_AFTER = 2.0
"""Seconds after which a terminal shows that kernels are compiled; loading cached ones is faster."""


def compile_ahead(scene_options: Mapping[str, Any], device: Any = None, **solver_options: Any) -> None:
    """Start to compile the kernel of the solve in another thread, and return.

    It takes as long as all others together and depends on nothing but the solver's options. Options that are not valid
    are left to the solver to refuse, and a failure is left to `compile_beside`.
    """
    if not wp.get_device(device).is_cpu or (os.cpu_count() or 1) == 1 or _ahead:
        return
    with suppress(ValueError, TypeError):
        options = {n: v for n, v in override_options(scene_options, solver_options).items() if n not in _NOT_COMPILED}
        block_dim = options.pop("block_dim", 1)
        expanded = expand_options(**options)
        module = solve_kernel(expanded, wp.get_device(device)).module
        pool = _make_pool()
        _ahead[module] = pool, pool.submit(wp.load_module, module, device, block_dim=block_dim)


def compile_beside(kernels: Iterable[Any], others: Iterable[Callable[[], Any]], device: Any, block_dim: int) -> None:
    """Load the modules of ``kernels``, compiled if necessary, on as many cores as there are.

    Args:
        kernels: The heaviest first.
        others: What compiles something else.
        device: Warp device.
        block_dim: Threads of a block.
    """
    loads = {kernel.module: partial(wp.load_module, kernel.module, device, block_dim=block_dim) for kernel in kernels}
    ahead = next((module for module in loads if module in _ahead), None)
    tasks = deque([load for module, load in loads.items() if module is not ahead] + list(others))

    def work() -> None:
        while True:
            try:
                task = tasks.popleft()
            except IndexError:
                return
            task()

    # Each thread has to prepare the headers once: this one takes part, and the one that compiles ahead goes on.
    pool, started = _ahead.pop(ahead, (None, None))
    with _announced(), pool or _make_pool() as threads:
        waiting = [started] if started else []
        waiting += [threads.submit(work) for _ in range(_helper_count())]
        work()
        for each in waiting:
            each.result()


@contextmanager
def _announced() -> Iterator[None]:
    """Print a line on a terminal if compiling takes long."""
    folder = wp.config.kernel_cache_dir
    line = f"compiling kernels: some 15 s on two cores, once for each set of options; they are kept in {folder}"
    timer = threading.Timer(ANNOUNCED_AFTER, say, [line])
    timer.daemon = True
    if sys.stderr is not None and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _helper_count() -> int:
    return max(1, (os.cpu_count() or 1) - 1)


def _make_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_helper_count(), "sap-warp-compile")
