"""Values that a scene is made of: numbers, vectors, rotations, transforms, axes and ranges."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator, WithJsonSchema

from .bounds import COORDINATE, INERTIA, LENGTH, SCALE, Quantity
from .errors import Complaint, Gathered, below, show
from .expressions import ExpressionError, evaluate_expression

LARGEST = 1.0e30
"""Largest magnitude that is read as a number; the arrays of a model are fp32."""
SMALLEST = 1.0e-30
"""Smallest magnitude of a number that is not 0."""
LARGEST_INTEGER = 2**31 - 1
"""Largest magnitude of a whole number; the arrays of a model are int32."""

_DATE = re.compile(r"\s*\d{4}-\d\d?-\d\d?(?!\d)")
_NOT_FOR_TEXT = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, marks that turn the direction of writing, lone surrogates, other line separators."""


def read_number(value: Any, *, infinite: bool = False) -> float:
    """Return a number, or the value of an expression such as ``"pi * 0.5"``.

    Args:
        value: From the scene.
        infinite: Whether ``.inf`` is accepted.
    """
    if isinstance(value, str):
        if _DATE.match(value):
            raise Complaint(f"found {show(value)}, a date; expected a number")
        try:
            value = evaluate_expression(value)
        except ExpressionError as error:
            raise Complaint(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Complaint(f"found {show(value)}; expected a number")
    if isinstance(value, float) and (math.isnan(value) or (math.isinf(value) and not infinite)):
        raise Complaint(f"found {value}; expected a finite number")
    if abs(value) > LARGEST and not (infinite and isinstance(value, float)):
        raise Complaint(f"found {show(value)}; expected a number of magnitude up to {LARGEST:g}")
    if 0.0 < abs(value) < SMALLEST:
        raise Complaint(f"found {show(value)}; expected 0, or a number of magnitude {SMALLEST:g} or more")
    return float(value) + 0.0  # -0 is 0


def _read_limit(value: Any) -> float:
    return read_number(value, infinite=True)


def read_positive(value: Any) -> float:
    """Return a number above 0."""
    number = read_number(value)
    if number <= 0.0:
        raise Complaint(f"found {number:g}; expected a positive number")
    return number


def read_non_negative(value: Any, *, infinite: bool = False) -> float:
    """Return a number of at least 0."""
    number = read_number(value, infinite=infinite)
    if number < 0.0:
        raise Complaint(f"found {number:g}; expected a number that is not negative")
    return number


def _read_limit_magnitude(value: Any) -> float:
    return read_non_negative(value, infinite=True)


def _read_integer(value: Any) -> int:
    number = read_number(value)
    if number != int(number):
        raise Complaint(f"found {number:g}; expected a whole number")
    if abs(number) > LARGEST_INTEGER:
        raise Complaint(f"found {number:g}; expected a whole number of magnitude up to {LARGEST_INTEGER}")
    return int(number)


def _read_positive_integer(value: Any) -> int:
    number = _read_integer(value)
    if number < 1:
        raise Complaint(f"found {number}; expected a whole number of at least 1")
    return number


def _read_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Complaint(f"found {show(value)}; expected true or false")
    return value


def _read_text(value: Any, allowed: str = "") -> str:
    if not isinstance(value, str) or not value:
        raise Complaint(f"found {show(value)}; expected a text" + (" that is not empty" if value == "" else ""))
    for character in value if not value.isprintable() else "":
        if unicodedata.category(character) in _NOT_FOR_TEXT and character not in allowed:
            raise Complaint(
                f"found {show(value)} with the character U+{ord(character):04X}, which terminals obey; remove it"
            )
    return value


def _read_long_text(value: Any) -> str:
    return _read_text(value, allowed="\n\r\t")


def _read_pattern(value: Any) -> str:
    try:
        re.compile(_read_text(value))
    except (re.error, OverflowError) as error:
        raise Complaint(f"{value!r} is not a regular expression: {error}") from None
    return value


def _read_list(value: Any, what: str, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        found = f"a list of {len(value)}" if isinstance(value, list) else show(value)
        raise Complaint(f"found {found}; expected {what}")
    return value


def _read_each(items: list[Any], quantity: Quantity | None = None) -> list[float]:
    numbers, complaints = [], Gathered()
    for i, item in enumerate(items):
        with complaints.part(i):
            number = read_number(item)
            numbers.append(number if quantity is None else quantity.check(number))
    complaints.raise_all()
    return numbers


def read_vec3(value: Any, quantity: Quantity | None = None) -> tuple[float, float, float]:
    """Return three numbers, each within the bounds of ``quantity``."""
    x, y, z = _read_each(_read_list(value, "three numbers [x, y, z]", 3), quantity)
    return x, y, z


def _read_position(value: Any) -> tuple[float, float, float]:
    return read_vec3(value, LENGTH)


def _read_numbers(value: Any) -> list[float]:
    return _read_each(_read_list(value, "a list of numbers"))


def _read_scale(value: Any) -> tuple[float, float, float]:
    scale = read_vec3(value, SCALE) if isinstance(value, list) else (SCALE.check(read_number(value)),) * 3
    if min(scale) <= 0.0:
        raise Complaint(f"found {show(value)}; expected a positive factor, or three of them")
    return scale


def _read_color(value: Any) -> tuple[float, float, float]:
    color = read_vec3(value)
    if min(color) < 0.0 or max(color) > 1.0:
        raise Complaint(f"found {show(value)}; expected red, green and blue between 0 and 1")
    return color


def _read_inertia(value: Any) -> tuple[float, ...]:
    """Read a diagonal [ixx, iyy, izz] or three rows; returns the nine entries row by row."""
    rows = _read_list(value, "three moments [ixx, iyy, izz] or three rows of three numbers", 3)
    if not isinstance(rows[0], list):
        ixx, iyy, izz = read_vec3(value)
        entries: tuple[float, ...] = (ixx, 0.0, 0.0, 0.0, iyy, 0.0, 0.0, 0.0, izz)
    else:
        matrix: list[float] = []
        for i, row in enumerate(rows):
            with below(i):
                matrix += read_vec3(row)
        entries = tuple(matrix)
    if any(entries[3 * i + j] != entries[3 * j + i] for i in range(3) for j in range(i)):
        raise Complaint("found a matrix that is not symmetric; expected a symmetric inertia")
    for entry in entries:
        INERTIA.check(entry)
    low, middle, high = sorted(np.linalg.eigvalsh(np.reshape(entries, (3, 3))))
    if low < -1e-6 * high or high > (low + middle) * (1.0 + 1e-4):
        raise Complaint(
            f"found principal moments {low:.4g}, {middle:.4g} and {high:.4g}; those of a body are not negative, "
            "and none is larger than the sum of the other two"
        )
    return entries


# Rotations and transforms

Quaternion = tuple[float, float, float, float]


def _read_quaternion(value: Any) -> Quaternion:
    """Read ``identity``, ``[x, y, z, w]`` or ``{axis_angle: {axis, angle}}``; returns a unit quaternion xyzw."""
    if value == "identity":
        return 0.0, 0.0, 0.0, 1.0
    if isinstance(value, dict):
        return _read_axis_angle(value)
    x, y, z, w = _read_each(_read_list(value, "identity, [x, y, z, w] or an axis_angle mapping", 4))
    length = math.sqrt(x * x + y * y + z * z + w * w)
    if abs(length - 1.0) > 0.01:
        raise Complaint(f"found a quaternion of length {length:.4g}; a rotation [x, y, z, w] has length 1")
    return x / length, y / length, z / length, w / length


def _read_axis_angle(value: dict[Any, Any]) -> Quaternion:
    if set(value) != {"axis_angle"} or not isinstance(value["axis_angle"], dict):
        raise Complaint("found a mapping; expected identity, [x, y, z, w] or {axis_angle: {axis: ..., angle: ...}}")
    inner = value["axis_angle"]
    if set(inner) != {"axis", "angle"}:
        found = ", ".join(map(str, inner)) or "nothing"
        raise Complaint(f"found {found}; expected the keys axis and angle", ("axis_angle",))
    with below("axis_angle", "axis"):
        axis = _read_axis(inner["axis"])
    with below("axis_angle", "angle"):
        angle = COORDINATE.check(read_number(inner["angle"]))
    sine = math.sin(0.5 * angle)
    return axis[0] * sine, axis[1] * sine, axis[2] * sine, math.cos(0.5 * angle)


_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def _read_axis(value: Any) -> tuple[float, float, float]:
    """Read a direction, a name (x, Y, -z) or Newton's integer (0 is x, 1 is y, 2 is z); returns a unit vector."""
    if isinstance(value, str):
        name = value.strip().lower()
        sign, letter = (-1.0, name[1:]) if name.startswith("-") else (1.0, name.removeprefix("+"))
        if letter not in _AXES:
            raise Complaint(f"found {show(value)}; expected x, y, z, -x, -y, -z, 0, 1, 2 or [x, y, z]")
        x, y, z = _AXES[letter]
        return sign * x, sign * y, sign * z
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in (0, 1, 2):
            raise Complaint(f"found {value}; expected 0 (x), 1 (y) or 2 (z)")
        return _AXES["xyz"[value]]
    x, y, z = _read_each(_read_list(value, "x, y, z, 0, 1, 2 or three numbers [x, y, z]", 3))
    length = math.sqrt(x * x + y * y + z * z)
    if length < 1e-12:
        raise Complaint("found a vector of length 0; expected a direction")
    return x / length, y / length, z / length


@dataclass(frozen=True)
class Transform:
    """A pose: position [m] and unit quaternion xyzw."""

    p: tuple[float, float, float] = (0.0, 0.0, 0.0)
    q: Quaternion = (0.0, 0.0, 0.0, 1.0)

    def __iter__(self) -> Any:
        """Yield position and rotation, the arguments of a transform of Warp."""
        return iter((self.p, self.q))


def _read_transform(value: Any) -> Transform:
    if value == "identity":
        return Transform()
    if not isinstance(value, dict):
        raise Complaint(f"found {show(value)}; expected identity or a mapping with p and q")
    parts: dict[str, Any] = {}
    complaints = Gathered()
    for key in value:
        with complaints.part(key):
            if key not in ("p", "q"):
                raise Complaint("unknown key; a transform has p and q")
    for key, read in (("p", _read_position), ("q", _read_quaternion)):
        if key in value:
            with complaints.part(key):
                parts[key] = read(value[key])
    complaints.raise_all()
    return Transform(**parts)


# Ranges of an array

_RANGE_FORMS = "all, head:N, tail:N, from:N or [start, end]"


@dataclass(frozen=True)
class Range:
    """Consecutive entries of an array, given without knowing its length."""

    kind: str
    start: int = 0
    end: int | None = None

    def resolve(self, length: int) -> range:
        """Return the indices in an array of ``length`` entries."""
        if self.kind == "head":
            return self._check(0, self.start, length)
        if self.kind == "tail":
            return self._check(length - self.start, length, length)
        start = self.start + length if self.start < 0 else self.start
        end = length if self.end is None else self.end + length if self.end < 0 else self.end
        return self._check(start, end, length)

    def _check(self, start: int, end: int, length: int) -> range:
        if not 0 <= start <= end <= length:
            raise Complaint(f"covers entries {start} to {end}, but the array has {length}")
        if start == end:
            raise Complaint(f"selects nothing: entries {start} to {end} of an array that has {length}")
        return range(start, end)


def _read_range(value: Any) -> Range:
    if value == "all":
        return Range("span")
    if isinstance(value, str):
        kind, _, number = value.partition(":")
        if kind in ("head", "tail", "from") and number.isascii() and number.isdigit() and len(number) < 12:
            return Range("span" if kind == "from" else kind, int(number))
    if isinstance(value, list) and len(value) == 2 and value[0] is not None:
        with below(0):
            start = _read_integer(value[0])
        with below(1):
            end = None if value[1] is None else _read_integer(value[1])
        return Range("span", start, end)
    raise Complaint(f"found {show(value)}; expected {_RANGE_FORMS}")


def resolve_index(index: int, length: int) -> int:
    """Return the index in an array of ``length`` entries; negative ones count from the end."""
    if not -length <= index < length:
        raise Complaint(f"found {index}, but the array has {length} entries")
    return index % length


# Types for the schema. Each knows how to read a value and how to describe it to an editor.

NUMBER_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^[\d\s.eEpi+*/()-]+$"}],
    "description": "a number, or an expression of numbers, pi, + - * / and parentheses",
}
VEC3_SCHEMA: dict[str, Any] = {"type": "array", "items": NUMBER_SCHEMA, "minItems": 3, "maxItems": 3}
_AXIS: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"enum": [0, 1, 2]}, VEC3_SCHEMA],
    "description": "x, -y, 2 or [x, y, z]",
}
_QUATERNION: dict[str, Any] = {
    "anyOf": [
        {"const": "identity"},
        {"type": "array", "items": NUMBER_SCHEMA, "minItems": 4, "maxItems": 4, "description": "[x, y, z, w]"},
        {
            "type": "object",
            "properties": {
                "axis_angle": {
                    "type": "object",
                    "properties": {"axis": _AXIS, "angle": {**NUMBER_SCHEMA, "description": "angle [rad]"}},
                    "required": ["axis", "angle"],
                    "additionalProperties": False,
                }
            },
            "required": ["axis_angle"],
            "additionalProperties": False,
        },
    ]
}
_TRANSFORM: dict[str, Any] = {
    "anyOf": [
        {"const": "identity"},
        {
            "type": "object",
            "properties": {"p": {**VEC3_SCHEMA, "description": "position [m]"}, "q": _QUATERNION},
            "additionalProperties": False,
        },
    ]
}
_RANGE: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": r"^(all|(head|tail|from):\d+)$"},
        {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": ["integer", "null"]}},
    ],
    "description": _RANGE_FORMS,
}


