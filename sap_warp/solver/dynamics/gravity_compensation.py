"""Gravity compensation of bodies (``mujoco.gravcomp``): a force -c m g at the centre of mass, in free motion.

The factor c is read in every step, so it may change and differ between worlds; 1 makes a body weightless. Nothing is
launched for a model whose factors are all zero at construction or at the last `notify_model_changed`. The energy of
such worlds is not judged (`stability`): compensation does work that it has no account of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import newton
import numpy as np
import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import WorldRange, kernel
from ...core.kernels.spatial import rotation_matrix, to_quat, to_vec3
from ...core.kernels.structs import StructArgument
from ...core.kernels.template import Variant
from ...core.kernels.types import Floats, Vectors
from ..model.layout import moves
from ..model.motion_data import MotionStage
from ..settings.precisions import dynamics

if TYPE_CHECKING:
    from ...model.model import SapModel

scalar = dynamics.scalar
to_matrix, to_motion, to_rotation = (f.on(number=dynamics) for f in (rotation_matrix, to_vec3, to_quat))


def compensation_factors(model: newton.Model) -> wp.array | None:
    """Return the factors by body, Newton's numbering, or None if no body is compensated."""
    factors = getattr(getattr(model, "mujoco", None), "gravcomp", None)
    return factors if factors is not None and np.any(factors.numpy()) else None


@kernel
def compensate_gravity(
    first_world: int, stage: wp.array[MotionStage], gravity: Vectors, factor: Floats, dt: wp.float64
):
    """Add the force of each body to the impulse: one block per world, dofs shared by the lanes."""
    world = first_world + wp.tid() // lane_count()
    layout = stage[0].layout
    links = stage[0].links
    motion = stage[0].motion
    g = to_motion(gravity[layout.world_gravity[world]])
    b_start = layout.world_body[world]
    b_end = layout.world_body[world + 1]
    e_end = layout.world_dof[world + 1]
    e = int(layout.world_dof[world] + lane())
    while e < e_end:
        force = scalar(0.0)
        b = int(b_start)
        while b < b_end:
            c = scalar(factor[links[b].body])
            if c != scalar(0.0) and moves(layout, e, b):
                arm = to_motion(motion.p[b]) + to_matrix(to_rotation(motion.r[b])) * to_motion(links[b].com)
                force -= c * scalar(links[b].mass) * wp.dot(g, motion.Sv[e] + wp.cross(motion.Sw[e], arm))
            b += 1
        motion.impulse[e] = motion.impulse[e] + scalar(dt) * force
        e += lane_count()
    if lane() == 0:
        motion.energy_watch[world] = 0


class GravityCompensation:
    """Adds the forces to the impulse of free motion."""

    def __init__(self, model: SapModel, variant: Variant):
        """``variant`` is that of the solver's kernels."""
        self._model, self._variant = model, variant
        self.refresh()

    def refresh(self) -> None:
        """See again whether any body is compensated."""
        self._factor = compensation_factors(self._model.newton_model)

    def add(self, stage: StructArgument, dt: float, worlds: WorldRange) -> None:
        """Add h times the forces to the impulse of ``stage``, a `MotionStage`."""
        if self._factor is not None:
            compensate, model = compensate_gravity.of(self._variant), self._model
            worlds.launch(compensate, stage.array, model.gravity, self._factor, dt, device=model.device)
