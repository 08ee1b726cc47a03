"""Find the file of the `source` of an asset, and keep it from leading to files that it must not reach.

A scene may name any file that its user may read. One that is confined stays inside of its own folder, and the files
that a fetched asset names stay inside of its repository in any case.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ....core.faq import see
from ...text.errors import Complaint
from . import AssetSourceError, resolve_git, resolve_local, resolve_package

if TYPE_CHECKING:
    from ...objects.objects import Source
    from ...text.document import SceneDocument

_SITE = ("site-packages", "dist-packages")
_NAMED_BY = {
    ".obj": re.compile(r"^\s*mtllib\s+(.+?)\s*$", re.MULTILINE),
    ".mtl": re.compile(r"^\s*(?:map_\w+|bump|disp|decal|refl)\s.*?(\S+)\s*$", re.MULTILINE),
    ".gltf": re.compile(r'"uri"\s*:\s*"((?!data:)[^"]+)"'),
    ".dae": re.compile(r"<init_from>\s*(?:file://)?([^<#]+?)\s*</init_from>"),
}
"""Patterns of further files that mesh files name: materials, textures, buffers."""


@dataclass(frozen=True)
class Fence:
    """A folder that files must be in."""

    folder: Path | None
    """The folder; None for no folder at all, such as for a scene that is not a file."""
    name: str
    """What messages call the folder."""

    def check(self, file: Path) -> Path:
        """Return ``file`` if it is inside, with links followed; complain otherwise."""
        if self.folder is None or not file.resolve().is_relative_to(self.folder.resolve()):
            raise Complaint(f"the asset refers to {file}, which is not part of {self.name}")
        return file


def confined_by_environment() -> bool:
    """Return True if SAP_WARP_CONFINE asks for scenes to stay in their folders."""
    return os.environ.get("SAP_WARP_CONFINE", "").lower() not in ("", "0", "false", "no", "off")


def resolve_source(source: Source, document: SceneDocument) -> Path:
    """Find or fetch the file that ``source`` names.

    Args:
        source: Anything but a text.
        document: The scene; relative paths start in its folder.

    Raises:
        AssetSourceError: There is no such file, it cannot be fetched, or the scene is confined and it is elsewhere.
    """
    directory = document.directory
    if source.git is not None:
        git = source.git
        if document.confined and not git.repo.lower().startswith("https://"):
            raise AssetSourceError(f"git.repo {git.repo!r}: a confined scene takes repositories by https:// only.")
        return resolve_git(git.repo, git.rev, git.sparse, git.path, base_dir=directory)
    if source.package is not None:
        return resolve_package(source.package.name, source.package.path)
    assert source.path is not None
    if not document.confined:
        return resolve_local(source.path, directory)
    if directory is None:
        raise AssetSourceError(f"asset path {source.path!r}: a confined scene that is not a file has no files.")
    path = directory / source.path
    if source.path.startswith("~") or not path.resolve().is_relative_to(document.home or directory):
        raise AssetSourceError(
            f"asset path {source.path!r} leads out of the folder of the scene, which is confined."
            + see("confined-scene")
        )
    return resolve_local(str(path), None)


def fence_of(source: Source, file: Path | str, document: SceneDocument) -> Fence | None:
    """Return the fence for files named inside an asset; None for assets of a scene that is not confined.

    Args:
        source: Of the asset.
        file: The file, or the text of the asset itself.
        document: The scene.
    """
    if source.git is not None and isinstance(file, Path):
        return Fence(file.parents[len(PurePosixPath(source.git.path).parts) - 1], "its repository")
    if not document.confined:
        return None
    if source.package is not None and isinstance(file, Path):
        roots = [folder for folder in file.parents if folder.name in _SITE]
        return Fence(roots[0] if roots else file.parent, "its package")
    return Fence(document.home, "the folder of the scene, which is confined")


def check_mesh(file: Path, fence: Fence | None) -> Path:
    """Return ``file`` if it is a regular file, and it and all files that it names are within the fence."""
    if file.exists() and not file.is_file():
        raise Complaint(f"the asset refers to {file}, which is not a regular file")
    if fence is None or not file.is_file():
        return file
    fence.check(file)
    pattern = _NAMED_BY.get(file.suffix.lower())
    for name in pattern.findall(file.read_text(encoding="utf-8", errors="replace")) if pattern else ():
        if (named := file.parent / name).exists() and named.resolve() != file.resolve():
            check_mesh(named, fence)
    return file
