"""`SapCollisionState`: body poses in the precision that collision detection reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

import newton
import warp as wp

from ..model.model import SapState


@wp.kernel(enable_backward=False)
def round_poses(pose_in: wp.array[wp.transformd], pose_out: wp.array[wp.transformf]) -> None:
    """Round poses from fp64 to fp32."""
    i = wp.tid()
    p = wp.transform_get_translation(pose_in[i])
    q = wp.transform_get_rotation(pose_in[i])
    pose_out[i] = wp.transformf(
        wp.vec3f(wp.float32(p[0]), wp.float32(p[1]), wp.float32(p[2])),
        wp.quatf(wp.float32(q[0]), wp.float32(q[1]), wp.float32(q[2]), wp.float32(q[3])),
    )


@dataclass(eq=False)
class SapCollisionState:
    """The arrays of a state that collision detection reads."""

    body_q: wp.array
    """Body poses in world frame [m, quaternion xyzw], shape [body_count], fp32."""

    body_qd: wp.array | None = None
    """Body twists [v_C, w] in world frame [m/s, rad/s], shape [body_count]; only speculative contacts need them."""

    body_q_source: wp.array | None = None
    """Poses in fp64 that `body_q` is rounded from by `refresh`; None if `body_q` is the state's own array."""

    particle_q: wp.array | None = None
    """Newton's pipeline reads this attribute; the solver refuses particles."""

    def refresh(self, bodies: slice | None = None) -> None:
        """Round the fp64 poses, of all bodies or of some, into `body_q`: one launch, no allocation.

        `SapCollisionPipeline.collide` calls it.
        """
        source, target = self.body_q_source, self.body_q
        if source is None:
            return
        if bodies is not None:
            source, target = source[bodies], target[bodies]
        count, device = source.shape[0], source.device
        wp.launch(round_poses, dim=count, inputs=[source], outputs=[target], device=device, record_tape=False)


CollisionStateLike: TypeAlias = SapCollisionState | SapState | newton.State

_ROUNDED: WeakKeyDictionary[SapState, SapCollisionState] = WeakKeyDictionary()
"""fp32 poses of each state in fp64, kept as long as the state lives."""


def sap_collision_state_from_state(state: CollisionStateLike) -> SapCollisionState:
    """View a state as collision detection reads it.

    Poses in fp32 are shared. Poses in fp64 are rounded into a buffer that is made once per state object, so this may
    be called in every step; `SapCollisionPipeline.collide` refreshes that buffer.

    Raises:
        TypeError: ``state`` is of another type, or has no body poses.
    """
    if isinstance(state, SapCollisionState):
        return state
    if not isinstance(state, (SapState, newton.State)):
        raise TypeError(f"state is a {type(state).__name__}; expected SapState, newton.State or SapCollisionState.")
    pose = state.body_q
    if not isinstance(pose, wp.array):
        raise TypeError("The state has no body poses: body_q is None.")
    if pose.dtype is wp.transformd and isinstance(state, SapState):
        return _rounded(state, pose)
    return SapCollisionState(body_q=pose, body_qd=state.body_qd)


def _rounded(state: SapState, pose: wp.array) -> SapCollisionState:
    known = _ROUNDED.get(state)
    if known is None or known.body_q_source is not pose:
        buffer = wp.empty(pose.shape[0], dtype=wp.transformf, device=pose.device)
        known = _ROUNDED[state] = SapCollisionState(body_q=buffer, body_q_source=pose)
        known.refresh()
    known.body_qd = state.body_qd
    return known
