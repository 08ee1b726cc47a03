"""Compiling a kernel once in a test run, however many processes and threads ask for it.

Two workers that begin with an empty kernel cache would otherwise both compile what every simulation needs. Warp also
prepares its headers again in each process, thread and block size, which takes longer than most kernels do. And it
compiles the derivatives of Newton's kernels, which nothing here asks for, in two thirds of the time that they take.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import warp._src.build as warp_build
from warp._src.context import Module

_compile = Module._compile
_make_module = Module.__init__
_build_cpu = warp_build.build_cpu


DIFFERENTIATED = "newton._src.sim.ik"


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold the file ``lock`` against all other threads and processes."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class CompileOnce:
    """A plugin: one folder for all workers of a run, with a lock for each module and the prepared headers.

    Newton's modules are compiled without backward passes, but for those of its inverse kinematics and those that say
    themselves that they want some. Programs that a test starts compile them as users do.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.is_worker = hasattr(config, "workerinput")
        self.folder = Path(config.workerinput["compiling"] if self.is_worker else tempfile.mkdtemp(prefix="sap_warp_"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node) -> None:
        """Tell a worker the folder."""
        node.workerinput["compiling"] = str(self.folder)

    def pytest_sessionstart(self) -> None:
        """Stand between Warp and its compiler."""

        def compile_once(module, device=None, output_dir=None, output_name=None, *args, **kwargs):
            asked = (module, device, output_dir, output_name, *args)
            if output_dir is None or output_name is None or os.path.exists(os.path.join(output_dir, output_name)):
                return _compile(*asked, **kwargs)
            with alone(self.folder / f"{Path(output_dir).name}-{output_name}.lock"):
                return _compile(*asked, **kwargs)

        def build_cpu(obj_path, cpp_path, **options):
            if options.get("use_precompiled_headers") and options.get("pch_dir"):
                self.lend_headers(options)
            return _build_cpu(obj_path, cpp_path, **options)

        def make_forward_module(module, name, *args, **kwargs):
            _make_module(module, name, *args, **kwargs)
            if name.startswith("newton.") and not name.startswith(DIFFERENTIATED):
                module.options["enable_backward"] = False

        Module._compile = compile_once
        Module.__init__ = make_forward_module
        warp_build.build_cpu = build_cpu

    def pytest_unconfigure(self) -> None:
        """Leave Warp as it was."""
        Module._compile = _compile
        Module.__init__ = _make_module
        warp_build.build_cpu = _build_cpu
        if not self.is_worker:
            shutil.rmtree(self.folder, ignore_errors=True)

    def lend_headers(self, options: dict) -> None:
        """Put the prepared headers for ``options`` where this thread looks for them."""
        own = Path(options["pch_dir"])
        meant = {name: value for name, value in options.items() if name not in ("pch_dir", "verbose")}
        key = hashlib.sha256(repr(sorted(meant.items())).encode()).hexdigest()[:16]
        headers = self.folder / key
        if not headers.exists():
            with alone(self.folder / f"{key}.lock"):
                if not headers.exists():
                    made = self.folder / f"{key}.part"
                    made.mkdir(exist_ok=True)
                    empty = made / "empty.cpp"
                    empty.write_text('#include "builtin.h"\n')
                    _build_cpu(str(made / "empty.o"), str(empty), **options | {"pch_dir": str(made)})
                    made.rename(headers)
        for header in headers.glob("*.pch"):
            with suppress(FileExistsError):
                os.link(header, own / header.name)
