"""Server of a page: its address, its look before anything is shown, and its end."""

from __future__ import annotations

import io
import os
import socket
import sys
import webbrowser
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from ...core.faq import see
from .options import ViewerError, ViewerOptions

FIELD_OF_VIEW = np.radians(42.0)
"""Vertical field of view [rad]."""
_ASPECT = 1.2
"""Width over height of the part of a page beside its panel."""
_ASIDE = 0.1
"""Sideways offset of the camera's target, relative to its distance."""
_FROM = np.array([0.86, -0.66, 0.36])
"""Direction from the scene to the camera; robots look along x."""
_INSTALL = "The page needs viser: pip install 'sap-warp[viewer]'." + see("missing-extra")


def open_server(options: ViewerOptions, title: str) -> Any:
    """Start a server.

    Raises:
        ViewerError: viser is not installed, or the address cannot be used.
    """
    try:
        import viser
    except ImportError:
        raise ViewerError(_INSTALL) from None
    _check_address(options)
    with redirect_stdout(io.StringIO()):  # it says where it listens, and so do we
        server = viser.ViserServer(host=options.host, port=options.port, label=title, verbose=False)
    if options.port not in (0, server.get_port()):  # somebody was faster
        server.stop()
        raise ViewerError(_in_use(options))
    _offer_nothing_else(server)
    return server


def _check_address(options: ViewerOptions) -> None:
    """Check that the address is free and ours; viser would silently take another port."""
    try:
        addresses = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ViewerError(f"host {options.host!r} is not known here ({error}); 127.0.0.1 is this computer.") from None
    family, kind, protocol, _, address = addresses[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except PermissionError:
            raise ViewerError(f"Port {options.port} is reserved; choose one from 1024 on.") from None
        except OSError as error:
            if error.errno in (98, 48, 10048):  # Linux, macOS, Windows
                raise ViewerError(_in_use(options)) from None
            raise ViewerError(f"Cannot listen at {options.host}:{options.port}: {error.strerror or error}.") from None


def _in_use(options: ViewerOptions) -> str:
    return (
        f"Port {options.port} is in use, perhaps by another page. Choose another (--port, port=...), or 0 for any that "
        "is free."
    )


def _offer_nothing_else(server: Any) -> None:
    """Remove what a page could ask of viser itself, such as a public address for this computer."""
    from viser import _messages

    for kind in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        server._websock_server.unregister_handler(kind)


def address_of(server: Any, options: ViewerOptions) -> str:
    """Return what to type into a browser on this computer."""
    host = "localhost" if options.host in ("127.0.0.1", "0.0.0.0", "::", "localhost") else options.host
    return f"http://{host}:{server.get_port()}"


def open_browser(address: str) -> bool:
    """Open ``address`` in a browser if there is a display: one in the terminal would take that over."""
    has_display = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not has_display:
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


def set_up(server: Any, low: np.ndarray, high: np.ndarray, ground: float | None) -> None:
    """Set colours, light, ground, and a first camera that shows everything.

    Args:
        server: Of the page.
        low: Lower corner of what is shown [m].
        high: Upper corner [m].
        ground: Height of the ground [m]; None if there is none, which gets a grid without shadows.
    """
    scene = server.scene
    server.gui.configure_theme(
        control_width="medium", show_logo=False, show_share_button=False, brand_color=(35, 105, 175)
    )
    scene.set_up_direction("+z")
    scene.world_axes.visible = False
    size = float(np.linalg.norm(high - low))
    rounded = np.array([0.1, 0.2, 0.5, 1.0]) * 10.0 ** np.ceil(np.log10(max(size, 1e-3) / 6.0))
    cell = float(rounded[np.argmin(np.abs(rounded - size / 6.0))])
    scene.add_grid(
        "/ground",
        infinite_grid=True,
        cell_size=cell,
        section_size=5.0 * cell,
        cell_color=(214, 218, 224),
        section_color=(188, 195, 204),
        fade_distance=12.0 * max(size, 1.0),
        plane_color=(236, 239, 243),
        plane_opacity=0.0 if ground is None else 1.0,
        shadow_opacity=0.0 if ground is None else 0.35,
        position=(0.0, 0.0, low[2] if ground is None else ground),
    )
    set_camera(server.initial_camera, low, high)


def set_camera(camera: Any, low: np.ndarray, high: np.ndarray) -> None:
    """Point the camera at a box [m] so that it fills the view beside the panel on the right."""
    middle, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), 0.02)
    back = _FROM / np.linalg.norm(_FROM)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    corners = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]) * half
    tangent = np.tan(0.5 * FIELD_OF_VIEW)
    beside, above, nearer = corners @ right, corners @ np.cross(back, right), corners @ back
    needed = np.maximum(np.abs(above) / tangent, np.abs(beside) / (tangent * _ASPECT)) + nearer
    distance = 1.12 * float(needed.max())
    camera.fov = FIELD_OF_VIEW
    camera.near = 0.005 * distance
    camera.far = 100.0 * distance
    aim = middle + _ASIDE * distance * right
    camera.position = aim + distance * back
    camera.look_at = aim
