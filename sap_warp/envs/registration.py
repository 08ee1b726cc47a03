"""Shipped tasks by name, tasks of the user by file or module, and their entries in Gymnasium's registry."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.task_names import NAMESPACE, TASKS, VERSION, shipped_tasks

if TYPE_CHECKING:
    from .task import Task

__all__ = ["find_task", "register", "shipped_tasks", "task_name"]


def find_task(name: Any) -> type[Task]:
    """Return the class of a task.

    Args:
        name: A subclass of `Task`; the name of a shipped one, in any spelling (``"Go2Walk"``, ``"go2_walk"``,
            ``"sap_warp/Go2Walk-v0"``); or ``"file.py:Class"`` or ``"module:Class"``.

    Raises:
        ValueError: There is no such task.
    """
    from .task import Task

    if isinstance(name, type):
        found: Any = name
    elif ":" in name:
        found = _load(*name.rsplit(":", 1))
    else:
        wanted = _plain(name.removeprefix(f"{NAMESPACE}/").removesuffix(f"-{VERSION}"))
        plain = {_plain(known): known for known in TASKS}
        if wanted not in plain:
            near = difflib.get_close_matches(wanted, plain, n=1)
            hint = f"Did you mean {plain[near[0]]}?" if near else f"There is: {', '.join(TASKS)}."
            raise ValueError(f"No task is called {name!r}. {hint} One of your own is file.py:Class.")
        known = plain[wanted]
        found = getattr(importlib.import_module(f".tasks.{TASKS[known][0]}", __package__), known)
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise ValueError(f"{name!r} is no subclass of sap_warp.envs.Task.")
    return found


def task_name(task: Any) -> str:
    """Return a name by which the task is found again: that of a shipped one, otherwise its file or module."""
    if isinstance(task, str) and ":" in task:
        source, _, name = task.rpartition(":")
        return f"{Path(source).absolute()}:{name}" if source.endswith(".py") else task
    cls = find_task(task)
    return cls.__name__ if cls.__name__ in TASKS else f"{cls.__module__}:{cls.__qualname__}"


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _load(source: str, name: str) -> Any:
    if source.endswith(".py"):
        path = Path(source)
        if not path.is_file():
            raise ValueError(f"There is no file {source}.")
        spec: Any = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(source)
        except ImportError as error:
            raise ValueError(f"There is no module {source}: {error}.") from error
    if not hasattr(module, name):
        raise ValueError(f"{source} has no {name}.")
    return getattr(module, name)


def register() -> None:
    """Enter the shipped tasks into Gymnasium's registry; a second call does nothing."""
    from gymnasium.envs import registration

    for name in TASKS:
        task_id = f"{NAMESPACE}/{name}-{VERSION}"
        if task_id not in registration.registry:
            registration.register(
                id=task_id,
                entry_point="sap_warp.envs.adapters.gym:TaskEnv",
                vector_entry_point="sap_warp.envs.adapters.gym:TaskVectorEnv",
                kwargs={"task": name},
                disable_env_checker=True,
            )
