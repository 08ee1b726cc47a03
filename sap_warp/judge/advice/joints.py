"""Advice about joints: drives and initial positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import numpy as np

from ...core.notes import Note, name_some
from ...model.joint_types import SCALAR_JOINTS
from ...solver.terms.limit import UNLIMITED

WITHOUT_GAINS = "drive-without-gains"
WITHOUT_MODE = "gains-without-mode"
FAR = (0.5, 0.5 * np.pi)
"""Distance outside of its limits at which a slide [m], at least twice its travel, or a hinge [rad] is noted."""
TURNS = 4.0 * np.pi
"""Angle beyond which a hinge hardly starts or has a limit [rad]."""


def driven_dofs(model: newton.Model) -> np.ndarray:
    """Return a mask of dofs with a drive that follows a target, by Newton's index."""
    return _follows(model) & ((model.joint_target_ke.numpy() > 0.0) | (model.joint_target_kd.numpy() > 0.0))


def undriven_dofs(model: newton.Model) -> np.ndarray:
    """Return a mask of dofs with a mode that follows a target and no gain to do so, by Newton's index."""
    return _follows(model) & ~driven_dofs(model)


def idle_gains(model: newton.Model) -> np.ndarray:
    """Return a mask of dofs whose gains have no effect because their mode is none, by Newton's index."""
    gains = (model.joint_target_ke.numpy() > 0.0) | (model.joint_target_kd.numpy() > 0.0)
    return gains & (model.joint_target_mode.numpy() == int(newton.JointTargetMode.NONE))


def _follows(model: newton.Model) -> np.ndarray:
    modes = newton.JointTargetMode
    following = [int(mode) for mode in (modes.POSITION, modes.VELOCITY, modes.POSITION_VELOCITY)]
    return np.isin(model.joint_target_mode.numpy(), following)


def advise_drives(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Note a robot all of whose drives have gains of 0. Where some act, the others may be meant to swing."""
    idle = undriven_dofs(model)
    if not idle.any() or driven_dofs(model).any():
        return []
    joints = _joints_of(model, idle)
    names = name_some(model.joint_label, joints)
    what = f"target_ke and target_kd of all drives are 0, so that nothing holds {names}; give gains, or mode none"
    return [Note(WITHOUT_GAINS, what, ("joint", int(joints[0])))]


def advise_modes(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Note gains that do nothing because the dof has no drive."""
    idle = idle_gains(model)
    if not idle.any():
        return []
    joints, first = _joints_of(model, idle), int(np.flatnonzero(idle)[0])
    ke, kd = float(model.joint_target_ke.numpy()[first]), float(model.joint_target_kd.numpy()[first])
    what = f"target_ke {ke:g} and target_kd {kd:g} of {name_some(model.joint_label, joints)} do nothing"
    mode = "position" if ke > 0.0 else "velocity"
    advice = f"set mode {mode} (joint_target_mode), or gains of 0"
    return [Note(WITHOUT_MODE, f"{what}, because the drive mode is none; {advice}", ("joint", int(joints[0])))]


def _joints_of(model: newton.Model, dofs: np.ndarray) -> np.ndarray:
    """Return the joints that have some of the dofs, a mask by Newton's index."""
    return np.unique(np.searchsorted(model.joint_qd_start.numpy(), np.flatnonzero(dofs), side="right") - 1)


def advise_positions(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """Note positions, targets and limits that look like degrees or millimetres."""
    starts, kinds = model.joint_qd_start.numpy(), model.joint_type.numpy()
    joint_of = np.repeat(np.arange(model.joint_count), np.diff(starts))
    dof = np.flatnonzero(np.isin(kinds[joint_of], SCALAR_JOINTS))
    joint = joint_of[dof]
    within = dof - starts[joint]
    turns = within >= model.joint_dof_dim.numpy()[joint, 0]
    lower, upper = (a.numpy()[dof].astype(np.float64) for a in (model.joint_limit_lower, model.joint_limit_upper))
    held = driven_dofs(model)[dof] & (model.joint_target_ke.numpy()[dof] > 0.0)
    tolerance = np.where(turns, FAR[1], np.maximum(FAR[0], 2.0 * (upper - lower)))

    def describe(name: str, values: np.ndarray, hits: np.ndarray, verb: str) -> list[Note]:
        if not hits.any():
            return []
        i, unit = int(np.flatnonzero(hits)[0]), "rad" if turns[hits][0] else "m"
        limits = f"its limits are {lower[i]:g} to {upper[i]:g} {unit}" if upper[i] < UNLIMITED else "it has no limits"
        meant = f"; {values[i]:g} degrees are {np.deg2rad(values[i]):.4g} rad" if turns[i] else "; lengths are in m"
        names = name_some(model.joint_label, joint[hits])
        return [Note(name, f"{names} {verb} {values[i]:g} {unit}, {limits}{meant}", ("joint", int(joint[i])))]

    notes = []
    coordinate = model.joint_q_start.numpy()[joint] + within
    for name, verb, array, counts in (
        ("position-outside-limits", "starts at", model.joint_q, np.ones(len(dof), bool)),
        ("target-outside-limits", "has the target", model.joint_target_q, held),
    ):
        q = array.numpy()[coordinate].astype(np.float64)
        far = (np.maximum(lower - q, q - upper) > tolerance) | (turns & (upper >= UNLIMITED) & (np.abs(q) > TURNS))
        notes += describe(name, q, far & counts, verb)
    bound = np.where(np.abs(lower) < UNLIMITED, np.abs(lower), 0.0)
    bound = np.maximum(bound, np.where(np.abs(upper) < UNLIMITED, np.abs(upper), 0.0))
    return notes + describe("limits-in-degrees", bound, turns & (bound > TURNS), "has a limit of")
