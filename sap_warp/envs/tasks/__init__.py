"""Tasks that are shipped; see `sap_warp.envs.shipped_tasks`."""
