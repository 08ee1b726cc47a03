"""Adapters that run tasks in Gymnasium, Stable-Baselines3, rsl_rl and Ray."""
