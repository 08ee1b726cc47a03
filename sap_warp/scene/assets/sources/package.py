"""Asset files that an installed distribution ships, so that real robots load without a network."""

import importlib.util
import re
from importlib import metadata
from pathlib import Path, PurePosixPath

from .errors import AssetSourceError
from .names import check_relative_path, check_text, suggestion

_EXTRAS = {"example-robot-data": "robots"}
"""Distributions that an extra of this package installs."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def resolve_package(distribution: str, path: str) -> Path:
    """Find a file that an installed distribution ships.

    Args:
        distribution: Name for pip, such as ``newton`` or ``example-robot-data``.
        path: Relative to the place where files are installed (``newton/examples/assets/nv_humanoid.xml``), to the
            import package or shared data folder of the distribution (``examples/assets/nv_humanoid.xml``,
            ``robots/panda_description/urdf/panda.urdf``), or the end of exactly one of its files (``panda.urdf``).

    Returns:
        Absolute path of an existing file.
    """
    name = check_text("package name", distribution)
    if not _NAME.fullmatch(name):
        raise AssetSourceError(f"package name {name!r} is not the name of a distribution, such as 'newton'.")
    wanted = check_relative_path("package path", path, f"the package {name!r}")
    try:
        installed = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise AssetSourceError(_not_installed(name)) from None

    files = _shipped_files(installed)
    roots = _roots(name, installed, files)
    found = _find(wanted, files, roots)
    if len(found) > 1:
        listed = ", ".join(repr(str(_short(file, roots))) for file in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise AssetSourceError(
            f"package path {path!r} is the end of {len(found)} files of {name!r}: {listed}{more}. Give more of it."
        )
    if found:
        located = Path(str(installed.locate_file(str(found[0]))))
    elif (beside := _find_in_import_package(wanted, name, installed)) is not None:
        located = beside
    else:
        hint = suggestion(str(wanted), [str(_short(file, roots)) for file in files])
        raise AssetSourceError(f"package {name!r} {installed.version} has no file {path!r}.{hint}")
    if not located.is_file():
        raise AssetSourceError(
            f"package {name!r} lists {path!r}, but {str(located)!r} does not exist; install the package again."
        )
    return located.absolute()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_installed(name: str) -> str:
    extra = _EXTRAS.get(_normal(name))
    # No command to copy for a name that only the scene knows: it may be a trap.
    advice = f"install it with: pip install 'sap-warp[{extra}]'" if extra else "install it if you trust it"
    others = sorted({str(other.metadata["Name"]) for other in metadata.distributions() if other.metadata["Name"]})
    return f"package {name!r} is not installed; {advice}.{suggestion(name, others)}"


def _shipped_files(installed: metadata.Distribution) -> list[PurePosixPath]:
    """Return the files of the distribution below its installation folder, without scripts and metadata."""
    return [
        PurePosixPath(file)
        for file in installed.files or ()
        if ".." not in file.parts
        and not PurePosixPath(file).is_absolute()
        and not file.parts[0].endswith((".dist-info", ".egg-info"))
        and "__pycache__" not in file.parts
    ]


def _import_names(name: str, installed: metadata.Distribution) -> list[str]:
    listed = (installed.read_text("top_level.txt") or "").split()
    return listed or [_normal(name).replace("-", "_")]


def _roots(name: str, installed: metadata.Distribution, files: list[PurePosixPath]) -> list[PurePosixPath]:
    """Return the folders that users see as the content: ``newton/``, ``.../share/example-robot-data/``."""
    roots = {PurePosixPath(top) for top in _import_names(name, installed)}
    for file in files:
        parts = file.parts[:-1]
        for i in range(1, len(parts)):
            if parts[i - 1] == "share" and _normal(parts[i]) == _normal(name):
                roots.add(PurePosixPath(*parts[: i + 1]))
    return sorted(roots)


def _find(wanted: PurePosixPath, files: list[PurePosixPath], roots: list[PurePosixPath]) -> list[PurePosixPath]:
    known = set(files)
    for candidate in [wanted, *(root / wanted for root in roots)]:
        if candidate in known:
            return [candidate]
    count = len(wanted.parts)
    return [file for file in files if file.parts[-count:] == wanted.parts]


def _short(file: PurePosixPath, roots: list[PurePosixPath]) -> PurePosixPath:
    """Return ``file`` as a user would write it."""
    for root in roots:
        if file.is_relative_to(root):
            return file.relative_to(root)
    return file


def _find_in_import_package(wanted: PurePosixPath, name: str, installed: metadata.Distribution) -> Path | None:
    """Look beside the source files: an editable installation does not list what it ships."""
    for top in _import_names(name, installed):
        spec = importlib.util.find_spec(top) if top.isidentifier() else None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            below = wanted.relative_to(top) if wanted.parts[0] == top else wanted
            for candidate in (Path(folder, wanted), Path(folder, below)):
                if candidate.is_file():
                    return candidate
    return None
