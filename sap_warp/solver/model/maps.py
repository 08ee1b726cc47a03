"""Where the solver has Newton's bodies and dofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .layout import Layout


class Maps:
    """Tables of a layout on the host."""

    def __init__(self, layout: Layout):
        """Read them."""
        self.body = layout.newton_body.numpy()
        self.body_world = layout.body_world.numpy()
        self.chain, self.parent = layout.body_chain.numpy(), layout.dof_parent.numpy()
        self.dof_body = layout.dof_body.numpy()
        self.free = len(self.dof_body)
        newton_dof = layout.dof_newton.numpy()
        self.dof = np.full(int(newton_dof.max(initial=-1)) + 1, -1, np.int64)
        self.dof[newton_dof] = np.arange(len(newton_dof))

    def path(self, body: int) -> list[int]:
        """Return the free dofs above a Newton body, which may be none (-1)."""
        e = self.chain[self.body[body]] if body >= 0 else -1
        out = []
        while e >= 0:
            out.append(int(e))
            e = self.parent[e]
        return out
