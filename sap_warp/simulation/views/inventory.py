"""Lists of the entities in a world, with their columns in the views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import newton
import numpy as np

from ...model.joint_types import SCALAR_JOINTS
from ...model.shapes import shape_type
from .names import ModelNames

_UNBOUNDED = 1e9
"""Magnitude from which on a limit counts as infinite [m or rad, N or N m]."""


class Listing(NamedTuple):
    """A table of one kind of thing."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Inventory:
    """Tables of the entities in the first world of a model."""

    def __init__(self, model: newton.Model):
        """Store the model; nothing is read yet."""
        self._model, self._names = model, ModelNames(model)

    def joints(self) -> Listing:
        """List joints with their degrees of freedom: columns, drives and limits.

        Free, ball, distance and fixed joints have one line, others one for each degree of freedom.
        """
        model, names = self._model, self._names
        read = {name: getattr(model, name).numpy() for name in _BY_DOF}
        first, last = (int(start) for start in names.starts_of("joint")[:2])
        dof0, coord0 = (int(names.starts_of(kind)[0]) for kind in ("dof", "coord"))
        qd, q = model.joint_qd_start.numpy() - dof0, model.joint_q_start.numpy() - coord0
        bodies = ("world", *names.names("body"))
        kind, parent, child = (a.numpy() for a in (model.joint_type, model.joint_parent, model.joint_child))
        body0 = int(names.starts_of("body")[0])
        dof_names = names.names("dof")
        rows: list[tuple[str, ...]] = []
        for joint in range(first, last):
            of, to = (bodies[max(int(b[joint]) - body0, -1) + 1] for b in (parent, child))
            is_single = int(kind[joint]) in SCALAR_JOINTS
            head = (
                names.names("joint")[joint - first],
                newton.JointType(int(kind[joint])).name.lower(),
                f"{of} > {to}",
            )
            if not is_single:
                rows.append((*head, *_columns(qd, q, joint), "", "", "", ""))
                continue
            for i in range(qd[joint], qd[joint + 1]):
                column = (dof_names[i], str(i), str(q[joint] + i - qd[joint]))
                rows.append((*head, *column, *_drive(read, dof0 + i)))
        return Listing(_JOINT_HEADER, rows)

    def bodies(self) -> Listing:
        """List bodies with their masses."""
        first = int(self._names.starts_of("body")[0])
        mass, com = self._model.body_mass.numpy(), self._model.body_com.numpy()
        rows = [
            (str(i), name, f"{mass[first + i]:.4g} kg", " ".join(f"{x:.4g}" for x in com[first + i]))
            for i, name in enumerate(self._names.names("body"))
        ]
        return Listing(("column", "body", "mass", "centre of mass [m]"), rows)

    def shapes(self) -> Listing:
        """List shapes with their bodies and materials, those of no world last."""
        model, names = self._model, self._names
        first, body0 = (int(names.starts_of(kind)[0]) for kind in ("shape", "body"))
        kind, body, mu = (a.numpy() for a in (model.shape_type, model.shape_body, model.shape_material_mu))
        bodies = ("world", *names.names("body"))
        own = [(first + i, str(i), name) for i, name in enumerate(names.names("shape"))]
        shared = [(i, f"model {i}", names.names("shape", -1)[k]) for k, i in enumerate(names.shared_shapes())]
        rows: list[tuple[str, ...]] = [
            (column, name, shape_type(kind[i]).name, bodies[max(int(body[i]) - body0, -1) + 1]) + (f"{mu[i]:.4g}",)
            for i, column, name in own + shared
        ]
        return Listing(("column", "shape", "type", "body", "friction"), rows)

    def actuators(self) -> Listing:
        """List MuJoCo's actuators, the columns of ``ctrl``."""
        names = self._names
        if not names.has("actuator"):
            return Listing(("column", "actuator"), [])
        return Listing(("column", "actuator"), [(str(i), name) for i, name in enumerate(names.names("actuator"))])


_JOINT_HEADER = (
    *("joint", "type", "bodies", "dof", "dof column", "coord column"),
    *("drive", "limits", "effort", "armature"),
)
_BY_DOF = (
    *("joint_target_ke", "joint_target_kd", "joint_limit_lower", "joint_limit_upper"),
    *("joint_effort_limit", "joint_armature"),
)


def _columns(qd: np.ndarray, q: np.ndarray, joint: int) -> tuple[str, str, str]:
    """Return the columns of a joint that is listed in one line."""

    def span(starts: np.ndarray) -> str:
        first, last = int(starts[joint]), int(starts[joint + 1]) - 1
        return "" if last < first else f"{first}-{last}"

    return "", span(qd), span(q)


def _drive(read: dict[str, Any], i: int) -> tuple[str, str, str, str]:
    """Return drive, limits, largest effort and armature of a degree of freedom."""
    kp, kd, low, high, effort, armature = (float(read[name][i]) for name in _BY_DOF)
    drive = f"kp {kp:.4g}, kd {kd:.4g}" if kp or kd else "none"
    limits = f"{low:.4g} to {high:.4g}" if max(-low, high) < _UNBOUNDED else "none"
    if limits == "none" and min(-low, high) < _UNBOUNDED:
        limits = f"from {low:.4g}" if -low < _UNBOUNDED else f"to {high:.4g}"
    return drive, limits, f"{effort:.4g}" if effort < 1e6 else "any", f"{armature:.4g}"
