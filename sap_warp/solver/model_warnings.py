"""What a solver warns of when it is made: models that it simulates, but not as well as their author may think."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.faq import see
from .model.layout import LayoutSizes
from .settings.options import SapOptions

LONG_CHAIN = 40
"""Dofs in a row, without armature or damping, whose free motion fp32 gets wrong by a tenth."""


def warn_if_undamped(shape_tau: np.ndarray, options: SapOptions) -> None:
    """Contacts that nothing damps; ``shape_tau`` are the dissipation times of all shapes [s]."""
    if len(shape_tau) and options.contact_tau_d == 0.0 and not (shape_tau > 0.0).any():
        warnings.warn(
            "All contacts have a dissipation time of zero: near-rigid contacts without damping rattle. "
            "Give shapes a 'sap:shape_material_tau' or the solver a contact_tau_d, for example 0.01 s."
            + see("no-dissipation"),
            stacklevel=3,
        )


def warn_if_long(model: Any, layout: Any, sizes: LayoutSizes, options: SapOptions) -> None:
    """Chains whose mass matrix fp32 cannot hold; see docs/solver.md, "Precision"."""
    rows = np.arange(sizes.free_dof_count) - layout.rows.first.numpy()[: sizes.free_dof_count]
    if options.free_motion_solve_precision == "fp64" or rows.max(initial=0) + 1 < LONG_CHAIN:
        return
    held = (model.joint_armature.numpy() + model.joint_damping.numpy()) > 0.0
    bare = np.append(~held[layout.dof_newton.numpy()], False)
    parent = np.append(layout.dof_parent.numpy(), -1)
    place, length = np.arange(len(bare)), np.zeros(len(bare), int)
    while (place >= 0).any():
        length += bare[place]
        place = np.where(place >= 0, parent[place], -1)
    if length.max() >= LONG_CHAIN:
        warnings.warn(
            f"A chain has {length.max()} dofs in a row without armature or damping: free motion in fp32 is off by "
            'tens of percent there. Use contact_preset_variant="approx64" or give the joints armature.'
            + see("long-chains"),
            stacklevel=3,
        )
