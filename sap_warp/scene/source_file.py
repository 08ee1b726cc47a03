"""From the `source` of an asset to a file on this machine."""

from __future__ import annotations

from pathlib import Path

from .objects import Source
from .sources import resolve_git, resolve_local, resolve_package


def resolve_source(source: Source, directory: Path | None) -> Path:
    """Find or fetch the file that ``source`` names.

    Args:
        source: Anything but a text.
        directory: Where relative paths start, the folder of the scene.

    Raises:
        AssetSourceError: There is no such file, or it cannot be fetched.
    """
    if source.git is not None:
        git = source.git
        return resolve_git(git.repo, git.rev, git.sparse, git.path)
    if source.package is not None:
        return resolve_package(source.package.name, source.package.path)
    assert source.path is not None
    return resolve_local(source.path, directory)
