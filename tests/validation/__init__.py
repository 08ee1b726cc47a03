"""Tests of `sap_warp.validation`: its cases."""
