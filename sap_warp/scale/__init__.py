"""Work beyond one simulation: rollouts, sweeps and clusters."""
