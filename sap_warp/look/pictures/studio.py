"""Studio: a model to be drawn, Newton's ray tracer, and the buffers of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.runtime.capture import launches
from .cameras import Camera, place_camera
from .extent import Extent
from .looks import as_array, shape_looks
from .shade import NOTHING, Light, find_edges, linear_of_bytes, measure, shade, to_bytes

KINDS = ("color", "depth", "segmentation")
_TOWARD = np.array([0.35, -0.55, 0.80]) / np.linalg.norm([0.35, -0.55, 0.80])
_FILL = np.array([-0.60, -0.45, 0.35]) / np.linalg.norm([-0.60, -0.45, 0.35])
MOST_PIXELS = 2**26
"""Largest picture, in rays."""


class Studio:
    """Takes pictures of the worlds of a model on any device; needs neither display nor GPU.

    What is drawn can be another model than the one that is simulated: one world with the same bodies, whose shapes are
    made for the eye. Then worlds are drawn one after another, else all at once.
    """

    def __init__(self, model: newton.Model, display: newton.Model | None = None):
        """Prepare for ``model``.

        Args:
            model: What is simulated.
            display: One world with the same bodies as each of ``model``, to be drawn in its place.
        """
        self.model, self.display = model, display
        self._drawn: newton.Model = model if display is None else display
        self._starts = _body_starts(model)
        self._offsets = _world_offsets(model, self._starts) if display is not None else None
        self._sensor = newton.sensors.SensorCamera(self._drawn)
        self._sensor.create_default_light(direction=wp.vec3f(*(-_TOWARD)))
        self._config = self._sensor.RenderConfig(enable_textures=True, enable_shadows=True, enable_particles=False)
        device = self._drawn.device
        self._look = as_array(shape_looks(self._drawn), device)
        self._linear = linear_of_bytes(device)
        self._body_of = self._find_bodies()
        self._poses = wp.zeros(max(self._drawn.body_count, 1), dtype=wp.transformf, device=device)
        self._extents: dict[int, Extent] = {}
        self._seen: dict[int, np.ndarray] = {}
        self._rays: dict[tuple[int, int, float], wp.array] = {}
        self._buffers: dict[tuple[int, int, int], dict[str, wp.array]] = {}

    def _find_bodies(self) -> wp.array:
        """Return the body of each drawn shape, counted from the first one of its world."""
        body = self._drawn.shape_body.numpy().copy()
        starts = _body_starts(self._drawn)
        moves = body >= 0
        body[moves] -= starts[np.searchsorted(starts, body[moves], side="right") - 1]
        return wp.array(body, dtype=wp.int32, device=self._drawn.device)

    @launches
    def render(
        self,
        body_q: wp.array,
        camera: Camera,
        worlds: Sequence[int],
        size: tuple[int, int],
        *,
        samples: int = 2,
        kind: str = "color",
        grow: bool = False,
    ) -> np.ndarray:
        """Take one picture of each of ``worlds``.

        Args:
            body_q: Poses of all bodies of the simulated model, fp32 or fp64.
            camera: Where from.
            worlds: Which worlds.
            size: Width and height [pixels].
            samples: Smoothness of edges: pixels at edges are the mean of ``samples`` x ``samples`` rays.
            kind: ``"color"``, ``"depth"`` or ``"segmentation"``; the last two take one ray for each pixel.
            grow: Let cameras without a pose of their own also show where things have been, so that a film does not
                shake.

        Returns:
            Colours as sRGB bytes of shape (worlds, height, width, 3); depth along the axis of the camera [m], float32
            of shape (worlds, height, width), infinite where there is nothing; or numbers of bodies within their world,
            int32, -1 for what belongs to none, -2 for nothing.
        """
        width, height = size
        check_picture(size, samples, kind)
        poses = body_q.numpy()
        results = []
        for group in [list(worlds)] if self.display is None else [[world] for world in worlds]:
            self._pose(body_q, poses, group[0])
            views = [self._view(camera, poses, world, width / height, grow) for world in group]
            results.append(self._take(group, views, camera.fov, (width, height, samples), kind))
        return np.concatenate(results)

    def _pose(self, body_q: wp.array, poses: np.ndarray, world: int) -> None:
        """Move the drawn bodies to those of the simulation, and update the tree of the shapes."""
        if self.display is not None:
            own = poses[self._starts[world] : self._starts[world + 1]].astype(np.float32)
            own[:, :3] -= self._offset(world)
            self._poses.assign(own)
            source = self._poses
        elif body_q.dtype is wp.transformf:
            source = body_q
        else:
            self._poses.assign(poses.astype(np.float32))
            source = self._poses
        self._state = SimpleNamespace(body_q=source, particle_q=None, particle_count=0)
        self._drawn.bvh_refit_shapes(self._state)

    def _offset(self, world: int) -> np.ndarray:
        return np.zeros(3) if self._offsets is None else self._offsets[world]

    def points(self, poses: np.ndarray, world: int) -> np.ndarray:
        """Return corners of what a picture of a world should show [m], shape [n, 3]; ``poses`` as in `render`."""
        drawn = 0 if self.display is not None else world
        if drawn not in self._extents:
            self._extents[drawn] = Extent(self._drawn, drawn)
        if self.display is None:
            return self._extents[drawn].points(poses)
        shifted = poses[self._starts[world] : self._starts[world + 1]].astype(float)
        shifted[:, :3] -= self._offset(world)
        return self._extents[drawn].points(shifted) + self._offset(world)

    def _view(
        self, camera: Camera, poses: np.ndarray, world: int, aspect: float, grow: bool
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the result of `place_camera` for a world."""
        anchor = None
        if camera.follow is not None:
            anchor = self.position(camera.follow, poses, world)
        points = np.zeros((0, 3))
        if camera.eye is None or camera.target is None:
            points = self.points(poses, world)
            if grow and anchor is None:
                points = self._grow(points, world)
            elif grow and anchor is not None:  # the size of what it follows at first
                points = anchor + self._seen.setdefault(world, points - anchor)
        return place_camera(camera, points, aspect, anchor)

    def _grow(self, points: np.ndarray, world: int) -> np.ndarray:
        """Extend the box around ``points`` by all that were seen before but far outliers, and return its corners."""
        first = self._seen.setdefault(world, points)
        low, high = first.min(axis=0), first.max(axis=0)
        margin = 2.0 * (high - low).max()
        near = points[((points > low - margin) & (points < high + margin)).all(axis=1)]
        kept = np.concatenate([first, near])
        extremes = np.concatenate([kept.argmin(axis=0), kept.argmax(axis=0)])
        self._seen[world] = np.concatenate([first, kept[np.unique(extremes)]]) if len(near) else first
        return self._seen[world]

    def forget(self) -> None:
        """Forget what earlier pictures have shown."""
        self._seen.clear()

    def position(self, name: str, poses: np.ndarray, world: int) -> np.ndarray:
        """Return the position of the body of that name in a world [m], shape [3]; ``poses`` of all bodies.

        Raises:
            ValueError: There is no such body, or several.
        """
        return poses[self._find_body(name, world), :3].astype(float)

    def _find_body(self, name: str, world: int) -> int:
        first, last = self._starts[world], self._starts[world + 1]
        labels = self.model.body_label[first:last]
        for matches in (
            [i for i, label in enumerate(labels) if label == name],
            [i for i, label in enumerate(labels) if label.rsplit("/", 1)[-1] == name],
        ):
            if len(matches) == 1:
                return int(first) + matches[0]
            if matches:
                raise ValueError(f"camera follows {name!r}, which is the name of {len(matches)} bodies of a world.")
        known = ", ".join(label.rsplit("/", 1)[-1] for label in labels[:12]) + (", ..." if len(labels) > 12 else "")
        raise ValueError(f"camera follows {name!r}; there is no such body, but: {known}.")

    def _take(
        self,
        worlds: list[int],
        views: list[tuple[np.ndarray, np.ndarray, float]],
        fov: float,
        size: tuple[int, int, int],
        kind: str,
    ) -> np.ndarray:
        width, height, samples = size
        device = self._drawn.device
        poses = []
        for world, (eye, axes, _) in zip(worlds, views, strict=True):
            poses.append([*(eye - self._offset(world)), *_quaternion(axes)])
        cameras = wp.array(np.array(poses, np.float32), dtype=wp.transformf, device=device)
        rays = self._get_rays(width, height, fov)
        chosen = wp.array([0] if self.display is not None else worlds, dtype=wp.int32, device=device)
        if kind != "color":
            return self._measure(cameras, rays, chosen, kind)
        light = self._light(min(distance for _, _, distance in views), fov, height)
        layers = self._shade(cameras, rays, chosen, light)
        color = layers["color"].numpy()
        if samples > 1:
            light.pixel /= samples
            shape, normal = layers["shape"].numpy(), layers["normal"].numpy()
            edges = [find_edges(shape[view], normal[view], color[view]) for view in range(len(worlds))]
            for view, (rows, columns) in enumerate(edges):
                if len(rows):
                    fine = _subpixel_rays(rows, columns, (width, height, samples), fov)
                    rays = wp.array(fine, dtype=wp.vec3f, device=device)
                    again = self._shade(cameras[view : view + 1], rays, chosen[view : view + 1], light)
                    color[view, rows, columns] = again["color"].numpy()[0].mean(axis=1)
        return to_bytes(color)

    def _shade(self, cameras: wp.array, rays: wp.array, chosen: wp.array, light: Any) -> dict[str, wp.array]:
        """Trace rays and colour what they hit."""
        wanted = {"lit": "hdr_color", "albedo": "albedo", "distance": "depth", "normal": "normal"}
        layers = self._trace(cameras, rays, chosen, wanted)
        found = [layers[name] for name in (*wanted, "shape")]
        inputs = [light, rays, cameras, *found, self._look, self._linear]
        color = layers["color"]
        wp.launch(shade, color.shape, inputs=inputs, outputs=[color], device=self._drawn.device)
        return layers

    def _measure(self, cameras: wp.array, rays: wp.array, chosen: wp.array, kind: str) -> np.ndarray:
        """Trace rays and return their depth, or the body that they hit."""
        layers = self._trace(cameras, rays, chosen, {"distance": "forward_depth"})
        size, device = layers["shape"].shape, self._drawn.device
        body, depth = (wp.empty(size, dtype=dtype, device=device) for dtype in (wp.int32, wp.float32))
        inputs = [layers["shape"], self._body_of, layers["distance"]]
        wp.launch(measure, size, inputs=inputs, outputs=[body, depth], device=device)
        return (depth if kind == "depth" else body).numpy()

    def _trace(
        self, cameras: wp.array, rays: wp.array, chosen: wp.array, wanted: Mapping[str, str]
    ) -> dict[str, wp.array]:
        """Return images of what rays hit: ``shape``, and those ``wanted``, by their names in the ray tracer."""
        height, width = rays.shape[:2]
        layers = self._get_buffers(len(cameras), width, height)
        if not self._drawn.bvh_shape_count_enabled:  # the ray tracer leaves the images alone then
            layers["shape"].fill_(int(NOTHING))
        images: dict[str, Any] = {f"{image}_image": layers[name] for name, image in wanted.items()}
        images |= {"shape_index_image": layers["shape"], "world_indices": chosen, "render_config": self._config}
        self._sensor.update(self._state, cameras, rays, **images)
        return layers

    def _light(self, distance: float, fov: float, rows: int) -> Any:
        """Return light and floor for a picture of something that is ``distance`` away [m]."""
        light = Light()
        light.toward, light.fill = wp.vec3f(*_TOWARD), wp.vec3f(*_FILL)
        height = 2.0 * distance * math.tan(math.radians(fov) / 2.0)
        power = 10.0 ** math.floor(math.log10(max(height, 1e-6)))
        light.cell = power * next((step for step in (0.5, 1.0, 0.2) if 3.0 <= height / (power * step) < 9.0), 1.0)
        light.fog = 7.0 * distance
        light.pixel = 2.0 * math.tan(math.radians(fov) / 2.0) / rows
        return light

    def _get_rays(self, width: int, height: int, fov: float) -> wp.array:
        key = (width, height, fov)
        if key not in self._rays:
            self._rays.clear()
            y, x = np.mgrid[0:height, 0:width]
            rays = _rays(x[..., None] + 0.5, y[..., None] + 0.5, width, height, fov)
            self._rays[key] = wp.array(rays, dtype=wp.vec3f, device=self._drawn.device)
        return self._rays[key]

    def _get_buffers(self, views: int, width: int, height: int) -> dict[str, wp.array]:
        """Return image buffers: those of a full picture are kept, those for its edges are made anew."""
        key = (views, width, height)
        if key in self._buffers:
            return self._buffers[key]
        kinds = {"lit": wp.vec3f, "normal": wp.vec3f, "color": wp.vec3f, "albedo": wp.uint32, "shape": wp.uint32}
        kinds["distance"] = wp.float32
        buffers = {name: self._sensor.allocate_image(views, width, height, kind) for name, kind in kinds.items()}
        if any(rays.shape[:2] == (height, width) for rays in self._rays.values()):
            self._buffers = {key: buffers}
        return buffers


