"""What a scene file says as text: nodes with their places, values, expressions, references, errors."""
