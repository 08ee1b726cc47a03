"""Kernels that are compiled beside each other and ahead."""

import pytest

from sap_warp.simulation import Simulation
from sap_warp.simulation.run import compile


def test_solve_kernel_is_compiled_while_scene_is_loaded(monkeypatch):
    """What is compiled ahead is the module that the solver of the simulation will launch, with its block size."""
    monkeypatch.setattr(compile, "_ahead", {})
    with Simulation.from_scene("cube", num_worlds=2, device="cpu", contact_preset_variant="approx64") as sim:
        ((module, (pool, future)),) = compile._ahead.items()
        assert module is sim.solver.contact_solve.kernel.module
        future.result()
        sim.step()
        assert not compile._ahead
        with pytest.raises(RuntimeError):
            pool.submit(print)  # its threads have ended
        assert sim.step_count == 1


def test_wrong_options_are_left_to_the_solver(monkeypatch):
    """Nothing is compiled, and the message is the solver's."""
    monkeypatch.setattr(compile, "_ahead", {})
    with pytest.raises(ValueError, match="contact_beta is -1"):
        Simulation.from_scene("cube", num_worlds=1, device="cpu", contact_beta=-1)
    assert not compile._ahead


def test_failure_of_any_thread_is_raised():
    """Also that of a helper."""

    def fail():
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        compile.compile_beside([], [fail, fail], "cpu", 1)
