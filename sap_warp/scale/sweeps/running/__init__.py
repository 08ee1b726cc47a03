"""Execution of a sweep: jobs, their order, and threads or Ray to do them."""
