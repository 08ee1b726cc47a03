"""Page in the browser that shows a simulation while it runs, and lets people act on it."""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from .clock import Clock
from .drawing.stage import Stage, find_ground
from .options import ViewerOptions, make_options
from .panels.controls import Controls
from .panels.drag import Drag
from .server import address_of, open_browser, open_server, set_camera, set_up

_MOST_WAITING = 1000
"""Most clicks and moves of the mouse that wait for the simulation; more are dropped."""


class Viewer:
    """Page that shows a simulation. One thread steps and draws; pages only ask for what is offered.

    Example:
        ```python
        viewer = sim.view(block=False)  # a thread steps the simulation; viewer.url is the page
        ...
        viewer.close()
        ```
    """

    def __init__(self, sim: Any, **options: Any):
        """Start the server and send the scene; nothing moves before `run` or `start`.

        Args:
            sim: A `Simulation`.
            **options: See `ViewerOptions`.

        Raises:
            ViewerError: viser is not installed, or the address cannot be used.
        """
        self.options: ViewerOptions = make_options(sim.world_count, **options)
        self.sim = sim
        self._server = open_server(self.options, sim.name or "simulation")
        try:
            self._set_up()
        except BaseException:
            self._stop_server()
            raise

    def _set_up(self) -> None:
        sim, options = self.sim, self.options
        self.url = address_of(self._server, options)
        """Where a browser on this computer finds the page."""
        self.is_running = not options.paused
        """Whether time goes on; False while paused."""
        self.is_waiting = options.wait
        """Whether time stands still until a page is open."""
        self.step_seconds = 0.0
        """Time spent on steps so far [s]."""
        self.steps_taken = 0
        """Steps taken while the page was shown; resets do not take them back."""
        self.frame_count = 0
        """Frames sent so far."""
        self.clock = Clock(options.viewer_fps or 30.0, options.speed, options.substeps_per_frame)
        self.drag = Drag(sim)
        self._requests: queue.Queue[Callable[[], None]] = queue.Queue(_MOST_WAITING)
        self._closing = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._extra_steps = 0
        self._changed = True
        self._end_step: int | None = None
        self.stage = Stage(self._server, sim, options.worlds, options.shadows)
        set_up(self._server, *self.stage.bounds(), find_ground(sim.model))
        self._controls = Controls(self, self._server)
        self.stage.on_drag(self._dragged)
        self._server.on_client_connect(lambda client: self.ask(self._stop_waiting))
        self._server.on_client_disconnect(lambda client: self.ask(self.drag.end))

    # From other threads.

    def ask(self, what: Callable[[], None]) -> None:
        """Let the thread that steps call ``what`` before the next frame; dropped if a thousand requests wait."""
        with suppress(queue.Full):
            self._requests.put_nowait(what)

    def play(self) -> None:
        """Let the simulation advance."""
        self.is_running, self.is_waiting = True, False
        self.ask(self.clock.restart)

    def pause(self) -> None:
        """Stop the simulation."""
        self.is_running = False

    def step(self, count: int = 1) -> None:
        """Pause, and take ``count`` steps."""
        self.is_running = False
        self.ask(lambda: self._add_steps(count))

    def reset(self) -> None:
        """Put all worlds back to where they started."""
        self.ask(self._reset)

    def let_mouse_pull(self, on: bool) -> None:
        """Let the mouse pull bodies, or turn the view wherever it is."""
        self.drag.end()
        self.stage.drop_drag()
        if on:
            self.stage.on_drag(self._dragged)

    def frame_scene(self, client: Any = None) -> None:
        """Move the camera of a page, or those of all pages, so that everything is in view."""
        low, high = self.stage.bounds()
        for each in [client] if client is not None else self._server.get_clients().values():
            set_camera(each.camera, low, high)

    def _stop_waiting(self) -> None:
        if self.is_waiting:
            self.is_waiting = False
            self.clock.restart()

    def _add_steps(self, count: int) -> None:
        self._extra_steps += count

    def _reset(self) -> None:
        self.drag.end()
        self.sim.reset()
        self._changed = True

    def _dragged(self, body: int, world: int, event: Any) -> None:
        """Handle an event of the mouse that drags a body."""
        offset = self.stage.offsets[world]
        if event.phase == "start":
            point = np.array(event.start_position, np.float64) - offset
            self.ask(lambda: self.drag.start(body, world, point))
        elif event.phase == "update":
            target = np.array(event.end_position, np.float64) - offset
            self.ask(lambda: self.drag.move(target))
        else:
            self.ask(self.drag.end)

    # The loop.

    def run(self, duration: float | None = None) -> None:
        """Step and draw until the viewer is closed, Ctrl-C, or ``duration`` simulated seconds have been taken.

        What goes wrong on the page is printed and does not end the simulation; what goes wrong in it does.
        """
        dt = self.sim.dt
        self._end_step = None if duration is None else self.steps_taken + max(1, round(duration / dt))
        self.sim.prepare()
        self.clock.restart()
        try:
            while not self._closing.is_set() and not self._is_done():
                self._frame()
                self._closing.wait(self.clock.wait_time())
        except KeyboardInterrupt:
            pass
        finally:
            with suppress(Exception):
                self.drag.end()
            self.close()

    def start(self) -> Viewer:
        """Run in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(target=self.run, name="sap-warp-viewer", daemon=True)
            self._thread.start()
        return self

    def wait(self, timeout: float | None = None) -> None:
        """Wait until a viewer that was started is closed."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _is_done(self) -> bool:
        return self._end_step is not None and self.steps_taken >= self._end_step

    def _frame(self) -> None:
        self._answer()
        before = self.sim.step_count
        self._advance()
        if self._changed or self.sim.step_count != before or self.drag.is_active:
            self._draw()
        self._guard(self._controls.update)

    def _answer(self) -> None:
        """Run the requests of pages."""
        for _ in range(_MOST_WAITING):
            try:
                what = self._requests.get_nowait()
            except queue.Empty:
                return
            self._changed = True
            self._guard(what)

    def _advance(self) -> None:
        count = self.clock.steps(self.sim.dt) if self.is_running and not self.is_waiting else 0
        count, self._extra_steps = count + self._extra_steps, 0
        if self._end_step is not None:
            count = min(count, self._end_step - self.steps_taken)
        if count <= 0:
            return
        start = time.perf_counter()
        if self.drag.is_active:  # the spring must know where the body is, or it would shake
            for _ in range(count):
                self.drag.apply()
                self.sim.step(1)
        else:
            self.sim.step(count)
        self.sim.synchronize()
        elapsed = time.perf_counter() - start
        self.clock.took(count, elapsed)
        self.step_seconds += elapsed
        self.steps_taken += count

    def _draw(self) -> None:
        if not self._server.get_clients() and not self._changed:
            return
        self._changed = False
        self._guard(self._send_frame)

    def _send_frame(self) -> None:
        """Send a frame; what a slow page has not fetched yet is replaced, because messages keep their names."""
        body_q = self.stage.body_q()
        with self._server.atomic():
            self.stage.update(body_q)
            self._controls.draw(body_q)
        self.frame_count += 1

    def _guard(self, what: Callable[[], None]) -> None:
        """Keep a page that went away, or a bug in what it shows, from ending the simulation."""
        try:
            what()
        except Exception as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            print(f"viewer: {text}", file=sys.stderr)

    # Life.

    def show_browser(self) -> bool:
        """Open a browser; False if there is none that could be opened."""
        return open_browser(self.url)

    def close(self) -> None:
        """Stop the loop and the server; a second call does nothing."""
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10.0)
        if not self._closed:
            self._closed = True
            self._stop_server()

    def _stop_server(self) -> None:
        import io
        from contextlib import redirect_stdout

        with suppress(Exception), redirect_stdout(io.StringIO()):
            self._server.stop()

    @property
    def is_closed(self) -> bool:
        """True if the page is gone."""
        return self._closed

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" style="width: 100%; height: 600px; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<Viewer at {self.url}{', closed' if self._closed else ''}>"
