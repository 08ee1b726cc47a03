"""Body accelerations of a step, for those who ask: the change of the body twists over the time step."""

from __future__ import annotations

from typing import Any

import warp as wp

from ...core.kernels.launch import kernel
from ...core.kernels.template import Variant
from ...model.model import SapState


@kernel
def finish_acceleration(twist: wp.array[wp.spatial_vectorf], inv_dt: float, out: wp.array[wp.spatial_vectorf]):
    """Turn ``out``, which holds the twists at the start of the step, into the accelerations of the step."""
    b = wp.tid()
    out[b] = (twist[b] - out[b]) * inv_dt


class BodyAcceleration:
    """Fills Newton's BODY_QDD, and the ``body_qdd`` of a state that has one, with [a_C, alpha] in world axes."""

    def __init__(self, observables: Any, state_in: SapState, state_out: Any):
        """Keep the twists of ``state_in``, which ``state_out`` may overwrite."""
        wanted = observables.body_qdd if observables is not None else None
        self._arrays = [array for array in (wanted, getattr(state_out, "body_qdd", None)) if array is not None]
        for array in self._arrays:
            wp.copy(array, state_in.body_qd)

    def finish(self, state_out: SapState, dt: float) -> None:
        """Turn the twists that were kept into accelerations."""
        for array in self._arrays:
            wp.launch(
                finish_acceleration.of(Variant()),
                dim=array.shape[0],
                inputs=[state_out.body_qd, 1.0 / dt],
                outputs=[array],
                device=array.device,
            )
