"""The cache of checkouts: an entry appears whole or not at all, and processes may share the folder.

Layout below the cache folder::

    git/entries/NAME-COMMIT-DIGEST/   manifest.json and tree/ with the files
    git/refs/DIGEST.json              the commit that a branch, tag or short hash meant when it was last looked up
    git/tmp/DIGEST.XXXX/              a fetch under way, or what an interrupted one left
    git/locks/DIGEST.lock             held while an entry is made

A fetch fills a folder in ``tmp`` and renames it to its entry at the end, so no reader ever sees a part of it. Locks
belong to living processes only: whatever is in ``tmp`` while its lock is free was left by a dead one.
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .errors import AssetSourceError
from .git_request import GitRequest
from .lfs import lfs_pointer_size
from .progress import Report

_FORMAT = 1
_LOCK_POLL = 0.05  # seconds between attempts to take a lock that another process holds


class GitCache:
    """Entries, looked-up names and locks in one cache folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        root = folder / "git"
        self._entries, self._refs, self._tmp, self._locks = (root / x for x in ("entries", "refs", "tmp", "locks"))

    def entry(self, request: GitRequest, commit: str) -> Path:
        """Return where the checkout of ``commit`` is or would be."""
        return self._entries / f"{request.name}-{commit[:12]}-{request.digest(commit)}"

    def read_entry(self, request: GitRequest, commit: str) -> "Entry | None":
        """Return the entry if it is there and complete; None if it is absent or damaged."""
        return Entry.read(self.entry(request, commit), _identity(request, commit))

    def is_damaged(self, request: GitRequest, commit: str) -> bool:
        """Return True if the path of the entry exists but does not hold the complete entry."""
        return self.entry(request, commit).exists() and self.read_entry(request, commit) is None

    @contextlib.contextmanager
    def making(self, request: GitRequest, commit: str, report: Report) -> Iterator[Path]:
        """Hold the lock of an entry and offer an empty folder to make it in.

        The folder is gone afterwards, whatever happens, unless this process is killed; then the next one that makes
        an entry removes it.
        """
        digest = request.digest(commit)
        try:
            for folder in (self._entries, self._refs, self._tmp, self._locks):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AssetSourceError(
                f"the asset cache {str(self.folder)!r} cannot be written: {error.strerror}. "
                "Set SAP_WARP_ASSET_CACHE to a folder of yours."
            ) from None
        with self._lock(digest, report) as alone:
            if alone:
                self._remove_leftovers(digest)
            work = Path(tempfile.mkdtemp(prefix=digest + ".", dir=self._tmp))
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def publish(self, made: Path, request: GitRequest, commit: str) -> "Entry":
        """Turn the finished folder ``made`` with its ``tree`` into the entry, in one step."""
        manifest = _describe(made / "tree") | _identity(request, commit)
        with open(made / "manifest.json", "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        folder = self.entry(request, commit)
        if self.is_damaged(request, commit):
            aside = Path(tempfile.mkdtemp(prefix=request.digest(commit) + ".", dir=self._tmp))
            with contextlib.suppress(FileNotFoundError):
                folder.rename(aside / "damaged")
            shutil.rmtree(aside, ignore_errors=True)
        try:
            made.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise AssetSourceError(f"the cache entry {str(folder)!r} cannot be made: {error.strerror}.") from None
            # Without locks, as on some network file systems, another process may have been first.
        entry = self.read_entry(request, commit)
        if entry is None:
            raise AssetSourceError(f"the cache entry {str(folder)!r} was changed while it was made; try again.")
        return entry

    def remember(self, request: GitRequest, commit: str, is_moving: bool, report: Report) -> None:
        """Record what ``request.rev`` means now, for use without a network."""
        record = {"commit": commit, "moving": is_moving, "time": int(time.time())} | _identity(request, request.rev)
        with self._lock(request.digest(request.rev), report):
            handle, temporary = tempfile.mkstemp(dir=self._tmp, prefix=request.digest(request.rev) + ".")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(record, file)
            os.replace(temporary, self._ref(request))

    def recall(self, request: GitRequest) -> "tuple[str, bool, str] | None":
        """Return the commit of ``request.rev``, whether it may have moved, and when it was looked up; None if never."""
        record = _read_json(self._ref(request))
        if any(record.get(key) != value for key, value in _identity(request, request.rev).items()):
            return None
        try:
            when = datetime.fromtimestamp(record["time"], UTC)
            return str(record["commit"]), bool(record["moving"]), f"{when:%Y-%m-%d %H:%M} UTC"
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return None

    def _ref(self, request: GitRequest) -> Path:
        return self._refs / f"{request.digest(request.rev)}.json"

    @contextlib.contextmanager
    def _lock(self, digest: str, report: Report) -> Iterator[bool]:
        """Wait for the lock; yields False where the file system has no locks."""
        with open(self._locks / f"{digest}.lock", "a+") as file:
            waiting = False
            while (taken := _try_lock(file.fileno())) is False:
                if not waiting:
                    waiting = True
                    report("waiting for another process that fetches the same asset")
                time.sleep(_LOCK_POLL)
            try:
                yield taken is True
            finally:
                if taken:
                    # Explicit: a process forked meanwhile shares the file and would keep the lock.
                    fcntl.flock(file, fcntl.LOCK_UN)

    def _remove_leftovers(self, held: str) -> None:
        """Remove what dead processes left; ``held`` is the lock that the caller holds."""
        for leftover in self._tmp.iterdir():
            digest = leftover.name.partition(".")[0]
            if digest == held:
                _remove(leftover)
                continue
            with contextlib.suppress(OSError), open(self._locks / f"{digest}.lock", "a+") as file:
                if _try_lock(file.fileno()):
                    try:
                        _remove(leftover)
                    finally:
                        fcntl.flock(file, fcntl.LOCK_UN)


class Entry:
    """A whole checkout in the cache."""

    def __init__(self, folder: Path, lfs_pointers: dict[str, int]):
        self.tree = folder / "tree"
        self.lfs_pointers = lfs_pointers
        """Size [bytes] of the content that each LFS pointer among the files stands for."""

    @classmethod
    def read(cls, folder: Path, identity: dict[str, Any]) -> "Entry | None":
        """Read the entry in ``folder``; None unless it is the one asked for and nothing is missing from it."""
        manifest = _read_json(folder / "manifest.json")
        if any(manifest.get(key) != value for key, value in identity.items()):
            return None
        if not isinstance(manifest.get("files"), dict) or not isinstance(manifest.get("links"), dict):
            return None
        found = _describe(folder / "tree", look_inside=False)
        if any(found[key] != manifest[key] for key in ("files", "links")):
            return None
        pointers = manifest.get("lfs_pointers")
        return cls(folder, pointers) if isinstance(pointers, dict) else None


def _identity(request: GitRequest, rev: str) -> dict[str, Any]:
    return {"format": _FORMAT, "repo": request.repo, "rev": rev, "sparse": list(request.sparse)}


def _describe(tree: Path, look_inside: bool = True) -> dict[str, Any]:
    """Return sizes [bytes] of all files below ``tree``, targets of all links, and LFS pointers."""
    files: dict[str, int] = {}
    links: dict[str, str] = {}
    pointers: dict[str, int] = {}
    for folder, subfolders, names in os.walk(tree):
        for name in names + subfolders:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, tree)
            if os.path.islink(path):
                links[relative] = os.readlink(path)
            elif not os.path.isdir(path):
                files[relative] = os.lstat(path).st_size
                size = lfs_pointer_size(Path(path)) if look_inside else None
                if size is not None:
                    pointers[relative] = size
    return {"files": files, "links": links, "lfs_pointers": pointers}


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _try_lock(handle: int) -> bool | None:
    """Try to take the lock: True if taken, False if another holds it, None if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
