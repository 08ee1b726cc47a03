"""Runtime of kernels: their cache, capture and replay, and the memory that they may take."""
