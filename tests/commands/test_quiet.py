"""Standard error of a command without Warp's words about a missing GPU, and with everything else."""

import os

from sap_warp.commands.quiet import NO_DRIVER, without_driver_warning


def test_only_the_warning_about_the_driver_is_left_out(capfd):
    """Native libraries write to the descriptor itself, and so does this test."""
    with without_driver_warning():
        os.write(2, f"Warp CUDA warning: {NO_DRIVER}. GPU execution will not be available.\nanother\n".encode())
    os.write(2, b"after\n")
    assert capfd.readouterr().err.splitlines() == ["another", "after"]


def test_an_error_passes_with_what_was_said_before(capfd):
    try:
        with without_driver_warning():
            os.write(2, b"why\n")
            raise RuntimeError
    except RuntimeError:
        os.write(2, b"after\n")
    assert capfd.readouterr().err.splitlines() == ["why", "after"]
