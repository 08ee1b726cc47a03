"""Keeps what Warp prints about a missing GPU out of the output of commands that did not ask for one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

NO_DRIVER = "Could not find or load the NVIDIA CUDA driver"
"""In Warp's warning on computers without an NVIDIA GPU."""


@contextmanager
def without_driver_warning() -> Iterator[None]:
    """Leave that warning out of standard error; whatever else is printed meanwhile follows at the end.

    Warp's native library writes it past Python, so the file descriptor itself has to lead elsewhere.
    """
    try:
        sys.stderr.flush()
        kept = os.dup(2)
    except (OSError, ValueError):  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            aside.seek(0)
            lines = aside.read().splitlines(keepends=True)
            os.write(2, b"".join(line for line in lines if NO_DRIVER.encode() not in line))
