"""Time plots of chosen signals of one world."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..panels.joints import short
from .contacts import deepest, read_contacts

if TYPE_CHECKING:
    from ..viewer import Viewer

WINDOW = 600
"""Readings in a plot."""
MOST_PLOTS = 4
Read = Callable[[Any, int], float]


def list_signals(sim: Any, world: int) -> dict[str, Read]:
    """Return what can be plotted of a world, by name with unit: functions of simulation and world."""
    model = sim.model
    found: dict[str, Read] = {
        "height of the first body [m]": lambda sim, w: float(sim.body_q.world(w)[0, 2]),
        "contacts": lambda sim, w: float(sim.contact_counts[w]),
        "contact force, sum [N]": _contact_force,
        "Newton iterations": lambda sim, w: float(sim.iterations[w]),
        "kinetic energy [J]": _kinetic_energy,
        "deepest overlap of all worlds [m]": lambda sim, w: deepest(sim),
    }
    if sim.body_q.offsets[world + 1] == sim.body_q.offsets[world]:
        del found["height of the first body [m]"]
    first = int(sim.joint_q.offsets[world])
    first_dof = int(sim.joint_qd.offsets[world])
    starts, dofs = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    for joint in np.flatnonzero(np.maximum(model.joint_world.numpy(), 0) == world):
        name = short(model.joint_label[joint])
        if dofs[joint + 1] - dofs[joint] == 1:
            found[f"position of {name} [rad or m]"] = _entry("joint_q", int(starts[joint]) - first)
            found[f"velocity of {name} [rad/s or m/s]"] = _entry("joint_qd", int(dofs[joint]) - first_dof)
    return found


def _entry(view: str, entry: int) -> Read:
    return lambda sim, world: float(getattr(sim, view).world(world)[entry])


def _contact_force(sim: Any, world: int) -> float:
    contacts = read_contacts(sim, [world], sim.body_q.flat().astype(np.float64))
    return float(np.linalg.norm(contacts.force, axis=1).sum())


def _kinetic_energy(sim: Any, world: int) -> float:
    """Return the kinetic energy of the bodies, without rotor inertia that joints have as armature."""
    from ...visuals import rotate

    own = slice(int(sim.body_q.offsets[world]), int(sim.body_q.offsets[world + 1]))
    twist = sim.body_qd.world(world).astype(np.float64)
    turn = sim.body_q.world(world)[:, 3:].astype(np.float64) * (-1.0, -1.0, -1.0, 1.0)
    mass = sim.model.body_mass.numpy()[own].astype(np.float64)
    inertia = sim.model.body_inertia.numpy()[own].astype(np.float64)
    spin = rotate(turn, twist[:, 3:])
    return float(0.5 * (mass @ (twist[:, :3] ** 2).sum(axis=1) + np.einsum("bi,bij,bj->", spin, inertia, spin)))


class _Plot:
    def __init__(self, server: Any, name: str, read: Read, color: str):
        from viser import uplot

        self.name, self._read, self.color = name, read, color
        self.times: deque[float] = deque(maxlen=WINDOW)
        self.values: deque[float] = deque(maxlen=WINDOW)
        flat = np.zeros(2)
        self._handle = server.gui.add_uplot(
            (np.array([0.0, 1.0]), flat),
            (uplot.Series(label="time [s]"), uplot.Series(label=name, stroke=color, width=2)),
            scales={"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(auto=True)},
            legend=uplot.Legend(show=False),
            title=name,
            height=150,
        )

    def read(self, sim: Any, world: int) -> None:
        time = sim.time
        if self.times and time < self.times[-1]:  # it was reset
            self.clear()
        if not self.times or time > self.times[-1]:
            self.times.append(time)
            self.values.append(self._read(sim, world))

    def clear(self) -> None:
        self.times.clear()
        self.values.clear()

    def send(self) -> None:
        if len(self.times) > 1:
            self._handle.data = (np.array(self.times), np.array(self.values))

    def remove(self) -> None:
        self._handle.remove()


_COLORS = ("#2369af", "#d9822b", "#2e9e5b", "#a33ea1")


class PlotPanel:
    """Panel of up to four plots; one reading per frame, sent a few times a second."""

    def __init__(self, viewer: Viewer, server: Any):
        """Begin with the height of the first body."""
        self._viewer, self._server = viewer, server
        self.world = viewer.stage.worlds[0]
        self._signals = list_signals(viewer.sim, self.world)
        gui = server.gui
        self._choice = gui.add_dropdown("Signal", tuple(self._signals))
        buttons = gui.add_button_group("Plots", ("Add", "Clear"))
        self._folder = gui.add_folder("Signals")
        self.plots: list[_Plot] = []

        @buttons.on_click
        def _(event: Any) -> None:
            if event.target.value == "Clear":
                viewer.ask(self._clear)
            else:
                viewer.ask(lambda: self.add(self._choice.value))

    def add(self, name: str) -> None:
        """Plot a signal; the oldest plot goes if there are too many."""
        read = self._signals.get(name)
        if read is None or any(plot.name == name for plot in self.plots):
            return
        if len(self.plots) >= MOST_PLOTS:
            self.plots.pop(0).remove()
        used = {plot.color for plot in self.plots}
        color = next(color for color in _COLORS if color not in used)
        with self._folder:
            plot = _Plot(self._server, name, read, color)
        self.plots.append(plot)

    def _clear(self) -> None:
        for plot in self.plots:
            plot.remove()
        self.plots = []

    def set_world(self, world: int) -> None:
        """Plot another world."""
        self.world = world
        self._signals = list_signals(self._viewer.sim, world)
        for plot in self.plots:
            plot.clear()

    def read(self) -> None:
        """Take a reading."""
        if self._viewer.sim.step_count > 0:
            for plot in self.plots:
                plot.read(self._viewer.sim, self.world)

    def send(self) -> None:
        """Send what was read."""
        for plot in self.plots:
            plot.send()
