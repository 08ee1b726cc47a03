"""The families of terms of the objective against one another: cost, gradient and the cost along a direction."""

import pytest

from tests.support.families import check_families
from tests.support.solver_cases import Case


@pytest.mark.parametrize("seed", range(4))
def test_gradient_and_line_are_those_of_the_cost(seed):
    """The impulses of all families are minus the derivatives of their cost; phi and its derivatives agree with both."""
    check_families(Case(seed, shape={"couplings": True} if seed % 2 else None))
