"""Transfer of compiled kernels to another machine: the modules that this process loaded, as bytes.

Warp names compiled files by what they were compiled from and for (source, options, architecture of the GPU, features
of the CPU), so a file that does not fit a machine is not taken there, and is compiled instead.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import warp as wp

_NEEDED = (".o", ".meta", ".ptx", ".cubin")


def kernel_cache() -> Path:
    """Return Warp's kernel cache on this machine."""
    wp.init()
    return Path(wp.config.kernel_cache_dir)


def loaded_modules() -> list[str]:
    """Return names of the folders in the cache that this process has loaded kernels from."""
    from warp._src.context import user_modules  # the only list of them that there is

    found = {
        f"wp_{module.name}_{run.module_hash.hex()[:7]}"
        for module in list(user_modules.values())
        for run in list(module.execs.values())
    }
    return sorted(found)


def pack_kernels() -> np.ndarray:
    """Return all kernels that this process has loaded, as the bytes of a zip archive."""
    cache, buffer = kernel_cache(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in loaded_modules():
            for path in sorted((cache / name).glob("*")):
                if path.suffix in _NEEDED:
                    archive.write(path, f"{name}/{path.name}")
    return np.frombuffer(buffer.getvalue(), np.uint8)


def unpack_kernels(packed: np.ndarray) -> int:
    """Put kernels into the cache of this machine unless they are there; returns how many files were written.

    Several processes may do so at once: files are written beside their place and renamed.
    """
    cache, written = kernel_cache(), 0
    with zipfile.ZipFile(io.BytesIO(packed.tobytes())) as archive:
        for name in archive.namelist():
            target = cache / name
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(
                    f"The archive of kernels has the entry {name!r}, which would lie outside of the cache."
                )
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f".{target.name}.{os.getpid()}")
            aside.write_bytes(archive.read(name))
            aside.replace(target)
            written += 1
    return written
