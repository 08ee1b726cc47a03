"""Control sequences: drive targets and actuator inputs over time, played with zero-order hold in every world.

A JSON file holds an object, an NPZ file arrays of the same names:

    dt                 time between samples [s]
    joint_labels       one joint label for each column
    joint_target_pos   samples, one row for each instant [m or rad], in the order of joint_labels
    joint_target_vel   optional, of the same shape [m/s or rad/s]
    joint_q, joint_qd  optional initial values, in the order of joint_labels
    actuator_labels    one label of a MuJoCo actuator for each column of ctrl
    ctrl               its samples, in the actuators' units, as many as there are of joint_target_pos

Joints named here have one degree of freedom, and actuators read ctrl. Either of both kinds may be left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.types import Doubles, Floats
from ...model.model import SapControl, SapModel, check_time_step
from ...solver.model.motors import direct_actuators
from ..assets.sources.source_file import resolve_source
from ..text.bounds import COORDINATE, DURATION, SPEED
from ..text.document import SceneDocument
from ..text.errors import Complaint
from ..text.references import tell_nearest
from .objects import Control

MAX_SAMPLES = 50_000_000
"""Most numbers in a sequence."""
_JOINT_KEYS = ("joint_labels", "joint_target_pos", "joint_target_vel", "joint_q", "joint_qd")
_KEYS = ("dt", *_JOINT_KEYS, "actuator_labels", "ctrl")


@wp.kernel(enable_backward=False)
def hold_targets(
    time_in: Doubles,
    samples_in: wp.array2d[wp.float32],
    entry_in: wp.array2d[wp.int32],
    sample_dt: wp.float64,
    loop: int,
    target_out: Floats,
) -> None:
    """Write the sample of the present time into the targets of one world and one column."""
    world, column = wp.tid()
    count = samples_in.shape[0]
    # The half millionth absorbs the round-off of a time that is a sum of steps.
    index = int(wp.floor(time_in[0] / sample_dt + wp.float64(1.0e-6)))
    if loop != 0:
        index = index % count
    target_out[entry_in[world, column]] = samples_in[wp.min(index, count - 1), column]


@wp.kernel(enable_backward=False)
def advance_time(dt: wp.float64, time: Doubles) -> None:
    """Advance the clock of a sequence."""
    time[0] = time[0] + dt


@dataclass(eq=False)
class ControlSequence:
    """Targets over time for the joints of one model; lives on its device and can be captured in a graph."""

    dt: float
    """Time between samples [s]."""
    loop: bool
    """Whether the sequence starts again at its end."""
    joint_labels: list[str]
    """Joint of every column, as the file names it."""
    samples: dict[str, wp.array]
    """Samples by name of the control array they go to, shape [samples, columns]."""
    entries: dict[str, wp.array]
    """Entry of the control array for each world and column, by name of the array."""
    time: wp.array
    """Time since the start [s], one number on the device."""
    start: dict[str, np.ndarray]
    """Initial joint_q and joint_qd by column, where the file gives them."""
    actuator_labels: list[str] = field(default_factory=list)
    """Actuator of every column of ``ctrl``."""
    ctrl: wp.array | None = None
    """Control array for the inputs of actuators, that of the model."""

    @property
    def duration(self) -> float:
        """Time that the samples cover [s]."""
        return self.dt * next(iter(self.samples.values())).shape[0]

    def apply(self, control: SapControl, dt: float) -> None:
        """Set the targets for the step that begins now, and move the clock by ``dt`` [s]; can be captured."""
        dt = check_time_step(dt)
        self._hold(control)
        wp.launch(advance_time, dim=1, inputs=[dt], outputs=[self.time], device=self.time.device)

    def write(self, control: SapControl, time: float) -> None:
        """Set the clock and the targets that hold at ``time`` [s], which is not before the start."""
        if not 0.0 <= time < np.inf:
            raise ValueError(f"time is {time!r}; it must be a number of seconds from 0 on.")
        self.time.fill_(time)
        self._hold(control)

    def rewind(self) -> None:
        """Return to the start."""
        self.time.zero_()

    def set_start(self, model: SapModel) -> None:
        """Let every world of ``model`` start from the file's initial values, with its first targets."""
        arrays = {"joint_q": ("joint_target_pos", model.joint_q), "joint_qd": ("joint_target_vel", model.joint_qd)}
        for name, values in self.start.items():
            entries, array = arrays[name]
            numbers = array.numpy()
            numbers[self.entries[entries].numpy()] = values
            array.assign(numbers)
        self.rewind()
        self._hold(SapControl(joint_target_pos=model.joint_target_q, joint_target_vel=model.joint_target_qd))

    def _hold(self, control: SapControl) -> None:
        targets = [name for name in self.samples if name != "ctrl"]
        if any(getattr(control, name, None) is None for name in targets):
            raise TypeError(f"control is {control!r}; it must be a SapControl with {' and '.join(targets)}.")
        for name, samples in self.samples.items():
            entries = self.entries[name]
            wp.launch(
                hold_targets,
                dim=entries.shape,
                inputs=[self.time, samples, entries, self.dt, int(self.loop)],
                outputs=[self.ctrl if name == "ctrl" else getattr(control, name)],
                device=self.time.device,
            )


