"""Find a shape by index, label, part of a label or its body's label."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import newton

from ...model.model import SapModel
from ...model.shapes import shape_type

_SHOWN = 8


class ShapeLookupError(ValueError):
    """A name stands for no shape, or for more than one."""


def find_shape(model: SapModel | newton.Model, name: int | str, beside: int | None = None) -> int:
    """Return the index of the shape that ``name`` stands for.

    A name is a label, the end of one label after a ``/``, the label of a body with one shape or its end, or a part of
    one shape label; the first of these that fits decides. Digits that are no label are an index.

    Args:
        model: Where to look.
        name: Index or name.
        beside: A shape; where worlds have equal labels, the one in its world is preferred, else the first.

    Raises:
        ShapeLookupError: Nothing fits, or several shapes do.
    """
    labels = list(model.shape_label)
    if isinstance(name, str) and name.isdecimal() and name not in labels:
        name = int(name)
    if not isinstance(name, str):
        return _check_index(name, len(labels))
    for found in _matches(model, labels, name):
        if not found:
            continue
        worlds = model.shape_world.numpy()[found]
        if len({labels[s] for s in found}) == 1 and len(set(worlds)) == len(found):  # copies of one shape
            home = -1 if beside is None else int(model.shape_world.numpy()[beside])
            return next((s for s, world in zip(found, worlds, strict=True) if world == home), found[0])
        listing = ", ".join(shape_name(model, s) for s in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ShapeLookupError(f"{name!r} fits {len(found)} shapes: {listing}{more}.")
    raise ShapeLookupError(f"there is no shape {name!r}. {_suggest(labels, list(model.body_label), name)}")


def shape_names(model: SapModel | newton.Model) -> list[tuple[str, str, str, str]]:
    """Return index, label, geometry and body of every shape, as text."""
    kinds, bodies = model.shape_type.numpy(), model.shape_body.numpy()
    owner = [model.body_label[body] if body >= 0 else "(world)" for body in bodies]
    return [(str(s), label, shape_type(kinds[s]).name, owner[s]) for s, label in enumerate(model.shape_label)]


def _check_index(index: Any, count: int) -> int:
    whole = isinstance(index, numbers.Integral) and not isinstance(index, bool)
    if not whole or not 0 <= index < count:
        raise ShapeLookupError(f"there is no shape {index!r}; the model has {count}, counted from 0.")
    return int(index)


def _matches(model: Any, labels: Sequence[str], name: str) -> Iterable[list[int]]:
    """Return shapes that fit, by the strictest reading that fits any."""
    yield [s for s, label in enumerate(labels) if label == name]
    yield [s for s, label in enumerate(labels) if label.endswith("/" + name)]
    bodies = {b for b, label in enumerate(model.body_label) if label == name or label.endswith("/" + name)}
    yield [s for s, body in enumerate(model.shape_body.numpy()) if int(body) in bodies]
    yield [s for s, label in enumerate(labels) if name in label]


def _suggest(labels: Sequence[str], bodies: Sequence[str], name: str) -> str:
    ends = {end.lower(): end for end in (label.rsplit("/", 1)[-1] for label in [*bodies, *labels])}
    near = difflib.get_close_matches(name.rsplit("/", 1)[-1].lower(), ends, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(repr(ends[key]) for key in near)}?"
    known = list(dict.fromkeys(labels))
    return f"Shapes: {', '.join(known[:_SHOWN])}{', ...' if len(known) > _SHOWN else ''}."


def shape_name(model: Any, shape: int) -> str:
    """Return index and label of a shape, for messages."""
    world = int(model.shape_world.numpy()[shape])
    return f"{shape} {model.shape_label[shape]!r}" + (f" of world {world}" if model.world_count > 1 else "")
