"""Advice about joints: drives and initial positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import newton
import numpy as np

from ..notes import Note, name_some

WITHOUT_GAINS = "drive-without-gains"


def driven_dofs(model: newton.Model) -> np.ndarray:
    """Which dofs have a drive that follows a target, by Newton's index."""
    return _follows(model) & ((model.joint_target_ke.numpy() > 0.0) | (model.joint_target_kd.numpy() > 0.0))


def undriven_dofs(model: newton.Model) -> np.ndarray:
    """Which dofs have a mode that follows a target and no gain to do so, by Newton's index."""
    return _follows(model) & ~driven_dofs(model)


def _follows(model: newton.Model) -> np.ndarray:
    modes = newton.JointTargetMode
    following = [int(mode) for mode in (modes.POSITION, modes.VELOCITY, modes.POSITION_VELOCITY)]
    return np.isin(model.joint_target_mode.numpy(), following)


def advise_drives(model: newton.Model, solver_options: Mapping[str, Any]) -> list[Note]:
    """A robot all of whose drives have gains of 0. Where some act, the others may be meant to swing."""
    idle = undriven_dofs(model)
    if not idle.any() or driven_dofs(model).any():
        return []
    joints = np.unique(np.searchsorted(model.joint_qd_start.numpy(), np.flatnonzero(idle), side="right") - 1)
    names = name_some(model.joint_label, joints)
    what = f"target_ke and target_kd of all drives are 0, so that nothing holds {names}; give gains, or mode none"
    return [Note(WITHOUT_GAINS, what, ("joint", int(joints[0])))]
