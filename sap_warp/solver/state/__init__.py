"""From a state and back: order, kinematics, integration, resets."""
