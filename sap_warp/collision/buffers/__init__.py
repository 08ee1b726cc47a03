"""The buffer of contacts: its capacity, rows, counts and overflow."""
