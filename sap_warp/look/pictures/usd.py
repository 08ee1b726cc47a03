"""Record to USD with Newton's writer: geometry once, poses over time, for any tool that reads USD."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import warp as wp


class UsdRecording:
    """Collects poses of the bodies of some worlds; one time code is one frame."""

    def __init__(self, sim: Any, worlds: list[int], path: Path, fps: float):
        """Write the shapes of ``worlds`` to ``path``; several worlds are put side by side.

        Args:
            sim: The simulation.
            worlds: Which of its worlds.
            path: File, .usd, .usda or .usdc.
            fps: Frames, and time codes, per second.
        """
        from newton.viewer import ViewerUSD

        self._writer = ViewerUSD(str(path), fps=fps, up_axis=str(sim.model.up_axis.name), num_frames=None)
        self._writer.set_model(sim.model)
        if len(worlds) < sim.world_count:
            self._writer.set_visible_worlds(worlds)
        self._state = sim.model.state()
        self._fps, self._count = fps, 0

    def add(self, sim: Any) -> None:
        """Append a frame of the present state."""
        poses = self._state.body_q
        if sim.state.body_q.dtype is poses.dtype:
            wp.copy(poses, sim.state.body_q)
        else:
            poses.assign(sim.state.body_q.numpy().astype("float32"))
        self._writer.begin_frame((self._count + 0.5) / self._fps)  # the frame's number is rounded down
        self._writer.log_state(self._state)
        self._writer.end_frame()
        self._count += 1

    def close(self) -> None:
        """Finish the file."""
        with redirect_stdout(io.StringIO()):  # the name while it is written, which is no user's business
            self._writer.close()
