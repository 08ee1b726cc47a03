"""Convex hulls: their planes, supports and tables."""
