"""Shading: from what rays hit to the colours of a picture, with light, floor, background and averages over pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from ...core.kernels.types import Floats, Ints, Poses

NOTHING = wp.constant(wp.uint32(0xFFFFFFFF))
"""Number of the shape of a ray that hits none."""
TONES = 4096
"""Number of entries in the table of bytes."""
BRIGHTEST = 2.0
"""Linear value of the last entry of the table."""


@wp.struct
class Light:
    """Light of a picture, and look of its floor."""

    toward: wp.vec3f
    """Unit vector to the light that casts shadows."""
    fill: wp.vec3f
    """Unit vector to a weak light without shadows."""
    cell: wp.float32
    """Width of the squares of the floor [m]."""
    fog: wp.float32
    """Distance at which the floor has become background [m]."""
    pixel: wp.float32
    """Angle between neighbouring rays [rad]."""


@wp.func
def unpack(color: wp.uint32, linear: Floats) -> wp.vec3f:
    """Return the linear colour of packed sRGB bytes; ``linear`` is the value of each byte."""
    r = linear[wp.int32(color & wp.uint32(255))]
    g = linear[wp.int32((color >> wp.uint32(8)) & wp.uint32(255))]
    b = linear[wp.int32((color >> wp.uint32(16)) & wp.uint32(255))]
    return wp.vec3f(r, g, b)


@wp.func
def background(direction: wp.vec3f) -> wp.vec3f:
    """Return the colour of a ray that hits nothing: light at the horizon, blue above."""
    t = wp.clamp(wp.abs(direction[2]) * 1.6, 0.0, 1.0)
    return (1.0 - t) * wp.vec3f(0.83, 0.87, 0.91) + t * wp.vec3f(0.40, 0.56, 0.76)


@wp.func
def wave(x: wp.float32, width: wp.float32) -> wp.float32:
    """Return the mean over ``width`` about ``x`` of a square wave of 1 and -1 with half period 1."""
    a = x - 0.5 * width
    b = x + 0.5 * width
    return (ramp(b) - ramp(a)) / width


@wp.func
def ramp(x: wp.float32) -> wp.float32:
    """Return the integral of the square wave."""
    phase = x - 2.0 * wp.floor(0.5 * x)
    return wp.min(phase, 2.0 - phase)


@wp.func
def line(x: wp.float32, half: wp.float32, width: wp.float32) -> wp.float32:
    """Return the share of ``width`` about ``x`` that is within ``half`` of a whole number."""
    near = wp.abs(x - wp.floor(x + 0.5))
    low = wp.max(near - 0.5 * width, -half)
    high = wp.min(near + 0.5 * width, half)
    return wp.clamp((high - low) / width, 0.0, 1.0)


@wp.func
def floor_color(point: wp.vec3f, base: wp.vec3f, distance: wp.float32, slope: wp.float32, light: Light) -> wp.vec3f:
    """Return the floor's colour: squares in two tones with thin lines, averaged over the area of one ray."""
    across = wp.max(distance * light.pixel, 1.0e-6) / light.cell
    along = across / wp.max(slope, 0.02)
    width = wp.min(0.5 * (across + along), 8.0)
    x = point[0] / light.cell
    y = point[1] / light.cell
    square = wave(x, width) * wave(y, width)
    lines = wp.max(line(x, 0.012, width), line(y, 0.012, width))
    return base * (1.0 + 0.10 * square) * (1.0 - 0.22 * lines)


