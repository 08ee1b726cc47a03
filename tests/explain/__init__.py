"""Tests of `sap_warp.judge.explain`."""
