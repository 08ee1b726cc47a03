"""How a simulation advances: steps, shards, schedules, and the counters of what happens."""
