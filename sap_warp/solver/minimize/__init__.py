"""Newton's method: where it begins, its steps, line search and end."""
