"""What is drawn at random: parameters, disturbances, and the streams they come from."""
