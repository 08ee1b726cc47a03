"""Pairs of shapes that ignore each other because a joint connects their bodies."""

from __future__ import annotations

from collections.abc import Iterable

import newton


def drop_parent_filters(builder: newton.ModelBuilder, shapes: Iterable[int]) -> None:
    """Let ``shapes`` collide with those of bodies that a joint connects to theirs.

    Newton asks a shape for its collision_filter_parent only if it is added after the joint.
    """
    chosen = set(shapes)
    if not chosen:
        return
    joined = {tuple(sorted(ends)) for ends in zip(builder.joint_parent, builder.joint_child, strict=True)}

    def stays(pair: tuple[int, int]) -> bool:
        ends = tuple(sorted(builder.shape_body[shape] for shape in pair))
        return chosen.isdisjoint(pair) or ends not in joined

    builder.shape_collision_filter_pairs = [pair for pair in builder.shape_collision_filter_pairs if stays(pair)]


def drop_filters(builder: newton.ModelBuilder, pairs: set[tuple[int, int]], shapes: Iterable[int]) -> None:
    """Let pairs of imported shapes collide, and ``shapes`` with those of bodies that a joint connects to theirs.

    Newton cannot import another MJCF file once somebody has looked at its filters, so this comes after all assets.
    """
    if pairs:
        builder.shape_collision_filter_pairs = [
            pair for pair in builder.shape_collision_filter_pairs if pair not in pairs
        ]
    drop_parent_filters(builder, shapes)
