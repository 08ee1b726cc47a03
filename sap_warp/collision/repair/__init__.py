"""What sets contacts right that shapes beside each other would bend."""
