"""Home pose and gains of a URDF robot: the pose from an SRDF beside it, gains from the strength of its motors.

    ke = 5 effort limit per rad (50 per m), kd = ke 50 ms        of a floating base
    ke = 20 effort limit per rad (200 per m), kd = ke 50 ms      of a fixed one

so that a fifth of a radian, or two centimetres, asks for all that a motor of a leg can give: it has to yield when it
lands. An arm has nothing to land on, and sags the less the stiffer it is held.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

PER_RADIAN, PER_METRE, DAMPING_TIME = 5.0, 50.0, 0.05
FIXED_BASE = 4.0
"""Factor on the stiffness of joints of robots with a fixed base."""
DEFAULT_EFFORT = 20.0
"""Effort limit of motors whose file gives none, or zero [N m or N]."""
LARGEST_EFFORT = 1.0e4
_STATES = ("standing", "half_sitting", "home", "default", "reference", "rest", "zero")
_MOVING = ("revolute", "continuous", "prismatic")


@dataclass
class Home:
    """Pose that a robot is to hold, and gains to hold it."""

    base: list[float] | None = None
    """Position and quaternion xyzw of a floating base [m]; None if it is fixed."""
    joints: dict[str, float] = field(default_factory=dict)
    """Positions [rad or m]."""
    is_known: bool = False
    """Whether a file gives this pose."""
    lowest: float = 0.0
    """Height of the lowest link above the base, with the base upright [m]."""
    gains: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Stiffness and damping of the drive of each joint."""


def read_home(urdf: Path) -> Home:
    """Read home pose and gains of the robot in a file."""
    from .height import lowest_link  # which needs more than the standard library

    root = ElementTree.parse(urdf).getroot()
    joints = {node.get("name", ""): node for node in root.findall("joint")}
    moving = {name: node for name, node in joints.items() if node.get("type") in _MOVING}
    led = {name: node for name, node in moving.items() if node.find("mimic") is None}
    home = Home()
    state = _group_state(urdf)
    home.is_known = state is not None
    for entry in state if state is not None else ():
        name, values = entry.get("name", ""), [float(value) for value in entry.get("value", "").split()]
        if name in led and len(values) == 1:
            home.joints[name] = _within(values[0], led[name])
        elif name not in joints and len(values) == 7:
            home.base = values
    for name, node in led.items():  # zero may lie outside of the limits
        limit = node.find("limit")
        if name not in home.joints and limit is not None and node.get("type") != "continuous":
            low, high = (float(limit.get(end, 0.0)) for end in ("lower", "upper"))
            if not low <= 0.0 <= high:
                home.joints[name] = 0.5 * (low + high)
    factor = 1.0 if home.base is not None else FIXED_BASE
    home.gains = {name: _gains(node, factor) for name, node in led.items()}
    home.lowest = lowest_link(root, home.joints)
    return home


def _within(angle: float, joint: ElementTree.Element) -> float:
    """Shift an angle by whole turns into the limits of a revolute joint, if that is possible [rad]."""
    limit = joint.find("limit")
    if joint.get("type") != "revolute" or limit is None:
        return angle
    low, high = (float(limit.get(end, 0.0)) for end in ("lower", "upper"))
    turns = (angle + turn * 2.0 * math.pi for turn in (0, 1, -1, 2, -2))
    return next((value for value in turns if low <= value <= high), angle)


def _gains(joint: ElementTree.Element, factor: float) -> tuple[float, float]:
    limit = joint.find("limit")
    effort = float(limit.get("effort", 0.0)) if limit is not None else 0.0
    effort = min(effort if effort > 0.0 else DEFAULT_EFFORT, LARGEST_EFFORT)
    stiffness = factor * effort * (PER_METRE if joint.get("type") == "prismatic" else PER_RADIAN)
    return stiffness, DAMPING_TIME * stiffness


def _group_state(urdf: Path) -> ElementTree.Element | None:
    """Return the pose that an SRDF beside the URDF calls home."""
    folder = next((parent / "srdf" for parent in urdf.parents[:3] if (parent / "srdf").is_dir()), None)
    files = sorted(folder.glob("*.srdf")) if folder is not None else []
    files.sort(key=lambda file: (file.stem != urdf.stem, not urdf.stem.startswith(file.stem)))
    for file in files:
        states = {node.get("name", ""): node for node in ElementTree.parse(file).getroot().iter("group_state")}
        whole = [states[name] for name in _STATES if name in states] or list(states.values())
        if whole:
            return max(whole[:1], key=len)
    return None
