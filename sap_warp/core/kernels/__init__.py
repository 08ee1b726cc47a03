"""What the kernels of collision detection and of the solver share; it knows neither of them."""
