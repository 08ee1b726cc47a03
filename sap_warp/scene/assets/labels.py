"""Labels of assets: prefixes that tell copies of a robot apart, and patterns that must match some label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..text.errors import Complaint, Path
from ..text.references import tell_nearest

if TYPE_CHECKING:
    from ..build import SceneBuild


def add_prefix(prefix: str, label: str) -> str:
    """``label`` below ``prefix``; the paths of USD start with a slash."""
    return f"{prefix}/{label.lstrip('/')}"


def tell_apart(build: SceneBuild) -> None:
    """Put the id of the asset before the labels of assets that share a body's or joint's label with another one.

    An asset that has a label_prefix keeps it, and one without an id is called asset_0, asset_1 and so on.
    """
    assets = build.scene.assets
    for i in _sharing(build):
        if assets[i].label_prefix is None:
            prefix = assets[i].id or f"asset_{i}"
            for kind, indices in build.imported[i].items():
                labels = getattr(build.builder, f"{kind}_label")
                for index in indices:
                    labels[index] = add_prefix(prefix, labels[index])
    for i, (other, label) in _sharing(build).items():
        with build.at("assets", i):
            raise Complaint(f"has the label {label!r}, which assets[{other}] has too; give it another label_prefix")


def check_patterns(build: SceneBuild, path: Path, patterns: Sequence[str], names: Sequence[str], what: str) -> None:
    """Report patterns of labels to ignore that match none of ``names``."""
    for i, pattern in enumerate(patterns):
        with build.at(*path, i):
            if not any(re.match(pattern, name) for name in names):
                raise Complaint(f"{pattern!r} matches nothing; " + tell_nearest(pattern, names, what))


def _sharing(build: SceneBuild) -> dict[int, tuple[int, str]]:
    """Find assets that share a label with another asset; each maps to that asset and the label."""
    found: dict[int, tuple[int, str]] = {}
    for kind in ("body", "joint"):
        labels = getattr(build.builder, f"{kind}_label")
        owner: dict[str, int] = {}
        for i, added in enumerate(build.imported):
            for index in added[kind]:
                other = owner.setdefault(labels[index], i)
                if other != i:
                    found.setdefault(i, (other, labels[index]))
                    found.setdefault(other, (i, labels[index]))
    return dict(sorted(found.items()))
