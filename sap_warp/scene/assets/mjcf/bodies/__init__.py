"""Bodies of an MJCF file: frames, poses, masses, pairs and named states."""
