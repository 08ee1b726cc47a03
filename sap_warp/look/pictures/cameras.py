"""Cameras: their pose, and the choice of one that shows everything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

DIRECTIONS: dict[str, tuple[float, float, float]] = {
    "auto": (1.0, -1.15, 0.62),
    "iso": (1.0, -1.0, 0.82),
    "front": (1.0, 0.0, 0.12),
    "back": (-1.0, 0.0, 0.12),
    "side": (0.0, -1.0, 0.12),
    "top": (0.0, 0.0, 1.0),
}
"""Direction from the scene to the camera, by name of the preset; robots look along x."""
MARGIN = 1.18
"""Size of a picture relative to what it shows."""


@dataclass(frozen=True)
class Camera:
    """Pose of a camera. What is not given is chosen so that the scene fills the picture.

    Example:
        ```python
        sim.render(camera=Camera(eye=(2.0, -2.0, 1.0), target=(0.0, 0.0, 0.5)))
        sim.render(camera=Camera(preset="side", follow="torso"))
        ```
    """

    preset: str = "auto"
    """Direction to look from if there is no `eye`: auto, iso, front, back, side or top."""
    eye: tuple[float, float, float] | None = None
    """Position in world frame [m]; relative to the body with `follow`."""
    target: tuple[float, float, float] | None = None
    """Point in the middle of the picture, in world frame [m]; relative to the body with `follow`."""
    fov: float = 40.0
    """Vertical angle of view [degrees]."""
    zoom: float = 1.0
    """Factor on the size of what is shown; for cameras without `eye`."""
    azimuth: float = 0.0
    """Rotation of the camera about the vertical axis through its target [degrees]."""
    elevation: float | None = None
    """Height of the camera above the horizon, in place of the preset's [degrees]; for cameras without `eye`."""
    follow: str | None = None
    """Label of a body, or its last part, that the camera moves with; it does not turn with it."""

    def __post_init__(self) -> None:
        if self.preset not in DIRECTIONS:
            raise ValueError(f"camera preset {self.preset!r} is not known; there is: {', '.join(DIRECTIONS)}.")
        for name in ("eye", "target"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _as_point(name, value))
        for name, low, high in (
            ("fov", 1.0, 170.0),
            ("zoom", 1e-3, 1e3),
            ("azimuth", -1e6, 1e6),
            ("elevation", -90.0, 90.0),
        ):
            value = getattr(self, name)
            if value is None and name == "elevation":
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"camera {name} is {value!r}; it must be a number between {low:g} and {high:g}.")
        if self.follow is not None and not isinstance(self.follow, str):
            raise TypeError(f"camera follow is {self.follow!r}; it must be the label of a body.")
        if self.eye is not None and self.target is not None and np.allclose(self.eye, self.target, atol=1e-9):
            raise ValueError(f"camera eye and target are the same point, {self.eye}.")

    def turned(self, degrees: float) -> Camera:
        """Return this camera turned about the vertical axis through its target [degrees]."""
        return replace(self, azimuth=self.azimuth + degrees)


def _as_point(name: str, value: Any) -> tuple[float, float, float]:
    try:
        point = tuple(float(x) for x in value)
    except (TypeError, ValueError):
        point = ()
    if len(point) != 3 or not all(math.isfinite(x) for x in point):
        raise ValueError(f"camera {name} is {value!r}; it must be three finite numbers [m].")
    return point[0], point[1], point[2]


def as_camera(given: Any) -> Camera:
    """Return a camera from what a user may give: None, a preset's name, a text of settings, a mapping or a `Camera`.

    A text has the form ``side,follow=torso,fov=30`` or ``eye=2/-2/1,target=0/0/0.5``: a preset, fields of `Camera` with
    their values, points with slashes.

    Raises:
        TypeError: It is something else.
        ValueError: A setting is not known or has no valid value.
    """
    if given is None:
        return Camera()
    if isinstance(given, Camera):
        return given
    if isinstance(given, str):
        return Camera(**_read_text(given))
    if isinstance(given, Mapping):
        _check_names(given)
        return Camera(**given)
    raise TypeError(f"camera is {given!r}; expected a preset's name, settings, or a Camera.")


def _check_names(given: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(Camera)]
    for name in given:
        if name not in known:
            raise ValueError(f"camera setting {name!r} is not known; there is: {', '.join(known)}.")


def _read_text(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, has_value, value = part.partition("=")
        settings[name.strip() if has_value else "preset"] = value.strip() if has_value else name
    _check_names(settings)
    for name in ("eye", "target"):
        if name in settings:
            settings[name] = settings[name].split("/")
    for name in ("fov", "zoom", "azimuth", "elevation"):
        if name in settings:
            try:
                settings[name] = float(settings[name])
            except ValueError:
                raise ValueError(f"camera {name} is {settings[name]!r}; it must be a number.") from None
    return settings


def place_camera(
    camera: Camera, points: np.ndarray, aspect: float, anchor: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Compute the position of a camera, its axes, and the distance that it shows.

    Args:
        camera: The camera.
        points: What should be in the picture, in world frame [m], shape [n, 3].
        aspect: Width of the picture over its height.
        anchor: Position of the body that is followed [m].

    Returns:
        Its position [m], shape [3]; its axes right, up and backward as columns, shape [3, 3]; the distance of what is
        in the middle of the picture [m].
    """
    origin = np.zeros(3) if anchor is None else anchor
    half_height = math.tan(math.radians(camera.fov) / 2.0)
    half = np.array([half_height * aspect, half_height])
    target = points.mean(axis=0) if len(points) else origin
    if camera.target is not None:
        target = origin + camera.target
    elif anchor is not None:
        target = anchor
    if camera.eye is not None:
        offset = _turn(origin + camera.eye - target, camera.azimuth)
        return target + offset, look_along(offset), float(np.linalg.norm(offset))
    direction = np.array(DIRECTIONS[camera.preset])
    if camera.elevation is not None:
        level = np.hypot(*direction[:2]) or 1.0
        up = math.radians(camera.elevation)
        direction = np.array([*(direction[:2] / level * math.cos(up)), math.sin(up)])
    axes = look_along(_turn(direction, camera.azimuth))
    if not len(points):
        points = target + np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    fixed = camera.target is not None or anchor is not None
    distance = 0.0
    for _ in range(1 if fixed else 4):  # moves the middle of what is seen to the middle of the picture
        seen = (points - target) @ axes
        distance = float((seen[:, 2:] + MARGIN * np.abs(seen[:, :2]) / half).max())
        if not fixed:
            slopes = seen[:, :2] / (distance - seen[:, 2:])
            target = target + axes[:, :2] @ ((slopes.min(axis=0) + slopes.max(axis=0)) / 2.0 * distance)
    seen = (points - target) @ axes
    distance = max(float((seen[:, 2:] + MARGIN * np.abs(seen[:, :2]) / half).max()), 1e-3) / camera.zoom
    return target + distance * axes[:, 2], axes, distance


def _turn(vector: np.ndarray, degrees: float) -> np.ndarray:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1], vector[2]])


def look_along(backward: np.ndarray) -> np.ndarray:
    """Return right, up and backward axes of a camera as columns; up is near z, or near y for one that looks down."""
    backward = backward / np.linalg.norm(backward)
    up = np.array([0.0, 0.0, 1.0]) if abs(backward[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, backward)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(backward, right), backward], axis=1)
