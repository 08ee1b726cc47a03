"""From the `source` of an asset to a file on this machine."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from .errors import Complaint
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
        return resolve_git(git.repo, git.rev, git.sparse, git.path, base_dir=directory)
    if source.package is not None:
        return resolve_package(source.package.name, source.package.path)
    assert source.path is not None
    return resolve_local(source.path, directory)


def checkout_root(source: Source, file: Path) -> Path | None:
    """Folder that files named inside a fetched asset must not leave; None for assets that are the user's own."""
    if source.git is None:
        return None
    return file.parents[len(PurePosixPath(source.git.path).parts) - 1]


def check_inside(file: Path, root: Path | None) -> Path:
    """``file``, unless it is outside of ``root``."""
    if root is not None and not file.resolve().is_relative_to(root.resolve()):
        raise Complaint(f"the asset refers to {file}, which is not part of its repository")
    return file
