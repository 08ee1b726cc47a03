"""Live numbers of a page."""

from __future__ import annotations

import html
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drawing.contacts import deepest

if TYPE_CHECKING:
    from ..viewer import Viewer

PERIOD = 0.25
"""Time between two readings [s]."""


class StatusPanel:
    """Table of what the simulation does, updated four times a second."""

    def __init__(self, viewer: Viewer, server: Any):
        """Make an empty table."""
        self._viewer = viewer
        self._html = server.gui.add_html("")
        self._due = 0.0
        self._last = (time.perf_counter(), 0, 0.0)
        self.ratio = self.rate = 0.0
        self.update()

    def update(self) -> None:
        """Send the numbers if it is time."""
        now = time.perf_counter()
        if now < self._due:
            return
        self._due = now + PERIOD
        self._html.content = self._table(now)

    def _table(self, now: float) -> str:
        viewer, sim = self._viewer, self._viewer.sim
        then, steps, _ = self._last
        taken = viewer.steps_taken - steps
        self._last = (now, viewer.steps_taken, 0.0)
        elapsed = max(now - then, 1e-6)
        self.ratio = taken * sim.dt / elapsed
        self.rate = taken * sim.world_count / elapsed
        rows = [
            ("time", f"{sim.time:.3f} s" + ("" if viewer.is_running else ", paused")),
            ("real-time ratio", f"{self.ratio:.2f}"),
            ("world-steps per second", f"{self.rate:,.0f}"),
        ]
        rows += self._solver_rows()
        cells = "".join(
            f'<tr><td style="padding:0 .8em 0 0;opacity:.7">{html.escape(a)}</td>'
            f'<td style="text-align:right;font-variant-numeric:tabular-nums">{html.escape(b)}</td></tr>'
            for a, b in rows
        )
        return f'<div style="padding:.1em .7em"><table style="width:100%;font-size:.82em">{cells}</table></div>'

    def _solver_rows(self) -> list[tuple[str, str]]:
        sim = self._viewer.sim
        if sim.step_count == 0:
            return []
        contacts, iterations = sim.contact_counts, sim.iterations
        several = sim.world_count > 1
        return [
            ("contacts", f"{int(contacts.sum())}" + (f", {contacts.mean():.1f} per world" if several else "")),
            ("Newton iterations", f"{iterations.mean():.1f}" + (f", at most {iterations.max()}" if several else "")),
            ("deepest penetration", f"{1e3 * deepest(sim):.3f} mm"),
            ("dropped contacts", f"{sim.statistics.truncated_contacts}"),
            ("diverged worlds", f"{int(np.count_nonzero(sim.diverged))} of {sim.world_count}"),
        ]
