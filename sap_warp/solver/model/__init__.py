"""What of the model a step needs and never changes: layout, topology, maps, links."""
