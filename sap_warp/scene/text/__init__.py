"""The text of a scene file: documents with line numbers, values, expressions, references, errors."""
