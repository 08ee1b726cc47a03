"""Notes about a scene that loads: advice about its model with places in the file, and advice about the file."""

from __future__ import annotations

import newton
import numpy as np

from ..judge.advice import advise
from ..judge.advice.joints import WITHOUT_GAINS, WITHOUT_MODE, idle_gains, undriven_dofs
from .build import SceneBuild
from .check import paths_of
from .edits.operations import SetJointTargets
from .edits.selectors import select_entries


def note_advice(build: SceneBuild, model: newton.Model) -> None:
    """Collect the notes about the finished ``model`` of a scene."""
    _note_asked_drives(build, model)
    known = {note.id for note in build.notes}
    for note in advise(model, build.scene.simulation.solver):
        if note.id not in known:  # the scene knows better where it comes from
            kind, index = note.subject or ("", 0)
            path = paths_of(build, kind).get(index, ()) if kind else ()
            build.note(note.id, path, note.message, note.subject)


def _note_asked_drives(build: SceneBuild, model: newton.Model) -> None:
    """Note drives that the scene switches on and that end up without gains."""
    undriven, idle = np.append(undriven_dofs(model), False), np.append(idle_gains(model), False)
    for i, operation in enumerate(build.scene.post_build):
        if not isinstance(operation, SetJointTargets):
            continue
        entries = select_entries(build, operation, "dof")
        if operation.mode is not None and undriven[entries].any():
            count = f"{undriven[entries].sum()} of {len(entries)}"
            what = f"sets a mode, but {count} dofs have neither ke nor kd: nothing drives them"
            build.note(WITHOUT_GAINS, ("post_build", i), what)
        if operation.mode is None and (operation.ke or operation.kd) and idle[entries].any():
            count = f"{idle[entries].sum()} of {len(entries)}"
            what = f"sets gains, but {count} dofs have the mode none: nothing drives them; add mode: position"
            build.note(WITHOUT_MODE, ("post_build", i), what)
