"""Body accelerations of a step, for those who ask: the change of the body twists over the time step."""

from typing import Any

import warp as wp

from ...core.kernels.launch import solver_kernel


@solver_kernel
def finish_acceleration(twist: wp.array[wp.spatial_vectorf], inv_dt: float, out: wp.array[wp.spatial_vectorf]):
    """``out`` holds the twists at the start of the step when this begins."""
    b = wp.tid()
    out[b] = (twist[b] - out[b]) * inv_dt


class BodyAcceleration:
    """Fills Newton's BODY_QDD, and the ``body_qdd`` of a state that has one, with [a_C, alpha] in world axes."""

    def __init__(self, observables: Any, state_in: Any, state_out: Any):
        """Keep the twists of ``state_in``, which ``state_out`` may overwrite."""
        wanted = observables.body_qdd if observables is not None else None
        self._arrays = [array for array in (wanted, getattr(state_out, "body_qdd", None)) if array is not None]
        for array in self._arrays:
            wp.copy(array, state_in.body_qd)

    def finish(self, state_out: Any, dt: float) -> None:
        """Turn them into accelerations."""
        for array in self._arrays:
            wp.launch(
                finish_acceleration,
                dim=array.shape[0],
                inputs=[state_out.body_qd, 1.0 / dt],
                outputs=[array],
                device=array.device,
            )
