"""Tests of the command `sap-warp` and of its sub-commands."""
