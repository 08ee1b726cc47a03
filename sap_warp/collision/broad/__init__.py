"""Which shapes can meet: their boxes, pairs and how far they travel."""
