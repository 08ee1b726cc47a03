"""References from messages to the page of questions and answers; imports nothing."""

from __future__ import annotations


def see(answer: str) -> str:
    """The end of a message whose ``answer``, an anchor of docs/faq.md, says more than fits into a line."""
    return f" (see docs/faq.md#{answer})"
