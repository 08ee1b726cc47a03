"""Where the asset files of a scene come from: a local path, an installed distribution, or a git repository.

A scene may come from a stranger, so every text in it is checked before it reaches the file system or git. All
failures raise `AssetSourceError`.
"""

from .errors import AssetSourceError
from .git import resolve_git
from .local import resolve_local
from .package import resolve_package

__all__ = ["AssetSourceError", "resolve_git", "resolve_local", "resolve_package"]
