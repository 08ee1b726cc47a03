"""Tests of `sap_warp.explain`."""
