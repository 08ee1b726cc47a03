"""Views of a simulation by name: arrays of worlds, selections, mirrors."""
