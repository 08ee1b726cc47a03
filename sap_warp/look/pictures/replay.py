"""Page that replays a recording in a browser, without Python."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stdout
from typing import Any

import newton
import numpy as np

from ...model.shapes import shape_type
from .cameras import Camera, place_camera
from .files import import_viser
from .looks import AS_FLOOR, AS_GIVEN, shape_looks


class Replay:
    """Collects poses for a page."""

    def __init__(self, sim: Any, worlds: list[int], camera: Camera, seconds: float):
        """Show the shapes of some worlds of ``sim``.

        Args:
            sim: The simulation.
            worlds: Which of its worlds; several stand side by side.
            camera: Where the page looks from at first.
            seconds: Time between two frames [s].
        """
        viser = import_viser()
        studio = sim.studio
        self._seconds = seconds
        # the page is made by the part of viser that serves it; nobody else can reach it, and it ends with this object
        with redirect_stdout(io.StringIO()):
            self._server = viser.ViserServer(host="127.0.0.1", port=_free_port(), verbose=False)
        self._recording = self._server.get_scene_serializer()
        drawn = studio.display or sim.model
        starts = sim.body_q.offsets
        self._frames: list[tuple[Any, int, np.ndarray]] = []
        step = _spacing(studio, sim.body_q.flat(), worlds[0]) if len(worlds) > 1 else 0.0
        columns = math.ceil(math.sqrt(len(worlds)))
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.configure_default_lights(enabled=True, cast_shadow=True)
        floor = _floor_height(drawn)
        if floor is not None:
            scene.add_grid(
                "/ground", width=40.0, height=40.0, position=(0.0, 0.0, floor), cell_size=0.5, shadow_opacity=0.4
            )
        for k, world in enumerate(worlds):
            offset = step * np.array([k % columns, k // columns, 0.0])
            own = 0 if studio.display is not None else world
            frames = {-1: scene.add_frame(f"/world_{k}", show_axes=False, position=offset)}
            for body in range(starts[world + 1] - starts[world]):
                frames[body] = scene.add_frame(f"/world_{k}/body_{body}", show_axes=False)
                self._frames.append((frames[body], int(starts[world]) + body, studio._offset(world)))
            _add_shapes(scene, drawn, own, f"/world_{k}", int(starts[world]) if studio.display is None else 0)
        offsets = [step * np.array([k % columns, k // columns, 0.0]) for k in range(len(worlds))]
        seen = [studio.points(sim.body_q.flat(), w) + at for w, at in zip(worlds, offsets, strict=True)]
        anchor = None if camera.follow is None else studio.position(camera.follow, sim.body_q.flat(), worlds[0])
        eye, axes, distance = place_camera(camera, np.concatenate(seen), 1.5, anchor)
        self._server.initial_camera.position = tuple(map(float, eye))
        self._server.initial_camera.look_at = tuple(map(float, eye - distance * axes[:, 2]))
        self._server.initial_camera.fov = math.radians(camera.fov)

    def add(self, body_q: np.ndarray) -> None:
        """Append a frame; ``body_q`` has the poses of all bodies of the simulation, shape [bodies, 7]."""
        with self._server.atomic():
            for frame, body, offset in self._frames:
                x, y, z, i, j, k, w = map(float, body_q[body])
                frame.position = np.array([x, y, z]) - offset
                frame.wxyz = np.array([w, i, j, k])
        self._recording.insert_sleep(self._seconds)

    def as_html(self) -> str:
        """Return the page; afterwards nothing can be added."""
        try:
            return self._recording.as_html()
        finally:
            self.close()

    def close(self) -> None:
        """Stop the server that viser has started."""
        with redirect_stdout(io.StringIO()):
            self._server.stop()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spacing(studio: Any, body_q: np.ndarray, world: int) -> float:
    points = studio.points(body_q, world)
    return 1.4 * float((points.max(axis=0) - points.min(axis=0))[:2].max()) if len(points) else 2.0


def _floor_height(model: Any) -> float | None:
    """Return the height of the ground plane [m]."""
    floors = np.flatnonzero(shape_looks(model)[:, 3] == AS_FLOOR)
    return float(model.shape_transform.numpy()[floors[0], 2]) if len(floors) else None


def _add_shapes(scene: Any, model: Any, world: int, path: str, first_body: int) -> None:
    """Add meshes of all visible shapes of a world below the frames of their bodies."""
    looks = shape_looks(model)
    flags, worlds, bodies = model.shape_flags.numpy(), model.shape_world.numpy(), model.shape_body.numpy()
    visible = (flags & int(newton.ShapeFlags.VISIBLE)) != 0
    for shape in np.flatnonzero(visible & ((worlds == world) | (worlds < 0))):
        mesh = shape_mesh(model, int(shape))
        if mesh is None or looks[shape, 3] == AS_FLOOR:
            continue
        given = model.shape_color.numpy()[shape]
        linear = looks[shape, :3].astype(float)
        color = given if looks[shape, 3] == AS_GIVEN else np.where(linear > 0.0, linear, 0.0) ** (1.0 / 2.2)
        body = int(bodies[shape])
        parent = path if body < 0 else f"{path}/body_{body - first_body}"
        x, y, z, i, j, k, w = map(float, model.shape_transform.numpy()[shape])
        scene.add_mesh_simple(
            f"{parent}/shape_{shape}",
            vertices=mesh[0],
            faces=mesh[1],
            color=tuple(float(c) for c in color),
            position=(x, y, z),
            wxyz=(w, i, j, k),
            flat_shading=False,
            side="double",
        )


def shape_mesh(model: Any, shape: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return vertices [m], shape [n, 3], and triangles, shape [m, 3], in the shape's frame; None if it is infinite."""
    kind, size = shape_type(model.shape_type.numpy()[shape]), model.shape_scale.numpy()[shape]
    scale = np.ones(3)
    if kind.is_primitive:
        mesh = kind.fine_mesh(size)
    elif getattr(model.shape_source[shape], "vertices", None) is not None:
        mesh, scale = model.shape_source[shape], size
    else:
        return None
    vertices = np.asarray(mesh.vertices, np.float32).reshape(-1, 3) * scale.astype(np.float32)
    return vertices, np.asarray(mesh.indices, np.int64).reshape(-1, 3)
