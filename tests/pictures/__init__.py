"""Pictures without a display."""
