"""Scene files: what they may say, where their assets come from, and how they become a model."""
