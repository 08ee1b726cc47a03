"""The convex terms of the objective. Each file has value, gradient and curvature of one term side by side."""
