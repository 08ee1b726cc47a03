"""MJCF as MuJoCo reads it: one expanded document for Newton's importer, and what that importer would lose.

`reader` expands includes, attached models, replicas, frames and default classes; `features` says of every element and
attribute who honours it; `switches` applies the flags of <option>; `content` writes what Newton leaves out into the
builder: contact rules in `pairs`, actuators in `drives`, named states in `keyframes`.
"""

from .content import apply_mjcf, check_joints, count_actuators
from .features import list_unsupported
from .reader import MjcfDocument, read_mjcf
from .switches import apply_switches

__all__ = [
    "MjcfDocument",
    "apply_mjcf",
    "apply_switches",
    "check_joints",
    "count_actuators",
    "list_unsupported",
    "read_mjcf",
]
