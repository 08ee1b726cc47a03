"""Gravity compensation of bodies (``mujoco.gravcomp``): a force -c m g at the centre of mass, in free motion.

The factor c is read in every step, so it may change and differ between worlds; 1 makes a body weightless. Nothing is
launched for a model whose factors are all zero at construction or at the last `notify_model_changed`. The energy of
such worlds is not judged (`stability`): compensation does work that it has no account of.
"""

import functools
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.lanes import lane, lane_count
from ...core.kernels.launch import WorldRange, solver_kernel
from ...core.kernels.spatial import make_spatial
from ...core.kernels.types import Floats, Types, Vectors
from ..model.layout import moves


def compensation_factors(model: newton.Model) -> wp.array | None:
    """Factors by body, Newton's numbering; None if no body is compensated."""
    factors = getattr(getattr(model, "mujoco", None), "gravcomp", None)
    return factors if factors is not None and np.any(factors.numpy()) else None


@functools.cache
def make_compensation_kernel(Stage: Any, types: Types):
    """The kernel: one block per world, dofs shared by the lanes. ``Stage`` is free motion's struct."""
    S = make_spatial(types)
    rotation_matrix, to_vec3, to_quat = S.rotation_matrix, S.to_vec3, S.to_quat
    scalar = types.scalar

    @solver_kernel
    def compensate_gravity(first_world: int, stage: wp.array[Stage], gravity: Vectors, factor: Floats, dt: wp.float64):
        world = first_world + wp.tid() // lane_count()
        layout = stage[0].layout
        links = stage[0].links
        d = stage[0].d
        g = to_vec3(gravity[layout.world_gravity[world]])
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
                    arm = to_vec3(d.p[b]) + rotation_matrix(to_quat(d.r[b])) * to_vec3(links[b].com)
                    force -= c * scalar(links[b].mass) * wp.dot(g, d.Sv[e] + wp.cross(d.Sw[e], arm))
                b += 1
            d.impulse[e] = d.impulse[e] + scalar(dt) * force
            e += lane_count()
        if lane() == 0:
            d.energy_watch[world] = 0

    return compensate_gravity


class GravityCompensation:
    """Adds the forces to the impulse of free motion."""

    def __init__(self, model: Any, types: Types):
        """``model`` is a `SapModel`; the precision is that of free motion."""
        self._model, self._types = model, types
        self.refresh()

    def refresh(self) -> None:
        """See again whether any body is compensated."""
        self._factor = compensation_factors(self._model.newton_model)

    def add(self, stage: Any, dt: float, worlds: WorldRange) -> None:
        """Add h times the forces to the impulse of ``stage``, free motion's `StructArgument`."""
        if self._factor is not None:
            kernel = make_compensation_kernel(stage.array.dtype, self._types)
            worlds.launch(kernel, stage.array, self._model.gravity, self._factor, dt, device=self._model.device)
