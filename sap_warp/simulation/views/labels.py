"""Short names for labels, and labels for the degrees of freedom and coordinates of joints.

Labels of Newton are paths, such as ``robot/worldbody/pelvis/left_thigh/left_knee``; a world or an asset may stand in
front. An entity is called by the shortest end of its path that no other one in its world has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import newton
import numpy as np

from ...model.joint_types import JOINT_TYPES
from ...model.model import dof_labels

_MIN_COMMON = 3
"""Letters that the names of the joints of one body must share for a joined name to be split again."""


class Entry(NamedTuple):
    """Label of a degree of freedom or a coordinate."""

    label: str
    """A path of names."""
    joint: int
    """Index within the world of the joint that it belongs to."""
    has_own_name: bool
    """Whether the label is a name of its own, and not the joint's with a suffix."""


def ends_of(label: str) -> list[str]:
    """Yield the ends of a path, shortest first."""
    parts = label.split("/")
    return ["/".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]


def shorten(labels: Sequence[str]) -> list[str]:
    """Return the shortest unambiguous end of each label; equal labels are numbered, ``box#0``, ``box#1``."""
    count = Counter(end for label in labels for end in ends_of(label))
    same = Counter(labels)
    seen: Counter[str] = Counter()
    names = []
    for label in labels:
        if same[label] > 1:
            name = f"{label.rsplit('/', 1)[-1]}#{seen[label]}"
            seen[label] += 1
        else:
            name = next((end for end in ends_of(label) if count[end] == 1 and end), label)
        names.append(name)
    return names if len(set(names)) == len(names) else [f"{name}#{i}" for i, name in enumerate(labels)]


class JointEntries:
    """Labels of the degrees of freedom and coordinates of a model's joints."""

    def __init__(self, model: newton.Model):
        """Read the needed arrays of ``model`` once."""
        self._labels = list(model.joint_label)
        self._type = model.joint_type.numpy()
        self._counts = model.joint_dof_dim.numpy()
        self._axis = model.joint_axis.numpy()
        self._own_names = dof_labels(model)
        self._qd_start, self._q_start = (a.numpy() for a in (model.joint_qd_start, model.joint_q_start))

    def dofs(self, first: int, last: int) -> list[Entry]:
        """Return labels of the degrees of freedom of joints ``first`` to ``last - 1``."""
        return self._entries(first, last, self._qd_start, "dofs")

    def coords(self, first: int, last: int) -> list[Entry]:
        """Return labels of the coordinates of joints ``first`` to ``last - 1``."""
        return self._entries(first, last, self._q_start, "coordinates")

    def _entries(self, first: int, last: int, starts: np.ndarray, names: str) -> list[Entry]:
        found = []
        for joint in range(first, last):
            label, count = self._labels[joint], int(starts[joint + 1] - starts[joint])
            if count == 0:  # a fixed joint
                continue
            if count == 1:
                found.append(Entry(label, joint - first, True))
                continue
            joint_type = JOINT_TYPES.get(int(self._type[joint]))
            endings = getattr(joint_type, names) if joint_type else None
            split = None if endings else self._split(joint)
            if split:
                folder = label.rpartition("/")[:2]
                found += [Entry("".join((*folder, name)), joint - first, True) for name in split]
            else:
                endings = endings or self._axis_names(joint)
                found += [Entry(f"{label}.{endings[i]}", joint - first, False) for i in range(count)]
        return found

    def _axis_names(self, joint: int) -> tuple[str, ...]:
        """Name the axes of a d6 joint: x, y, z and rx, ry, rz for those of its frame, else numbers."""
        linear, angular = (int(n) for n in self._counts[joint])
        axes = self._axis[self._qd_start[joint] : self._qd_start[joint + 1]]
        which = np.abs(axes).argmax(axis=1)
        names = tuple(("" if i < linear else "r") + "xyz"[k] for i, k in enumerate(which))
        straight = np.isclose(np.abs(axes).max(axis=1), 1.0, atol=1e-4).all()
        return names if straight and len(set(names)) == len(names) else tuple(map(str, range(linear + angular)))

    def _split(self, joint: int) -> list[str] | None:
        """Return the names of MJCF joints that Newton's importer merged into one d6 joint.

        Scenes keep them. Else they are to be taken from the joint's name, which has one after another with underscores,
        where that is certain: all shift or all turn (else the order could be another one), they have equally many
        words, and all begin alike.
        """
        linear, angular = (int(n) for n in self._counts[joint])
        label = self._labels[joint].rsplit("/", 1)[-1]
        kept = self._own_names[self._qd_start[joint] : self._qd_start[joint + 1]]
        if kept and all(name and _sanitized(name) in label for name in kept):
            return kept
        words, count = label.split("_"), linear + angular
        if min(linear, angular) or len(words) % count:
            return None
        size = len(words) // count
        names = ["_".join(words[i * size : (i + 1) * size]) for i in range(count)]
        begin = {name[:_MIN_COMMON] for name in names}
        return names if len(set(names)) == count and len(begin) == 1 and min(map(len, names)) > _MIN_COMMON else None


def _sanitized(name: str) -> str:
    """Return a name of an MJCF file as Newton writes it in labels."""
    return name.replace("-", "_")
