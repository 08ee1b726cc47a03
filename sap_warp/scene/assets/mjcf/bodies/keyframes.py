"""Keyframes (<key>): named states of a scene."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import newton
import numpy as np
import warp as wp

from .....conventions import convert_twist
from ..actuation.drives import clamp_ctrl, joint_of_actuator, target_of
from ..coordinates import Key
from .poses import rotate

if TYPE_CHECKING:
    from ..content import Import


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A named state of one world, in public order: what `Simulation.reset(keyframe=...)` sets."""

    joint_q: np.ndarray
    """Generalized positions [m or rad, quaternions xyzw], shape (coords,)."""
    joint_qd: np.ndarray
    """Generalized velocities [m/s or rad/s], free joints [v_C, w], shape (dofs,)."""
    joint_target_q: np.ndarray
    """Drive position targets [m or rad], shape (coords,)."""
    joint_target_qd: np.ndarray
    """Drive velocity targets [m/s or rad/s], shape (dofs,)."""
    ctrl: np.ndarray
    """Inputs of MuJoCo's actuators, `model.mujoco.ctrl`, shape (actuators,)."""
    act: np.ndarray
    """Activations of the actuators, shape (actuators,); zero for those without a state."""


@dataclass
class KeyEntries:
    """What the keys of one name say about the authored world: entries and values."""

    q: dict[int, float] = field(default_factory=dict)
    qd: dict[int, float] = field(default_factory=dict)
    target_q: dict[int, float] = field(default_factory=dict)
    target_qd: dict[int, float] = field(default_factory=dict)
    ctrl: dict[int, float] = field(default_factory=dict)
    act: dict[int, float] = field(default_factory=dict)
    free: dict[int, np.ndarray] = field(default_factory=dict)
    """MuJoCo's twist [v_O^W, w^B] of free joints by first coordinate, as long as their centre of mass may change."""


def add_keyframes(done: Import) -> None:
    """Remember the keyframes of an asset."""
    for i, key in enumerate(done.document.keys):
        name = key.name or str(i)
        if done.asset.label_prefix is not None:
            name = f"{done.asset.label_prefix}/{name}"
        _add(done, key, done.build.keyframes.setdefault(name, KeyEntries()))


def _add(done: Import, key: Key, entries: KeyEntries) -> None:
    scale, root = done.asset.scale, wp.transform(*done.asset.xform)
    turn = np.array(wp.quat_to_matrix(wp.transform_get_rotation(root)), dtype=np.float64).reshape(3, 3)
    for joint, values in key.q.items():
        index = done.joint_indices.get(joint)
        if index is None:
            continue
        if index.kind == "free":
            w, x, y, z = values[3:] / np.linalg.norm(values[3:])
            pose = root * wp.transform(wp.vec3(*map(float, scale * values[:3])), wp.quat(x, y, z, w))
            numbers = [float(number) for number in pose]
        elif index.kind == "ball":
            numbers = list(np.roll(values / np.linalg.norm(values), -1))
        else:
            numbers = [float(values[0] - joint.number("ref", 0.0)) * (scale if index.kind == "slide" else 1.0)]
        entries.q.update(zip(range(index.coordinate, index.coordinate + len(numbers)), numbers, strict=True))
    for joint, values in key.qd.items():
        index = done.joint_indices.get(joint)
        if index is None:
            continue
        if index.kind == "free":
            entries.free[index.coordinate] = np.concatenate([turn @ values[:3] * scale, values[3:]])
        else:
            if index.kind == "ball" and joint in key.q:  # MuJoCo's is in the axes of the body, Newton's in the parent's
                values = rotate(key.q[joint] / np.linalg.norm(key.q[joint]), values)
            factor = scale if index.kind == "slide" else 1.0
            entries.qd.update((index.dof + k, float(value) * factor) for k, value in enumerate(values))
    _add_controls(done, key, entries)


def _add_controls(done: Import, key: Key, entries: KeyEntries) -> None:
    for node, ctrl in key.ctrl.items():
        joint = joint_of_actuator(done, node)
        if joint is not None:
            index = done.joint_indices[joint]
            target = target_of(done, node, joint, ctrl)
            values, entry = (
                (entries.target_q, index.coordinate) if node.tag == "position" else (entries.target_qd, index.dof)
            )
            values[entry] = target
        elif node in done.actuators:
            entries.ctrl[done.actuators[node]] = clamp_ctrl(node, ctrl)
    entries.act.update({done.actuators[node]: value for node, value in key.act.items() if node in done.actuators})


def make_keyframes(keys: dict[str, KeyEntries], model: newton.Model, worlds: int) -> dict[str, Keyframe]:
    """Return the named states: the initial state of the first world, overwritten by what the keys say."""
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
    count = int(model.custom_frequency_counts.get("mujoco:actuator", 0)) // worlds
    ctrl = model.mujoco.ctrl.numpy()[:count] if count else np.zeros(0, np.float32)
    act0 = getattr(getattr(model, "sap", None), "actuator_act0", None)
    initial = np.zeros(count) if act0 is None else act0.numpy()[:count]
    # the last joint whose coordinates begin somewhere: fixed ones before it have none
    joint_at = {int(start): joint for joint, start in enumerate(model.joint_q_start.numpy()[:-1])}
    child = model.joint_child.numpy()
    found = {}
    for name, entries in keys.items():
        arrays = {array: getattr(model, array).numpy() for array in names}
        arrays = {array: values[: len(values) // worlds].astype(np.float64) for array, values in arrays.items()}
        arrays |= {"ctrl": ctrl.astype(np.float64), "act": initial.astype(np.float64)}
        given = (entries.q, entries.qd, entries.target_q, entries.target_qd, entries.ctrl, entries.act)
        for values, entry in zip(arrays.values(), given, strict=True):
            values[list(entry)] = list(entry.values())
        for coordinate, twist in entries.free.items():
            joint = joint_at[coordinate]
            rotation = arrays["joint_q"][coordinate + 3 : coordinate + 7]
            com = model.body_com.numpy()[child[joint]]
            dof = int(model.joint_qd_start.numpy()[joint])
            arrays["joint_qd"][dof : dof + 6] = convert_twist(twist, "mujoco", "public", rotation=rotation, com=com)
        found[name] = Keyframe(**arrays)
    return found
