"""Record types of the conventions table: what has to be known about a system to convert its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

BlockOrder = Literal["linear_first", "angular_first"]
Reference = Literal["com", "origin", "world_origin"]
Frame = Literal["world", "body"]
AngleUnit = Literal["rad", "deg"]
QuaternionOrder = Literal["xyzw", "wxyz"]
PoseOrder = Literal["position_first", "rotation_first"]
AxisName = Literal["X", "Y", "Z"]


@dataclass(frozen=True)
class SpatialLayout:
    """How a system writes a 6D rigid-body vector: a twist (v, w) or a wrench (f, tau).

    The same four choices describe both. The linear block is the velocity v [m/s] or the force f [N]; the angular
    block is the angular velocity w [rad/s] or the moment tau [N m].
    """

    order: BlockOrder
    """Which block comes first in the array of six."""
    reference: Reference
    """Point whose velocity v is stored, or about which the moment tau is taken: the centre of mass, the origin of
    the body frame, or the point of the (extended) body that currently lies at the world origin."""
    linear_frame: Frame
    """Axes in which v or f is expressed."""
    angular_frame: Frame
    """Axes in which w or tau is expressed."""
    angle_unit: AngleUnit = "rad"
    """Unit of angle in the angular velocity; a wrench with "deg" would not be the dual of a twist and is not used."""


@dataclass(frozen=True)
class Parameter:
    """One named parameter of a primitive shape, in terms of Newton's parameters of that shape."""

    name: str
    """Name used by the system, e.g. ``halfHeight``."""
    parts: tuple[str, ...]
    """Newton parameters it holds, in storage order."""
    factor: float = 1.0
    """Stored value = factor * Newton value: 2 where Newton has a half size and the system the full size."""
    vector: bool = False
    """True for an array over ``parts`` (shape [..., len(parts)]), False for a single number."""
    fill: tuple[float, ...] = ()
    """Entries appended on writing, optional and ignored on reading (MuJoCo's ``size`` always has three)."""


@dataclass(frozen=True)
class ShapeLayout:
    """How a system parametrizes one kind of primitive shape. All lengths in [m], centred on the shape frame."""

    parameters: tuple[Parameter, ...] = ()
    """The stored parameters."""
    axis: AxisName = "Z"
    """Local axis of symmetry (capsule, cylinder, cone) or normal (plane)."""
    axis_attribute: bool = False
    """True if the axis is itself an optional parameter named ``axis``, with ``axis`` as its default."""
    scaled_cube: bool = False
    """True for a cube of edge ``size`` whose three edges come from a separate ``scale`` (USD)."""
    unsupported: str = ""
    """If not empty, the system lacks this primitive and the text says what to use or know instead."""


@dataclass(frozen=True)
class Convention:
    """Everything the converters know about one system. ``None`` means the system does not define the item."""

    name: str
    """Canonical name, the key in ``SYSTEMS``."""
    title: str
    """Readable name for messages and documentation."""
    twist: SpatialLayout | None
    """Layout of the rigid-body velocity."""
    wrench: SpatialLayout | None
    """Layout of the rigid-body force; equal to ``twist`` when force times velocity must give power."""
    quaternion: QuaternionOrder | None
    """Storage order of quaternions; the rotation they describe is the same in all systems (body to world)."""
    pose: PoseOrder | None
    """Order of the two parts of a 7-entry pose (free-joint position)."""
    up_axis: AxisName | None
    """Default up axis of the world."""
    handedness: Literal["right"] = "right"
    """Handedness of all frames. No supported system is left-handed, so no conversion mirrors anything."""
    shapes: Mapping[str, ShapeLayout] = field(default_factory=lambda: MappingProxyType({}))
    """Primitive shapes by kind; a missing kind means the system defines no shapes at all."""
    note: str = ""
    """Where the data lives in that system, and what is easily confused with it."""
