"""Tests of `sap_warp.scene` and of the scenes that are shipped."""
