"""Scenes by name, and random poses to start them from, for tests, benchmarks and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .scene_files import find_scene_file

if TYPE_CHECKING:
    import newton
    import numpy as np

    from .. import SapLoadedScene

SHIFT = 0.002
"""Largest horizontal displacement of a floating body at a random start [m]."""


def build_scene(name: str, num_worlds: int = 1, device: Any = None) -> tuple[newton.Model, SapLoadedScene]:
    """Load a scene file or a shipped scene.

    Returns:
        The Newton model, and the scene with its time step, contact capacity and solver options.
    """
    from .. import load_sap_scene

    scene = load_sap_scene(find_scene_file(name), num_worlds=num_worlds, device=device)
    return scene.sap_model.newton_model, scene


def randomize_start(model: newton.Model, seed: int, tilt: float | None = None, shift: float = SHIFT) -> None:
    """Give every world of ``model`` its own initial pose, in place; the same seed gives the same poses.

    Args:
        model: Of one or many worlds.
        seed: Of the random numbers.
        tilt: Largest rotation of a floating body [rad]; None is any rotation for a body that floats alone in its world,
            and none where several do, because they may touch each other.
        shift: Largest horizontal displacement of a floating body [m].

    Hinges and slides that have limits go to the middle half of their range.
    """
    import numpy as np

    from ...solver.model.initial_poses import place_bodies

    rng = np.random.default_rng(seed)
    q = model.joint_q.numpy()
    _draw_positions(model, q, range(model.joint_count), rng, tilt, shift)
    model.joint_q.assign(q)
    place_bodies(model)


def randomize_worlds(model: newton.Model, seeds: Sequence[int | None]) -> None:
    """Give each world the initial pose that `randomize_start` gives a model of that world alone with its own seed.

    Args:
        model: Of as many worlds as there are seeds.
        seeds: One for each world; None leaves a world as it is.
    """
    import numpy as np

    from ...solver.model.initial_poses import place_bodies

    q = model.joint_q.numpy()
    starts = model.joint_world_start.numpy()
    for world, seed in enumerate(seeds):
        if seed is not None:
            joints = range(int(starts[world]), int(starts[world + 1]))
            _draw_positions(model, q, joints, np.random.default_rng(seed), None, SHIFT)
    model.joint_q.assign(q)
    place_bodies(model)


def _draw_positions(
    model: newton.Model, q: np.ndarray, joints: range, rng: np.random.Generator, tilt: float | None, shift: float
) -> None:
    """Draw random positions of some joints into ``q``; see `randomize_start`."""
    import newton
    import numpy as np

    from ...model.joint_types import FREE, SCALAR_JOINTS

    kinds, starts = model.joint_type.numpy(), model.joint_q_start.numpy()
    dof_starts = model.joint_qd_start.numpy()
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    alone = np.count_nonzero(kinds == int(FREE)) <= max(model.world_count, 1)
    if tilt is None:
        tilt = np.pi if alone else 0.0
    for joint in joints:
        kind, start = kinds[joint], starts[joint]
        if kind == int(FREE):
            q[start : start + 2] += rng.uniform(-shift, shift, 2)
            if tilt > 0.0:
                q[start + 3 : start + 7] = _random_rotation(rng, tilt)
        elif kind in SCALAR_JOINTS:
            dofs = slice(dof_starts[joint], dof_starts[joint + 1])
            limited = (lower[dofs] > -newton.MAXVAL) & (upper[dofs] < newton.MAXVAL)
            middle, reach = 0.5 * (lower[dofs] + upper[dofs]), 0.5 * (upper[dofs] - lower[dofs])
            random = middle + 0.5 * reach * rng.uniform(-1.0, 1.0, len(middle))
            entries = slice(start, starts[joint + 1])
            q[entries] = np.where(limited, random, q[entries])


def _random_rotation(rng: np.random.Generator, largest: float) -> np.ndarray:
    """Return the unit quaternion xyzw of a turn by up to ``largest`` [rad] about a random axis."""
    import numpy as np

    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    angle = rng.uniform(0.0, largest)
    return np.append(np.sin(0.5 * angle) * axis, np.cos(0.5 * angle))
