"""The families of terms that the objective is the sum of, and what each of them does in a solve.

    l(v) = 1/2 (v - v*)^T A (v - v*) + contacts + equations + terms of dofs

A family is a file with functions of these names; one that it does not need it leaves out. ``problem`` and ``data`` are
those of the solve (`problem`), and all lanes of a block call every function. ``total`` is what the families before have
found, to which a lane adds its share.

    prepare                             the kernel of stage 3 fills `Problem` (contact/, joints/, equations/, tendons/)
    has_terms(problem, data, found)     1 if the world has terms of the family, else ``found``
    start(problem, data)                what the terms are at data.v, which is v0
    add_cost(.., total)                 cost at data.v: that of parabolas first, all other second
    gather_impulses(..)                 what has to be known of impulses before `add_impulse`
    add_impulse(.., e, total)           generalized impulse on dof e, minus the gradient
    couples(.., found)                  1 if H has entries that A's rows do not have
    add_to_diagonal(.., H, e, entry)    the Hessian of what acts on single dofs
    add_couplings(..)                   the Hessian between dofs that are not above one another
    prepare_direction(.., total)        slope and curvature of the parabolas along data.dv, in the first two entries;
                                        the third, the slope of all cost, comes from the gradient (`dofs`)
    add_along(.., alpha, total)         cost, slope and curvature at v + alpha dv of all that is no parabola
    add_cost_along(.., alpha, first, lanes, total)    the cost of that alone, by one of ``lanes`` lanes
    advance(.., alpha, renew)           go to v + alpha dv, and with ``renew`` see what the terms do there

A family whose cost is a parabola in v needs neither `add_along` nor `add_cost_along`; one that keeps nothing in `Data`
that depends on v needs neither `start` nor `advance`.

A new family is a file and an entry of `FAMILIES`. The orders below are those in which the built-in families have
always been added up; rounding depends on it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...core.kernels.template import composed
from . import contacts, dofs, equations
from .contacts import CALLED_TWICE

FAMILIES: tuple[ModuleType, ...] = (contacts, equations, dofs)


def in_turn(name: str, *order: ModuleType, inline: object = None) -> Any:
    """The device function that calls the one of this name of all families, those in ``order`` first."""
    ordered = (*order, *(family for family in FAMILIES if family not in order))
    return composed(name, [getattr(family, name) for family in ordered if hasattr(family, name)], inline)


has_terms = in_turn("has_terms")
start = in_turn("start", inline=CALLED_TWICE)
add_cost = in_turn("add_cost", dofs, contacts, equations)
gather_impulses = in_turn("gather_impulses")
add_impulse = in_turn("add_impulse", contacts, dofs)
couples = in_turn("couples", contacts, equations)
add_to_diagonal = in_turn("add_to_diagonal")
add_couplings = in_turn("add_couplings", contacts, equations)
prepare_direction = in_turn("prepare_direction", contacts, equations, dofs)
add_along = in_turn("add_along", contacts, dofs, equations)
add_cost_along = in_turn("add_cost_along", contacts, dofs, equations)
advance = in_turn("advance", dofs, contacts, equations)
