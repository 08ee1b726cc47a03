"""A film of a policy at work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .progress import Episodes
from .training import Player

FPS, SIZE = 25, {"width": 480, "height": 360}


class FilmError(RuntimeError):
    """No film can be made here; the message says why."""


def film(
    place: Path,
    target: Path,
    *,
    seed: int = 0,
    seconds: float | None = None,
    begin: Callable[[float], None] = lambda seconds: None,
    **options: Any,
) -> None:
    """Film the first world of a policy.

    Args:
        place: Checkpoint or its folder.
        target: File that is written.
        seed: Of starts and commands.
        seconds: Length [s]; None is an episode, at most 15 s.
        begin: Told the length [s] before the first picture is taken.
        **options: Of the recorder: width, height, camera.

    Raises:
        FilmError: Something is missing that it needs.
    """
    player = Player(place, 1, seed)
    task = player.task
    make = getattr(task.sim, "recorder", None)
    if make is None:
        raise FilmError("this version takes no pictures.")
    every = max(1, round(1.0 / (FPS * task.control_dt)))
    settings: dict[str, Any] = {"fps": round(1.0 / (every * task.control_dt)), **SIZE, **task.film, **options}
    episodes = Episodes()
    steps = round((min(task.time_limit, 15.0) if seconds is None else seconds) / task.control_dt)
    try:
        begin(steps * task.control_dt)
        with make(target, **settings) as recorder:
            for step in range(steps):
                player.step(episodes)
                if step % every == 0:
                    recorder.capture()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise FilmError(str(error)) from error
