"""Sliders for the targets of driven joints of one articulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import newton
import numpy as np

from ....model.joint_types import SCALAR_JOINTS

if TYPE_CHECKING:
    from ..viewer import Viewer

_ENDLESS = 1.0e6
_MOST_SLIDERS = 64


@dataclass(frozen=True)
class Driven:
    """A driven degree of freedom."""

    label: str
    """Label of the joint, with the number of the axis if it has several."""
    entry: int
    """Coordinate for a position target, dof for a velocity target; in the whole model."""
    is_position: bool
    """Whether the target is a position."""
    low: float
    """Lower end of the range of the target."""
    high: float
    """Upper end of the range of the target."""


def short(label: str) -> str:
    """The last part of a label."""
    return label.rsplit("/", 1)[-1]


def articulations(model: newton.Model, world: int) -> dict[str, int]:
    """Return articulations of a world by a name that is unique in it."""
    worlds = model.articulation_world.numpy() if model.articulation_count else np.zeros(0, np.int64)
    found: dict[str, int] = {}
    for i in np.flatnonzero(np.maximum(worlds, 0) == world):
        name = short(model.articulation_label[i]) if i < len(model.articulation_label) else f"articulation {i}"
        found[name if name not in found else f"{name} ({i})"] = int(i)
    return found


def driven_dofs(model: newton.Model, articulation: int) -> list[Driven]:
    """Return the degrees of freedom of an articulation whose drives have a target."""
    first, last = model.articulation_start.numpy()[articulation : articulation + 2]
    starts, coords = model.joint_qd_start.numpy(), model.joint_q_start.numpy()
    ke, kd, modes = model.joint_target_ke.numpy(), model.joint_target_kd.numpy(), model.joint_target_mode.numpy()
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    kinds, dims = model.joint_type.numpy(), model.joint_dof_dim.numpy()
    mode = newton.JointTargetMode
    found = []
    for joint in range(int(first), int(last)):
        if kinds[joint] not in SCALAR_JOINTS:
            continue
        count = int(starts[joint + 1] - starts[joint])
        for k in range(count):
            dof = int(starts[joint]) + k
            is_position = ke[dof] > 0.0 and modes[dof] in (int(mode.POSITION), int(mode.POSITION_VELOCITY))
            is_velocity = kd[dof] > 0.0 and modes[dof] in (int(mode.VELOCITY), int(mode.POSITION_VELOCITY))
            if not is_position and not is_velocity:
                continue
            turns = k >= dims[joint][0]
            low, high = float(lower[dof]), float(upper[dof])
            if not is_position or not (-_ENDLESS < low < high < _ENDLESS):
                reach = (np.pi if turns else 1.0) if is_position else 10.0
                low, high = -reach, reach
            label = short(model.joint_label[joint]) + (f" {k}" if count > 1 else "")
            entry = int(coords[joint]) + k if is_position else dof
            found.append(Driven(label, entry, bool(is_position), low, high))
    return found


class JointPanel:
    """Panel to choose an articulation, with a slider for each of its drives."""

    def __init__(self, viewer: Viewer, server: Any):
        """Make widgets for the first world."""
        self._viewer, self._server = viewer, server
        self._sliders: list[tuple[Any, Driven]] = []
        self._world = viewer.stage.worlds[0]
        gui = server.gui
        self._choices = articulations(viewer.sim.model, self._world)
        self._folder: Any = None
        names = tuple(self._choices) or ("none",)
        self._choice = gui.add_dropdown("Articulation", names, initial_value=self._first_driven(names))
        self._everywhere = gui.add_checkbox(
            "All worlds", viewer.sim.world_count > 1, visible=viewer.sim.world_count > 1
        )
        has_sequence = viewer.sim.has_control_sequence
        self._follow = gui.add_checkbox("Follow the scene's control", has_sequence, visible=has_sequence)
        self._container = gui.add_folder("Targets")
        self._note = gui.add_markdown("")

        @self._choice.on_update
        def _(event: Any) -> None:
            viewer.ask(self._fill)

        @self._follow.on_update
        def _(event: Any) -> None:
            follow = bool(event.target.value)
            viewer.ask(lambda: viewer.sim.follow_control_sequence(follow))

        self._fill()

    def _first_driven(self, names: tuple[str, ...]) -> str:
        model = self._viewer.sim.model
        driven = [name for name in names if name in self._choices and driven_dofs(model, self._choices[name])]
        return (driven or names)[0]

    def set_world(self, world: int) -> None:
        """Show sliders of another world; the articulation keeps its name if that world has it."""
        self._world = world
        self._choices = articulations(self._viewer.sim.model, world)
        names = tuple(self._choices) or ("none",)
        if names != tuple(self._choice.options):
            self._choice.options = names
        self._fill()

    def _fill(self) -> None:
        """Make sliders for the chosen articulation."""
        for slider, _ in self._sliders:
            slider.remove()
        self._sliders = []
        articulation = self._choices.get(self._choice.value)
        dofs = driven_dofs(self._viewer.sim.model, articulation) if articulation is not None else []
        self._note.content = "" if dofs else "No joint of this articulation has a drive with a target."
        if len(dofs) > _MOST_SLIDERS:
            self._note.content = f"The first {_MOST_SLIDERS} of {len(dofs)} drives."
        with self._container:
            for dof in dofs[:_MOST_SLIDERS]:
                self._sliders.append((self._make_slider(dof), dof))

    def _make_slider(self, dof: Driven) -> Any:
        step = 10.0 ** np.floor(np.log10((dof.high - dof.low) / 200.0))
        value = float(np.clip(self._read(dof), dof.low, dof.high))
        slider = self._server.gui.add_slider(dof.label, min=dof.low, max=dof.high, step=step, initial_value=value)

        @slider.on_update
        def _(event: Any) -> None:
            if event.client_id is None:  # we have moved it ourselves
                return
            given = float(np.clip(float(event.target.value), dof.low, dof.high))
            if np.isfinite(given):
                self._viewer.ask(lambda: self._write(dof, given))

        return slider

    def _view(self, dof: Driven) -> Any:
        sim = self._viewer.sim
        return sim.joint_target_q if dof.is_position else sim.joint_target_qd

    def _read(self, dof: Driven) -> float:
        return float(self._view(dof).flat()[dof.entry])

    def _write(self, dof: Driven, value: float) -> None:
        """Set the target in this world, or the corresponding one in all worlds that have it."""
        if self._follow.value:
            self._follow.value = False
            self._viewer.sim.follow_control_sequence(False)
        view = self._view(dof)
        values = view.flat() if self._viewer.sim.device.is_cpu else view.flat().copy()
        offsets = view.offsets
        if self._everywhere.value:
            offset = dof.entry - offsets[self._world]
            entries = offsets[:-1] + offset
            values[entries[entries < offsets[1:]]] = value
        else:
            values[dof.entry] = value
        if not self._viewer.sim.device.is_cpu:
            view.assign(values)

    def update(self) -> None:
        """Let sliders follow a control sequence."""
        if not self._follow.value:
            return
        for slider, dof in self._sliders:
            value = float(np.clip(self._read(dof), dof.low, dof.high))
            if abs(value - slider.value) > 1e-6:
                slider.value = value
