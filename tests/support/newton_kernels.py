"""Making the kernels of Newton's narrow phase once in a process.

Each of Newton's pipelines makes them anew and puts them where those of the last one were, so that Warp reads their
source again before the first launch: 0.4 s for a pipeline, of which tests make a thousand.
"""

from __future__ import annotations

import functools
import sys

import pytest

NARROW_PHASE = "newton._src.geometry.narrow_phase"
FACTORIES = ("create_narrow_phase_primitive_kernel", "create_narrow_phase_kernel_gjk_mpr")
"""Functions of nothing but their arguments. Those of kernels that use tiles are not here: threads need copies."""


def make_anew() -> None:
    """Let the next pipeline make its kernels itself, as every pipeline of a user does."""
    for name in FACTORIES:
        getattr(sys.modules[NARROW_PHASE], name).cache_clear()


class MakeKernelsOnce:
    """A plugin that remembers kernels, each file of tests for itself."""

    def __init__(self) -> None:
        self.file: object = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin as soon as somebody has imported Newton."""
        module = sys.modules.get(NARROW_PHASE)
        if module is None:
            return
        for name in FACTORIES:
            if not hasattr(getattr(module, name), "cache_clear"):
                setattr(module, name, functools.cache(getattr(module, name)))
        if item.path != self.file:
            self.file = item.path
            make_anew()