def _rays(x: np.ndarray, y: np.ndarray, width: int, height: int, fov: float) -> np.ndarray:
    """Return origins and directions, in camera frame, of rays through points of the picture [pixels]."""
    half = math.tan(math.radians(fov) / 2.0)
    rays = np.zeros((*x.shape, 2, 3), np.float32)
    rays[..., 1, 0] = (2.0 * x / width - 1.0) * half * width / height
    rays[..., 1, 1] = (1.0 - 2.0 * y / height) * half
    rays[..., 1, 2] = -1.0
    rays[..., 1, :] /= np.linalg.norm(rays[..., 1, :], axis=-1, keepdims=True)
    return rays


def _subpixel_rays(rows: np.ndarray, columns: np.ndarray, size: tuple[int, int, int], fov: float) -> np.ndarray:
    """Return rays through some pixels, no two of one in the same row or column; shape [pixels, n, 1, 2, 3]."""
    width, height, samples = size
    i, j = (index.ravel() for index in np.mgrid[0:samples, 0:samples])
    x = (i + (j + 0.5) / samples) / samples
    y = (j + (samples - 0.5 - i) / samples) / samples
    return _rays((columns[:, None] + x)[..., None], (rows[:, None] + y)[..., None], width, height, fov)


def check_picture(size: tuple[int, int], samples: int, kind: str = "color") -> None:
    """Refuse impossible sizes of pictures.

    Raises:
        ValueError: A size, the number of rays or the kind is not possible.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; there is: {', '.join(KINDS)}.")
    for name, value in (("width", size[0]), ("height", size[1]), ("samples", samples)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1.")
    if samples > 8 or size[0] * size[1] * samples**2 > MOST_PIXELS:
        raise ValueError(
            f"A picture of {size[0]} x {size[1]} pixels with {samples} x {samples} rays each is too large."
        )


def _body_starts(model: newton.Model) -> np.ndarray:
    """Return the first body of each world, and the end."""
    worlds = max(int(model.world_count), 1)
    if model.body_world_start is None:
        return np.array([0, model.body_count])
    return model.body_world_start.numpy()[: worlds + 1]


def _world_offsets(model: newton.Model, starts: np.ndarray) -> np.ndarray | None:
    """Return the distance of each world from the first [m], by what is fixed in them; None if nothing is."""
    still = (model.shape_body.numpy() < 0) & (model.shape_world.numpy() >= 0)
    world, position = model.shape_world.numpy()[still], model.shape_transform.numpy()[still][:, :3]
    if not len(world):
        return None
    first = np.array([position[np.argmax(world == w)] for w in range(len(starts) - 1)], float)
    return first - first[0]


def _quaternion(axes: np.ndarray) -> np.ndarray:
    """Return the quaternion xyzw of a rotation matrix."""
    return np.array(wp.quat_from_matrix(wp.mat33(*axes.ravel().tolist())))