@wp.kernel(enable_backward=False, module="unique")
def shade(
    light: Light,
    rays_in: wp.array4d[wp.vec3f],
    camera_in: Poses,
    lit_in: wp.array3d[wp.vec3f],
    albedo_in: wp.array3d[wp.uint32],
    distance_in: wp.array3d[wp.float32],
    normal_in: wp.array3d[wp.vec3f],
    shape_in: wp.array3d[wp.uint32],
    look_in: wp.array[wp.vec4f],
    linear_in: Floats,
    color_out: wp.array3d[wp.vec3f],
):
    """Compute the linear colour of what each ray has hit.

    Args:
        light: Lights and floor.
        rays_in: Origins and directions in the frame of the camera, shape [height, width, 1, 2].
        camera_in: Poses of the cameras in world frame, shape [views].
        lit_in: Linear colour by Newton's light, shape [views, height, width] like all that follow.
        albedo_in: Colour of the surface, packed sRGB bytes.
        distance_in: Length of the ray [m].
        normal_in: Normal of the surface in world frame.
        shape_in: Number of the shape.
        look_in: Linear colour of each shape, and how it is drawn, see `looks`; shape [shapes].
        linear_in: Linear value of each sRGB byte.
        color_out: The colours.
    """
    view, i, j = wp.tid()
    direction = wp.transform_vector(camera_in[view], rays_in[i, j, 0, 1])
    sky = background(direction)
    shape = shape_in[view, i, j]
    if shape == NOTHING:
        color_out[view, i, j] = sky
        return
    distance = distance_in[view, i, j]
    normal = normal_in[view, i, j]
    albedo = unpack(albedo_in[view, i, j], linear_in)
    # the albedo is rounded to a byte: the brightest channel says best how much light there is
    amount = wp.max(lit_in[view, i, j]) / wp.max(wp.max(albedo), 1.0e-3)
    look = look_in[wp.int32(shape)]
    own = wp.vec3f(look[0], look[1], look[2])
    if look[3] == 1.0:
        point = wp.transform_get_translation(camera_in[view]) + direction * distance
        base = floor_color(point, own, distance, wp.abs(wp.dot(direction, normal)), light)
        far = distance / light.fog
        clear = wp.exp(-far * far)
        color_out[view, i, j] = base * (0.14 + 0.80 * amount) * clear + sky * (1.0 - clear)
        return
    if look[3] == 2.0:
        albedo = own
    filled = 0.16 * wp.max(wp.dot(normal, light.fill), 0.0) + 0.07
    half = wp.normalize(light.toward - direction)
    gloss = wp.max(wp.dot(normal, half), 0.0)
    for _ in range(5):  # to the power of 32
        gloss = gloss * gloss
    unshaded = wp.clamp(amount - 0.45, 0.0, 1.0)  # there is no highlight in the shadow
    color_out[view, i, j] = albedo * (0.72 * amount + filled) + wp.vec3f(0.22 * gloss * unshaded)


@wp.kernel(enable_backward=False, module="unique")
def measure(
    shape_in: wp.array3d[wp.uint32],
    body_of_in: Ints,
    depth_in: wp.array3d[wp.float32],
    body_out: wp.array3d[wp.int32],
    depth_out: wp.array3d[wp.float32],
):
    """Write the body under each pixel (-1: no body, -2: nothing) and depth [m], infinite where there is nothing."""
    view, row, column = wp.tid()
    shape = shape_in[view, row, column]
    if shape == NOTHING:
        body_out[view, row, column] = -2
        depth_out[view, row, column] = wp.inf
    else:
        body_out[view, row, column] = body_of_in[wp.int32(shape)]
        depth_out[view, row, column] = depth_in[view, row, column]


def srgb_to_linear(color: Any) -> np.ndarray:
    """Return linear values of sRGB ones, both from 0 to 1 (IEC 61966-2-1)."""
    s = np.asarray(color, float)
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def linear_of_bytes(device: Any) -> wp.array:
    """Return the linear value of each sRGB byte."""
    return wp.array(srgb_to_linear(np.arange(256) / 255.0), dtype=wp.float32, device=device)


def _make_tones() -> np.ndarray:
    x = np.linspace(0.0, BRIGHTEST, TONES)
    y = np.where(x > 0.7, 0.7 + 0.3 * (1.0 - np.exp((0.7 - x) / 0.3)), x)
    s = np.where(y <= 0.0031308, 12.92 * y, 1.055 * y ** (1.0 / 2.4) - 0.055)
    return (255.0 * s + 0.5).astype(np.uint8)


_TONE = _make_tones()


def to_bytes(linear: np.ndarray) -> np.ndarray:
    """Write sRGB bytes of linear colours; bright ones approach white smoothly."""
    index = np.minimum(np.maximum(linear, 0.0) * np.float32((TONES - 1) / BRIGHTEST) + np.float32(0.5), TONES - 1)
    return _TONE[index.astype(np.int32)]


def find_edges(shape: np.ndarray, normal: np.ndarray, color: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List rows and columns of pixels whose neighbours show something else.

    Args:
        shape: Number of the shape under each pixel, shape [height, width].
        normal: Its normal, shape [height, width, 3].
        color: Linear colour, shape [height, width, 3].
    """
    edge = np.zeros(shape.shape, bool)
    bright = color.sum(axis=-1)
    for near, far in (
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None))),
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
    ):
        differs = shape[near] != shape[far]
        differs |= np.abs(bright[near] - bright[far]) > 0.12 * (bright[near] + bright[far])
        differs |= np.einsum("...i,...i", normal[near], normal[far]) < 0.6
        edge[near] |= differs
        edge[far] |= differs
    rows, columns = np.nonzero(edge)
    return rows, columns
