"""Random draws of a simulation: parameters, disturbances, and the streams of their numbers."""
