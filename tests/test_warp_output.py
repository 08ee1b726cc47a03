"""A program without Warp's words about devices, kernels and a missing GPU, and with everything else."""

import os
import subprocess
import sys

from sap_warp.core.warp_output import NO_DRIVER, without_driver_warning


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


def test_a_quiet_program_prints_its_own_lines_only():
    """Warp would print its version and devices, and that there is no driver; what else is written stays."""
    program = """
import sys
import sap_warp
sap_warp.quiet()
import warp as wp
wp.init()
assert wp.config.log_level == wp.LOG_WARNING
print("mine")
sys.stderr.write("and this")
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (said.stdout, said.stderr) == ("mine\n", "and this")
