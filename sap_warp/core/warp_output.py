"""Keep what Warp prints while it starts and loads kernels out of the output of other programs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

NO_DRIVER = "Could not find or load the NVIDIA CUDA driver"
"""Text in Warp's warning on computers without an NVIDIA GPU."""


def quiet() -> None:
    """Start Warp without its lines about devices and kernels, for scripts whose own output matters.

    Call it before anything uses Warp. It sets `wp.config.log_level` to `wp.LOG_WARNING`, for Newton and other programs
    on Warp in this process too, and leaves out the note that there is no NVIDIA driver. Other warnings and errors are
    printed as before.
    """
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    with without_driver_warning():
        wp.init()


@contextmanager
def without_driver_warning() -> Iterator[None]:
    """Leave that warning out of standard error; everything else that is printed follows at the end.

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
