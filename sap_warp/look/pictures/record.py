"""Record a simulation as a film, as its last picture, as a page that replays it, or as USD."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from .cameras import as_camera
from .display import choose_worlds, take_picture
from .files import USD, FrameWriter, check_file, explained, open_film, part_of, write_picture
from .replay import Replay
from .studio import check_picture
from .usd import UsdRecording


class Recorder:
    """Writes the course of a simulation to a file.

    Its ending says what: .mp4, .gif, .png (the last picture), .html (a page to replay), or .usd, .usda, .usdc.

    Example:
        ```python
        with sim.recorder("fall.mp4", fps=30) as film:
            film.run(seconds=2.0)
        ```

    Frames can also be taken one by one with `capture`, between steps of your own. The file appears when it is closed;
    if something goes wrong before, what was there stays.
    """

    def __init__(
        self,
        sim: Any,
        path: str | os.PathLike[str],
        *,
        fps: float = 30.0,
        width: int = 640,
        height: int = 480,
        camera: Any = None,
        orbit: float = 0.0,
        worlds: Any = 0,
        samples: int = 2,
    ):
        """Prepare a recording; nothing is simulated or rendered yet.

        Args:
            sim: The simulation.
            path: File to write; its ending says what.
            fps: Frames per second of simulated time; the film runs as fast as reality.
            width: Of a picture of one world [pixels].
            height: Of a picture of one world [pixels].
            camera: As in `Simulation.render`.
            orbit: How fast the camera goes around [degrees/s of simulated time].
            worlds: Which world, or several, which are shown beside each other.
            samples: As in `Simulation.render`.

        Raises:
            RecordingError: The file cannot be written, or something is missing that it needs.
            TypeError: An argument is of the wrong kind.
            ValueError: An argument has no valid value.
        """
        self.path = Path(path)
        check_file(self.path)
        check_picture((width, height), samples)
        for name, value, low in (("fps", fps, 1e-3), ("orbit", orbit, -math.inf)):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value < math.inf:
                raise ValueError(f"{name} is {value!r}; it must be a finite number{' above 0' if low > 0 else ''}.")
        self.fps, self.frame_count = float(fps), 0
        self.stepping_seconds = 0.0
        """Time that `run` spent on steps, without pictures [s]."""
        self._sim, self._camera, self._orbit = sim, as_camera(camera), float(orbit)
        self._many = choose_worlds(worlds, sim.world_count)
        self._size, self._samples = (width, height), samples
        self._kind = self.path.suffix.lower()
        self._writer: FrameWriter | None = None
        self._replay: Replay | None = None
        self._usd: UsdRecording | None = None
        self._start = sim.time
        self._closed = False
        sim.studio.forget()

    def run(self, seconds: float, report: Callable[[int, int], None] | None = None) -> None:
        """Simulate, and take all frames that belong to that time, the first one before the first step.

        Args:
            seconds: Simulated time [s].
            report: Called with the number of steps that are done and that are to be done.
        """
        steps = max(1, math.ceil(round(seconds / self._sim.dt, 6)))
        frames = max(1, round(steps * self._sim.dt * self.fps)) if self._kind != ".png" else 20
        done = 0
        for frame in range(1, frames + 1):
            self.capture()
            until = round(steps * frame / frames)
            start = time.perf_counter()
            self._sim.step(until - done)
            self._sim.synchronize()
            self.stepping_seconds += time.perf_counter() - start
            done = until
            if report is not None:
                report(done, steps)

    def capture(self) -> None:
        """Take one frame of the present state."""
        if self._closed:
            raise RuntimeError(f"The recording {self.path} is closed.")
        self.frame_count += 1
        if self._kind == ".png":
            return  # only the last one counts, see `close`
        if self._kind == ".html":
            if self._replay is None:
                self._replay = Replay(self._sim, self._many, self._camera, 1.0 / self.fps)
            self._replay.add(self._sim.body_q.flat())
            return
        if self._kind in USD:
            if self._usd is None:
                self._usd = UsdRecording(self._sim, self._many, part_of(self.path), self.fps)
            self._usd.add(self._sim)
            return
        picture = self._render()
        if self._writer is None:
            height, width = picture.shape[:2]
            self._writer = open_film(self.path, self.fps, (width, height))
        self._writer.add(picture)

    def _render(self) -> np.ndarray:
        camera = self._camera.turned(self._orbit * (self._sim.time - self._start))
        options: dict[str, Any] = {"samples": self._samples, "grow": self._kind != ".png"}
        return beside(take_picture(self._sim, camera, self._size, self._many, **options))

    def close(self) -> Path:
        """Finish the file and return its path; a second call does nothing.

        Raises:
            RecordingError: It cannot be written, or there are no frames.
        """
        if self._closed:
            return self.path
        self._closed = True
        if self._kind == ".png":
            write_picture(self.path, self._render())
            return self.path
        part = part_of(self.path)
        try:
            if self._replay is not None:
                with explained(self.path):
                    part.write_text(self._replay.as_html(), encoding="utf-8")
            elif self._writer is not None:
                self._writer.close()
            elif self._usd is not None:
                self._usd.close()
            else:
                raise ValueError(f"The recording {self.path} has no frames; call capture() or run().")
            with explained(self.path):
                part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)
        return self.path

    def discard(self) -> None:
        """Stop without a file."""
        self._closed = True
        if self._replay is not None:
            self._replay.close()
        if self._writer is not None:
            with suppress(Exception):  # it is thrown away
                self._writer.close()
        part_of(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or (issubclass(kind, KeyboardInterrupt) and self.frame_count):
            self.close()  # who stops a film wants to see it
        else:
            self.discard()


def beside(pictures: np.ndarray) -> np.ndarray:
    """Put pictures of several worlds side by side: [n, height, width, 3] to [rows, columns, 3]."""
    count, height, width, channels = pictures.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    full = np.full((rows * columns, height, width, channels), 255, np.uint8)
    full[:count] = pictures
    grid = full.reshape(rows, columns, height, width, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)
