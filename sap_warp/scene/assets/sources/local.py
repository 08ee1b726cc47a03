"""Asset files on this machine."""

import os
from pathlib import Path

from .errors import AssetSourceError
from .lfs import lfs_pointer_size
from .names import check_text, shown, suggestion


def resolve_local(path: str, base_dir: Path | None) -> Path:
    """Find an asset file on this machine.

    Args:
        path: Absolute, or relative to ``base_dir`` and then to the current directory. ``~`` is the home directory.
        base_dir: Directory of the scene file; None when the scene did not come from a file.

    Returns:
        Absolute path of an existing regular file. Symbolic links are kept, so that files named relative to the
        asset are found beside the link.
    """
    text = check_text("asset path", path)
    try:
        given = Path(text).expanduser()
    except RuntimeError as error:  # ~name of nobody
        raise AssetSourceError(f"asset path {text!r}: {error}") from None
    candidates = [given] if given.is_absolute() else [root / given for root in _roots(base_dir)]
    try:
        for candidate in candidates:
            if candidate.is_file():
                return _checked(candidate)
        return _report_missing(text, candidates)
    except OSError as error:  # too long a name, a folder that may not be read
        raise AssetSourceError(f"asset path {shown(text)}: {error.strerror or error}.") from None


def _roots(base_dir: Path | None) -> list[Path]:
    here = Path.cwd()
    if base_dir is None:
        return [here]
    base = base_dir.absolute()
    return [base] if base == here else [base, here]


def _checked(file: Path) -> Path:
    size = lfs_pointer_size(file)
    if size is not None:
        raise AssetSourceError(
            f"asset {str(file)!r} is a Git LFS pointer to {size} bytes that were not downloaded; "
            "run 'git lfs pull' in its repository."
        )
    return file


def _report_missing(text: str, candidates: list[Path]) -> Path:
    for candidate in candidates:
        if candidate.is_dir():
            files = sorted(p.name for p in candidate.iterdir() if p.is_file())[:5]
            holds = f" It holds {', '.join(files)}." if files else ""
            raise AssetSourceError(f"asset path {text!r} is a folder, {str(candidate)!r}; name a file in it.{holds}")
        if candidate.exists():
            raise AssetSourceError(f"asset path {text!r} is {str(candidate)!r}, which is not a regular file.")
    hints = [hint for candidate in candidates if (hint := _near(candidate))]
    looked = " and ".join(repr(str(candidate)) for candidate in candidates)
    raise AssetSourceError(f"asset file {text!r} does not exist: looked for {looked}.{hints[0] if hints else ''}")


def _near(candidate: Path) -> str:
    """Suggest files beside the first part of a path that does not exist."""
    missing = candidate
    while not missing.parent.is_dir() and missing.parent != missing:
        missing = missing.parent
    folder = missing.parent
    if not os.access(folder, os.R_OK | os.X_OK):
        return ""
    return suggestion(str(missing), sorted(str(folder / name) for name in os.listdir(folder)))
