"""What surrounds the running of kernels: their cache, capture and replay, and the memory they may take."""
