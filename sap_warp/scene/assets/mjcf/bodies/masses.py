"""Settings of <compiler> that change masses and inertias, which Newton's importer does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

if TYPE_CHECKING:
    from ..content import Import


def set_masses(done: Import) -> None:
    """Give bodies at least the mass and the moments of inertia that the file asks for, and balance the moments.

    A body whose largest moment is more than the sum of the two others gets the mean of the three in all directions.
    ``settotalmass`` then scales all of the file.
    """
    compiler = done.document.compiler
    least_mass, least_inertia = (float(compiler.get(name, "0")) for name in ("boundmass", "boundinertia"))
    balance = compiler.get("balanceinertia") == "true"
    total = float(compiler.get("settotalmass", "-1"))
    if least_mass > 0.0 or least_inertia > 0.0 or balance:
        _raise_masses(done, least_mass, least_inertia, balance)
    mass = sum(float(done.build.builder.body_mass[body]) for body in done.bodies)
    if total > 0.0 and mass > 0.0:
        for body in done.bodies:
            own_mass, inertia = _body(done, body)
            _set_body(done, body, total / mass * own_mass, total / mass * inertia)


def _body(done: Import, body: int) -> tuple[float, np.ndarray]:
    """Return mass [kg] and inertia about the centre of mass [kg m^2]."""
    builder = done.build.builder
    return float(builder.body_mass[body]), np.array(builder.body_inertia[body], dtype=np.float64).reshape(3, 3)


def _set_body(done: Import, body: int, mass: float, inertia: np.ndarray) -> None:
    builder = done.build.builder
    builder.body_mass[body] = mass
    builder.body_inv_mass[body] = 1.0 / mass if mass > 0.0 else 0.0
    builder.body_inertia[body] = wp.mat33(*inertia.ravel())
    inverse = np.linalg.inv(inertia) if np.linalg.eigvalsh(inertia)[0] > 0.0 else np.zeros((3, 3))
    builder.body_inv_inertia[body] = wp.mat33(*inverse.ravel())


def _raise_masses(done: Import, least_mass: float, least_inertia: float, balance: bool) -> None:
    for body, node in done.bodies.items():
        if node in done.document.parts:
            continue
        mass, inertia = _body(done, body)
        moments, axes = np.linalg.eigh(inertia)
        moments = np.maximum(moments, least_inertia)
        if balance and moments[0] + moments[1] < moments[2]:
            moments[:] = moments.mean()
        _set_body(done, body, max(mass, least_mass), axes @ np.diag(moments) @ axes.T)
