"""Tests of `sap_warp.simulation`."""
