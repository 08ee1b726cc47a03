"""Get the files of one commit out of a repository, downloading as little as the server allows."""

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .errors import AssetSourceError
from .git_command import Git, GitFailed, is_git_problem
from .git_request import GitRequest
from .names import suggestion

_OLD_SERVER = ("unadvertised object", "dumb http", "does not support shallow", "does not support --shallow")
"""Answers of servers that cannot give a single commit; then everything is fetched."""

_GITLINK, _SYMLINK = "160000", "120000"


@dataclass(frozen=True)
class _TreeEntry:
    mode: str
    object: str
    path: PurePosixPath
    raw: bytes
    """The entry as git wrote it."""


@dataclass(frozen=True)
class Commit:
    """A revision that was looked up."""

    hash: str
    is_moving: bool
    """Whether the name may stand for another commit tomorrow, as a branch does."""


def find_commit(git: Git, request: GitRequest, scratch: Path) -> Commit:
    """Ask the server which commit the name ``request.rev`` means now.

    Args:
        scratch: A folder that does not exist yet; the history goes there if a short hash makes it necessary.
    """
    rev = request.rev
    action = f"looking up revision {rev!r} of {request.repo}"
    exact = [rev] if rev.startswith("refs/") or rev == "HEAD" else [f"refs/tags/{rev}", f"refs/heads/{rev}"]
    refs = _list_refs(git, request, action, *exact, *(f"{name}^{{}}" for name in exact))
    found = [refs.get(name + "^{}", refs[name]) for name in exact if name in refs]
    if len(set(found)) > 1:
        raise AssetSourceError(f"git.rev {rev!r} is a tag and a branch of {request.repo}; write one of {exact}.")
    if found:
        return Commit(found[0], is_moving=True)
    refs = _list_refs(git, request, action)
    if request.may_be_short_hash:
        return Commit(_complete_hash(git, request, refs, scratch), is_moving=False)
    names = sorted(re.sub("^refs/(heads|tags)/", "", name) for name in refs if not name.endswith("^{}"))
    listed = f" It has {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}." if names else " It is empty."
    raise AssetSourceError(
        f"git.rev {rev!r} is neither a branch nor a tag of {request.repo}.{suggestion(rev, names)}{listed} "
        "A full hash is the surest way to name a revision."
    )


def _list_refs(git: Git, request: GitRequest, action: str, *names: str) -> dict[str, str]:
    """Return the hash of every reference whose name ends with one of ``names``; without any, of branches and tags."""
    kinds = [] if names else ["--heads", "--tags"]
    try:
        listed = git.run(action, "ls-remote", *kinds, "--", request.repo, *names)
    except GitFailed as error:
        raise _with_advice(error, request) from None
    lines = (line.partition("\t") for line in listed.decode("utf-8", errors="replace").splitlines())
    return {name: hash for hash, _, name in lines}


def _complete_hash(git: Git, request: GitRequest, refs: dict[str, str], scratch: Path) -> str:
    """Return the commit whose hash begins with ``request.rev``, from the history of all branches and tags."""
    begin = request.rev.lower()
    action = f"looking for the short hash {begin!r} in the history of {request.repo}"
    repository = _create(git, request, scratch, max(map(len, refs.values()), default=40))
    git.run(action, *repository, "fetch", "--progress", "--filter=tree:0", "--no-recurse-submodules", "origin", *_ALL)
    known = git.run(action, *repository, "rev-list", "--all").decode().split()
    matches = sorted(commit for commit in known if commit.startswith(begin))
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(matches[:4])
        raise AssetSourceError(f"git.rev {begin!r} begins {len(matches)} commits of {request.repo}: {listed}.")
    raise AssetSourceError(
        f"git.rev {begin!r} is no branch, no tag and not the beginning of a commit of {request.repo}. "
        "Check the address and the hash."
    )


_ALL = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


def check_out(git: Git, request: GitRequest, commit: str, folder: Path) -> Path:
    """Check out the files that ``request`` takes from ``commit`` below ``folder``.

    Returns:
        The folder with the files, ``folder/entry/tree``. Nothing of git is in it, and no link leads out of it.
    """
    tree = folder / "entry" / "tree"
    tree.mkdir(parents=True)
    repository, taken = _fetch(git, request, commit, folder, tree)
    action = f"checking out commit {commit[:12]} of {request.repo}"
    git.run(action, *repository, "update-index", "-z", "--index-info", stdin=b"".join(e.raw + b"\0" for e in taken))
    git.run(action, *repository, "checkout-index", "--quiet", "--all", "--force")
    _check_links(request, tree, taken)
    return tree


def _create(git: Git, request: GitRequest, folder: Path, hash_length: int, work_tree: Path | None = None) -> list[str]:
    """Create an empty repository; returns the arguments that make git use it."""
    where = [f"--git-dir={folder}"] + ([f"--work-tree={work_tree}"] if work_tree else [])
    kind = "sha256" if hash_length == 64 else "sha1"
    action = f"preparing to fetch {request.repo}"
    bare = [] if work_tree else ["--bare"]
    git.run(action, *where, "init", "--quiet", *bare, "--template=", f"--object-format={kind}")
    git.run(action, *where, "config", "remote.origin.url", request.repo)
    return where


