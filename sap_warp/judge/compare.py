"""Measure how much of a step's result is due to precision, and how much to the contact model.

The experiment: along a run with ``approx64``, take single steps with ``approx32``, ``approx64`` and ``drake`` from the
same states with the same contacts, and compare the velocities.

    Delta_precision = |v(approx64) - v(approx32)|      the same model in other precision
    Delta_model     = |v(drake)    - v(approx64)|      other contact weight and contact point in the same precision

The position integration also differs between the presets, but acts after the velocity solve and so leaves both alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import newton
import numpy as np

from ..core.json_values import as_json
from ..model.joint_types import FLOATING_JOINTS, SCALAR_JOINTS
from ..scene.shipped.scenes import build_scene, randomize_start
from ..simulation import Simulation
from ..solver import SolverSAP, SolveStatus

REFERENCE = "approx64"
OTHERS = ("approx32", "drake")
TIGHT_TOLERANCES: dict[str, Any] = {
    "line_search_variant": "exact_root",
    "optimality_rel_tol": 1e-10,
    "cost_abs_tol": 0.0,
    "cost_rel_tol": 0.0,
}
"""Solver options whose early stop causes errors far below the measured differences."""


@dataclass(frozen=True)
class VelocityDelta:
    """Difference of two velocities, over all sampled states of all worlds."""

    mean: float
    """Mean norm over the dofs of a world [m/s and rad/s together]."""
    max: float
    """Largest norm [m/s and rad/s together]."""
    rms_linear: float
    """Root mean square over linear dofs [m/s]; nan if there are none."""
    rms_angular: float
    """Root mean square over angular dofs [rad/s]; nan if there are none."""
    relative: float
    """Mean norm over the mean norm of the reference velocity [-]."""
    rms_per_dof: list[float]
    """Root mean square of each dof of a world, Newton's order, free joints [w, v_O] [m/s or rad/s]."""


@dataclass(frozen=True)
class PresetComparison:
    """Result of `compare_presets`."""

    scene: str
    dt: float
    """Time step [s]."""
    steps: int
    num_worlds: int
    samples: int
    """Compared states: sampled steps times worlds."""
    samples_with_contact: int
    not_converged: int
    """Sampled solves, over all three presets, that met no stopping criterion."""
    solver_options: dict[str, Any]
    precision: VelocityDelta
    """v(approx64) - v(approx32)."""
    model: VelocityDelta
    """v(drake) - v(approx64)."""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields with JSON's types; a value that does not exist is None."""
        return as_json(self)


def compare_presets(
    scene: str | Path,
    *,
    steps: int = 400,
    every: int = 10,
    num_worlds: int = 8,
    dt: float | None = None,
    device: Any = None,
    seed: int | None = 0,
    solver_options: Mapping[str, Any] = TIGHT_TOLERANCES,
    report: Callable[[int], None] | None = None,
) -> PresetComparison:
    """Run the experiment on a scene.

    Args:
        scene: A scene file, or the name of a shipped scene.
        steps: Length of the run; the last state is sampled too if ``every`` divides it.
        every: Compare at every so many steps, the first time at step ``every``.
        num_worlds: Worlds, each from its own pose.
        dt: Time step [s]; None takes the scene's.
        device: Warp device; None is Warp's default.
        seed: Of the random poses; None starts as the scene says.
        solver_options: Options for all three solvers.
        report: Called with the number of finished steps.

    Raises:
        ValueError: ``every`` is larger than ``steps``, so that no state would be sampled.
    """
    if every > steps:
        raise ValueError(f"every is {every} and steps is {steps}: no state would be sampled.")
    model, built = build_scene(str(scene), num_worlds, device)
    if seed is not None:
        randomize_start(model, seed)
        built.sap_state = built.sap_model.state()
    options = {"contact_preset_variant": REFERENCE, **solver_options}
    sim = Simulation.from_loaded(built, dt=dt, notes=False, **options)
    run = sim.shards[0]
    capacity = built.max_rigid_contact
    others = [
        SolverSAP(model, contact_preset_variant=name, max_rigid_contact=capacity, **solver_options) for name in OTHERS
    ]

    reference, differences = [], [[] for _ in OTHERS]  # type: ignore[var-annotated]
    with_contact = not_converged = 0
    before, scratch = built.sap_model.state(), built.sap_model.state()
    for step in range(1, steps + 1):
        if step % every == 0:
            before.assign(sim.state)
        sim.step()
        if step % every == 0:
            velocity = _velocity(run.solver)
            reference.append(velocity)
            with_contact += int(np.count_nonzero(run.solver.contact_stage.contact_count.numpy()))
            not_converged += int(np.count_nonzero(run.solver.status != SolveStatus.CONVERGED))
            for solver, found in zip(others, differences, strict=True):
                solver.step(before, scratch, run.control, run.contacts, sim.dt)
                found.append(_velocity(solver) - velocity)
                not_converged += int(np.count_nonzero(solver.status != SolveStatus.CONVERGED))
        if report is not None:
            report(step)
    scale = _norms(np.array(reference), num_worlds).mean()
    angular = _angular_dofs(model)
    precision, other = (_delta(np.array(d), angular, num_worlds, scale) for d in differences)
    return PresetComparison(
        scene=built.name,
        dt=sim.dt,
        steps=steps,
        num_worlds=num_worlds,
        samples=len(reference) * num_worlds,
        samples_with_contact=with_contact,
        not_converged=not_converged,
        solver_options=dict(solver_options),
        precision=precision,
        model=other,
    )


def _velocity(solver: SolverSAP) -> np.ndarray:
    """Return the minimizer in fp64, sap order; the state would round it to fp32."""
    return solver.contact_solve.velocity.numpy().copy()


def _norms(values: np.ndarray, worlds: int) -> np.ndarray:
    """Return the norm of every world's part of every sample; all worlds have equally many dofs."""
    return np.linalg.norm(values.reshape(len(values), worlds, -1), axis=2)


def _delta(values: np.ndarray, angular: np.ndarray, worlds: int, scale: float) -> VelocityDelta:
    norms = _norms(values, worlds)
    squares = np.square(values).mean(axis=0)
    return VelocityDelta(
        mean=float(norms.mean()),
        max=float(norms.max()),
        rms_linear=float(np.sqrt(squares[~angular].mean())) if not angular.all() else float("nan"),
        rms_angular=float(np.sqrt(squares[angular].mean())) if angular.any() else float("nan"),
        relative=float(norms.mean() / scale) if scale > 0.0 else float("nan"),
        rms_per_dof=[float(x) for x in np.sqrt(squares.reshape(worlds, -1).mean(axis=0))],
    )


def _angular_dofs(model: newton.Model) -> np.ndarray:
    """Return a mask of dofs in rad/s, by Newton's dof index, with free joints in sap order [w, v_O]."""
    kinds, starts, dims = model.joint_type.numpy(), model.joint_qd_start.numpy(), model.joint_dof_dim.numpy()
    angular = np.ones(model.joint_dof_count, bool)
    for joint, kind in enumerate(kinds):
        start = starts[joint]
        if kind in FLOATING_JOINTS:
            angular[start + 3 : start + 6] = False
        elif kind in SCALAR_JOINTS:
            angular[start : start + dims[joint, 0]] = False
    return angular
