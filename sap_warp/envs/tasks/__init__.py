"""Shipped tasks; see `sap_warp.envs.shipped_tasks`."""
