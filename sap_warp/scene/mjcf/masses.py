"""Settings of <compiler> that change masses and inertias, which Newton's importer does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

if TYPE_CHECKING:
    from .content import Import


def set_masses(done: Import) -> None:
    """Give bodies at least the mass and the moments of inertia that the file asks for, and balance the moments.

    A body whose largest moment is more than the sum of the two others gets the mean of the three in all directions.
    """
    compiler = done.document.compiler
    least_mass, least_inertia = (float(compiler.get(name, "0")) for name in ("boundmass", "boundinertia"))
    balance = compiler.get("balanceinertia") == "true"
    if not (least_mass > 0.0 or least_inertia > 0.0 or balance):
        return
    builder = done.build.builder
    for body, node in done.bodies.items():
        if node in done.document.parts:
            continue
        mass = max(float(builder.body_mass[body]), least_mass)
        inertia = np.array(builder.body_inertia[body], dtype=np.float64).reshape(3, 3)
        moments, axes = np.linalg.eigh(inertia)
        moments = np.maximum(moments, least_inertia)
        if balance and moments[0] + moments[1] < moments[2]:
            moments[:] = moments.mean()
        inertia = axes @ np.diag(moments) @ axes.T
        builder.body_mass[body] = mass
        builder.body_inv_mass[body] = 1.0 / mass if mass > 0.0 else 0.0
        builder.body_inertia[body] = wp.mat33(*inertia.ravel())
        inverse = np.linalg.inv(inertia) if moments[0] > 0.0 else np.zeros((3, 3))
        builder.body_inv_inertia[body] = wp.mat33(*inverse.ravel())
