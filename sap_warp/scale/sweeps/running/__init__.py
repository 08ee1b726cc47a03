"""How a sweep runs: jobs, their order, and threads or Ray to do them."""
