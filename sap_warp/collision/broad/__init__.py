"""The broad phase: AABBs of shapes, pairs that may touch, and how far bodies have travelled."""
