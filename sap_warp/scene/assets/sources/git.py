"""Asset files out of a git repository, kept in a cache."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ....core.faq import see
from .errors import AssetSourceError
from .git_cache import Entry, GitCache
from .git_command import Git, GitFailed, environment_timeout
from .git_fetch import check_out, find_commit, short_label
from .git_request import GitRequest, check_request
from .names import suggestion
from .progress import Report, StreamReporter


def resolve_git(
    repo: str,
    rev: str,
    sparse: Sequence[str],
    path: str,
    *,
    cache_dir: Path | None = None,
    offline: bool | None = None,
    report: Callable[[str], None] | None = None,
    base_dir: Path | None = None,
    stall_timeout: float | None = None,
) -> Path:
    """Find a file of a git repository, fetching the part of one commit that is needed.

    Args:
        repo: ``https://``, ``ssh://``, ``user@host:path``, ``file://`` or a local folder. Nothing else is accepted.
        rev: A full hash, which is recommended because it always means the same files and needs no network once it is
            cached; or a branch or tag, looked up on every call; or the beginning of a hash, which may have to read
            the whole history once.
        sparse: Folders and files to check out, with the files directly in the folders above them; empty for all.
        path: The asset, relative to the root of the repository.
        cache_dir: None for SAP_WARP_ASSET_CACHE or, if that is not set, ``~/.cache/sap_warp/assets``.
        offline: Whether to use the cache only; None for what SAP_WARP_ASSET_OFFLINE says. A branch or tag then means
            the commit it meant when it was last looked up, which is reported.
        report: Receives lines about the progress; None writes them to standard error.
        base_dir: Directory of the scene file, for a relative ``repo``.
        stall_timeout: Silence of git [s] after which a fetch is stopped; None for SAP_WARP_ASSET_TIMEOUT, or 120.

    Returns:
        Absolute path of the file in the cache. Other files of the checkout stand around it as in the repository.

    Raises:
        AssetSourceError: The arguments are refused, the file cannot be had, or it is an LFS pointer.
    """
    request = check_request(repo, rev, sparse, path, base_dir)
    cache = GitCache(_cache_dir(cache_dir))
    offline = _offline() if offline is None else offline
    timeout = environment_timeout() if stall_timeout is None else stall_timeout
    own_reporter = StreamReporter()
    reporter: Report = own_reporter if report is None else report
    try:
        if offline:
            entry = _from_cache(cache, request, reporter)
        else:
            entry = _from_server(cache, request, reporter, timeout)
        return _asset(entry, request, reporter)
    except OSError as error:
        raise AssetSourceError(
            f"getting {str(request.path)!r} of {request.repo}: {error}. The asset cache is {str(cache.folder)!r}."
        ) from None
    finally:
        own_reporter.close()


def _cache_dir(given: Path | None) -> Path:
    text = str(given) if given is not None else os.environ.get("SAP_WARP_ASSET_CACHE") or "~/.cache/sap_warp/assets"
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise AssetSourceError(f"asset cache {text!r}: {error} Set SAP_WARP_ASSET_CACHE to a folder.") from None


def _offline() -> bool:
    text = os.environ.get("SAP_WARP_ASSET_OFFLINE", "")
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    raise AssetSourceError(f"SAP_WARP_ASSET_OFFLINE is {text!r}; set it to 1 to use the asset cache only, or to 0.")


def _from_cache(cache: GitCache, request: GitRequest, report: Report) -> Entry:
    commit = request.rev
    if not request.is_pinned:
        recalled = cache.recall(request)
        if recalled is None:
            raise AssetSourceError(
                f"offline, and {request.rev!r} of {request.repo} was never fetched with git.sparse "
                f"{list(request.sparse)} into {str(cache.folder)!r}. {_GO_ONLINE}"
            )
        commit, is_moving, when = recalled
        if is_moving:
            report(f"offline: {request.rev!r} of {request.repo} is taken as commit {commit}, as looked up {when}")
    entry = cache.read_entry(request, commit)
    if entry is None:
        state = "is damaged" if cache.is_damaged(request, commit) else "does not exist"
        raise AssetSourceError(
            f"offline, and the cache entry of commit {commit} of {request.repo} with git.sparse "
            f"{list(request.sparse)} {state}: {str(cache.entry(request, commit))!r}. {_GO_ONLINE}"
        )
    return entry


_GO_ONLINE = "Load the scene once with a network, without SAP_WARP_ASSET_OFFLINE=1." + see("offline-assets")


def _from_server(cache: GitCache, request: GitRequest, report: Report, timeout: float) -> Entry:
    if request.is_pinned:
        return _entry_of(cache, request, request.rev, report, timeout)
    recalled = cache.recall(request)
    if recalled is not None and not recalled[1]:  # a short hash, completed earlier
        return _entry_of(cache, request, recalled[0], report, timeout)
    try:
        with cache.making(request, request.rev, report) as work:
            git = Git(request.transports, report, short_label(request, request.rev), timeout, watched=work)
            found = find_commit(git, request, work / "history")
    except GitFailed as error:
        if recalled is None:
            raise
        raise AssetSourceError(
            f"{error} SAP_WARP_ASSET_OFFLINE=1 would use commit {recalled[0]}, as looked up {recalled[2]}."
        ) from None
    entry = _entry_of(cache, request, found.hash, report, timeout)
    cache.remember(request, found.hash, found.is_moving, report)
    return entry


def _entry_of(cache: GitCache, request: GitRequest, commit: str, report: Report, timeout: float) -> Entry:
    """Return the entry of ``commit``, made if it is not there or damaged."""
    entry = cache.read_entry(request, commit)
    if entry is not None:
        return entry
    with cache.making(request, commit, report) as work:
        entry = cache.read_entry(request, commit)  # another process may have made it while we waited
        if entry is not None:
            return entry
        label = short_label(request, commit)
        if cache.is_damaged(request, commit):
            report(f"{label}: the cache entry is damaged and is fetched again")
        report(f"{label}: fetching {request.repo}")
        git = Git(request.transports, report, label, timeout, watched=work)
        check_out(git, request, commit, work)
        entry = cache.publish(work / "entry", request, commit)
        report(f"{label}: ready in {cache.entry(request, commit)}")
        return entry


def _asset(entry: Entry, request: GitRequest, report: Report) -> Path:
    """Return the asset inside a complete entry."""
    file = entry.tree / request.path
    inside = os.path.realpath(file).startswith(os.path.realpath(entry.tree) + os.sep)
    if not inside or not file.is_file():
        names = (os.path.relpath(p, entry.tree) for p in sorted(entry.tree.rglob("*")) if p.is_file())
        raise AssetSourceError(
            f"git.path {str(request.path)!r} is not a file of the checkout of {request.repo} in {str(entry.tree)!r}."
            f"{suggestion(str(request.path), names)}"
        )
    pointers = {os.path.realpath(entry.tree / name): size for name, size in entry.lfs_pointers.items()}
    size = pointers.get(os.path.realpath(file))
    if size is not None:
        raise AssetSourceError(
            f"git.path {str(request.path)!r} of {request.repo} is a Git LFS pointer to {size} bytes that git did not "
            f"download. Install git-lfs, run 'git lfs install', remove {str(entry.tree.parent)!r} and load again."
        )
    if pointers:
        example = next(iter(sorted(entry.lfs_pointers)))
        report(
            f"{request.name}: {len(pointers)} files beside the asset, such as {example}, are Git LFS pointers without "
            "content; install git-lfs if the asset needs them"
        )
    return file