def _fetch(git: Git, request: GitRequest, commit: str, folder: Path, tree: Path) -> tuple[list[str], list[_TreeEntry]]:
    """Fetch ``commit`` with the contents of the taken files, transferring as little as the server allows.

    Returns:
        The arguments that make git use the repository, and the taken files.
    """
    action = f"fetching commit {commit[:12]} of {request.repo}"
    alone = ["--no-tags", "--depth=1"]
    plans = ([*alone, "--filter=blob:none", "origin", commit], [*alone, "origin", commit], ["origin", *_ALL])
    for number, plan in enumerate(plans):
        repository = _create(git, request, folder / f"git{number}", len(commit), work_tree=tree)
        try:
            git.run(action, *repository, "fetch", "--progress", "--no-recurse-submodules", *plan)
            _check_commit(git, request, repository, commit, action)
            entries = _list(git, repository, commit, action)
            _check_asked(request, commit, entries)
            taken = [entry for entry in entries if entry.mode != _GITLINK and request.takes(entry.path)]
            _fetch_missing(git, repository, commit, taken, action)
        except GitFailed as error:
            if is_git_problem(error, ("not our ref",)):
                raise AssetSourceError(
                    f"commit {commit} does not exist in {request.repo}. Check git.rev; a commit can also vanish from a "
                    "server after its branch was rewritten."
                ) from None
            if plan is plans[-1] or not is_git_problem(error, _OLD_SERVER):
                raise _with_advice(error, request) from None
        else:
            return repository, taken
    raise AssertionError("the last plan returns or raises")


def _check_commit(git: Git, request: GitRequest, repository: list[str], commit: str, action: str) -> None:
    try:
        peeled = git.run(action, *repository, "rev-parse", "--verify", "--quiet", commit + "^{commit}").decode().strip()
    except GitFailed:
        raise AssetSourceError(f"{commit} is not a commit of {request.repo}; check git.rev.") from None
    if peeled != commit:
        raise AssetSourceError(f"git.rev {commit} is the object of a tag; use its commit, {peeled}.")


def _with_advice(error: GitFailed, request: GitRequest) -> GitFailed:
    if is_git_problem(error, ("could not read Username", "Authentication failed", "Permission denied")):
        error.args = (
            f"{error} Private repositories need a credential helper or an ssh key; check that {request.repo} exists.",
        )
    return error


def _list(git: Git, repository: list[str], commit: str, action: str) -> list[_TreeEntry]:
    listed = git.run(action, *repository, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = []
    for raw in filter(None, listed.split(b"\0")):
        head, _, name = raw.partition(b"\t")
        mode, _, hash = head.decode().split()
        path = PurePosixPath(os.fsdecode(name))
        if path.is_absolute() or any(part == ".." or part.lower() == ".git" for part in path.parts):
            raise AssetSourceError(f"{action}: the commit contains the forbidden path {str(path)!r} and is refused.")
        entries.append(_TreeEntry(mode, hash, path, raw))
    return entries


def _check_asked(request: GitRequest, commit: str, entries: list[_TreeEntry]) -> None:
    """Check that the asset and every sparse entry exist in the commit; the error suggests similar names."""
    where = f"commit {commit[:12]} of {request.repo}"
    modes = {entry.path: entry.mode for entry in entries}
    folders = {folder for path in modes for folder in path.parents} - {PurePosixPath()}
    for entry in request.sparse:
        if PurePosixPath(entry) not in modes and PurePosixPath(entry) not in folders:
            hint = suggestion(entry, sorted(map(str, folders)))
            raise AssetSourceError(f"git.sparse entry {entry!r} does not exist in {where}.{hint}")
    path = request.path
    if path in folders:
        raise AssetSourceError(f"git.path {str(path)!r} is a folder in {where}; name a file in it.")
    for part in (path, *path.parents):
        if modes.get(part) == _GITLINK:
            raise AssetSourceError(
                f"git.path {str(path)!r} lies in the submodule {str(part)!r} of {request.repo}; submodules are not "
                "followed. Name the repository of the submodule as the source."
            )
    # Below a link to a folder, the tree does not list the path: the check of the finished files decides.
    through_link = any(modes.get(part) == _SYMLINK for part in path.parents)
    if path not in modes and not through_link:
        hint = suggestion(str(path), sorted(map(str, modes)))
        raise AssetSourceError(f"git.path {str(path)!r} does not exist in {where}.{hint}")


def _fetch_missing(git: Git, repository: list[str], commit: str, taken: list[_TreeEntry], action: str) -> None:
    """Fetch the file contents that a server left out of the commit, for the taken files only."""
    listed = git.run(action, *repository, "rev-list", "--objects", "--missing=print", "--max-count=1", commit)
    absent = {line[1:] for line in listed.decode("ascii", errors="replace").split("\n") if line.startswith("?")}
    wanted = sorted({entry.object for entry in taken} & absent)
    if wanted:
        fetch = ["fetch", "--progress", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
        quiet = ["-c", "fetch.negotiationAlgorithm=noop"]  # we have nothing that would spare a download
        names = "".join(f"{object}\n" for object in wanted).encode()
        git.run(action, *quiet, *repository, *fetch, "--filter=blob:none", "--stdin", "origin", stdin=names)


def _check_links(request: GitRequest, tree: Path, taken: list[_TreeEntry]) -> None:
    root = os.path.realpath(tree)
    for entry in taken:
        if entry.mode == _SYMLINK:
            link = tree / entry.path
            target = os.path.realpath(link)
            if os.path.isabs(os.readlink(link)) or not (target + os.sep).startswith(root + os.sep):
                raise AssetSourceError(
                    f"{request.repo} contains the link {str(entry.path)!r} to {os.readlink(link)!r}, which leads out "
                    "of the checkout; it is refused. Leave its folder out of git.sparse."
                )


def short_label(request: GitRequest, rev: str) -> str:
    """Return the name of a request in progress lines, such as ``newton-assets@261cd1f4``."""
    return f"{request.name}@{rev[:8] if re.fullmatch('[0-9a-f]{40,}', rev) else rev}"
