"""Terms of the dofs: drives, motors, limits and friction."""
