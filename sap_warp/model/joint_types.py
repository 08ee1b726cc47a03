"""What the solver knows of Newton's joint types: one table, and constants and tests for kernels.

How a joint moves its body follows from the table: the numbers of a type with names are those of a position and of a
quaternion; any other type has axes (``joint_axis``), linear ones first, each with one coordinate and one dof, and turns
about one axis after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import newton
import warp as wp

_POSITION, _ROTATION = ("x", "y", "z"), ("qx", "qy", "qz", "qw")
_LINEAR, _ANGULAR = ("vx", "vy", "vz"), ("wx", "wy", "wz")


@dataclass(frozen=True)
class JointType:
    """What all joints of one type have in common."""

    kind: newton.JointType
    coordinates: tuple[str, ...] | None = None
    """Names of the entries of joint_q; None if each belongs to an axis."""
    dofs: tuple[str, ...] | None = None
    """Names of the entries of joint_qd in public order; None if each belongs to an axis."""

    @property
    def name(self) -> str:
        """The name in scenes."""
        return self.kind.name.lower()

    @property
    def is_scalar(self) -> bool:
        """True if every coordinate is an angle or a length along an axis."""
        return self.coordinates is None

    @property
    def position(self) -> int | None:
        """Index of the first of three coordinates that are a position p_FM, None if there is none."""
        return self._index("x")

    @property
    def quaternion(self) -> int | None:
        """Index of the first of four coordinates that are a rotation r_FM, None if there is none."""
        return self._index("qx")

    @property
    def at_rest(self) -> tuple[float, ...]:
        """Coordinates at which the frames of a joint without axes coincide."""
        return tuple(float(name == "qw") for name in self.coordinates or ())

    @property
    def is_floating(self) -> bool:
        """True if bodies keep all six dofs."""
        return self.position is not None

    def _index(self, name: str) -> int | None:
        names = self.coordinates or ()
        return names.index(name) if name in names else None


_FREE = JointType(newton.JointType.FREE, (*_POSITION, *_ROTATION), (*_LINEAR, *_ANGULAR))
JOINT_TYPES = {
    int(joint_type.kind): joint_type
    for joint_type in (
        JointType(newton.JointType.FIXED, coordinates=(), dofs=()),
        _FREE,
        JointType(newton.JointType.REVOLUTE),
        JointType(newton.JointType.PRISMATIC),
        JointType(newton.JointType.BALL, coordinates=_ROTATION, dofs=_ANGULAR),
        replace(_FREE, kind=newton.JointType.DISTANCE),
        JointType(newton.JointType.D6),
    )
}
"""All types that the solver simulates, by Newton's number."""

SCALAR_JOINTS = tuple(number for number, joint_type in JOINT_TYPES.items() if joint_type.is_scalar)
FLOATING_JOINTS = tuple(number for number, joint_type in JOINT_TYPES.items() if joint_type.is_floating)
QUATERNION_JOINTS = tuple(number for number, joint_type in JOINT_TYPES.items() if joint_type.quaternion is not None)
"""Numbers of some types, for ``np.isin(model.joint_type.numpy(), ...)``."""

_NUMBERS = {joint_type.name: number for number, joint_type in JOINT_TYPES.items()}
FIXED, FREE, REVOLUTE, PRISMATIC, BALL, DISTANCE, D6 = (
    wp.constant(_NUMBERS[name]) for name in ("fixed", "free", "revolute", "prismatic", "ball", "distance", "d6")
)
"""Numbers of the types in kernels."""


@wp.func
def is_floating(kind: int) -> bool:
    """Return True if a joint of this type leaves its body all six dofs, see `FLOATING_JOINTS`."""
    return kind == FREE or kind == DISTANCE
