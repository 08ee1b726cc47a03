"""Exact checkpoints: everything that decides the future of a simulation, as arrays on the host and a description.

| saved | why |
| --- | --- |
| state and control of all worlds | in their own precision |
| what the solver remembers of the last step | whether a world's energy grows without work is judged over steps |
| clock, time step, the sample of the control sequence | when the next sample is written |
| the model's arrays | parameters, gravity and initial states may have been changed |
| random streams | the next draw is the next one of the stream |
| status and statistics | so that they go on counting |

Contacts are found anew by the next step. Callbacks and a control sequence of the user's own are code, and not saved.
Arrays are those of all worlds, whatever the number of threads was.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import warp as wp

from ...core.faq import see
from ...core.runtime.capture import launches
from ..parameters import MASSES
from ..random.randomizer import restore as restore_randomization
from .file import CheckpointError, read_checkpoint, write_checkpoint
from .fingerprint import describe_model, digest, model_differences, saved_arrays

if TYPE_CHECKING:
    from ..core import SimulationCore

_READ_AFRESH = {"gravity", "joint_q", "joint_qd", "body_q", "body_qd", "joint_f", "joint_act", "joint_armature"}
_READ_AFRESH |= {"joint_damping", "joint_friction", "joint_velocity_limit", "joint_effort_limit", "mujoco:ctrl"}
_READ_AFRESH |= {"sap:shape_material_tau", *(f"joint_target_{name}" for name in ("q", "qd", "ke", "kd"))}
_READ_AFRESH |= {f"joint_limit_{name}" for name in ("lower", "upper", "ke", "kd")}
_READ_AFRESH |= {f"shape_material_{name}" for name in ("ke", "kd", "mu")}
_READ_AFRESH |= {"shape_scale", "shape_collision_radius"}
_READ_AFRESH |= {f"shape_collision_aabb_{name}" for name in ("lower", "upper")}
"""Arrays of a model that every step or reset reads, so that nobody has to be told of a change."""


@dataclass(frozen=True, eq=False)
class SimulationState:
    """A complete moment of a simulation on the host, made by `Simulation.get_state` and restored by `set_state`.

    It can be pickled, kept in a list, and written to a file.
    """

    meta: Mapping[str, Any]
    """Description of the simulation that JSON can hold: clock, options, origin, model."""
    arrays: Mapping[str, np.ndarray]
    """Values by name, all worlds one after another: ``state/joint_q`` [m or rad] and so on."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote.

        Raises:
            FileNotFoundError: There is no such file.
            CheckpointError: It is no checkpoint, of a later version, cut off or changed.
        """
        return cls(*read_checkpoint(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file; an existing file is replaced when everything is on the disk."""
        write_checkpoint(path, self.meta, self.arrays)

    @property
    def time(self) -> float:
        """Time since the start or the last reset of all worlds [s]."""
        clock = self.meta["clock"]
        return float(clock["time0"] + (clock["steps"] - clock["steps0"]) * clock["dt"])

    @property
    def step_count(self) -> int:
        """Steps since the start or the last reset of all worlds."""
        return int(self.meta["clock"]["steps"])

    @property
    def world_count(self) -> int:
        """Number of worlds."""
        return int(self.meta["worlds"])

    def __repr__(self) -> str:
        size = sum(array.nbytes for array in self.arrays.values())
        name = self.meta["options"]["name"] or "a model"
        return f"<SimulationState of {name}: {self.world_count} worlds at {self.time:g} s, {size / 1e6:.3g} MB>"


# Taking it.


def get_state(sim: SimulationCore) -> SimulationState:
    """Implement `Simulation.get_state`."""
    with sim._team.lock:
        if sim._team.torn:
            raise RuntimeError("An interruption left the worlds at different steps; there is no state to save.")
        arrays = {name: array.numpy().copy() for name, array in _whole_arrays(sim).items()}
        for name, parts in _shared_arrays(sim).items():
            arrays[name] = np.concatenate([part.numpy() for part in parts])
        for name, parts in _statistics(sim).items():
            values = np.stack([part.numpy() for part in parts])
            arrays[name] = values.max(axis=0) if name.endswith("maxima") else values.sum(axis=0)
        if sim._randomizer is not None:
            arrays |= {f"random/{name}": array.numpy().copy() for name, array in sim._randomizer.arrays.items()}
        first = sim.shards[0].solver.boundary
        arrays |= {"solver/time": first.time.numpy().copy(), "solver/frame": first.frame.numpy().copy()}
        return SimulationState(_describe(sim), arrays)


