"""The bilateral equations that a Newton model asks for: mimic joints, loop joints, equality constraints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import newton
import numpy as np
from newton.solvers import SolverMuJoCo

from ..model.initial_poses import body_poses, inverse, multiply, reference_coordinates, rotate
from ..model.topology import tree_joints
from . import data as kinds

EQUALITY = "mujoco:equality_constraint"
_CONVERTED = (1, 2)
"""``equality_constraint_target_kind`` of constraints that a loop joint or a mimic constraint was made from."""
_BASIS = np.eye(3)


@dataclass(frozen=True)
class Equation:
    """One scalar equation, in Newton's numbering; see `EquationSource` for the fields."""

    kind: int
    enabled: bool
    a: int = -1
    b: int = -1
    X_a: np.ndarray = field(default_factory=lambda: np.array([0.0, 0, 0, 0, 0, 0, 1]))
    X_b: np.ndarray = field(default_factory=lambda: np.array([0.0, 0, 0, 0, 0, 0, 1]))
    n: np.ndarray = field(default_factory=lambda: np.zeros(3))
    axis: np.ndarray = field(default_factory=lambda: np.zeros(3))
    coords: tuple[int, int] = (-1, -1)
    dofs: tuple[int, int] = (-1, -1)
    polynomial: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    term: int = -1
    """Number of a TRANSMISSION in `TransmissionModel.terms`."""

    @property
    def pattern(self) -> tuple[Any, ...]:
        """What decides which entries of J can be non-zero."""
        return (int(self.kind), self.a, self.b, self.coords, self.dofs, self.term)


def read_equations(model: newton.Model) -> list[Equation]:
    """All equations of ``model``, enabled or not."""
    return [*_mimic_equations(model), *_loop_equations(model), *_constraint_equations(model)]


def equality_table(model: newton.Model) -> dict[str, Any]:
    """Newton's ``mujoco:equality_constraint`` attributes as NumPy arrays, by their short names; empty without any."""
    if not model.custom_frequency_counts.get(EQUALITY, 0):
        return {}
    names = ("type", "body1", "body2", "anchor", "torquescale", "relpose", "joint1", "joint2", "polycoef", "enabled")
    table = {n: getattr(model.mujoco, f"equality_constraint_{n}").numpy() for n in (*names, "target_kind", "target")}
    table["label"] = list(model.mujoco.equality_constraint_label)
    return table


def native_equalities(table: dict[str, Any]) -> np.ndarray:
    """Equality constraints that no loop joint or mimic constraint stands for already.

    A mimic constraint is linear: it stands for no coupling of a higher order.
    """
    if not table:
        return np.zeros(0, np.int64)
    converted = np.isin(table["target_kind"], _CONVERTED) & (table["target"] >= 0)
    return np.flatnonzero(~(converted & ~_curved(table)))


def _curved(table: dict[str, Any]) -> np.ndarray:
    """Joint couplings with terms of a higher order."""
    return (table["type"] == int(SolverMuJoCo.EqType.JOINT)) & (table["polycoef"][:, 2:] != 0.0).any(axis=1)


def _coupling(model: newton.Model, first: int, second: int, polynomial: Any, enabled: bool) -> Iterator[Equation]:
    """q_first = polynomial(q_second), for all coordinates of the joints."""
    q, qd = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    for i in range(qd[first + 1] - qd[first]):
        coords, dofs = [int(q[first] + i), -1], [int(qd[first] + i), -1]
        if second >= 0:
            coords[1], dofs[1] = int(q[second] + i), int(qd[second] + i)
        coefficients = tuple(float(c) for c in polynomial) + (0.0,) * (5 - len(polynomial))
        yield Equation(
            kinds.COUPLER, enabled, coords=(coords[0], coords[1]), dofs=(dofs[0], dofs[1]), polynomial=coefficients
        )


def _mimic_equations(model: newton.Model) -> Iterator[Equation]:
    legacy = model.constraint_mimic_joint0.numpy() if model.constraint_mimic_count else np.zeros(0, np.int64)
    table = equality_table(model)
    replaced = table["target"][_curved(table) & (table["target_kind"] == _CONVERTED[1])] if table else ()
    for i, follower in enumerate(legacy):
        if i in replaced:
            continue
        leader = int(model.constraint_mimic_joint1.numpy()[i])
        polynomial = (model.constraint_mimic_coef0.numpy()[i], model.constraint_mimic_coef1.numpy()[i])
        yield from _coupling(model, int(follower), leader, polynomial, bool(model.constraint_mimic_enabled.numpy()[i]))
    reference = model.joint_mimic_joint.numpy()
    coefficients = model.joint_mimic_coeffs.numpy()
    for follower in np.flatnonzero(reference >= 0):
        if follower not in legacy:
            yield from _coupling(model, int(follower), int(reference[follower]), coefficients[follower], True)


