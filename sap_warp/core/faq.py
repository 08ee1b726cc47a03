"""References from messages to the page of questions and answers; imports nothing."""

from __future__ import annotations


def see(answer: str) -> str:
    """Return the end of a message that refers to ``answer``, an anchor of docs/faq.md."""
    return f" (see docs/faq.md#{answer})"
