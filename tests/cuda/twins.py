"""The same model twice, on the CPU and on the pretended GPU, step by step from the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import newton
import numpy as np
import warp as wp

from sap_warp.core.kernels.launch import lanes_for
from tests.support.scenes import Stepper

GPU = "cuda:0"


def copy_arrays(target: Any, source: Any) -> None:
    """All arrays that two objects have in common."""
    for name, array in vars(source).items():
        other = getattr(target, name, None)
        if isinstance(array, wp.array) and isinstance(other, wp.array) and array.size:
            assert array.size == other.size, name
            wp.copy(other, array)


class Twins:
    """Steppers of one model on both devices. Whatever the CPU has before a step, the GPU is given."""

    def __init__(
        self,
        build: Callable[[str], newton.Model],
        dt: float = 0.005,
        preset: str = "approx32",
        lanes: int | None = None,
        **options: Any,
    ):
        """``build`` makes the model on a device; ``lanes`` share a world on the GPU.

        If nobody says how many, with approx64 two warps share a world, and with drake as few lanes as it has dofs, as
        if there were many worlds.
        """
        self.cpu = Stepper(build("cpu"), dt, preset, **options)
        model = build(GPU)
        if lanes is None:
            dofs = int(np.diff(model.joint_dof_world_start.numpy(), prepend=0).max())
            lanes = {"approx64": 64, "drake": lanes_for(dofs, 1 << 20, model.device)}.get(preset)
        self.gpu = Stepper(model, dt, preset, block_dim=lanes, **options)

    def step(self) -> dict[str, float]:
        """One step of both; returns the differences of the results, each relative to the largest number there."""
        cpu, gpu = self.cpu, self.gpu
        if cpu.pipeline is not None:
            cpu.pipeline.collide(cpu.state, cpu.contacts)
        for name in ("state", "control", "contacts"):
            if getattr(cpu, name) is not None:
                copy_arrays(getattr(gpu, name), getattr(cpu, name))
        for each in (cpu, gpu):
            each.solver.step(each.state, each.state, each.control, each.contacts, each.dt)
        return self.differences()

    def differences(self) -> dict[str, float]:
        """Of velocity, state and numbers of the last step."""
        found = {"velocity": _difference(self.gpu.velocity, self.cpu.velocity, 1.0)}
        for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
            a, b = (getattr(each.state, name).numpy() for each in (self.gpu, self.cpu))
            found[name] = _difference(a, b, 1.0)
        for name in ("status", "iterations"):
            a, b = (getattr(each.solver.contact_solve, name).numpy() for each in (self.gpu, self.cpu))
            found[name] = float(np.abs(a - b).max(initial=0))
        rows = (each.solver.contact_jacobian.data.count.numpy() for each in (self.gpu, self.cpu))
        found["rows"] = float(np.abs(np.subtract(*rows)).max(initial=0))
        return found


def _difference(a: np.ndarray, b: np.ndarray, least: float) -> float:
    """Largest difference relative to the largest number, or to ``least``."""
    assert np.isfinite(a).all() and np.isfinite(b).all()
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), least))
