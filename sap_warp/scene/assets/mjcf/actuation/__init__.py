"""Actuation of an MJCF model: joints, actuators, drives, tendons and loops."""
