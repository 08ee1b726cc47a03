"""What a scene changes in a model that is built: selected parts, filters, worlds."""
