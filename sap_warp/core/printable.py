"""Text of strangers as a terminal may show it. Imports nothing."""


def printable(text: str) -> str:
    """``text`` with codes for characters that are not shown but obeyed, as terminals do with escape sequences."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