def read_control(control: Control, document: SceneDocument, model: SapModel) -> ControlSequence:
    """Read the file of a `control` block and look up its joints in every world of ``model``."""
    if control.source.xml is not None:
        raise Complaint("found a text; expected a JSON or NPZ file")
    file = resolve_source(control.source, document)
    data = _read_npz(file) if file.suffix.lower() == ".npz" else _read_json(file)
    for name in data:
        if name not in _KEYS:
            raise Complaint(f"{file.name}: unknown entry {name!r}; " + tell_nearest(name, _KEYS, "entries"))
    labels, actuators, samples, start, entries = [], [], {}, {}, {}
    if any(name in data for name in _JOINT_KEYS) or "ctrl" not in data:
        labels = _read_labels(file, data, "joint")
        samples = {name: _read_numbers(file, data, name, 2, len(labels)) for name in _JOINT_KEYS[1:3] if name in data}
        if "joint_target_pos" not in samples:
            raise Complaint(f"{file.name}: joint_target_pos is missing")
        start = {name: _read_numbers(file, data, name, 1, len(labels)) for name in _JOINT_KEYS[3:] if name in data}
        entries["joint_target_pos"], entries["joint_target_vel"] = _find_entries(model, labels, file)
    if "ctrl" in data or "actuator_labels" in data:
        actuators = _read_labels(file, data, "actuator")
        samples["ctrl"] = _read_numbers(file, data, "ctrl", 2, len(actuators))
        entries["ctrl"] = _find_actuators(model, actuators, file)
    dt = _read_dt(file, data)
    if len({len(rows) for rows in samples.values()}) > 1:
        raise Complaint(f"{file.name}: {' and '.join(samples)} have different numbers of samples")
    device = model.device
    return ControlSequence(
        dt=dt,
        loop=control.loop,
        joint_labels=labels,
        samples={name: wp.array(rows, dtype=wp.float32, device=device) for name, rows in samples.items()},
        entries={name: wp.array(indices, dtype=wp.int32, device=device) for name, indices in entries.items()},
        time=wp.zeros(1, dtype=wp.float64, device=device),
        start=start,
        actuator_labels=actuators,
        ctrl=model.mujoco.ctrl if actuators else None,
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also bytes that are no text, and integers of thousands of digits
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise Complaint(f"{file.name}{line}: not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise Complaint(f"{file.name}: expected an object with {', '.join(_KEYS)}")
    return data


def _read_npz(file: Path) -> dict[str, Any]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # zipfile and NumPy raise many kinds
        raise Complaint(f"{file.name}: not a readable NPZ file: {error}") from None


def _read_labels(file: Path, data: dict[str, Any], kind: str) -> list[str]:
    labels = data.get(f"{kind}_labels")
    labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise Complaint(f"{file.name}: {kind}_labels must be a list of {kind} labels")
    if len(set(labels)) < len(labels):
        raise Complaint(f"{file.name}: {kind}_labels names {'an' if kind == 'actuator' else 'a'} {kind} twice")
    return labels


def _read_dt(file: Path, data: dict[str, Any]) -> float:
    try:
        dt = float(np.asarray(data["dt"], dtype=np.float64))
    except (KeyError, TypeError, ValueError):
        dt = float("nan")
    if not (np.isfinite(dt) and dt > 0.0):
        raise Complaint(f"{file.name}: dt must be the time between samples, a positive number of seconds")
    return DURATION.check(dt)


def _read_numbers(file: Path, data: dict[str, Any], name: str, dimensions: int, columns: int) -> np.ndarray:
    try:
        values = np.asarray(data[name], dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != dimensions or values.shape[-1] != columns or values.size == 0:
        what = f"rows of {columns} numbers" if dimensions == 2 else f"{columns} numbers"
        of = "actuator" if name == "ctrl" else "joint"
        raise Complaint(f"{file.name}: {name} has shape {values.shape}; expected {what}, one for each {of} label")
    if values.size > MAX_SAMPLES or not np.isfinite(values).all():
        raise Complaint(f"{file.name}: {name} has too many numbers, or some that are not finite")
    if name == "ctrl":  # in units of its own, which the actuator's range bounds
        return values
    quantity = SPEED if name in ("joint_target_vel", "joint_qd") else COORDINATE
    largest = values.flat[np.abs(values).argmax()]
    if abs(largest) > quantity.largest:
        raise Complaint(f"{file.name}: {name} has the entry {largest:g}; {quantity.name} is {quantity.range}")
    return values


def _find_entries(model: SapModel, labels: list[str], file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinate and dof of every column in every world, each of shape [worlds, columns].

    Worlds are copies of one another: a joint has the same index in each of them.
    """
    first = model.joint_world_start.numpy()[: max(model.world_count, 1)]
    q_start, qd_start = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    of_label = _index_labels(model.joint_label[: int(model.joint_world_start.numpy()[1])])
    columns = [_find_one(label, of_label, "joint", file) for label in labels]
    for label, column in zip(labels, columns, strict=True):
        if qd_start[column + 1] - qd_start[column] != 1:
            raise Complaint(f"{file.name}: joint {label!r} has more or less than one degree of freedom")
    joints = first[:, None] + np.array(columns)
    return q_start[joints], qd_start[joints]


def _find_actuators(model: SapModel, labels: list[str], file: Path) -> np.ndarray:
    """Return the entry of ctrl of every column in every world, shape [worlds, columns]."""
    reads = direct_actuators(model.newton_model)
    if not len(reads):
        raise Complaint(f"{file.name}: ctrl is given, but no actuator of the scene reads it")
    worlds = np.maximum(model.mujoco.actuator_world.numpy(), 0)
    first = np.searchsorted(worlds, np.arange(max(model.world_count, 1)))
    of_label = _index_labels(list(model.mujoco.actuator_label)[: int(np.searchsorted(worlds, 1))])
    columns = [_find_one(label, of_label, "actuator", file) for label in labels]
    for label, column in zip(labels, columns, strict=True):
        if column not in reads:
            raise Complaint(
                f"{file.name}: actuator {label!r} follows joint targets; give joint_target_pos of its joint, or set "
                "ctrl_direct of the asset"
            )
    return first[:, None] + np.array(columns)


def _find_one(label: str, of_label: dict[str, list[int]], kind: str, file: Path) -> int:
    """Return the index that one label stands for within the first world."""
    hits = of_label.get(label, [])
    if len(hits) != 1:
        unknown = "is unknown; " + tell_nearest(label, of_label, f"{kind}s")
        reason = f"stands for {len(hits)} {kind}s" if hits else unknown
        raise Complaint(f"{file.name}: {kind} {label!r} {reason}")
    return hits[0]


def _index_labels(labels: list[str]) -> dict[str, list[int]]:
    """Map labels, and every end of them after a slash, to joints; a full label wins over an end."""
    ends: dict[str, list[int]] = {}
    whole: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        whole.setdefault(label, []).append(i)
        parts = label.split("/")
        for start in range(1, len(parts)):
            ends.setdefault("/".join(parts[start:]), []).append(i)
    return {**ends, **whole}
