"""Compiles C with gcc, once for each text: results stay in Warp's kernel cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import warp as wp

from tests.support.compiling import alone

HERE = Path(__file__).parent
FLAGS = ("-O1", "-march=native", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-fPIC", "-shared", "-w")


def missing() -> str | None:
    """Why nothing can be emulated here, or None."""
    if shutil.which("gcc") is None:
        return "needs gcc, to compile translated PTX"
    if not wp.get_cuda_supported_archs():
        return "needs a Warp with NVRTC"
    return None


def compile_c(text: str, name: str, *flags: str) -> Path:
    """A shared library made of ``text``."""
    headers = (HERE / "lane.h").read_bytes()
    key = hashlib.sha256(b"\0".join([text.encode(), headers, *(f.encode() for f in (*FLAGS, *flags))])).hexdigest()
    folder = Path(wp.config.kernel_cache_dir) / "emulator"
    library = folder / f"{name[:60]}_{key[:16]}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / f"{library.stem}.lock"):  # whoever needs the same waits for it
        if library.exists():
            return library
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source, made = Path(scratch) / "source.c", Path(scratch) / "made.so"
            source.write_text(text)
            command = ["gcc", *FLAGS, *flags, f"-I{HERE}", str(source), "-o", str(made), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"gcc cannot compile {name}:\n{done.stderr[:2000]}")
            os.replace(made, library)  # whole or not at all
    return library


@functools.cache
def runtime() -> ctypes.CDLL:
    """`device.c`; the libraries of kernels find its functions."""
    library = ctypes.CDLL(str(compile_c((HERE / "device.c").read_text(), "device", "-O2")), mode=ctypes.RTLD_GLOBAL)
    library.device_alloc.restype = ctypes.c_void_p
    library.device_alloc.argtypes = [ctypes.c_uint64]
    library.device_free.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.device_free.restype = None
    return library
