"""Terms of the joints: efforts of drives, actuators and springs, limits, friction, bounds of distances."""
