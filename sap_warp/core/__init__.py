"""What every part of the package stands on: notes, lazy names, kernels, native headers."""
