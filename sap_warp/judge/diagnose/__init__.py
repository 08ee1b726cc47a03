"""Diagnosis of a run: what goes wrong, why, and what to change; see docs/diagnose.md.

`collect` takes samples, `detectors` turn them into findings, `report` shows them.
"""

from .report import Finding, Number, Report, Table
from .run import diagnose

__all__ = ["Finding", "Number", "Report", "Table", "diagnose"]
