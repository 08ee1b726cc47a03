"""Actuators that are equations of their own: their parameters on the device, and their activations.

Parameters are packed at construction and by `notify_model_changed`; effort limits of joints are read in every step.
Activations belong to the solver, not to a state: a step advances them, a reset of a world sets them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from newton.solvers import SolverMuJoCo

from ...core.kernels.structs import StructCache
from ...core.kernels.template import Variant
from ...model.joint_types import SCALAR_JOINTS
from ..model.motors import ranges, reader
from .actuators import Actuator, ActuatorArrays, reset_activations, set_activations
from .sources import Term, TransmissionModel, actuator_objects, row_actuators, tendon_count

if TYPE_CHECKING:
    from ...model.model import SapModel

_MUSCLE = 2
_AUTO = 2


class SapActuation:
    """Owns parameters and activations; `act` may be read and written between steps, by Newton's actuator."""

    def __init__(self, model: SapModel):
        """Read the actuators of ``model`` that are not drives of joints."""
        self._model = model.newton_model
        self.chosen = row_actuators(self._model)
        self.total = int(self._model.custom_frequency_counts.get("mujoco:actuator", 0)) if len(self.chosen) else 0
        device = self._model.device
        self._parameters = wp.zeros(self.total, dtype=Actuator, device=device)
        self.act = wp.zeros(self.total, dtype=wp.float64, device=device)
        self._arrays = StructCache(device)
        self._no_ctrl = wp.zeros(0, dtype=wp.float32, device=device)
        self._no_mask = wp.empty(0, dtype=wp.bool, device=device)
        self.refresh()
        self.has_dynamics = bool(len(self.chosen)) and bool(reader(self._model, self.chosen)("dyntype").any())
        if self.has_dynamics:
            self.reset(None)

    def refresh(self) -> None:
        """Read gains and ranges again."""
        if not self.total:
            return
        model, read = self._model, reader(self._model, self.chosen)
        record: Any = Actuator
        packed = np.zeros(self.total, dtype=record.numpy_dtype())
        mine = packed[self.chosen]
        mine["acts"] = 1
        mine["world"] = read("world")
        for field, name in (("dynamics", "dyntype"), ("gain", "gaintype"), ("bias", "biastype"), ("early", "actearly")):
            mine[field] = read(name)
        for kind in ("ctrl", "force", "act"):
            mine[f"{kind}_low"], mine[f"{kind}_high"] = ranges(read, kind)
        mine["length_low"], mine["length_high"] = read("lengthrange").T
        for name in ("dynprm", "gainprm", "biasprm"):
            mine[name] = read(name)
        initial = getattr(getattr(model, "sap", None), "actuator_act0", None)
        if initial is not None:
            mine["act0"] = initial.numpy()[self.chosen]
        self._limit_by_joints(mine, read)
        packed[self.chosen] = mine
        self._parameters.assign(wp.array(packed, dtype=Actuator, device=model.device))

    def _limit_by_joints(self, mine: np.ndarray, read: Callable[[str], np.ndarray]) -> None:
        """Force ranges within what tendons allow, and joints whose limits hold; gears lead from one to the other."""
        model = self._model
        mine["limit_dof"] = -1
        target, _ = actuator_objects(model, self.chosen)
        joint_of_dof = np.repeat(np.arange(model.joint_count), np.diff(model.joint_qd_start.numpy()))
        gear = np.abs(read("gear")[:, 0].astype(float))
        for i in np.flatnonzero((read("trntype") <= 1) & (target >= 0) & (gear > 0.0)):
            if model.joint_type.numpy()[joint_of_dof[target[i]]] in SCALAR_JOINTS:
                mine["limit_dof"][i], mine["gear"][i] = target[i], gear[i]
        if not tendon_count(model):
            return
        allowed = model.mujoco.tendon_actuator_force_range.numpy().astype(float)
        limited = model.mujoco.tendon_actuator_force_limited.numpy()
        for i in np.flatnonzero((read("trntype") == int(SolverMuJoCo.TrnType.TENDON)) & (target >= 0)):
            low, high = allowed[target[i]]
            factor = float(read("gear")[i, 0])
            if factor and (limited[target[i]] == 1 or (limited[target[i]] == _AUTO and low < high)):
                ends = sorted((low / factor, high / factor))
                mine["force_low"][i], mine["force_high"][i] = np.clip(
                    (mine["force_low"][i], mine["force_high"][i]), *ends
                )

    def has_weak_muscles(self) -> bool:
        """Return True if there are muscles whose strength is -1: it follows from the model."""
        if not self.total:
            return False
        read = reader(self._model, self.chosen)
        return any(
            bool(((read(f"{n}type") == _MUSCLE) & (read(f"{n}prm")[:, 2] < 0.0)).any()) for n in ("gain", "bias")
        )

    def scale_muscles(self, sources: TransmissionModel, acc0: Callable[[Term], float]) -> None:
        """Give muscles whose strength is -1 the one that MuJoCo gives them: scale over ``acc0(term)`` [m/s^2]."""
        packed = self._parameters.numpy()
        changed = False
        for term in sources.terms:
            if term.actuator < 0:
                continue
            entry = packed[term.actuator]
            for name in ("gain", "bias"):
                prm = entry[f"{name}prm"]
                if entry[name] == _MUSCLE and prm[2] < 0.0:
                    prm[2] = prm[3] / max(acc0(term), 1e-15)
                    changed = True
        if changed:
            self._parameters.assign(wp.array(packed, dtype=Actuator, device=self._model.device))

    def arrays(self, ctrl: wp.array | None) -> wp.array:
        """Struct of everything that kernels read, with the inputs ``ctrl`` or the model's own."""
        if not self.total:
            ctrl = self._no_ctrl
        elif ctrl is None:
            ctrl = self._model.mujoco.ctrl
        found = {"parameters": self._parameters, "ctrl": ctrl, "act": self.act}
        return self._arrays.get(found | {"effort_limit": self._model.joint_effort_limit}, ActuatorArrays)

    def reset(self, world_mask: wp.array | None) -> None:
        """Set the activations of the worlds of a mask, or of all, back to their initial values."""
        if self.has_dynamics:
            mask = self._no_mask if world_mask is None else world_mask
            inputs = [self.arrays(None), mask, int(world_mask is not None)]
            wp.launch(reset_activations.of(Variant()), dim=self.total, inputs=inputs, device=self._model.device)

    def set(self, values: wp.array, world_mask: wp.array) -> None:
        """Give the activations of one world, float64 and by actuator, to the worlds of a mask."""
        if self.has_dynamics:
            inputs = [self.arrays(None), values, world_mask]
            wp.launch(set_activations.of(Variant()), dim=self.total, inputs=inputs, device=self._model.device)
