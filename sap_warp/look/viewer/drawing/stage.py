"""Stage of the page: bodies of the shown worlds as instances, colliding shapes, the offsets of the worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import newton
import numpy as np

from ....model.shapes import PLANES, shape_type, types_where
from ...visuals import VisualBatch, find_colliders, find_visuals
from ..options import MOST_WORLDS
from .meshes import Template, bounds, choose_segments, instance_poses, make_templates

_SHADOW_WORLDS = 16
"""Most worlds that cast shadows by default."""
_WORLDS_LOOKED_AT = 8
"""Worlds whose boxes are compared to tell whether all worlds overlap."""
_COLLIDER = (230, 120, 30)


class Stage:
    """Bodies on a page. Meshes are sent once; a frame sends poses."""

    def __init__(self, server: Any, sim: Any, worlds: Sequence[int] | None, shadows: bool | None = None):
        """Send the meshes.

        Args:
            server: Of the page.
            sim: The simulation.
            worlds: Which worlds to show; None is all of them, up to `MOST_WORLDS`.
            shadows: Whether bodies cast shadows; None is for few worlds.
        """
        self._server, self._sim = server, sim
        every = range(sim.world_count)
        self.worlds: list[int] = list(every[:MOST_WORLDS] if worlds is None else worlds)
        """Worlds on the page."""
        self.chosen: list[int] = list(self.worlds)
        """Those of them that are shown now."""
        rounds = np.isin(sim.model.shape_type.numpy(), types_where(lambda shape: shape.is_round)).sum()
        rounds = rounds * len(self.worlds) / max(sim.world_count, 1)
        self._segments = choose_segments(int(rounds))
        self.templates = make_templates(find_visuals(sim, self.worlds, self._segments))
        self._home = world_offsets(sim, self.worlds, self.templates)
        self.offsets = self._home
        """Where each world is shown relative to its own frame [m], shape (worlds + 1, 3); the last is for what all
        worlds share."""
        self._handles: list[Any] = []
        self._colliders: list[tuple[VisualBatch, Any]] = []
        self._shows_visuals, self._shows_colliders = True, False
        self.casts_shadows = len(self.worlds) <= _SHADOW_WORLDS if shadows is None else shadows
        """Whether bodies cast shadows."""
        self.cast_shadows(self.casts_shadows)
        body_q = self.body_q()
        for i, template in enumerate(self.templates):
            position, wxyz = instance_poses(template, body_q, self.offsets)
            handle = server.scene.add_batched_glb(f"/bodies/{i}", template.glb, wxyz, position)
            self._handles.append(handle)

    def body_q(self) -> np.ndarray:
        """Return poses of all bodies in double precision."""
        return self._sim.body_q.flat().astype(np.float64)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners of all that is shown now [m]."""
        own = [part for template in self.templates if (part := template.only([*self.chosen, -1])) is not None]
        return bounds(own, self.body_q(), self.offsets)

    def world_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the corners of the first of the worlds [m]."""
        own = [part for template in self.templates if (part := template.only(self.worlds[:1])) is not None]
        return bounds(own, self.body_q(), self.offsets)

    def cast_shadows(self, on: bool) -> None:
        """Let bodies cast shadows; without a graphics card that is most of the work of drawing."""
        self.casts_shadows = on
        self._server.scene.configure_default_lights(enabled=True, cast_shadow=on)

    def update(self, body_q: np.ndarray) -> None:
        """Send the present poses."""
        if self._shows_visuals:
            for template, handle in zip(self.templates, self._handles, strict=True):
                if template.moves:
                    handle.batched_positions, handle.batched_wxyzs = self._poses(template, body_q)
        if self._shows_colliders:
            for batch, handle in self._colliders:
                if (batch.body >= 0).any():
                    position, wxyz = batch.world_poses(body_q)
                    handle.batched_positions = (position + self.offsets[batch.world]).astype(np.float32)
                    handle.batched_wxyzs = wxyz.astype(np.float32)

    def _poses(self, template: Template, body_q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return instance_poses(template, body_q, self.offsets)

    def choose(self, worlds: Sequence[int]) -> None:
        """Show some of the worlds; one alone stands in the middle."""
        self.chosen = [world for world in self.worlds if world in set(worlds)]
        hidden = np.isin(np.arange(len(self._home)), [*self.chosen, len(self._home) - 1], invert=True)
        self.offsets = self._home.copy()
        if len(self.chosen) == 1:
            self.offsets[self.chosen[0]] = 0.0
        self.offsets[hidden] = (0.0, 0.0, -1.0e6)  # out of sight; removing instances would send all meshes again
        body_q = self.body_q()
        for template, handle in zip(self.templates, self._handles, strict=True):
            handle.batched_positions, handle.batched_wxyzs = self._poses(template, body_q)
        for batch, handle in self._colliders:
            handle.batched_positions = (batch.world_poses(body_q)[0] + self.offsets[batch.world]).astype(np.float32)

    def show_colliders(self, on: bool) -> None:
        """Show colliding shapes as wires."""
        if on and not self._colliders:
            body_q = self.body_q()
            for i, batch in enumerate(find_colliders(self._sim, self.worlds, self._segments)):
                position, wxyz = batch.world_poses(body_q)
                handle = self._server.scene.add_batched_meshes_simple(
                    f"/colliders/{i}",
                    batch.geometry.vertices,
                    batch.geometry.faces,
                    wxyz.astype(np.float32),
                    (position + self.offsets[batch.world]).astype(np.float32),
                    batched_colors=_COLLIDER,
                    wireframe=True,
                    cast_shadow=False,
                    receive_shadow=False,
                    lod="off",
                )
                self._colliders.append((batch, handle))
        self._shows_colliders = on
        for _, handle in self._colliders:
            handle.visible = on
        if on:
            self.update(self.body_q())

    def show_visuals(self, on: bool) -> None:
        """Show bodies as they look."""
        self._shows_visuals = on
        for handle in self._handles:
            handle.visible = on
        if on:
            self.update(self.body_q())

    def on_drag(self, function: Callable[[int, int, Any], Any]) -> None:
        """Call ``function(body, world, event)`` when the mouse drags a body; both are numbers in the model."""

        def attach(template: Template, handle: Any) -> None:
            async def dragged(event: Any) -> None:  # async: viser keeps the order of those
                i = event.instance_index
                if i is not None and 0 <= i < len(template.body):
                    function(int(template.body[i]), int(template.world[i]), event)

            handle.on_drag("left")(dragged)

        for template, handle in zip(self.templates, self._handles, strict=True):
            if template.moves:
                attach(template, handle)

    def drop_drag(self) -> None:
        """Let the mouse turn the view again, wherever it is."""
        for template, handle in zip(self.templates, self._handles, strict=True):
            if template.moves:
                handle.remove_drag_callback()


def find_ground(model: newton.Model) -> float | None:
    """Return the height of a horizontal infinite plane [m]; None if there is none."""
    kinds, scales, poses = model.shape_type.numpy(), model.shape_scale.numpy(), model.shape_transform.numpy()
    for i in np.flatnonzero(np.isin(kinds, PLANES)):
        x, y = poses[i][3:5]
        is_level = 1.0 - 2.0 * (x * x + y * y) > 0.999
        if is_level and not shape_type(kinds[i]).is_finite(scales[i]) and model.shape_body.numpy()[i] < 0:
            return float(poses[i][2])
    return None


def world_offsets(sim: Any, worlds: Sequence[int], templates: Sequence[Template]) -> np.ndarray:
    """Return where to show the worlds [m], shape (worlds + 1, 3): on a grid if they all overlap."""
    found = np.zeros((sim.world_count + 1, 3))
    if len(worlds) < 2:
        return found
    body_q = sim.body_q.flat().astype(np.float64)
    boxes = []
    for world in worlds[:_WORLDS_LOOKED_AT]:
        own = [part for template in templates if (part := template.only([world])) is not None]
        if not own:
            return found
        boxes.append(bounds(own, body_q, found))
    low, high = (np.array(corner) for corner in zip(*boxes, strict=True))
    size = high - low
    first, other = np.triu_indices(len(boxes), k=1)
    common = np.minimum(high[first], high[other]) - np.maximum(low[first], low[other])
    if not (common > 0.5 * np.minimum(size[first], size[other]))[:, :2].all(axis=1).any():
        return found  # the scene has put them side by side
    step = 1.25 * max(size[:, :2].max(), 0.6 * size[:, 2].max(), 1e-3)
    side = math.ceil(math.sqrt(len(worlds)))
    for i, world in enumerate(worlds):
        found[world] = step * (i % side - 0.5 * (side - 1)), step * (i // side - 0.5 * (side - 1)), 0.0
    return found
