"""Tendons and other transmissions, and actuators that are not drives of joints."""
