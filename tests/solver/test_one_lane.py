"""What one lane on the CPU does its own way: rows in groups of eight, narrow Hessians, lists kept, parabolas."""

import numpy as np
import pytest

from sap_warp.core.kernels.launch import WorldRange
from sap_warp.solver.minimize.line_search import EXACT_MAX_STEP
from tests.support.oracle import fill_newton_contacts
from tests.support.solver_cases import DT, Case, assert_close, random_problem

MANY = 19
"""Contacts of a world: two groups of eight rows and a rest."""


@pytest.mark.parametrize("seed", range(6))
def test_one_iteration_with_many_rows_is_that_of_the_oracle(seed):
    """Hessian at the guess, gradient at the new velocity; the step between ends where the oracle's cost is flat."""
    case = Case(seed, contacts=MANY, max_iterations=1).step()
    solve = case.solver.contact_solve
    for w, world in enumerate(case.oracle):
        if case.solver.iterations[w] == 0:
            continue
        v0, v1 = (case.by_dof(v, w) for v in (case.solver.free_motion.data.v0, solve.data.v))
        assert_close(case.hessian(w), world.hess(v0), 1e-9, f"Hessian of world {w}")
        scale = max(np.abs(world.A @ v1).max(), np.abs(world.A @ world.v_star).max())
        assert np.abs(case.by_dof(solve.data.gradient, w) - world.grad(v1)).max() < 1e-9 * scale
        d = v1 - v0
        before, after = world.grad(v0) @ d, world.grad(v1) @ d
        longest = np.abs(d).max() > (EXACT_MAX_STEP - 1e-6) * np.abs(case.by_dof(solve.data.dv, w)).max()
        assert before < 0.0
        assert after < 0.0 if longest else abs(after) < 1e-6 * abs(before)  # the search asks for 1e-8


def test_pairs_that_are_only_near_leave_the_hessian_narrow():
    """Contacts between moving bodies widen its table of rows; while all are apart, the solve needs none of that."""
    case = Case(3).step()
    data, solve = case.solver.contact_jacobian.data, case.solver.contact_solve
    assert (data.coupled.numpy() & solve.data.widened.numpy()).any()
    case.contacts.rigid_contact_margin0.fill_(-10.0)  # a gap of ten metres
    case.step()
    coupled = data.coupled.numpy()
    assert coupled.any() and not solve.data.widened.numpy().any()
    apart = solve.velocity.numpy().copy()
    case.contacts = None
    case.step()
    assert_close(apart, solve.velocity.numpy(), 1e-12, "velocity")


def test_lists_follow_rows_that_change_places():
    """As many contacts as before, in another order: whatever the rows of the last step were, the lists are new."""
    *_, records, _ = random_problem(3, 3, MANY)
    results = []
    for first in (True, False):
        case = Case(3, contacts=MANY)
        if first:
            case.step()
            assert case.solver.contact_jacobian._listed.numpy().any()  # this way is taken at all
        case.contacts = fill_newton_contacts(case.model, [r for world in records for r in world[::-1]])
        case.step()
        data = case.solver.contact_jacobian.data
        tables = (data.body_start, data.body_count, data.body_active, data.body_row)
        tables += (data.hessian.first, data.dof_position, case.solver.contact_solve.velocity)
        results.append([table.numpy().copy() for table in tables])
    rows = results[1][3]
    results[0][3][rows == 0] = 0  # beyond the lists there is what was there before
    for kept, new in zip(*results, strict=True):
        np.testing.assert_array_equal(kept, new)


def test_the_last_rows_of_a_full_world_are_its_own():
    """Rows go in groups of eight. Where a world has no room for the last group, others lie behind its rows."""
    case = Case(5, contacts=MANY, max_rigid_contact=MANY).step()
    solve, jacobian = case.solver.contact_solve, case.solver.contact_jacobian
    counts = jacobian.data.count.numpy()
    assert (-(-counts[:-1] // 8) * 8 > jacobian.capacity).any()
    before = solve.data.vc.numpy().copy()
    for w in range(len(counts) - 1, -1, -1):  # each after the next one
        solve.solve(DT, WorldRange(w, 1, 1))
    np.testing.assert_array_equal(solve.data.vc.numpy(), before)