def typed(kind: Any, read: Any, schema: dict[str, Any]) -> Any:
    """Return the type of a field that ``read`` reads and ``schema`` describes."""
    return Annotated[kind, PlainValidator(read), WithJsonSchema(schema)]


Number = typed(float, read_number, NUMBER_SCHEMA)
Limit = typed(float, _read_limit, NUMBER_SCHEMA)
LimitMagnitude = typed(float, _read_limit_magnitude, NUMBER_SCHEMA)
NonNegative = typed(float, read_non_negative, NUMBER_SCHEMA)
Integer = typed(int, _read_integer, {"type": "integer"})
PositiveInteger = typed(int, _read_positive_integer, {"type": "integer", "minimum": 1})
Boolean = typed(bool, _read_boolean, {"type": "boolean"})
Text = typed(str, _read_text, {"type": "string", "minLength": 1})
Pattern = typed(str, _read_pattern, {"type": "string", "minLength": 1, "format": "regex"})
LongText = typed(str, _read_long_text, {"type": "string", "minLength": 1})
Numbers = typed(list, _read_numbers, {"type": "array", "items": NUMBER_SCHEMA})
Scale = typed(tuple, _read_scale, {"anyOf": [NUMBER_SCHEMA, VEC3_SCHEMA]})
Color = typed(tuple, _read_color, VEC3_SCHEMA)
Inertia = typed(tuple, _read_inertia, {"type": "array", "minItems": 3, "maxItems": 3})
Axis = typed(tuple, _read_axis, _AXIS)
Pose = typed(Transform, _read_transform, _TRANSFORM)
Selection = typed(Range, _read_range, _RANGE)
