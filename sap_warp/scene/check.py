"""What would spoil a simulation and can only be seen once everything is built."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np

from .build import SceneBuild
from .errors import Complaint, Path
from .selectors import joint_entries

MAX_MASS = 1e15
"""Largest mass of a body [kg]."""
MAX_INERTIA = 1e12
"""Largest moment of inertia of a body [kg m^2]; fp32 holds the product of three."""
_MESHES = (newton.GeoType.MESH, newton.GeoType.CONVEX_MESH)
_WITH_QUATERNION = (newton.JointType.FREE, newton.JointType.DISTANCE, newton.JointType.BALL)


def check_result(build: SceneBuild) -> None:
    """Report what no simulation can use; give quaternions length 1.

    Inline parts were checked when they were read; files can hold anything.
    """
    _check_masses(build)
    _check_shapes(build)
    _check_joints(build)


def _check_masses(build: SceneBuild) -> None:
    labels, paths = build.builder.body_label, places_of(build, "body")
    inertias = _inertias(build)
    with np.errstate(over="ignore"):
        masses = np.array(build.builder.body_mass, dtype=np.float64).astype(np.float32)
    sound = (masses >= 0.0) & (masses < MAX_MASS) & (np.abs(inertias) < MAX_INERTIA).all(axis=(1, 2))
    for body in np.flatnonzero(~sound).tolist():
        with build.at(*paths.get(body, ())):
            what = "a mass or an inertia that single precision cannot hold; check densities and sizes"
            raise Complaint(f"{labels[body]!r} has " + ("a negative mass" if masses[body] < 0.0 else what))


def _check_shapes(build: SceneBuild) -> None:
    builder, paths = build.builder, places_of(build, "shape")
    for shape, label in enumerate(builder.shape_label):
        size = [float(value) for value in builder.shape_scale[shape]]
        with build.at(*paths.get(shape, ())):
            # A mesh may be mirrored.
            if not np.isfinite(size).all() or (min(size) < 0.0 and builder.shape_type[shape] not in _MESHES):
                shown = ", ".join(f"{value:g}" for value in size)
                raise Complaint(f"shape {label!r} has the size ({shown}); sizes are not negative")
            _check_finite(builder.shape_transform[shape], f"the pose of shape {label!r}")


def _check_joints(build: SceneBuild) -> None:
    builder, paths = build.builder, places_of(build, "joint")
    for joint, label in enumerate(builder.joint_label):
        kind = builder.joint_type[joint]
        with build.at(*paths.get(joint, ())):
            for frame in (builder.joint_X_p, builder.joint_X_c):
                _check_finite(frame[joint], f"a frame of joint {label!r}")
            coordinates = joint_entries(build, joint, "coordinate")
            _check_finite(builder.joint_q[coordinates.start : coordinates.stop], f"the position of joint {label!r}")
            if kind in _WITH_QUATERNION:
                _normalize(builder.joint_q, coordinates.stop - 4, label)
            else:
                for dof in joint_entries(build, joint, "dof"):
                    _check_dof(builder, dof, label)


def _check_dof(builder: newton.ModelBuilder, dof: int, label: str) -> None:
    length = np.linalg.norm([float(value) for value in builder.joint_axis[dof]])
    if not 0.99 < length < 1.01:
        raise Complaint(f"an axis of joint {label!r} has length {length:.3g}; a direction has length 1")
    lower, upper = builder.joint_limit_lower[dof], builder.joint_limit_upper[dof]
    if not lower <= upper:
        raise Complaint(f"joint {label!r} has the limits {lower:g} to {upper:g}")


def _check_finite(values: Any, what: str) -> None:
    if not np.isfinite([float(value) for value in values]).all():
        raise Complaint(f"{what} is not finite")


def places_of(build: SceneBuild, kind: str) -> dict[int, Path]:
    """Where bodies, shapes or joints of the model stand in the scene."""
    paths: dict[int, Path] = {}
    for i, added in enumerate(build.imported):
        paths.update(dict.fromkeys(added[kind], ("assets", i, "source")))
    inline = {"body": ("bodies", build.body_of), "joint": ("joints", build.joint_of)}
    if kind in inline:
        section, indices = inline[kind]
        paths.update((index, (section, i)) for i, index in enumerate(indices.values()))
    return paths


def _inertias(build: SceneBuild) -> np.ndarray:
    """Inertias of the authored world, shape [bodies, 3, 3]; what fp32 cannot hold is infinite."""
    with np.errstate(over="ignore"):
        rows = [np.ravel(inertia) for inertia in build.builder.body_inertia]
        return np.array(rows, dtype=np.float64).astype(np.float32).reshape(-1, 3, 3)


def _normalize(joint_q: list[float], start: int, label: str) -> None:
    values = np.array(joint_q[start : start + 4], dtype=np.float64)
    length = float(np.linalg.norm(values))
    if not 0.5 < length < 2.0:
        raise Complaint(
            f"the rotation of joint {label!r} in joint_q has length {length:.3g}; a quaternion has length 1"
        )
    joint_q[start : start + 4] = (values / length).tolist()


def note_changed_inertias(build: SceneBuild, model: newton.Model) -> None:
    """Newton replaces inertias that no body can have; list the bodies of the first world to which it did so."""
    builder = build.builder
    if not builder.body_count:
        return
    wanted = _inertias(build)
    got = model.body_inertia.numpy()[: builder.body_count]
    paths = places_of(build, "body")
    moments = np.abs(got).max(axis=(1, 2))
    for body in np.flatnonzero(np.abs(got - wanted).max(axis=(1, 2)) > 1e-3 * moments).tolist():
        shown = ", ".join(f"{moment:.3g}" for moment in np.diagonal(wanted[body]))
        used = ", ".join(f"{moment:.3g}" for moment in np.diagonal(got[body]))
        build.note_unsupported(
            paths.get(body, ()),
            f"{builder.body_label[body]!r} has moments of inertia ({shown}), which no body of its mass has; "
            f"({used}) are used [kg m^2]",
        )
