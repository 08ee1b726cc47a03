"""Convex hulls: tables of faces and planes, support points, support faces, bounds of distances."""
