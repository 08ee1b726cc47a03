"""MuJoCo's plain actuators on joints, driven by ``control.mujoco.ctrl``: one linear drive for each dof that has one.

    force = gear clamp(gain ctrl + b0 + b1 length + b2 speed, force range),   length = gear (q + ref),  speed = gear v

which is an implicit drive with kp = -gear^2 b1, kd = -gear^2 b2 and a feed-forward that ctrl sets, so it is a term
like the drive of a joint (`terms/drive.py`). An actuator that is not of this form (with activation, on a tendon or a
site, with negative gains or an uneven force range, the second one on a dof) is an equation of its own, see
`tendons/actuation.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import newton
import numpy as np
import warp as wp
from newton.solvers import SolverMuJoCo

from ...model.joint_types import SCALAR_JOINTS
from .topology import tree_joints

_AUTO = 2  # MuJoCo's flag "limited" of an actuator that has a limit if it has a range
MOTOR_NUMBERS = ("motor_gain", "motor_u0", "motor_kp", "motor_kd", "motor_low", "motor_high", "motor_limit")
"""What kernels read of the actuator of a dof: the feed-forward is motor_gain clamp(ctrl, motor_low, motor_high) +
motor_u0, kp and kd are the gains, and motor_limit is the effort limit."""


def direct_actuators(model: newton.Model) -> np.ndarray:
    """Numbers of the actuators that read ``control.mujoco.ctrl``; the others, with joint targets, are joint drives."""
    if not model.custom_frequency_counts.get("mujoco:actuator", 0):
        return np.zeros(0, np.int64)
    return np.flatnonzero(model.mujoco.ctrl_source.numpy() == int(SolverMuJoCo.CtrlSource.CTRL_DIRECT))


def actuator_dofs(model: newton.Model, chosen: np.ndarray) -> np.ndarray:
    """Return Newton's dof of each actuator on a joint; -1 where the model does not say which."""
    return actuator_targets(model, chosen, model.joint_dof_world_start.numpy())


def actuator_targets(model: newton.Model, chosen: np.ndarray, start: np.ndarray, column: int = 0) -> np.ndarray:
    """Return what each actuator acts on: an index into a Newton array with the world starts ``start``, -1 if unclear.

    Newton copies a world into a model without shifting these indices, but builds a world in place with final ones. So
    an index is final if it lies in the actuator's world, else relative to the first entry of that world. In a world
    that starts so early that an index may be either, it is unclear.
    """
    index = model.mujoco.actuator_trnid.numpy()[chosen, column].astype(np.int64)
    world = model.mujoco.actuator_world.numpy()[chosen]
    owner = np.maximum(world, 0)
    first, end = start[owner], start[owner + 1]
    final = _all_of_world((index >= first) & (index < end), owner, len(start))
    relative = _all_of_world((index >= 0) & (index < end - first), owner, len(start))
    result = np.where(relative & ~final, index + first, index)
    result = np.where(final & relative & (first > 0), -1, result)
    return np.where(world >= 0, result, index)


def _all_of_world(fine: np.ndarray, world: np.ndarray, count: int) -> np.ndarray:
    """Return for each actuator True if ``fine`` holds for all actuators of its world."""
    return (np.bincount(world, weights=~fine, minlength=count) == 0)[world]


def plain_actuators(model: newton.Model) -> np.ndarray:
    """Numbers of the actuators of the form above, at most one on each dof."""
    chosen = direct_actuators(model)
    if not len(chosen):
        return chosen
    read = reader(model, chosen)
    dof = np.full(len(chosen), -1, np.int64)
    on_joint = np.isin(read("trntype"), (int(SolverMuJoCo.TrnType.JOINT), int(SolverMuJoCo.TrnType.JOINT_IN_PARENT)))
    if on_joint.any():
        dof[on_joint] = actuator_dofs(model, chosen[on_joint])
    joint_of_dof = np.repeat(np.arange(model.joint_count), np.diff(model.joint_qd_start.numpy()))
    fine = (dof >= 0) & (dof < len(joint_of_dof))
    owner = joint_of_dof[np.where(fine, dof, 0)] if len(joint_of_dof) else np.zeros(len(chosen), np.int64)
    fine &= np.isin(model.joint_type.numpy()[owner], SCALAR_JOINTS) & tree_joints(model)[owner]
    fine &= (read("dyntype") == 0) & (read("gaintype") == 0) & np.isin(read("biastype"), (0, 1))
    bias, force = read("biasprm"), read("forcerange")
    fine &= (read("biastype") == 0) | ((bias[:, 1] <= 0.0) & (bias[:, 2] <= 0.0))
    fine &= ~limited(read, "force") | np.isclose(force[:, 0], -force[:, 1])
    chosen, dof = chosen[fine], dof[fine]
    return chosen[np.sort(np.unique(dof, return_index=True)[1])]


