"""MJCF as MuJoCo reads it: one expanded document for Newton's importer, and what that importer leaves out.

`reader` expands includes, attached models, replicas, frames and default classes; `features` says of every element and
attribute who honours it; `switches` applies the flags of <option>; `content` writes what Newton leaves out into the
builder: contact rules in `pairs`, actuators in `actuators` and `drives`, tendons in `tendons`, named states in
`keyframes`.
"""

from .actuation.actuators import translate_actuators
from .actuation.fitted import fit_shapes
from .actuation.joints import split_joints, take_first_numbers
from .actuation.loops import drop_self_ties, translate_welds
from .actuation.tendons import tendon_labels, translate_equalities
from .content import apply_mjcf, check_joints, count_actuators
from .features import drop_numerics, list_unsupported
from .names import restore_names, with_plain_names
from .reader import MjcfDocument, read_mjcf
from .switches import apply_switches

__all__ = [
    "MjcfDocument",
    "apply_mjcf",
    "apply_switches",
    "check_joints",
    "count_actuators",
    "drop_numerics",
    "drop_self_ties",
    "fit_shapes",
    "list_unsupported",
    "read_mjcf",
    "restore_names",
    "split_joints",
    "take_first_numbers",
    "tendon_labels",
    "translate_actuators",
    "translate_equalities",
    "translate_welds",
    "with_plain_names",
]
