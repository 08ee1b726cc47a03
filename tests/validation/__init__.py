"""Tests of `sap_warp.judge.validation`: its cases."""
