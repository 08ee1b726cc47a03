"""Named states of a scene, for `Simulation.reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..views.ctrl import has_ctrl

if TYPE_CHECKING:
    from ..core import SimulationCore


_HOMES = ("home", "stand", "standing", "default")


def find_keyframe(sim: SimulationCore, name: str) -> Any:
    """Return the keyframe of that name.

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


def set_inputs(sim: SimulationCore, mask: Any, key: Any) -> None:
    """Give chosen worlds the drive targets and actuator inputs of a keyframe."""
    sim.joint_target_q.assign(key.joint_target_q, mask)
    sim.joint_target_qd.assign(key.joint_target_qd, mask)
    if len(key.ctrl) and has_ctrl(sim.model):
        sim.ctrl.assign(key.ctrl, mask)


def go_home(sim: SimulationCore) -> None:
    """Start all worlds from the keyframe that a file calls home, else from its first one, else leave them as loaded."""
    names = [name for name in sim.keyframes if name.rsplit("/", 1)[-1].lower() in _HOMES] or list(sim.keyframes)
    if names:
        sim.reset(keyframe=names[0])
