"""Check for errors that would spoil a simulation and show only once everything is built."""

from __future__ import annotations

import math
import re
from typing import Any

import newton
import numpy as np

from ..model.joint_types import QUATERNION_JOINTS
from ..model.shapes import WITH_VERTICES
from .build import SceneBuild
from .edits.selectors import joint_entries
from .text.bounds import COORDINATE, LENGTH, MAX_INERTIA, MAX_MASS, SIZE, SPEED, Quantity
from .text.errors import Complaint, Path


def check_result(build: SceneBuild) -> None:
    """Report what no simulation can use, and normalize quaternions.

    Inline parts were checked when they were read; files can hold anything.
    """
    _check_freedom(build)
    _check_masses(build)
    _check_shapes(build)
    _check_joints(build)


def _check_freedom(build: SceneBuild) -> None:
    if build.builder.joint_dof_count or build.problems:
        return
    section = next((name for name in ("joints", "assets", "bodies") if getattr(build.scene, name)), None)
    advice = "give an asset 'floating: true', or " if section == "assets" else ""
    what = f"nothing can move: there are no joint degrees of freedom; {advice}add a joint that moves"
    # a part that was not loaded may be what is missing
    build.problems += [build.document.problem(() if section is None else (section,), what), *build.unsupported]


def path_of(build: SceneBuild, text: str) -> Path:
    """Where the first body or joint that ``text`` names in quotes stands in the scene; () for none."""
    for label in re.findall(r"'([^']+)'", text):
        for kind in ("body", "joint"):
            labels = getattr(build.builder, f"{kind}_label")
            if label in labels:
                return paths_of(build, kind).get(labels.index(label), ())
    return ()


def _check_masses(build: SceneBuild) -> None:
    labels, paths = build.builder.body_label, paths_of(build, "body")
    inertias = _inertias(build)
    with np.errstate(over="ignore"):
        masses = np.array(build.builder.body_mass, dtype=np.float64).astype(np.float32)
    sound = (masses >= 0.0) & (masses < MAX_MASS) & (np.abs(inertias) < MAX_INERTIA).all(axis=(1, 2))
    for body in np.flatnonzero(~sound).tolist():
        with build.at(*paths.get(body, ())):
            if masses[body] < 0.0:
                raise Complaint(f"{labels[body]!r} has a negative mass")
            raise Complaint(
                f"{labels[body]!r} has the mass {masses[body]:.3g} kg and the inertia "
                f"{np.abs(inertias[body]).max():.3g} kg m^2; single precision takes up to {MAX_MASS:g} kg and "
                f"{MAX_INERTIA:g} kg m^2, check densities and sizes"
            )


def _check_shapes(build: SceneBuild) -> None:
    builder, paths = build.builder, paths_of(build, "shape")
    for shape, label in enumerate(builder.shape_label):
        size = [float(value) for value in builder.shape_scale[shape]]
        with build.at(*paths.get(shape, ())):
            # A mesh may be mirrored.
            if not np.isfinite(size).all() or (min(size) < 0.0 and builder.shape_type[shape] not in WITH_VERTICES):
                shown = ", ".join(f"{value:g}" for value in size)
                raise Complaint(f"shape {label!r} has the size ({shown}); sizes are not negative")
            if builder.shape_type[shape] in WITH_VERTICES:
                mesh = builder.shape_source[shape]
                reach = np.abs(mesh.vertices).max(axis=0, initial=0.0) * size if mesh is not None else size
                _check_bound(reach, LENGTH, f"a vertex of shape {label!r}")
            elif builder.shape_flags[shape] & int(newton.ShapeFlags.COLLIDE_SHAPES):  # a marker may be a dot
                _check_bound(size, SIZE, f"the size of shape {label!r}")
            _check_bound(builder.shape_transform[shape], LENGTH, f"the pose of shape {label!r}")


def _check_joints(build: SceneBuild) -> None:
    builder, paths = build.builder, paths_of(build, "joint")
    for joint, label in enumerate(builder.joint_label):
        kind = builder.joint_type[joint]
        coordinates, dofs = (joint_entries(build, joint, unit) for unit in ("coordinate", "dof"))
        with build.at(*paths.get(joint, ())):
            for frame in (builder.joint_X_p, builder.joint_X_c):
                _check_bound(frame[joint], LENGTH, f"a frame of joint {label!r}")
            _check_bound([builder.joint_qd[dof] for dof in dofs], SPEED, f"the velocity of joint {label!r}")
            if kind not in QUATERNION_JOINTS:
                for dof in dofs:
                    _check_dof(builder, dof, label)
        edits = [build.edited[entry] for entry in coordinates if entry in build.edited]
        with build.at(*(edits[-1] if edits else paths.get(joint, ()))):
            positions = builder.joint_q[coordinates.start : coordinates.stop]
            _check_bound(positions, COORDINATE, f"the position of joint {label!r}")
            if kind in QUATERNION_JOINTS:
                _normalize(builder.joint_q, coordinates.stop - 4, label)


