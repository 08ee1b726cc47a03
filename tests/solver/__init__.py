"""Tests of `sap_warp.solver`: its stages, its options, and what a step promises."""
