"""Tests of `sap_warp.conventions`."""
