"""Failures of Warp's kernel cache: a broken file is built again, a folder that cannot be written is named."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import warp as wp

from ..faq import see

R = TypeVar("R")

_LEAST_FREE = 1 << 20
"""Free space below which a disk counts as full [bytes]."""


class KernelCacheError(RuntimeError):
    """Compiled kernels cannot be kept in Warp's kernel cache."""


def with_kernels(function: Callable[[], R]) -> R:
    """Call ``function``, which may compile kernels; again if it failed because of a broken file in the cache.

    It must be possible to call it again after it failed.

    Raises:
        KernelCacheError: The cache cannot be written.
    """
    repaired: set[Path] = set()
    while True:
        try:
            return function()
        except Exception as error:
            if isinstance(error, KernelCacheError):
                raise
            _refuse_if_not_writable(error)
            broken = _broken_modules(error) - repaired
            if not broken:
                raise
            for folder in broken:
                shutil.rmtree(folder, ignore_errors=True)
            repaired |= broken
            names = ", ".join(sorted(folder.name for folder in broken))
            warnings.warn(f"Broken kernels in the cache {_cache()} are compiled again: {names}.", stacklevel=3)


def _cache() -> Path:
    return Path(wp.config.kernel_cache_dir or ".")


def _refuse_if_not_writable(error: Exception) -> None:
    in_cache = isinstance(error, OSError) and str(error.filename or "").startswith(str(_cache()))
    failed = isinstance(error, OSError) or "kernel build failed" in str(error)
    if in_cache or (failed and _cache().is_dir() and shutil.disk_usage(_cache()).free < _LEAST_FREE):
        raise KernelCacheError(
            f"Compiled kernels cannot be written to the cache {_cache()} ({error}). Make room or give write access "
            "there, or set the environment variable WARP_CACHE_PATH to another folder." + see("kernel-cache")
        ) from error


def _broken_modules(error: Exception) -> set[Path]:
    """Return the folders of the modules that ``error`` is about."""
    cut_off = isinstance(error, json.JSONDecodeError)  # the description of a module; Warp does not say of which
    hash_of = re.search(r"Failed to load \w+ module .*module_hash=(\w+)", str(error))
    if cut_off:
        return {path.parent for path in _cache().glob("wp_*/*.meta") if not _is_json(path)}
    return set(_cache().glob(f"wp_*{hash_of[1]}*")) if hash_of else set()


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except ValueError:
        return False
    return True