class Motors:
    """Parameters of the actuators by Newton's dof. All arrays are None for a model without such actuators."""

    def __init__(self, model: newton.Model):
        """Find the actuators of ``model`` and read their parameters."""
        self._model = model
        self._chosen = plain_actuators(model)
        self.count = len(self._chosen)
        device = model.device
        self.arrays: dict[str, wp.array | None] = dict.fromkeys(("motor_index", "motor_idle", *MOTOR_NUMBERS))
        if self.count:
            index = np.full(model.joint_dof_count, -1, np.int32)
            index[actuator_dofs(model, self._chosen)] = self._chosen
            self.arrays["motor_index"] = wp.array(index, dtype=wp.int32, device=device)
            self.arrays["motor_idle"] = wp.zeros(model.joint_dof_count, dtype=wp.int32, device=device)
            for name in MOTOR_NUMBERS:
                self.arrays[name] = wp.zeros(model.joint_dof_count, dtype=wp.float32, device=device)
            self.refresh()

    def refresh(self) -> None:
        """Read gains, gears and ranges of the model again."""
        if not self.count:
            return
        model, read = self._model, reader(self._model, self._chosen)
        dof, gear = actuator_dofs(model, self._chosen), read("gear")[:, 0].astype(np.float64)
        bias = read("biasprm")[:, :3].astype(np.float64) * (read("biastype") == 1)[:, None]
        reference = model.mujoco.dof_ref.numpy()[dof].astype(np.float64)
        low, high = ranges(read, "ctrl")
        values = {
            "motor_gain": gear * read("gainprm")[:, 0],
            "motor_u0": gear * (bias[:, 0] + bias[:, 1] * gear * reference),
            "motor_kp": -bias[:, 1] * gear**2,
            "motor_kd": -bias[:, 2] * gear**2,
            "motor_low": low,
            "motor_high": high,
            "motor_limit": np.abs(gear) * ranges(read, "force")[1],  # the joint's own limit is read in each step
        }
        at_zero = [values["motor_u0"], values["motor_kp"], values["motor_kd"], low > 0.0, high < 0.0]
        values["motor_idle"] = ~np.any(at_zero, axis=0)
        for name, value in values.items():
            array: Any = self.arrays[name]
            full = array.numpy().copy()
            full[dof] = value
            array.assign(full)

    def inputs(self, ctrl: wp.array | None) -> dict[str, wp.array | None]:
        """Return the arrays for kernels, with the control inputs ``ctrl`` or, if that is None, the model's own."""
        if not self.count:
            return {**self.arrays, "ctrl": None}
        return {**self.arrays, "ctrl": self._model.mujoco.ctrl if ctrl is None else ctrl}


def reader(model: newton.Model, chosen: np.ndarray) -> Callable[[str], np.ndarray]:
    """Return a function that reads an attribute of the ``chosen`` actuators by MuJoCo's name."""
    return lambda name: getattr(model.mujoco, f"actuator_{name}").numpy()[chosen]


def limited(read: Callable[[str], np.ndarray], kind: str) -> np.ndarray:
    """Return for each actuator True if its ``kind``, "ctrl", "force" or "act", has a range."""
    flag = read(f"{kind}limited")
    return (flag == 1) | ((flag == _AUTO) & (read(f"has_{kind}range") != 0))


def ranges(read: Callable[[str], np.ndarray], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the range of ``kind``, "ctrl", "force" or "act"; -1e10 and 1e10 without a range."""
    bounded, bounds = limited(read, kind), read(f"{kind}range").astype(np.float64)
    return np.where(bounded, bounds[:, 0], -1e10), np.where(bounded, bounds[:, 1], 1e10)
