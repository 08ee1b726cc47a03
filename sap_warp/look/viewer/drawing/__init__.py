"""What the page draws: bodies, contacts, joints and signals."""
