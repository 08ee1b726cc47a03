"""The gradient of the objective, without a Jacobian.

    g = A (v - v*) - J^T gamma + terms of dofs

Contacts sum their wrenches over each dof's subtree; equations add J_k^T gamma_k one by one.

Called by all lanes of a block.
"""

from __future__ import annotations

import warp as wp

from ...core.kernels.lanes import block_sum, lane, lane_count
from ...core.kernels.template import device
from ..settings.precisions import linear, solve
from .equations import equation_count
from .families import add_impulse, gather_impulses
from .problem import Data, Problem

scalar, vec3, linear_scalar = solve.scalar, solve.vec3, linear.scalar
sum_vectors = block_sum.on(dtype=vec3)


@device
def gradient(problem: wp.ref[Problem], data: wp.ref[Data]) -> vec3:
    """Fill data.gradient; returns the squared norms |D g|^2, |D A v|^2, |D j|^2 with D = diag(A)^(-1/2)."""
    gather_impulses(problem, data)
    has_equations = equation_count(problem) > 0
    norms = vec3()
    e = int(problem.first + lane())
    while e < problem.last:
        j = scalar(0.0)
        if has_equations:
            j = data.impulse[e]
        j = add_impulse(problem, data, e, j)
        g = data.momentum[e] - j
        data.gradient[e] = g
        data.direction[e] = linear_scalar(-g)  # right-hand side of the Newton step
        data.impulse[e] = j
        Av = data.momentum[e] + data.A_v_star[e]
        norms += vec3(g * g, Av * Av, j * j) * scalar(problem.motion.inverse_diagonal[e])
        e += lane_count()
    return sum_vectors(norms, data.scratch, problem.world)
