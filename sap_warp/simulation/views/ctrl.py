"""The inputs of MuJoCo's actuators as a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...solver.model.motors import direct_actuators
from .mirrors import Mirrors
from .names import ModelNames
from .views import WorldView

NO_ACTUATORS = "its model has no actuators of MuJoCo."
ALL_FOLLOW = (
    "its actuators of MuJoCo follow joint targets (joint_target_q, joint_target_qd). Load the file with ctrl_direct to "
    "drive them by ctrl."
)


def has_ctrl(model: Any) -> bool:
    """Return True if any actuator reads ``model.mujoco.ctrl``."""
    return bool(len(direct_actuators(model)))


class CtrlView(WorldView):
    """View of ``ctrl`` that refuses actuators by name that do not read it, so that no input is lost."""

    def __init__(self, model: Any, names: ModelNames, on_read: Callable[[], None], mirrors: Mirrors):
        """Make a `WorldView`; ``model`` tells which actuators read it."""
        starts = names.starts_of("actuator")
        super().__init__("ctrl", model.mujoco.ctrl, starts, on_read, kind="actuator", names=names, mirrors=mirrors)
        self._reads = np.zeros(len(self.array), dtype=bool)
        self._reads[direct_actuators(model)] = True

    def _columns(self, names: Any, world: int | None, first: int = 0) -> tuple[np.ndarray, bool]:
        columns, is_one = super()._columns(names, world, first)
        start = first or int(self.offsets[world or 0])
        idle = columns[~self._reads[columns - first + start]] - first
        if len(idle):
            called = ", ".join(repr(self.find("*", world).names[i]) for i in idle[:4])
            raise ValueError(
                f"{called} follow joint targets and do not read ctrl: set joint_target_q or joint_target_qd of their "
                "joints, or load the file with ctrl_direct."
            )
        return columns, is_one
