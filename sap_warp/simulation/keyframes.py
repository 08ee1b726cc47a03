"""Named states of a scene, for `Simulation.reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from .views import WorldView

if TYPE_CHECKING:
    from .simulation import Simulation


def find_keyframe(sim: Simulation, name: str) -> Any:
    """The keyframe of that name.

    Raises:
        TypeError: It is no name.
        ValueError: There is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"keyframe is {name!r}; it must be a name, or None.")
    if name not in sim.keyframes:
        known = ", ".join(map(repr, sim.keyframes)) or "none"
        raise ValueError(f"keyframe is {name!r}; the scene has {known}.")
    return sim.keyframes[name]


def set_inputs(sim: Simulation, mask: wp.array, key: Any) -> None:
    """Give chosen worlds the targets of drives and the inputs of actuators of a keyframe."""
    sim.joint_target_q.assign(key.joint_target_q, mask)
    sim.joint_target_qd.assign(key.joint_target_qd, mask)
    if len(key.ctrl):
        starts = len(key.ctrl) * np.arange(sim.world_count + 1)
        WorldView("ctrl", sim.model.mujoco.ctrl, starts).assign(key.ctrl, mask)
