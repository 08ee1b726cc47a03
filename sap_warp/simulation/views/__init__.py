"""What a simulation shows of itself by name: arrays of worlds, selections, mirrors."""
