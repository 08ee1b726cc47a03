"""What can be read after a step: forces and accelerations."""
