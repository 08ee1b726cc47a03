"""`sap-warp validate` itself: selection, exit codes, report, and what it imports."""

import importlib.util
import math
import subprocess
import sys

import pytest

from sap_warp.cli import main
from sap_warp.commands import validate
from sap_warp.judge.validation import Case, Outcome, Row, load_cases
from sap_warp.judge.validation.report import number, write_report


def broken(quick):
    outcome = Outcome()
    outcome.check("too large", 2.0, 1.0, "one is the limit")
    return outcome


def raising(quick):
    raise RuntimeError("no such thing")


@pytest.fixture
def only(monkeypatch):
    """Replace the cases by the given functions, called family/0, family/1, ..."""

    def replace(*functions):
        cases = [Case(f"family/{i}", "a case", f, False) for i, f in enumerate(functions)]
        monkeypatch.setattr("sap_warp.judge.validation.load_cases", lambda: cases)

    return replace


def test_row_passes_at_its_bound_and_never_with_nan():
    assert Row("x", 1.0, 1.0, "").passed
    assert not Row("x", 1.0 + 1e-12, 1.0, "").passed
    assert not Row("x", math.nan, 1.0, "").passed
    assert not Row("x", math.inf, math.inf, "").passed


def test_outcome_needs_a_number_that_can_fail():
    outcome = Outcome()
    outcome.note("for information", 1.0, "")
    assert not outcome.passed
    outcome.check("x", 0.0, 0.0, "")
    assert outcome.passed


def test_names_are_unique_and_have_a_family():
    names = [case.name for case in load_cases()]
    assert len(set(names)) == len(names)
    assert all(name.count("/") == 1 for name in names)


def test_broken_bound_gives_exit_code_1_and_is_named(only, capsys):
    only(broken)
    assert main(["validate"]) == 1
    out = capsys.readouterr().out
    assert "FAIL family/0: too large: 2 > 1" in out and "one is the limit" in out
    assert "0 of 1 cases pass" in out


def test_case_that_raises_fails_and_the_next_one_still_runs(only, capsys):
    only(raising, broken)
    assert main(["validate"]) == 1
    out = capsys.readouterr().out
    assert "RuntimeError: no such thing" in out and "[ 2/2]" in out


def test_unknown_case_is_refused_with_the_list_of_names(capsys):
    assert main(["validate", "--only", "no-such-case"]) == 2
    assert "drake/panda" in capsys.readouterr().err


def test_list_names_all_cases(capsys):
    assert main(["validate", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(load_cases())


def test_missing_extra_is_named(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(validate.importlib.util, "find_spec", lambda n: None if n == "pydrake" else found(n))
    assert main(["validate"]) == 2
    assert "pip install 'sap-warp[validate]'" in capsys.readouterr().err


def test_out_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["validate", "--only", "closed/free-fall", "--out", str(tmp_path / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_report_has_numbers_reasons_tables_and_plots(tmp_path):
    pytest.importorskip("matplotlib")
    cases = {case.name: case for case in load_cases()}
    chosen = ["closed/free-fall", "convergence/drift"]
    results = {name: (cases[name], cases[name].run(True)) for name in chosen}
    page = write_report(results, tmp_path, quick=True).read_text()
    assert page.startswith("# Validation") and "2 cases" in page and "All pass." in page
    for _, outcome in results.values():
        for row in outcome.rows:
            assert all(text.replace("|", "\\|") in page for text in (row.what, row.why))
    assert "| sap_euler |" in page
    image = tmp_path / "images" / "validation_drift.png"
    assert "images/validation_drift.png" in page and image.read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "images").iterdir())) == 1, "plots of cases that were not run"


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (1.23456, "1.23"), (1e-6, "1.0e-06"), (123456.0, "1.2e+05")])
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_other_engines_are_imported_only_when_a_case_needs_them():
    code = (
        "import sys, sap_warp.cli\n"
        "assert not {'newton', 'warp', 'rich'} & set(sys.modules), 'the command line must start fast'\n"
        "from sap_warp.judge.validation import load_cases; load_cases()\n"
        "assert not {'pydrake', 'mujoco', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
