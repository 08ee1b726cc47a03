"""Fingerprint of a model: tells whether a checkpoint belongs to it, and what differs if not.

A simulation may change its model: parameters of worlds, gravity, initial states. So a model is known by two things:
the values that its arrays had when the simulation was made, kept as digests, and those that they have now. A checkpoint
fits a simulation if each array agrees with it in one of the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import newton
import numpy as np
import warp as wp

from ..run.split import model_attributes

_NOT_PHYSICS = {"shape_source_ptr", "shape_color", "shape_opacity"}
"""Arrays that do not decide the motion: addresses, and what only renderers read."""
_INPUTS = {"mujoco:ctrl"}
"""Arrays of a model that are inputs of the steps and say nothing about which model it is."""
_COUNTS = ("world_count", "body_count", "joint_count", "joint_dof_count", "joint_coord_count", "shape_count")
_LABELS = ("body_label", "joint_label", "shape_label")


def saved_arrays(model: newton.Model) -> dict[str, wp.array]:
    """Return, by name, the model's arrays that a simulation reads or that its resets return to."""
    arrays = {"gravity": model.gravity}
    for name, _, value in model_attributes(model):
        if isinstance(value, wp.array) and value.size and name not in _NOT_PHYSICS and not name.startswith("_"):
            arrays[name] = value
    return arrays


def array_digests(model: newton.Model) -> dict[str, str]:
    """Return a digest of each of the `saved_arrays`."""
    return {name: digest(array.numpy()) for name, array in saved_arrays(model).items()}


def digest(values: np.ndarray) -> str:
    """Return a digest of the bits of an array."""
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=8).hexdigest()


def describe_model(model: newton.Model) -> dict[str, Any]:
    """Return counts, and digests of labels, meshes and heightfields, which no simulation changes."""
    described: dict[str, Any] = {name: int(getattr(model, name)) for name in _COUNTS}
    for name in _LABELS:
        described[name] = hashlib.blake2b("\n".join(getattr(model, name)).encode(), digest_size=8).hexdigest()
    described["meshes"] = _digest_meshes(model)
    found = [getattr(model, name, None) for name in ("heightfield_data", "heightfield_elevations")]
    present = [array.numpy().tobytes() for array in found if isinstance(array, wp.array) and array.size]
    described["heightfields"] = hashlib.blake2b(b"".join(present), digest_size=8).hexdigest()
    return described


def _digest_meshes(model: newton.Model) -> str:
    """Digest vertices and triangles of all shapes; shared ones are read once."""
    known: dict[int, bytes] = {}
    total = hashlib.blake2b(digest_size=8)
    for source in model.shape_source:
        if source is not None and id(source) not in known:
            parts = [getattr(source, name, None) for name in ("vertices", "indices")]
            data = b"".join(np.ascontiguousarray(part).tobytes() for part in parts if part is not None)
            known[id(source)] = hashlib.blake2b(data, digest_size=8).digest()
        total.update(b"-" if source is None else known[id(source)])
    return total.hexdigest()


def model_differences(
    described: Mapping[str, Any],
    began: Mapping[str, str],
    values: Mapping[str, np.ndarray],
    model: newton.Model,
    model_began: Mapping[str, str],
) -> list[str]:
    """List what differs between a checkpoint's model and ``model``, one line each; empty if they are equal.

    Args:
        described: The checkpoint's `describe_model`.
        began: Digests of its arrays when its simulation was made.
        values: Its arrays when it was saved.
        model: The other one.
        model_began: Digests of its arrays when its simulation was made.
    """
    found = list(_describe_differences(described, describe_model(model)))
    if found:  # arrays of other lengths would all be listed
        return found
    here = saved_arrays(model)
    for name in sorted({*here, *values}):
        if name not in here or name not in values:
            found.append(f"{name} is only in the {'model' if name in here else 'checkpoint'}")
        elif name not in _INPUTS and began.get(name) != model_began.get(name):
            present = here[name].numpy()
            if present.shape != values[name].shape or digest(present) != digest(values[name]):
                found.append(_first_difference(name, present, values[name], model))
    return found


def _describe_differences(saved: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in _COUNTS:
        if saved[name] != here[name]:
            yield f"{name} is {here[name]} here and {saved[name]} in the checkpoint"
    if all(saved[name] == here[name] for name in _COUNTS):
        yield from (f"{name}s are others" for name in _LABELS if saved[name] != here[name])
        yield from (f"{name} are others" for name in ("meshes", "heightfields") if saved[name] != here[name])


def _first_difference(name: str, here: np.ndarray, saved: np.ndarray, model: newton.Model) -> str:
    """Describe where an array begins to differ, with the label of the body, joint or shape if there is one."""
    if here.shape != saved.shape:
        return f"{name} has shape {here.shape} here and {saved.shape} in the checkpoint"
    rows = (here != saved).reshape(len(here), -1).any(axis=1)
    i = int(np.flatnonzero(rows)[0]) if rows.any() else 0
    kind = name.rpartition(":")[2].partition("_")[0]
    labels = getattr(model, f"{kind}_label", [])
    where = f" ({labels[i]})" if len(labels) == len(here) else ""
    return f"{name}[{i}]{where} is {_show(here[i])} here and {_show(saved[i])} in the checkpoint"


def _show(value: Any) -> str:
    return np.array2string(np.asarray(value), precision=6, separator=", ", threshold=12)