def _describe(sim: SimulationCore) -> dict[str, Any]:
    given = sim._given
    return {
        "written_by": _versions() | {"device": str(sim.device)},
        "worlds": sim.world_count,
        "clock": {"dt": sim._dt, "steps": sim._steps, "steps0": sim._steps0, "time0": sim._time0},
        "sequence": sim._schedule.position(),
        "precision": sim.precision,
        "solver": asdict(sim.shards[0].solver.options),
        "options": {name: _to_json(value) for name, value in given.items()}
        | {"threads": sim.threads, "name": sim.name, "strict": sim._health.strict},
        "origin": sim._origin,
        "model": describe_model(sim.model),
        "began": dict(sim._began),
        "randomization": None if sim._randomizer is None else sim._randomizer.describe(),
        "owns_ground": sim._parameters.owns_ground,
    }


def _versions() -> dict[str, str]:
    found = {"machine": platform.machine()}
    for package in ("sap-warp", "newton", "warp-lang"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


_NOT_STORED = "not stored: "


def _to_json(value: Any) -> Any:
    """Return a value that JSON can hold, or a text that says that it was left out, see `unstored`."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return f"{_NOT_STORED}{type(value).__name__}"


def unstored(value: Any, name: str = "") -> Iterator[str]:
    """Return the path at which `_to_json` had to leave something out."""
    if isinstance(value, str) and value.startswith(_NOT_STORED):
        yield f"{name} ({value.removeprefix(_NOT_STORED)})"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from unstored(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for item in value:
            yield from unstored(item, name)


def scene_origin(scene: Any, path: Any, num_worlds: int | None, confine: bool | None) -> dict[str, Any]:
    """Return what `Simulation.load` needs to load the scene again.

    Args:
        scene: As the user gave it: name, path or content.
        path: The file, None for a content.
        num_worlds: Copies, None for the scene's.
        confine: See `Simulation.from_scene`.
    """
    from ...scene.shipped.scene_files import shipped_scenes

    if path is not None:
        shipped = shipped_scenes().get(path.stem)
        is_shipped = shipped is not None and shipped.resolve() == path.resolve()
        scene = path.stem if is_shipped else str(path.resolve())
    return {"scene": _to_json(scene), "num_worlds": num_worlds, "confine": confine}


# Putting it back.


def set_state(sim: SimulationCore, state: SimulationState | str | os.PathLike[str]) -> None:
    """Implement `Simulation.set_state`."""
    if isinstance(state, (str, os.PathLike)):
        state = SimulationState.read(state)
    if not isinstance(state, SimulationState):
        raise TypeError(f"state is a {type(state).__name__}; expected what get_state() returns, or the path of a file.")
    with sim._team.lock:
        _check(sim, state)
        _restore(sim, state)


def _check(sim: SimulationCore, state: SimulationState) -> None:
    """Refuse a state that cannot be continued exactly.

    Raises:
        CheckpointError: Model, precision, options or control sequence are others.
    """
    meta, arrays = state.meta, state.arrays
    values = {name.removeprefix("model/"): array for name, array in arrays.items() if name.startswith("model/")}
    found = model_differences(meta["model"], meta["began"], values, sim.model, sim._began)
    if found:
        listed = "".join(f"\n- {line}" for line in found[:8]) + (f"\n- and {len(found) - 8} more" if found[8:] else "")
        raise CheckpointError(
            f"The checkpoint belongs to another model:{listed}\nBuild the model that it was saved with."
            + see("another-model")
        )
    here: dict[str, Any] = {"precision": sim.precision, **asdict(sim.shards[0].solver.options)}
    saved = {"precision": meta["precision"], **meta["solver"]}
    for name in ("pipeline_options", "rigid_contact_max"):
        here[name], saved[name] = _to_json(sim._given[name]), meta["options"][name]
    others = [
        f"{name} is {here.get(name)!r} here and {saved.get(name)!r} there"
        for name in here | saved
        if here.get(name) != saved.get(name)
    ]
    if others:
        raise CheckpointError(
            f"The checkpoint was saved with other options: {'; '.join(others)}. Build the simulation with the same "
            "ones, or let Simulation.load do so; to go on with others, copy the views (sim.joint_q and so on) instead."
            + see("another-model")
        )
    position, now = meta["sequence"], sim._schedule.position()
    texts = ["none" if one is None else f"one that holds a sample for {one['dt']:g} s" for one in (position, now)]
    if texts[0] != texts[1]:
        raise CheckpointError(
            f"The checkpoint's simulation had a control sequence, {texts[0]}; this one has {texts[1]}. Pass the same "
            "as control_sequence."
        )
    expected = {name: array.numpy().shape for name, array in _whole_arrays(sim).items()}
    wrong = [name for name, shape in expected.items() if name not in arrays or arrays[name].shape != shape]
    if wrong:
        raise CheckpointError(f"The checkpoint has no {wrong[0]} of shape {expected[wrong[0]]}.")
    _warn_if_written_elsewhere(meta["written_by"], _versions() | {"device": str(sim.device)})


def _warn_if_written_elsewhere(there: Mapping[str, str], here: Mapping[str, str]) -> None:
    others = [f"{name} {there[name]} (here {here[name]})" for name in here if there.get(name, here[name]) != here[name]]
    if others:
        text = (
            f"The checkpoint was written with {', '.join(others)}: the future may differ from the saved run's by bits."
        )
        warnings.warn(text, RuntimeWarning, stacklevel=5)


@launches
def _restore(sim: SimulationCore, state: SimulationState) -> None:
    meta, arrays = state.meta, state.arrays
    changed = set()
    for name, array in saved_arrays(sim.model).items():
        values = arrays[f"model/{name}"]
        if digest(array.numpy()) != digest(values):
            array.assign(values)
            changed.add(name)
    if changed - _READ_AFRESH - {*MASSES, "body_inv_mass", "body_inv_inertia"}:
        sim.notify_model_changed()
    elif changed & set(MASSES):
        sim._parameters.take_masses()
    sim._parameters.ground_mu.assign(arrays["parameters/ground_mu"])
    sim._parameters.owns_ground = bool(meta["owns_ground"])
    sim._parameters.accept()
    for name, array in _whole_arrays(sim).items():
        if not name.startswith("model/"):
            array.assign(arrays[name])
    for name, parts in _shared_arrays(sim).items():
        _assign_parts(parts, arrays[name])
    for name, parts in _statistics(sim).items():
        for i, part in enumerate(parts):  # sums and maxima of all are those of the first one then
            part.assign(arrays[name] if i == 0 else np.zeros_like(arrays[name]))
    for shard in sim.shards:
        shard.solver.boundary.time.assign(arrays["solver/time"])
        shard.solver.boundary.frame.assign(arrays["solver/frame"])
    restore_randomization(sim, meta["randomization"], arrays)
    clock = meta["clock"]
    if sim._dt != clock["dt"]:
        sim.dt = clock["dt"]
    sim._steps, sim._steps0, sim._time0 = clock["steps"], clock["steps0"], clock["time0"]
    sim._schedule.move_to(meta["sequence"])
    sim._team.torn = False
    sim._health.restart()


def _assign_parts(parts: list[wp.array], values: np.ndarray) -> None:
    start = 0
    for part in parts:
        part.assign(values[start : start + len(part)])
        start += len(part)


# What is where.


def _whole_arrays(sim: SimulationCore) -> dict[str, wp.array]:
    """Return the arrays of all worlds: state, control, model."""
    found = {f"model/{name}": array for name, array in saved_arrays(sim.model).items()}
    found["parameters/ground_mu"] = sim._parameters.ground_mu
    for owner, buffers in (("state", sim.state), ("control", sim.control)):
        values = {field.name: getattr(buffers, field.name) for field in fields(buffers)}
        found |= {f"{owner}/{name}": value for name, value in values.items() if isinstance(value, wp.array)}
    return found


def _shared_arrays(sim: SimulationCore) -> dict[str, list[wp.array]]:
    """Return the arrays of which each shard holds those of its own worlds."""
    solvers = [shard.solver for shard in sim.shards]
    found = {f"solver/{name}": [solver.memory[name] for solver in solvers] for name in solvers[0].memory}
    found |= {f"solver/{name}": [solver.outcome[name] for solver in solvers] for name in solvers[0].outcome}
    return found


def _statistics(sim: SimulationCore) -> dict[str, list[wp.array]]:
    """Return the counters of each shard."""
    names = ("iterations", "trials", "totals", "maxima")
    return {f"statistics/{name}": [getattr(shard.counter, name) for shard in sim.shards] for name in names}
