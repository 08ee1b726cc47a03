"""Numbers written as small expressions: ``pi * 0.5``, ``-(1 + 2) / 3``, ``1e5``."""

from __future__ import annotations

import math
import re

MAX_LENGTH = 200
"""Longest expression that is read [characters]."""
MAX_DEPTH = 20
"""Deepest nesting of parentheses and signs."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<symbol>[-+*/()]))"
)
_NAMES = {"pi": math.pi}


class ExpressionError(ValueError):
    """The text is not a number or an expression of numbers, pi, + - * / and parentheses."""


def evaluate_expression(text: str) -> float:
    """Return the value of an arithmetic expression.

    Raises:
        ExpressionError: The text is not one, is too long, or divides by zero.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_LENGTH} are read")
    return _Parser(text).parse()


class _Parser:
    """Recursive descent: sum = product {+- product}; product = signed {*/ signed}; signed = [+-] atom."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = self._split(text)
        self.next = 0
        self.depth = 0

    def parse(self) -> float:
        value = self._sum()
        if self.next < len(self.tokens):
            raise self._error(f"unexpected {self.tokens[self.next]!r}")
        return value

    def _split(self, text: str) -> list[str]:
        tokens, position, text = [], 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"unexpected {text[position:].lstrip()[0]!r}")
            tokens.append(match.group(match.lastgroup or 0))
            position = match.end()
        return tokens

    def _error(self, what: str) -> ExpressionError:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return ExpressionError(f"{what} in {shown!r}; numbers, pi, + - * / and parentheses are accepted")

    def _take(self, accepted: str) -> str | None:
        if self.next < len(self.tokens) and self.tokens[self.next] in accepted.split():
            self.next += 1
            return self.tokens[self.next - 1]
        return None

    def _sum(self) -> float:
        value = self._product()
        while operator := self._take("+ -"):
            value = value + self._product() if operator == "+" else value - self._product()
        return value

    def _product(self) -> float:
        value = self._signed()
        while operator := self._take("* /"):
            factor = self._signed()
            if operator == "/" and factor == 0.0:
                raise self._error("division by zero")
            value = value * factor if operator == "*" else value / factor
        return value

    def _signed(self) -> float:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels")
        sign = self._take("+ -")
        value = self._signed() if sign else self._atom()
        self.depth -= 1
        return -value if sign == "-" else value

    def _atom(self) -> float:
        if self.next >= len(self.tokens):
            raise self._error("something is missing at the end")
        token = self.tokens[self.next]
        self.next += 1
        if token == "(":
            value = self._sum()
            if not self._take(")"):
                raise self._error("a ')' is missing")
            return value
        if token in _NAMES:
            return _NAMES[token]
        if token[0].isdigit() or token[0] == ".":
            return float(token)
        raise self._error(f"unexpected {token!r}")
