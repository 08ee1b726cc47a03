"""Find everything that is wrong with a sweep before any worker starts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SweepError
from ..running.execute import condition_signals, expand, make_simulation, versions, wanted_signals
from ..running.job import Job, digest_scene, open_scene
from .definition import Definition
from .targets import SceneTarget, WorldTarget, find_target


@dataclass(frozen=True)
class Checked:
    """Result of the check."""

    job: Job
    signals: list[str]
    """Full names of the signals that are kept."""
    model_digest: str
    """Digest of the model that the scene leads to, files of assets included."""

    @property
    def facts(self) -> dict[str, Any]:
        """Return entries for the file of the sweep."""
        facts = {"scene_digest": self.job.scene_digest, "model_digest": self.model_digest}
        return {**facts, "signals": self.signals, "versions": versions()}


def check_definition(definition: Definition, device: str | None = None) -> Checked:
    """Load the scene, and check that every parameter, value, signal and condition is possible.

    Values of the scene are put into it one parameter at a time and validated, numbers by their smallest and largest;
    numbers of worlds are written into a world. The kernels are compiled on the way, so that workers find them.

    Raises:
        SapSceneError: A value of the scene is not possible; with file and line.
        SweepError: Something else is not.
    """
    from ....scene import load_sap_scene_config

    scene = open_scene(definition.scene)
    job = Job(definition, digest_scene(scene))
    for variation in definition.variations:
        target = find_target(variation.path)
        for value in variation.extremes if isinstance(target, SceneTarget) else ():
            load_sap_scene_config(scene, overrides={target.path: value})  # type: ignore[union-attr]
    try:
        sim = make_simulation(dataclasses.replace(job, device=device), {}, 1)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, SweepError) else SweepError(str(error)) from error
    with sim:
        model_digest = _digest_model(sim.model)
        signals = _check_signals(sim, definition)
        record = sim.record(wanted_signals(definition), every=1)
        for variation in definition.variations:
            target = find_target(variation.path)
            for value in variation.extremes if isinstance(target, WorldTarget) else ():
                _check_value(sim, variation.path, target, value)  # type: ignore[arg-type]
        sim.reset()
        sim.step(2)
        record.stop()
    return Checked(job, signals, model_digest)


def _check_signals(sim: Any, definition: Definition) -> list[str]:
    try:
        for name in condition_signals(definition):
            found = expand(sim, [name])
            if len(found) != 1:
                raise SweepError(f"A condition is about one signal; {name!r} stands for {len(found)}.")
        return expand(sim, definition.record)
    except ValueError as error:
        raise SweepError(str(error)) from None


def _check_value(sim: Any, path: str, target: WorldTarget, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SweepError(f"{path} takes numbers; found {value!r}.")
    try:
        target.check(sim)
        target.write(sim, np.array([float(value)]))
    except ValueError as error:
        raise SweepError(f"{path}={value}: {error}") from None


def _digest_model(model: Any) -> str:
    from ....simulation.checkpoint.fingerprint import array_digests, describe_model

    text = json.dumps({**array_digests(model), **describe_model(model)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
