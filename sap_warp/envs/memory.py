"""State that decides the future of a running task: checkpoint of the simulation, counters, the task's own values.

Of runner and task every attribute is kept that is an array, a number, a text or a container of these. Arrays that
cannot be written, and other objects, are taken for constant; a task with such memory extends `Task.get_memory` and
`Task.set_memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..simulation.views.arrays import is_tensor, to_host

if TYPE_CHECKING:
    from .runner import Runner

_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


class _Skipped(Exception):
    """Marks a value that is not kept."""


def get_attributes(owner: Any) -> dict[str, Any]:
    """Return copies of the attributes of an object that are kept, by name."""
    found = {}
    for name, value in vars(owner).items():
        try:
            found[name] = _copy(value)
        except _Skipped:
            continue
    return found


def set_attributes(owner: Any, saved: dict[str, Any]) -> None:
    """Restore attributes, into the same memory where there is an array of the same kind."""
    for name, value in saved.items():
        setattr(owner, name, _put(getattr(owner, name, None), value))


def get_memory(runner: Runner) -> dict[str, Any]:
    """Return the state of a runner, its task and its simulation."""
    return {"sim": runner.task.sim.get_state(), "task": runner.task.get_memory(), "runner": get_attributes(runner)}


def set_memory(runner: Runner, saved: dict[str, Any]) -> None:
    """Continue from such a state."""
    runner.task.set_memory(saved["task"])
    set_attributes(runner, saved["runner"])
    runner.task.sim.set_state(saved["sim"])


def _copy(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype == object or not value.flags.writeable:
            raise _Skipped
        return value.copy()
    if is_tensor(value):
        return to_host(value).copy()
    if type(value) in (list, tuple):
        return type(value)(_copy(item) for item in value)
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    raise _Skipped


def _put(present: Any, saved: Any) -> Any:
    """Return what replaces ``present``."""
    if isinstance(present, np.ndarray) and isinstance(saved, np.ndarray):
        if present.shape == saved.shape and present.dtype == saved.dtype and present.flags.writeable:
            present[...] = saved
            return present
        return saved.copy()  # those that came through Ray cannot be written
    if is_tensor(present) and isinstance(saved, np.ndarray):
        if tuple(present.shape) == saved.shape:
            present.copy_(present.new_tensor(saved))
            return present
        return present.new_tensor(saved)
    if type(saved) in (list, tuple) and type(present) is type(saved) and len(present) == len(saved):
        return type(saved)(_put(*pair) for pair in zip(present, saved, strict=True))
    if type(saved) is dict and type(present) is dict:
        return {key: _put(present.get(key), item) for key, item in saved.items()}
    return saved.copy() if isinstance(saved, np.ndarray) else saved
