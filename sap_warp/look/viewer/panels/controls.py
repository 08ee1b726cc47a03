"""Control panel of a page: what can be asked for, and what is shown."""

from __future__ import annotations

import html
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ....solver.settings.options import LINE_SEARCHES, PRESETS
from ..drawing.contacts import COLORS, NAMES
from ..drawing.instances import Rods
from ..drawing.overlays import Overlays
from ..drawing.signals import PlotPanel
from .joints import JointPanel
from .panels import StatusPanel

if TYPE_CHECKING:
    from ..viewer import Viewer

SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1 (real time)": 1.0, "2": 2.0, "4": 4.0}
AS_FAST = "as fast as it goes"
MOST_GRAVITY = 50.0
"""Largest gravity that a page can set along each axis [m/s^2]."""
_MOST_DIAGNOSED = 16
_PULL_COLOR = np.array((20, 140, 200), np.uint8)
_ALL, _ONE = "all worlds", "this world"
SLOW_PERIOD = 0.25
"""Time between two updates of plots and sliders [s]."""


class Controls:
    """Widgets and their actions. All values are checked here: a page can send anything."""

    def __init__(self, viewer: Viewer, server: Any):
        """Send the widgets."""
        self._viewer, self._server = viewer, server
        low, high = viewer.stage.world_bounds()
        self.overlays = Overlays(server, viewer.sim, viewer.stage, float(np.linalg.norm(high - low)))
        gui = server.gui
        self.status = StatusPanel(viewer, server)
        self._make_run(gui)
        tabs = gui.add_tab_group()
        with tabs.add_tab("Show"):
            self._make_show(gui)
        with tabs.add_tab("Joints"):
            self.joints = JointPanel(viewer, server)
        with tabs.add_tab("Physics"):
            self._make_physics(gui)
        with tabs.add_tab("Plots"):
            self.plots = PlotPanel(viewer, server)
        with tabs.add_tab("Diagnose"):
            self._make_diagnose(gui)
        self._line = Rods(server, "/marks/pull")
        self._slow_due = 0.0

    # What can be asked for.

    def _make_run(self, gui: Any) -> None:
        viewer = self._viewer
        buttons = gui.add_button_group("Run", ("Play", "Pause", "Step", "Reset"))
        actions = {"Play": viewer.play, "Pause": viewer.pause, "Step": viewer.step, "Reset": viewer.reset}

        @buttons.on_click
        def _(event: Any) -> None:
            action = actions.get(event.target.value)
            if action is not None:
                action()

        speeds = SPEEDS | {AS_FAST: math.inf}
        name = next((name for name, speed in speeds.items() if speed == viewer.options.speed), None)
        if name is None:
            name = f"{viewer.options.speed:g}"
            speeds = {name: viewer.options.speed} | speeds
        self.speed = gui.add_dropdown("Speed", tuple(speeds), initial_value=name)

        @self.speed.on_update
        def _(event: Any) -> None:
            value = speeds.get(event.target.value)
            if value is not None:
                viewer.ask(lambda: self._set_speed(value))

        many = viewer.sim.world_count > 1
        self.world = gui.add_number(
            "World", viewer.stage.worlds[0], min=0, max=viewer.sim.world_count - 1, step=1, visible=many
        )
        self.shown = gui.add_dropdown("Worlds shown", (_ALL, _ONE), visible=many)
        self.world.on_update(lambda event: viewer.ask(self._set_world))
        self.shown.on_update(lambda event: viewer.ask(self._set_world))

    def _make_show(self, gui: Any) -> None:
        viewer, overlays = self._viewer, self.overlays
        visuals = gui.add_checkbox("Bodies", True)
        colliders = gui.add_checkbox("Collision geometry", False)
        shadows = gui.add_checkbox("Shadows", viewer.stage.casts_shadows)
        pulls = gui.add_checkbox("Mouse pulls bodies", True, hint="off: the mouse turns the view everywhere")
        visuals.on_update(lambda event: viewer.ask(lambda: viewer.stage.show_visuals(bool(visuals.value))))
        colliders.on_update(lambda event: viewer.ask(lambda: viewer.stage.show_colliders(bool(colliders.value))))
        shadows.on_update(lambda event: viewer.ask(lambda: viewer.stage.cast_shadows(bool(shadows.value))))
        pulls.on_update(lambda event: viewer.ask(lambda: viewer.let_mouse_pull(bool(pulls.value))))
        self.switches = {}
        for name in overlays.names:
            self.switches[name] = self._make_switch(gui, name)
        scale = gui.add_slider("Force scale", min=0.1, max=10.0, step=0.1, initial_value=1.0)
        strength = gui.add_slider("Mouse strength", min=0.1, max=10.0, step=0.1, initial_value=1.0)
        scale.on_update(lambda event: self._set_bounded(overlays, "force_scale", scale.value))
        strength.on_update(lambda event: self._set_bounded(viewer.drag, "strength", strength.value))
        parts = [
            f'<span style="color:rgb{tuple(int(c) for c in color)}">&#9632;</span> {name}'
            for name, color in zip(NAMES, COLORS, strict=True)
        ]
        gui.add_html(f'<div style="font-size:.8em;padding:.2em .7em">contacts: {" &nbsp; ".join(parts)}</div>')
        camera = gui.add_button("Frame the scene")
        camera.on_click(lambda event: viewer.ask(lambda: viewer.frame_scene(event.client)))

    def _make_switch(self, gui: Any, name: str) -> Any:
        switch = gui.add_checkbox(name, False)
        switch.on_update(lambda event: self._viewer.ask(lambda: self.overlays.switch(name, bool(switch.value))))
        return switch

    def _make_physics(self, gui: Any) -> None:
        sim = self._viewer.sim
        options = sim.shards[0].solver.options
        preset = sim.preset if sim.preset in PRESETS else next(iter(PRESETS))
        self.preset = gui.add_dropdown("Preset", tuple(PRESETS), initial_value=preset)
        self.search = gui.add_dropdown("Line search", tuple(LINE_SEARCHES), initial_value=options.line_search_variant)
        self.preset.on_update(lambda event: self._viewer.ask(self._set_solver))
        self.search.on_update(lambda event: self._viewer.ask(self._set_solver))
        now = sim.gravity.flat()[0].astype(float)
        most = (MOST_GRAVITY,) * 3
        least = (-MOST_GRAVITY,) * 3
        self.gravity = gui.add_vector3("Gravity [m/s²]", tuple(now), min=least, max=most, step=0.01)
        self.gravity.on_update(lambda event: self._viewer.ask(self._set_gravity))
        self.note = gui.add_markdown("")

    def _make_diagnose(self, gui: Any) -> None:
        button = gui.add_button("Diagnose", hint="advance by 2 s and say what goes wrong, worst first")
        self.findings = gui.add_html("")
        button.on_click(lambda event: self._viewer.ask(self._diagnose))

    # What is done; by the thread that steps.

    def _set_speed(self, value: float) -> None:
        self._viewer.clock.speed, self._viewer.clock.steps_per_frame = value, None
        self._viewer.clock.restart()

    def _set_world(self) -> None:
        viewer = self._viewer
        world = min(max(int(self.world.value), 0), viewer.sim.world_count - 1)
        if self.shown.value == _ONE and world not in viewer.stage.worlds:
            return
        viewer.stage.choose([world] if self.shown.value == _ONE else viewer.stage.worlds)
        self.joints.set_world(world)
        self.plots.set_world(world)

    def _set_bounded(self, target: Any, name: str, value: Any) -> None:
        if isinstance(value, (int, float)) and 0.1 <= value <= 10.0:
            self._viewer.ask(lambda: setattr(target, name, float(value)))

    def _set_solver(self) -> None:
        preset, search = self.preset.value, self.search.value
        if preset not in PRESETS or search not in LINE_SEARCHES:
            return
        self.note.content = "Preparing kernels ..."
        try:
            self._viewer.sim.change_solver(contact_preset_variant=preset, line_search_variant=search)
            self._viewer.sim.prepare()
            self.note.content = ""
        except ValueError as error:  # options that the scene gives may not go with this preset
            self.note.content = html.escape(str(error))
        self._viewer.clock.restart()

    def _set_gravity(self) -> None:
        value = np.array(self.gravity.value, np.float64)
        if value.shape != (3,) or not np.isfinite(value).all() or np.abs(value).max() > MOST_GRAVITY:
            return
        view = self._viewer.sim.gravity
        if self._viewer.sim.device.is_cpu:
            view.flat()[:] = value
        else:
            view.assign(np.broadcast_to(value, view.flat().shape).copy())

    def _diagnose(self) -> None:
        self.findings.content = _paragraph("Advancing by 2 s ...")
        viewer = self._viewer
        before = viewer.sim.step_count
        chosen = viewer.stage.chosen if len(viewer.stage.chosen) <= _MOST_DIAGNOSED else None  # None takes some
        self.findings.content = describe_findings(viewer.sim.diagnose(worlds=chosen))
        viewer.steps_taken += max(0, viewer.sim.step_count - before)
        self._viewer.clock.restart()

    # What is sent.

    def draw(self, body_q: np.ndarray) -> None:
        """Send what belongs to a frame."""
        self.overlays.draw(body_q)
        self._draw_pull()
        self.plots.read()

    def _draw_pull(self) -> None:
        """Draw a line from the body to the pointer."""
        line = self._viewer.drag.line()
        if line is None:
            self._line.hide()
            return
        world, start, end = line
        points = np.array([[start, end]]) + self._viewer.stage.offsets[world]
        self._line.set(points, _PULL_COLOR, 0.008 * self.overlays.size)

    def update(self) -> None:
        """Update the widgets; called for every frame, also while time stands still."""
        self.status.update()
        now = time.perf_counter()
        if now >= self._slow_due:
            self._slow_due = now + SLOW_PERIOD
            self.plots.send()
            self.joints.update()


def _paragraph(text: str) -> str:
    return f'<div style="font-size:.85em;padding:.2em .7em">{html.escape(text)}</div>'


_SEVERITY_COLORS = {"problem": "#c92a2a", "warning": "#d9822b", "info": "#2369af"}


def describe_findings(report: Any) -> str:
    """Format a `sap_warp.judge.diagnose` report as HTML, worst finding first."""
    if not report.findings:
        return _paragraph("Nothing found in the last 2 s of simulated time.")
    parts = []
    for finding in report.findings:
        color = _SEVERITY_COLORS.get(finding.severity, "#555555")
        rows = [finding.what, f"Change: {finding.change}" if finding.change else "", finding.effect]
        text = "".join(f"<div>{html.escape(row)}</div>" for row in rows if row)
        title = html.escape(finding.title)
        parts.append(
            f'<div style="font-size:.82em;margin:.5em .7em;padding-left:.6em;border-left:3px solid {color}">'
            f"<b>{title}</b>{text}</div>"
        )
    return "".join(parts)
