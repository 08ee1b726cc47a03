"""Rays that measure distances with Newton's ray tracer: range finders, lidars and height scans."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.template import Variant
from ...core.kernels.types import TYPES
from ...core.runtime.capture import launches
from .kernels import BY_BODY, BY_WORLD, BY_YAW, find_hits, place_frames

TURNS = {"body": int(BY_BODY), "yaw": int(BY_YAW), "world": int(BY_WORLD)}


class RaySensor:
    """Rays from a frame in every world; all worlds are measured by one launch.

    Example:
        ```python
        lidar = sim.ray_sensor([[0, 0, 0.2]], [[1, 0, 0], [0, 1, 0]], body="base", ignore="*")
        lidar.update().numpy()  # (worlds, 2)
        ```
    """

    def __init__(
        self,
        sim: Any,
        origins: Any,
        directions: Any,
        *,
        body: str | None = None,
        turn: str = "body",
        ignore: str | Iterable[str] = (),
        max_distance: float = 100.0,
    ):
        """Prepare rays; see `Simulation.ray_sensor`."""
        origin, direction = np.asarray(origins, float), np.asarray(directions, float)
        if origin.ndim < 1 or origin.shape[-1] != 3 or direction.ndim < 1 or direction.shape[-1] != 3:
            raise ValueError("origins and directions must have three numbers for each ray.")
        origin, direction = np.broadcast_arrays(origin.reshape(-1, 3), direction.reshape(-1, 3))
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        if not np.isfinite(origin).all() or not np.isfinite(direction).all() or not (length > 0.0).all():
            raise ValueError("origins and directions must be finite, and no direction zero.")
        if turn not in TURNS:
            raise ValueError(f"turn is {turn!r}; there is: {', '.join(TURNS)}.")
        if not 0.0 < max_distance < math.inf:
            raise ValueError(f"max_distance is {max_distance!r}; it must be positive and finite.")
        self._sim, self._turn, self._offset = sim, TURNS[turn], wp.transformf()
        device, worlds, count = sim.device, sim.world_count, len(origin)
        rays = np.stack([origin, direction / length], axis=1).astype(np.float32)
        self._rays = wp.array(rays[None, :, None], dtype=wp.vec3f, device=device)
        bodies = np.full(worlds, -1, np.int32)
        if body is not None:
            bodies[:] = sim._names.starts_of("body")[:-1] + int(_one(sim, body))
        self._bodies = wp.array(bodies, dtype=wp.int32, device=device)
        self._model = _hit_model(sim, ignore)
        self._sensor = newton.sensors.SensorCamera(self._model, load_textures=False)
        self._longest = float(max_distance)
        # the kernel is compiled for its settings: the same for all sensors
        self._config = self._sensor.RenderConfig(max_distance=1.0e6, enable_particles=False)
        self._found = wp.zeros((worlds, 1, count), dtype=wp.float32, device=device)
        self._frames = wp.zeros(worlds, dtype=wp.transformf, device=device)
        self._poses = wp.zeros(max(sim.model.body_count, 1), dtype=wp.transformf, device=device)
        self.distance: wp.array = wp.zeros((worlds, count), dtype=wp.float32, device=device)
        """Length of each ray [m], shape (worlds, rays); ``max_distance`` where it meets nothing."""
        self.point: wp.array = wp.zeros((worlds, count), dtype=wp.vec3f, device=device)
        """Where each ray ends, in world frame [m], shape (worlds, rays)."""

    @launches
    def update(self) -> wp.array:
        """Measure in the present state and return `distance`."""
        sim, device = self._sim, self._sim.device
        body_q = sim.state.body_q
        kernel = place_frames.of(Variant(number=TYPES[sim.precision]))
        inputs = [self._bodies, self._turn, self._offset, body_q]
        wp.launch(kernel, sim.world_count, inputs=inputs, outputs=[self._frames], device=device)
        if body_q.dtype is not wp.transformf:
            self._poses.assign(body_q.numpy().astype(np.float32))
            body_q = self._poses
        state = SimpleNamespace(body_q=body_q, particle_q=None, particle_count=0)
        self._model.bvh_refit_shapes(state)
        self._sensor.update(state, self._frames, self._rays, render_config=self._config, depth_image=self._found)
        inputs = [self._frames, self._rays, self._found, self._longest]
        wp.launch(find_hits, self.point.shape, inputs=inputs, outputs=[self.distance, self.point], device=device)
        return self.distance


def height_scan(sim: Any, body: str, size: tuple[float, float], spacing: float, **options: Any) -> RaySensor:
    """Make rays that look down on a grid around a body and turn with its heading; see `Simulation.height_scan`."""
    if not (spacing > 0.0 and min(size) >= 0.0):
        raise ValueError(f"size is {size} and spacing {spacing}; the one must not be negative, the other positive.")
    above = float(options.pop("above", 10.0))
    x, y = (np.linspace(-length / 2.0, length / 2.0, round(length / spacing) + 1) for length in size)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    origins = np.concatenate([grid, np.full((len(grid), 1), above)], axis=1)
    options = {"ignore": "*", "max_distance": above + 100.0, **options}
    return RaySensor(sim, origins, [[0.0, 0.0, -1.0]], body=body, turn="yaw", **options)


def _one(sim: Any, name: str) -> int:
    found = sim._names.find("body", name)
    if len(found.indices) != 1:
        raise ValueError(f"body is {name!r}, which stands for {len(found.indices)} bodies; name one.")
    return int(found.indices[0])


def _hit_model(sim: Any, ignore: Any) -> Any:
    """Return the model that rays hit: colliding shapes except those of ignored bodies, with their own tree."""
    whole = sim.model
    physical = (whole.shape_flags.numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    patterns = [ignore] if isinstance(ignore, str) else list(ignore)
    if patterns:
        found = sim._names.find("body", patterns)
        starts = sim._names.starts_of("body")[:-1]
        bodies = (starts[:, None] + np.asarray(found.indices)[None]).ravel()
        physical &= ~np.isin(whole.shape_body.numpy(), bodies)
    seen: Any = copy.copy(whole)
    flags = np.where(physical, int(newton.ShapeFlags.VISIBLE), 0).astype(np.int32)
    seen.shape_flags = wp.array(flags, dtype=whole.shape_flags.dtype, device=whole.device)
    seen.bvh_build_shapes(whole)
    return seen
