"""Find numbers in a model that no step can use, at construction, instead of treating them as defaults.

A comparison with nan is false, so a kernel takes a friction of nan for "not given", and a limit of nan for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import newton
import numpy as np

from .joint_types import SCALAR_JOINTS
from .model import ATTRIBUTES, TAU_NAMESPACE

NUMBER = "a number"
FINITE = "finite"
POSITIVE = "a number that is not negative"
FINITE_POSITIVE = "finite and not negative"

_BY_DOF = {
    "joint_armature": FINITE_POSITIVE,
    "joint_damping": FINITE_POSITIVE,
    "joint_friction": FINITE_POSITIVE,
    "joint_target_ke": FINITE_POSITIVE,
    "joint_target_kd": FINITE_POSITIVE,
    "joint_limit_ke": FINITE_POSITIVE,
    "joint_limit_kd": FINITE_POSITIVE,
    "joint_effort_limit": POSITIVE,
    "joint_velocity_limit": POSITIVE,
    "joint_limit_lower": NUMBER,
    "joint_limit_upper": NUMBER,
    "joint_axis": FINITE,
    **dict.fromkeys(("joint_qd", "joint_f", "joint_act", "joint_target_qd"), FINITE),
    "mujoco.dof_passive_stiffness": FINITE_POSITIVE,
    **dict.fromkeys(("mujoco.dof_springref", "mujoco.dof_ref"), FINITE),
}
_BY_COORDINATE = dict.fromkeys(("joint_q", "joint_target_q"), FINITE)
_BY_JOINT = dict.fromkeys(("joint_X_p", "joint_X_c", "joint_mimic_coeffs"), FINITE)
_BY_BODY = {"body_mass": FINITE_POSITIVE, "body_com": FINITE, "body_inertia": FINITE}
_BY_SHAPE = dict.fromkeys(("shape_material_ke", "shape_material_mu"), FINITE)  # negative is "not given"
_OWN = {
    newton.Model.AttributeFrequency.JOINT_DOF: _BY_DOF,
    newton.Model.AttributeFrequency.JOINT: _BY_JOINT,
    newton.Model.AttributeFrequency.BODY: _BY_BODY,
    newton.Model.AttributeFrequency.SHAPE: _BY_SHAPE,
}
for _name, (_frequency, _) in ATTRIBUTES.items():
    _OWN[_frequency][f"{TAU_NAMESPACE}.{_name}"] = FINITE
_SHOWN = 3


def value_problems(model: newton.Model) -> Iterator[str]:
    """Describe wrong numbers of ``model``: array, index, value, entity, and what the value has to be."""
    joints = np.arange(model.joint_count)
    joint = (model.joint_label, model.joint_world.numpy())
    tables: tuple[tuple[dict[str, str], Any, tuple[Any, Any]], ...] = (
        (_BY_DOF, np.repeat(joints, np.diff(model.joint_qd_start.numpy())), joint),
        (_BY_COORDINATE, np.repeat(joints, np.diff(model.joint_q_start.numpy())), joint),
        (_BY_JOINT, joints, joint),
        (_BY_BODY, np.arange(model.body_count), (model.body_label, model.body_world.numpy())),
        (_BY_SHAPE, np.arange(model.shape_count), (model.shape_label, model.shape_world.numpy())),
        ({"gravity": FINITE}, None, (None, None)),
    )
    for rules, owner, names in tables:
        for name, rule in rules.items():
            values = _values(model, name)
            if values is not None and values.size:
                bad = is_bad(values, rule)
                if bad.any():
                    yield f"{name} has to be {rule}: {_listed(name, values, bad, owner, *names)}"
    yield from _direction_problems(model, tables[0][1], *joint)


def _values(model: newton.Model, name: str) -> np.ndarray | None:
    parent, _, attribute = name.rpartition(".")
    array = getattr(getattr(model, parent, None) if parent else model, attribute, None)
    return None if array is None else array.numpy()


def is_bad(values: np.ndarray, rule: str) -> np.ndarray:
    """Return a mask of numbers that break a rule, one of the four above."""
    bad = np.isnan(values) if "finite" not in rule else ~np.isfinite(values)
    if "negative" in rule:
        bad |= values < 0.0
    return bad


def _listed(name: str, values: np.ndarray, bad: np.ndarray, owner: Any, labels: Any, worlds: Any) -> str:
    found = np.argwhere(bad)
    parts = []
    for index in found[:_SHOWN]:
        part = f"{name}[{', '.join(str(i) for i in index)}] is {values[tuple(index)]:g}"
        if owner is not None:
            which = owner[index[0]]
            part += f" ({labels[which]!r}" + (f", world {worlds[which]})" if worlds[which] >= 0 else ")")
        parts.append(part)
    return ", ".join(parts) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def _direction_problems(model: newton.Model, owner: np.ndarray, labels: Any, worlds: Any) -> Iterator[str]:
    """Find axes and rotations that have no direction."""
    has_axes = np.isin(model.joint_type.numpy(), SCALAR_JOINTS)[owner]
    found = {"joint_axis": (model.joint_axis.numpy(), has_axes, owner)}
    for name in ("joint_X_p", "joint_X_c"):
        found[name] = (getattr(model, name).numpy()[:, 3:], True, np.arange(model.joint_count))
    for name, (vectors, counts, whose) in found.items():
        bad = ~vectors.any(axis=1) & counts
        if bad.any():
            listed = _listed(name, np.zeros(len(bad)), bad, whose, labels, worlds)
            yield f"{name} has a length of zero: {listed}"