def _loop_equations(model: newton.Model) -> Iterator[Equation]:
    loops = np.flatnonzero(~tree_joints(model))
    if not len(loops):
        return
    parent, child = model.joint_parent.numpy(), model.joint_child.numpy()
    X_p, X_c = model.joint_X_p.numpy().astype(float), model.joint_X_c.numpy().astype(float)
    enabled, axes = model.joint_enabled.numpy(), model.joint_axis.numpy().astype(float)
    types, start, dims = model.joint_type.numpy(), model.joint_qd_start.numpy(), model.joint_dof_dim.numpy()
    for j in loops:
        linear, angular = dims[j]
        first = start[j]
        if types[j] == newton.JointType.FREE:
            continue
        free_axes = axes[first : first + linear], axes[first + linear : first + linear + angular]
        if types[j] == newton.JointType.BALL:
            free_axes = np.zeros((0, 3)), _BASIS
        body = {"a": int(parent[j]), "b": int(child[j]), "X_a": X_p[j], "X_b": X_c[j]}
        yield from _frame_equations(*free_axes, enabled=bool(enabled[j]), **body)


def _frame_equations(linear: np.ndarray, angular: np.ndarray, **common: Any) -> Iterator[Equation]:
    """Equations that leave only the given linear and angular axes of F free."""
    for n in _complement(linear):
        yield Equation(kinds.LINEAR, n=n, **common)
    unit = [axis / np.linalg.norm(axis) for axis in angular]
    if len(unit) == 0:
        for n in _BASIS:
            yield Equation(kinds.ANGLE, n=n, **common)
    elif len(unit) == 1:
        for n in _complement(np.array(unit)):
            yield Equation(kinds.SWING, n=n, axis=unit[0], **common)
    elif len(unit) == 2:
        yield Equation(kinds.UNIVERSAL, n=unit[0], axis=unit[1], **common)


def _complement(axes: np.ndarray) -> np.ndarray:
    """Orthonormal vectors that are orthogonal to all given ones."""
    if len(axes) == 0:
        return _BASIS
    _, size, vectors = np.linalg.svd(np.asarray(axes, float))
    return vectors[int((size > 1e-6).sum()) :]


def _constraint_equations(model: newton.Model) -> Iterator[Equation]:
    table = equality_table(model)
    selected = native_equalities(table)
    if not len(selected):
        return
    poses = _reference_poses(model)
    kind = SolverMuJoCo.EqType
    for i in selected:
        enabled = bool(table["enabled"][i])
        if table["type"][i] == kind.JOINT:
            yield from _coupling(model, int(table["joint1"][i]), int(table["joint2"][i]), table["polycoef"][i], enabled)
            continue
        a, b = int(table["body1"][i]), int(table["body2"][i])
        anchor = np.concatenate([table["anchor"][i].astype(float), [0.0, 0.0, 0.0, 1.0]])
        common: dict[str, Any] = {"enabled": enabled, "a": a, "b": b}
        if table["type"][i] == kind.CONNECT:
            # the anchor belongs to body 1; body 2 keeps the point that meets it in the reference pose
            met, _ = _relative(poses[b], poses[a], anchor[:3])
            yield from _frame_equations(
                np.zeros((0, 3)), _BASIS, X_a=anchor, X_b=np.concatenate([met, anchor[3:]]), **common
            )
        else:
            turns = np.zeros((0, 3)) if table["torquescale"][i] != 0.0 else _BASIS
            relative = table["relpose"][i].astype(float)
            if not relative[3:].any():  # MuJoCo's way to say "as in the reference pose"
                relative = np.concatenate(_relative(poses[a], poses[b], anchor[:3]))
            yield from _frame_equations(np.zeros((0, 3)), turns, X_a=relative, X_b=anchor, **common)


def _reference_poses(model: newton.Model) -> np.ndarray:
    """Body poses with scalar joints at zero, ball joints at rest and floating joints as the model has them; last: W."""
    return np.concatenate([body_poses(model, reference_coordinates(model)), [[0.0, 0, 0, 0, 0, 0, 1]]])


def _relative(X: np.ndarray, Y: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point p of frame Y, and Y's rotation, as frame X sees them."""
    back = inverse(X[3:])
    return rotate(back, Y[:3] + rotate(Y[3:], p) - X[:3]), multiply(back, Y[3:])
