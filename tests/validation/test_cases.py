"""Every case of `sap-warp validate` in its short form, one test each."""

import pytest

from sap_warp.judge.validation import load_cases

CASES = load_cases()
NEEDS = {"drake": "pydrake", "grasp": "mujoco"}


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.slow else []) for c in CASES]
)
def test_case_keeps_its_bounds(case, report):
    """All measured numbers keep the bounds that the report states and justifies."""
    if case.family in NEEDS:
        pytest.importorskip(NEEDS[case.family])
    outcome = case.run(quick=True)
    shares = [row.measured / row.bound for row in outcome.rows if row.bound > 0.0 and not row.informative]
    report(largest_share_of_a_bound=max(shares, default=0.0))
    broken = [f"{row.what}: {row.measured:.6g} > {row.bound:.6g} {row.unit}" for row in outcome.rows if not row.passed]
    assert not broken, "\n".join(broken)
    assert outcome.passed, "a case needs at least one number that can fail"
