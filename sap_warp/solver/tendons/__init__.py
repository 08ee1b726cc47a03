"""Lengths: tendons and actuators that are no drives of joints."""
