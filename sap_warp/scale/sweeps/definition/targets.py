"""Targets of a parameter's path: numbers of each world, which share a model, or a value of the scene.

materials.ground.mu           friction of the ground, each world's own          (or ground.mu)
materials.NAME.mu, .ke, .tau  material of shapes by name or pattern, each world's own
VIEW:NAME.COMPONENT           entries of a view of `Simulation`: body_mass:torso, joint_q:elbow, gravity.z
solver.OPTION, dt             simulation.solver.OPTION and simulation.dt of the scene
everything else               a path into the scene: bodies.cube.shapes[0].hx
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SweepError

if TYPE_CHECKING:
    from ....simulation import Simulation

_XYZ = ("x", "y", "z")
_MATERIAL = ("mu", "ke", "tau")
_BY_DOF = ("target_ke", "target_kd", "effort_limit", "limit_lower", "limit_upper", "velocity_limit")
_JOINTS = (*_BY_DOF, "armature", "damping", "friction")
VIEWS: dict[str, tuple[str, ...]] = {
    "ground_mu": (),
    **{f"shape_{name}": () for name in _MATERIAL},
    "shape_scale": _XYZ,
    "body_mass": (),
    "body_com": _XYZ,
    **{f"joint_{name}": () for name in _JOINTS},
    "gravity": _XYZ,
    "joint_q": (),
    "joint_qd": (),
    "joint_f": (),
    "joint_act": (),
    "joint_target_q": (),
    "joint_target_qd": (),
    "ctrl": (),
}
"""Views that a sweep can write, with the names of their components."""
_WITHOUT_NAMES = ("ground_mu", "gravity")
_SHORT = {"dt": "simulation.dt", "ground.mu": "ground_mu", "materials.ground.mu": "ground_mu"}
_RESERVED = ("simulation.num_worlds", "simulation.duration", "simulation.frames", "replicate")


@dataclass(frozen=True)
class SceneTarget:
    """Value of the scene: points that differ in it need models of their own."""

    path: str


@dataclass(frozen=True)
class WorldTarget:
    """Numbers of a world: points that differ in them are worlds of one model."""

    view: str
    """One of VIEWS."""
    pattern: str = ""
    """Names of columns; empty for all."""
    component: str = ""
    """Component of entries with several numbers; empty for all."""

    def check(self, sim: Simulation) -> None:
        """Check that the simulation has the target.

        Raises:
            SweepError: There is no such view, column or component, or something else decides about it.
        """
        try:
            view = getattr(sim, self.view)
            columns = view.find(self.pattern).indices if self.pattern else np.arange(view.shape[1])
        except (AttributeError, KeyError, ValueError) as error:
            raise SweepError(str(error.args[0] if error.args else error)) from None
        if self.view.startswith("joint_target_q") and sim.has_control_sequence:
            raise SweepError(f"{self.view} comes from the scene's control sequence, which would write over it.")
        if self.view in ("joint_q", "joint_target_q") and _turns(sim)[columns].any():
            raise SweepError(
                f"{self.view}:{self.pattern} holds rotations (qx, qy, qz, qw), which do not change one by one; "
                "name others, for example root.[xyz]."
            )

    def write(self, sim: Simulation, values: np.ndarray) -> None:
        """Give each world its value, ``values`` of shape (worlds,).

        Raises:
            ValueError: A number is not possible.
        """
        view = getattr(sim, self.view)
        columns = view.find(self.pattern).indices if self.pattern else np.arange(view.shape[1])
        now = np.array(view.numpy())
        before = now.copy()
        index: tuple[Any, ...] = (slice(None), columns)
        if self.component:
            index += (VIEWS[self.view].index(self.component),)
        now[index] = values.reshape(-1, *(1,) * (now[index].ndim - 1))
        view[...] = now
        if self.view == "body_mass":  # of the same stuff, more of it
            factor = np.divide(now, before, out=np.ones_like(now), where=before > 0.0)
            sim.body_inertia[...] = np.array(sim.body_inertia.numpy()) * factor[:, :, None, None]


Target = SceneTarget | WorldTarget


def find_target(path: str) -> Target:
    """Return what a path stands for.

    Raises:
        SweepError: It cannot be varied, or has no such component.
    """
    text = _SHORT.get(path, path)
    head, _, rest = text.partition(".")
    if head == "materials":
        name, _, field = rest.rpartition(".")
        if name == "ground":
            text = f"ground.{field}"
        elif name and field in _MATERIAL:
            return WorldTarget(f"shape_{field}", name)
        else:
            raise SweepError(f"{path} is not materials.NAME.FIELD with a field of {', '.join(_MATERIAL)}.")
    elif head == "solver":
        text = f"simulation.{text}"
    view, _, pattern = text.partition(":")
    base, _, component = view.partition(".")
    if base in VIEWS:
        return _world_target(path, base, pattern, component)
    if text.startswith(_RESERVED):
        raise SweepError(f"{path} cannot be varied: how many worlds there are, and for how long, is up to the sweep.")
    return SceneTarget(text)


def _world_target(path: str, view: str, pattern: str, component: str) -> WorldTarget:
    known = VIEWS[view]
    if not component and known and "." in pattern and pattern.rpartition(".")[2] in known:
        pattern, _, component = pattern.rpartition(".")
    if component and component not in known:
        raise SweepError(f"{path}: {view} has {'components ' + ', '.join(known) if known else 'no components'}.")
    if pattern and view in _WITHOUT_NAMES:
        raise SweepError(f"{path}: {view} belongs to whole worlds; leave the name away.")
    if not pattern and view not in _WITHOUT_NAMES:
        raise SweepError(f"{path} needs a name or a pattern, for example {view}:*.")
    return WorldTarget(view, pattern, component)


def _turns(sim: Simulation) -> np.ndarray:
    """Return a mask of the coordinates of a world that are parts of a quaternion."""
    return np.array([name.rpartition(".")[2] in ("qx", "qy", "qz", "qw") for name in sim.joint_q.names])
