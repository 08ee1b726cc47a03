"""Make text of strangers safe for a terminal. Imports nothing."""


def printable(text: str) -> str:
    """Escape characters of ``text`` that a terminal would obey instead of show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
