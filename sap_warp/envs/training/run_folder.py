"""The folder of a training: checkpoint, table and curves; and how a policy is made of a checkpoint again."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .progress import History, write_atomically

if TYPE_CHECKING:
    from .. import Runner

FORMAT = 1
CHECKPOINT, TABLE, CURVES, VIDEO = "checkpoint", "progress.csv", "curves.png", "video.mp4"
ALGORITHMS = ("ppo", "ars")


class CheckpointError(ValueError):
    """A checkpoint is not there, cannot be read or belongs to something else."""


def make_learner(algorithm: str, runner: Runner, settings: dict[str, Any], seed: int) -> Any:
    """The learner of that name.

    Raises:
        ValueError: There is no such algorithm or setting.
        ImportError: It needs torch.
    """
    learner: Any
    known: Any
    if algorithm == "ppo":
        from .ppo import PPO, PPOSettings

        learner, known = PPO, PPOSettings
    elif algorithm == "ars":
        from .ars import ARS, ARSSettings

        learner, known = ARS, ARSSettings
    else:
        raise ValueError(f"algorithm is {algorithm!r}; there is: {', '.join(ALGORITHMS)}.")
    fields = {field.name: field for field in dataclasses.fields(known)}
    wrong = sorted(set(settings) - set(fields))
    if wrong:
        raise ValueError(f"{algorithm} has no setting {', '.join(wrong)}; there is: {', '.join(fields)}.")
    defaults = known()
    values = {}
    for name, value in settings.items():
        kind = type(getattr(defaults, name))
        values[name] = tuple(value) if kind is tuple else kind(value)
    return learner(runner, known(**values), seed)


def write_checkpoint(folder: Path, about: dict[str, Any], state: dict[str, Any], history: History) -> Path:
    """Write what has been learned; the file is there as a whole or not at all.

    Args:
        folder: Of the training.
        about: Task, algorithm, settings and counters: what JSON can hold.
        state: Of the learner: arrays by name.
        history: Of the training.
    """
    path = folder / f"{CHECKPOINT}.npz"
    arrays: dict[str, Any] = {f"state/{name}": np.asarray(value) for name, value in state.items()}
    content = {"format": FORMAT, **about, "history": history.rows}
    text = np.frombuffer(json.dumps(content).encode(), np.uint8)
    memory = io.BytesIO()
    np.savez(memory, about=text, **arrays)
    write_atomically(path, memory.getvalue())
    return path


def read_checkpoint(place: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `write_checkpoint` wrote; ``place`` is the file or its folder. Nothing in it is executed.

    Raises:
        CheckpointError: There is none, or it cannot be read.
    """
    path = place / f"{CHECKPOINT}.npz" if place.is_dir() else place
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(bytes(arrays.pop("about")).decode())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is no checkpoint: {error}") from error
    if about.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {about.get('format')}; this version reads {FORMAT}.")
    return about, {name.removeprefix("state/"): value for name, value in arrays.items()}
