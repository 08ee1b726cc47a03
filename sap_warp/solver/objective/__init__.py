"""The convex objective l(v): value, gradient, Hessian."""
