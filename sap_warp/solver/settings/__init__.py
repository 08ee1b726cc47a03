"""What a user chooses, and what a solve tells: options, their names, status."""
