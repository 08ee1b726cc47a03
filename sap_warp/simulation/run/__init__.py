"""How a simulation advances: steps, shards, schedules, and what is counted meanwhile."""
