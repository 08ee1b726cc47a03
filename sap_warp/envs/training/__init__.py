"""Training of policies: PPO with torch, random search with NumPy alone; the commands train and play."""
