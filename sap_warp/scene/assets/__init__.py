"""Files of robots and meshes: where they come from, and how they become part of a model."""
