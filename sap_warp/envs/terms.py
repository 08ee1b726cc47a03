"""Parts of a task: methods marked as observations, rewards, metrics and terminations, and terms of actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..simulation.views.selection import compress

if TYPE_CHECKING:
    from .task import Task

KINDS = ("observation", "reward", "metric", "termination")


@dataclass(frozen=True)
class Term:
    """Mark on a method of a task."""

    kind: str
    weight: float = 0.0
    """Weight of a reward, per second."""
    noise: float = 0.0
    """Largest error of an observation, evenly distributed, in its unit before scaling."""
    scale: float = 1.0
    """Factor of an observation: a policy sees the value, with its noise, times this."""


def _mark(term: Term) -> Callable[[Callable[[Any], Any]], Any]:
    def mark(method: Callable[[Any], Any]) -> Any:
        method.term = term  # type: ignore[attr-defined]
        return method

    return mark


def observation(method: Callable[[Any], Any] | None = None, *, noise: float = 0.0, scale: float = 1.0) -> Any:
    """Mark a method that returns columns of the observation, shape (worlds,) or (worlds, n), or a tuple of such.

    Args:
        method: Given when the mark is used without brackets.
        noise: Largest error added to each number, evenly distributed; it is not there in a quiet environment.
        scale: Factor on the result, so that policies see numbers around 1.
    """
    mark = _mark(Term("observation", noise=noise, scale=scale))
    return mark if method is None else mark(method)


def reward(weight: float) -> Any:
    """Mark a method that returns a reward, shape (worlds,).

    Args:
        weight: Reward per second for a value of 1; a penalty has a negative one.
    """
    return _mark(Term("reward", weight=float(weight)))


def metric(method: Callable[[Any], Any]) -> Any:
    """Mark a method whose value, shape (worlds,), is averaged over each episode and reported, but not rewarded."""
    return _mark(Term("metric"))(method)


def termination(method: Callable[[Any], Any]) -> Any:
    """Mark a method that says which worlds are at their end, booleans of shape (worlds,)."""
    return _mark(Term("termination"))(method)


def find_terms(cls: type) -> dict[str, dict[str, Term]]:
    """Return marked methods by kind and name, those of base classes first.

    A method that replaces a marked one keeps its mark; None takes a term away.
    """
    found: dict[str, Term] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            term = getattr(value, "term", None)
            if isinstance(term, Term):
                found[name] = term
            elif value is None:
                found.pop(name, None)
    return {kind: {name: term for name, term in found.items() if term.kind == kind} for kind in KINDS}


class ActionTerm:
    """Turns some columns of the action, numbers between -1 and 1, into inputs of the simulation."""

    def __init__(self, joints: str | Sequence[str] = "*", scale: float | Sequence[float] = 1.0):
        """Drive ``joints``, patterns of names; ``scale`` is the input of an action of 1."""
        self.joints, self.scale = joints, scale
        self.size = 0
        """Columns of the action."""

    def bind(self, task: Task) -> None:
        """Find joints and arrays."""
        raise NotImplementedError

    def apply(self, actions: Any) -> None:
        """Write inputs; ``actions`` has shape (worlds, size)."""
        raise NotImplementedError

    def _scale_of(self, task: Task) -> Any:
        scale = np.asarray(self.scale, np.float32)
        if scale.ndim and scale.shape != (self.size,):
            raise ValueError(f"scale has {len(scale)} entries for {self.size} joints.")
        return task.arrays.from_numpy(scale) if scale.ndim else float(scale)


class JointEfforts(ActionTerm):
    """Forces and torques at joints [N or N m]: ``scale`` times the action."""

    def bind(self, task: Task) -> None:
        """Find the dofs."""
        dofs = task.sim.find_dofs(self.joints).indices
        self.size, self._columns = len(dofs), compress(dofs)
        self._target, self._factor = task.arrays.view(task.sim.joint_f), self._scale_of(task)

    def apply(self, actions: Any) -> None:
        """Write forces."""
        self._target[:, self._columns] = actions * self._factor


class JointPositions(ActionTerm):
    """Targets of position drives [rad or m]: an offset, plus ``scale`` times the action, within the joints' limits."""

    def __init__(
        self,
        joints: str | Sequence[str] = "*",
        scale: float | Sequence[float] = 1.0,
        offset: float | None = None,
        relative: bool = False,
    ):
        """Drive ``joints``.

        Args:
            joints: Patterns of names.
            scale: What an action of 1 means.
            offset: Where an action of 0 leads; None is the pose that the scene starts from.
            relative: Whether it leads to where the joints are instead, so that actions are steps.
        """
        super().__init__(joints, scale)
        self.offset, self.relative = offset, relative

    def bind(self, task: Task) -> None:
        """Find coordinates and dofs.

        Raises:
            ValueError: A joint has no position drive, or it is not a hinge or a slider.
        """
        dofs, coords = task.sim.find_dofs(self.joints).indices, task.sim.find_coords(self.joints).indices
        if len(dofs) != len(coords):
            raise ValueError(
                f"JointPositions({self.joints!r}) drives hinges and sliders; one of the joints is neither."
            )
        stiffness = task.sim.model.joint_target_ke.numpy().reshape(task.num_worlds, -1)[0, dofs]
        if not (stiffness > 0.0).all():
            raise ValueError(
                f"JointPositions({self.joints!r}): a joint has no position drive. Give it a stiffness, for example "
                "with set_joint_targets in the scene."
            )
        self.size, self._columns = len(coords), compress(coords)
        start = task.initial_q[:, self._columns]
        self._offset = start if self.offset is None else self.offset
        if self.relative:
            self._offset = task.joint_q[:, self._columns]
        model = task.sim.model
        limits = (model.joint_limit_lower, model.joint_limit_upper)
        rows = [limit.numpy().reshape(task.num_worlds, -1)[0, dofs] for limit in limits]
        self._limits = tuple(task.arrays.from_numpy(row.astype(np.float32)) for row in rows)
        self._target, self._factor = task.arrays.view(task.sim.joint_target_q), self._scale_of(task)

    def apply(self, actions: Any) -> None:
        """Write targets."""
        self._target[:, self._columns] = (self._offset + actions * self._factor).clip(*self._limits)
