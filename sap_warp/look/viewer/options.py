"""Options of a page: where it is served, and how fast and how much of the simulation it shows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

MOST_WORLDS = 1024
"""Most worlds that a page shows by default: a browser draws some ten thousand bodies."""


class ViewerError(RuntimeError):
    """A page cannot be served; the message says why and what to do."""


@dataclass(frozen=True)
class ViewerOptions:
    """Options of `Simulation.view`."""

    host: str = "127.0.0.1"
    """Address to listen at. The default is this computer alone; ``"0.0.0.0"`` lets everybody in the network in."""
    port: int = 8080
    """Port to listen at; 0 takes one that is free."""
    viewer_fps: float | None = None
    """Frames sent to the page per second; None is 30, and 12 for more than 64 worlds: where there is no graphics card,
    what a page gets and does not draw still costs it time."""
    substeps_per_frame: int | None = None
    """Steps from one frame to the next; None follows from ``speed``, which has no meaning otherwise."""
    speed: float = 1.0
    """Simulated seconds per second; infinite is as fast as it goes."""
    worlds: tuple[int, ...] | None = None
    """Worlds to show; None is all of them, up to `MOST_WORLDS`."""
    paused: bool = False
    """Whether the page waits for Play."""
    wait: bool = False
    """Whether time stands still until a page is open, so that nobody misses the beginning."""
    shadows: bool | None = None
    """Whether bodies cast shadows, which is most of the work where there is no graphics card; None is for up to 16
    worlds."""
    open_browser: bool = False
    """Whether a browser is opened."""


FEW_WORLDS = 64
"""Most worlds that are drawn 30 times per second."""


def make_options(world_count: int, worlds: Any = None, **given: Any) -> ViewerOptions:
    """Check the options that a user gave.

    Raises:
        TypeError: A value is of the wrong kind, or there is no such option.
        ValueError: A value is not possible.
    """
    unknown = sorted(set(given) - set(ViewerOptions.__dataclass_fields__))
    if unknown:
        known = ", ".join(ViewerOptions.__dataclass_fields__)
        raise TypeError(f"view() has no option {unknown[0]!r}; it has {known}.")
    options = ViewerOptions(worlds=_check_worlds(worlds, world_count), **given)
    if not isinstance(options.host, str) or not options.host:
        raise TypeError(f"host is {options.host!r}; it must be the name or address to listen at.")
    if type(options.port) is not int or not 0 <= options.port <= 65535:
        raise ValueError(f"port is {options.port!r}; it must be a whole number from 0 (any that is free) to 65535.")
    if options.viewer_fps is None:
        shown = world_count if options.worlds is None else len(options.worlds)
        options = replace(options, viewer_fps=30.0 if shown <= FEW_WORLDS else 12.0)
    _check_positive("viewer_fps", options.viewer_fps, 240.0)
    _check_positive("speed", options.speed, math.inf)
    steps = options.substeps_per_frame
    if steps is not None and (type(steps) is not int or steps < 1):
        raise ValueError(f"substeps_per_frame is {steps!r}; it must be a whole number from 1 on, or None.")
    return options


def _check_positive(name: str, value: Any, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}; it must be a number.")
    if not 0.0 < value <= most:
        upper = "" if math.isinf(most) else f" and at most {most:g}"
        raise ValueError(f"{name} is {value!r}; it must be positive{upper}.")


def _check_worlds(worlds: Iterable[int] | int | None, count: int) -> tuple[int, ...] | None:
    if worlds is None:
        return None
    try:
        chosen = (int(worlds),) if isinstance(worlds, int) else tuple(int(world) for world in worlds)
    except (TypeError, ValueError):
        raise TypeError(f"worlds is {worlds!r}; it must be numbers of worlds, or None for all.") from None
    if not chosen:
        raise ValueError("worlds is empty; name at least one world, or None for all.")
    wrong = [world for world in chosen if not 0 <= world < count]
    if wrong:
        raise ValueError(f"worlds has {wrong[0]}; there are worlds 0 to {count - 1}.")
    return tuple(sorted(set(chosen)))
