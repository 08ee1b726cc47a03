"""Tests of `sap_warp.collision`."""
