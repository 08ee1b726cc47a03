"""Rebuild a simulation from a checkpoint: the model, the options that it had, then its state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .checkpoint.checkpoint import SimulationState, get_state, set_state, unstored
from .checkpoint.file import CheckpointError

if TYPE_CHECKING:
    from .simulation import Simulation

S = TypeVar("S", bound="Simulation")


def load_simulation(
    cls: type[S],
    source: SimulationState | str | os.PathLike[str],
    model: Any = None,
    scene: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    **given: Any,
) -> S:
    """Implement `Simulation.load`; ``given`` are its other arguments, None for what the checkpoint says."""
    state = source if isinstance(source, SimulationState) else SimulationState.read(source)
    if model is not None and scene is not None:
        raise ValueError("model and scene are both given; one of them makes the worlds.")
    options = _options(state.meta, {name: value for name, value in given.items() if value is not None})
    if model is not None:
        options.pop("device")
        sim = cls(model, dt=state.meta["clock"]["dt"], **options)
    else:
        sim = _from_scene(cls, state.meta, scene, options)
    set_state(sim, state)
    return sim


def _from_scene(cls: type[S], meta: Mapping[str, Any], scene: Any, options: dict[str, Any]) -> S:
    origin = meta["origin"]
    if scene is None and origin is None:
        raise CheckpointError(
            "The simulation was made of a model, which a checkpoint does not hold: build it again and pass it, "
            "Simulation.load(path, model=model)."
        )
    origin = {"num_worlds": meta["worlds"], "confine": None, **(origin or {})}
    if scene is None:
        scene = origin["scene"]
        missing = list(unstored(scene, "scene"))
        if missing:
            raise CheckpointError(f"The checkpoint could not hold {', '.join(missing)}; pass the scene: scene=...")
        if isinstance(scene, str) and os.path.isabs(scene) and not os.path.isfile(scene):
            raise CheckpointError(f"The scene of the checkpoint, {scene}, is gone; say where it is now: scene=...")
    worlds = {"num_worlds": origin["num_worlds"], "confine": origin["confine"]}
    return cast(S, cls.from_scene(scene, dt=meta["clock"]["dt"], **worlds, **options))


def _options(meta: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the constructor, from the checkpoint or as they are given now."""
    stored = dict(meta["options"])
    solver = stored.pop("solver_options")
    options: dict[str, Any] = {**solver, **stored, "precision": meta["precision"]}
    options |= {"device": meta["written_by"]["device"], "notes": False, **given}
    missing = list(unstored(options))
    if missing:
        raise CheckpointError(f"The checkpoint could not hold {', '.join(missing)}; pass it to load.")
    return options


def reduce_simulation(sim: Simulation) -> tuple[Any, ...]:
    """Tell `pickle` and `copy.deepcopy` how to make a copy: from the scene again, and the state.

    Raises:
        TypeError: The simulation was made of a model.
    """
    if sim._origin is None:
        raise TypeError(
            "A Simulation of a newton.Model cannot be pickled or copied, because the model cannot: it holds meshes and "
            "memory of a device. Keep sim.get_state(), which can, and give it to a simulation of a model built again: "
            "Simulation.load(state, model=model)."
        )
    return load_simulation, (type(sim), get_state(sim))
