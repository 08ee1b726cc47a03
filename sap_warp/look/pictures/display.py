"""Choose the model that is drawn in pictures of a simulation, and the worlds."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import newton
import numpy as np

from .cameras import as_camera
from .studio import Studio


def make_studio(model: newton.Model, load_display: Callable[[], newton.Model] | None) -> Studio:
    """Make a studio for ``model``; it draws what ``load_display`` loads, if that is a world with the same bodies."""
    if load_display is None:
        return Studio(model)
    try:
        display = load_display()
    except Exception as error:  # a picture with plainer shapes is better than none
        warnings.warn(f"Pictures show what collides, because shapes for the eye do not load: {error}", stacklevel=3)
        return Studio(model)
    names = [label.rsplit("/", 1)[-1] for label in model.body_label]
    shown = [label.rsplit("/", 1)[-1] for label in display.body_label]
    if names != shown * max(int(model.world_count), 1):
        warnings.warn(
            "Pictures show what collides, because with shapes for the eye there are other bodies.", stacklevel=3
        )
        return Studio(model)
    return Studio(model, display)


def choose_worlds(given: Any, count: int) -> list[int]:
    """Return numbers of worlds from what a user may give.

    Raises:
        TypeError: It is no whole number and no sequence of them.
        ValueError: There is no such world, or none is asked for.
    """
    many = [given] if isinstance(given, (int, np.integer)) else given
    try:
        chosen = [operator.index(world) for world in many]
    except TypeError:
        raise TypeError(f"worlds is {given!r}; it must be the number of a world, or several.") from None
    if not chosen or any(not 0 <= world < count for world in chosen):
        raise ValueError(f"worlds is {given!r}; there are worlds 0 to {count - 1}.")
    return chosen


def take_picture(
    sim: Any, camera: Any, size: tuple[int, int], worlds: Any, *, grow: bool = False, **options: Any
) -> np.ndarray:
    """Implement `Simulation.render`, with ``grow`` of `Studio.render`."""
    chosen = choose_worlds(worlds, sim.world_count)
    view = as_camera(camera)
    with sim._team.lock:
        pictures = sim.studio.render(sim.state.body_q, view, chosen, size, grow=grow, **options)
    return pictures[0] if isinstance(worlds, (int, np.integer)) else pictures
