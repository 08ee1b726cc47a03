"""What moves an MJCF model: joints, actuators, drives, tendons and loops."""