def _check_dof(builder: newton.ModelBuilder, dof: int, label: str) -> None:
    length = np.linalg.norm([float(value) for value in builder.joint_axis[dof]])
    if not 0.99 < length < 1.01:
        raise Complaint(f"an axis of joint {label!r} has length {length:.3g}; a direction has length 1")
    lower, upper = builder.joint_limit_lower[dof], builder.joint_limit_upper[dof]
    if not lower <= upper:
        raise Complaint(f"joint {label!r} has the limits {lower:g} to {upper:g}")


def _check_bound(values: Any, quantity: Quantity, what: str) -> None:
    for number in map(float, values):  # few of them: NumPy would take longer
        if not math.isfinite(number):
            raise Complaint(f"{what} is not finite")
        if abs(number) > quantity.largest or 0.0 < abs(number) < quantity.smallest:
            raise Complaint(f"{what} has the entry {number:g}; {quantity.name} is {quantity.range}")


def paths_of(build: SceneBuild, kind: str) -> dict[int, Path]:
    """Where bodies, shapes or joints of the model stand in the scene."""
    paths: dict[int, Path] = {}
    for i, added in enumerate(build.imported):
        paths.update(dict.fromkeys(added[kind], ("assets", i, "source")))
    inline = {"body": ("bodies", build.body_of), "joint": ("joints", build.joint_of)}
    if kind == "shape":
        paths.update(build.shape_paths)
    elif kind in inline:
        section, indices = inline[kind]
        paths.update((index, (section, i)) for i, index in enumerate(indices.values()))
    return paths


ROUNDING = 1e-5
"""Largest violation of the triangle inequality, relative to the largest moment: files have five digits or more."""


def _inertias(build: SceneBuild) -> np.ndarray:
    """Return the inertias of the authored world, shape [bodies, 3, 3]; infinite where fp32 cannot hold them."""
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
    """List the bodies of the first world whose impossible inertias Newton has replaced.

    It also raises those of flat and of tiny bodies by 1e-6 kg m^2, for the rounding of single precision: these are
    given back what the file says.
    """
    builder = build.builder
    if not builder.body_count:
        return
    wanted = _inertias(build)
    _give_back(model, wanted)
    got = model.body_inertia.numpy()[: builder.body_count]
    paths = paths_of(build, "body")
    moments = np.abs(got).max(axis=(1, 2))
    for body in np.flatnonzero(np.abs(got - wanted).max(axis=(1, 2)) > 1e-3 * moments).tolist():
        shown = ", ".join(f"{moment:.3g}" for moment in np.diagonal(wanted[body]))
        used = ", ".join(f"{moment:.3g}" for moment in np.diagonal(got[body]))
        build.note_unsupported(
            paths.get(body, ()),
            f"{builder.body_label[body]!r} has moments of inertia ({shown}), which no body of its mass has; "
            f"({used}) are used [kg m^2]",
        )


def _give_back(model: newton.Model, wanted: np.ndarray) -> None:
    """Write inertias that are possible up to rounding back into all worlds of ``model``."""
    got, inverse = model.body_inertia.numpy(), model.body_inv_inertia.numpy()
    mass = model.body_mass.numpy()
    if len(got) % len(wanted) or not np.array_equal(mass, np.tile(mass[: len(wanted)], len(got) // len(wanted))):
        return
    exact = wanted.astype(np.float64)
    moments = np.linalg.eigvalsh(exact)
    sound = (moments[:, 0] > 0.0) & (moments[:, 0] + moments[:, 1] > (1.0 - ROUNDING) * moments[:, 2])
    changed = np.abs(got[: len(wanted)] - wanted).max(axis=(1, 2)) > ROUNDING * np.abs(wanted).max(axis=(1, 2))
    chosen = np.flatnonzero(sound & changed & (mass[: len(wanted)] > 0.0))
    if not len(chosen):
        return
    for first in range(0, len(got), len(wanted)):
        got[first + chosen] = wanted[chosen]
        inverse[first + chosen] = np.linalg.inv(exact[chosen])
    model.body_inertia.assign(got)
    model.body_inv_inertia.assign(inverse)
