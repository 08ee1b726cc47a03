"""Environments for learning: tasks, and adapters that run them in Gymnasium, Stable-Baselines3 and rsl_rl.

Importing this registers the shipped tasks with Gymnasium if it is installed: ``gymnasium.make_vec("sap_warp/Ant-v0",
num_envs=256)``. The names load on first use.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.gym import TaskEnv, TaskVectorEnv
    from .adapters.ray import RayVectorEnv
    from .adapters.rsl import RslRlVecEnv
    from .adapters.sb3 import StableBaselinesVecEnv
    from .draws import Draws
    from .registration import find_task, register, shipped_tasks
    from .runner import Ended, Runner, Step
    from .task import Task
    from .terms import ActionTerm, JointEfforts, JointPositions, metric, observation, reward, termination

_SUBMODULE_OF = {
    "RayVectorEnv": "adapters.ray",
    "RslRlVecEnv": "adapters.rsl",
    "StableBaselinesVecEnv": "adapters.sb3",
    "Draws": "draws",
    "TaskEnv": "adapters.gym",
    "TaskVectorEnv": "adapters.gym",
    "find_task": "registration",
    "register": "registration",
    "shipped_tasks": "registration",
    "Ended": "runner",
    "Runner": "runner",
    "Step": "runner",
    "Task": "task",
    "ActionTerm": "terms",
    "JointEfforts": "terms",
    "JointPositions": "terms",
    "metric": "terms",
    "observation": "terms",
    "reward": "terms",
    "termination": "terms",
}

__all__ = [
    "ActionTerm",
    "Draws",
    "Ended",
    "JointEfforts",
    "JointPositions",
    "RayVectorEnv",
    "RslRlVecEnv",
    "Runner",
    "StableBaselinesVecEnv",
    "Step",
    "Task",
    "TaskEnv",
    "TaskVectorEnv",
    "find_task",
    "metric",
    "observation",
    "register",
    "reward",
    "shipped_tasks",
    "termination",
]


def __getattr__(name: str) -> Any:
    if name not in _SUBMODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f".{_SUBMODULE_OF[name]}", __name__), name)
    globals()[name] = value  # the next access no longer comes here
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _register_if_possible() -> None:
    from importlib.util import find_spec

    if find_spec("gymnasium") is not None:
        from .registration import register

        register()


_register_if_possible()
