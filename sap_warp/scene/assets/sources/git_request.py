"""Check what a scene asks of git before git is started.

Accepted addresses are ``https://``, ``ssh://``, ``user@host:path``, ``file://`` and paths of this machine. Plain
``http://`` and ``git://`` are refused because anyone on the way could answer in the server's name; so are the
helpers of git that start programs (``ext::`` and the like) and passwords inside an address.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from .errors import AssetSourceError
from .names import check_relative_path, check_text

ACCEPTED = "https://host/path, ssh://host/path, user@host:path, file:///path or a path of this machine"
SPARSE_MAX = 1000
"""Entries that ``sparse`` may have."""

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_SCP = re.compile(rf"(?P<user>{_WORD})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^:]+)")
_AUTHORITY = re.compile(
    rf"(?:(?P<user>{_WORD})@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{{1,5}}))?"
)
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<slashes>/{0,2})")
_HASH = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_SHORT_HASH = re.compile(r"[0-9a-fA-F]{7,39}")
_BAD_IN_REF = re.compile(r"\.\.|[ ~^:?*\[\\]|@\{|//|\.$|/$|^/|(?:^|/)\.|\.lock(?:/|$)|^@$")


@dataclass(frozen=True)
class GitRequest:
    """One file of one revision of a repository; every field has been checked."""

    repo: str
    """Address for git: a URL, ``user@host:path`` or the absolute path of a local repository."""
    transports: tuple[str, ...]
    """Transports that git may use for this address."""
    rev: str
    """Full hash in lower case, or the name of a branch, tag or other reference, or a short hash."""
    sparse: tuple[str, ...]
    """Files and folders to check out, sorted, none inside another; empty for everything."""
    path: PurePosixPath
    """The asset, relative to the root of the repository."""

    @property
    def is_pinned(self) -> bool:
        """Return True if ``rev`` is a full hash, which always means the same content."""
        return _HASH.fullmatch(self.rev) is not None

    @property
    def may_be_short_hash(self) -> bool:
        """Return True if ``rev`` could be the beginning of a hash."""
        return _SHORT_HASH.fullmatch(self.rev) is not None

    @property
    def name(self) -> str:
        """Return the last part of the address without ``.git``, safe as a file name."""
        last = re.split(r"[/:]", self.repo)[-1].removesuffix(".git")
        return re.sub(r"[^A-Za-z0-9_.-]", "_", last).lstrip(".-")[:40] or "repository"

    def digest(self, rev: str) -> str:
        """Return 32 hexadecimal digits that identify repository, ``rev`` and sparse set."""
        return sha256(json.dumps([self.repo, rev, self.sparse]).encode()).hexdigest()[:32]

    def takes(self, file: PurePosixPath) -> bool:
        """Return True if ``file`` is checked out.

        As with git's own sparse folders, that is all below an entry of ``sparse``, and the files that stand beside
        an entry or directly in a folder above it, such as a licence.
        """
        if not self.sparse:
            return True
        folder = file.parent
        return any(
            file.is_relative_to(entry) or PurePosixPath(entry).parent.is_relative_to(folder) for entry in self.sparse
        )


def check_request(
    repo: object, rev: object, sparse: Sequence[str], path: object, base_dir: Path | None = None
) -> GitRequest:
    """Check everything that a scene says about a git source.

    Args:
        repo: See `ACCEPTED`; a relative path is looked for from ``base_dir``, then from the current directory.
        rev: Hash, branch, tag or ``refs/...``.
        sparse: Files and folders to check out; empty for the whole repository.
        path: The asset inside the repository.
        base_dir: Directory of the scene file.
    """
    address, transports = _check_repo(repo, base_dir)
    request = GitRequest(address, transports, _check_rev(rev), _check_sparse(sparse), _check_path("git.path", path))
    if not request.takes(request.path):
        raise AssetSourceError(
            f"git.path {str(request.path)!r} is not among git.sparse {list(request.sparse)}; "
            f"add {str(request.path.parent)!r} to git.sparse."
        )
    return request


def _refuse_option(what: str, value: object) -> str:
    text = check_text(what, value)
    if text.startswith("-"):
        raise AssetSourceError(f"{what} {text!r} begins with '-', which git would read as an option.")
    return text


def _check_repo(value: object, base_dir: Path | None) -> tuple[str, tuple[str, ...]]:
    text = _refuse_option("git.repo", value)
    remote = ("https", "ssh")  # both: a user's own insteadOf setting may turn one into the other
    if re.match(r"[^/]*::", text):
        raise AssetSourceError(f"git.repo {text!r} asks for a transport helper, which is refused; use {ACCEPTED}.")
    if scheme := _SCHEME.match(text):
        kind = scheme["scheme"].lower()
        if kind == "file" and scheme["slashes"] == "//":
            return _check_file_url(text), ("file",)
        if kind in remote and scheme["slashes"] == "//":
            return _check_url(text, kind), remote
        if kind in ("http", "git"):
            raise AssetSourceError(
                f"git.repo {text!r}: {kind}:// is refused because the answer could be forged on the way; "
                "use https:// or clone the repository and give its path."
            )
        raise AssetSourceError(f"git.repo {text!r} is not an accepted address; use {ACCEPTED}.")
    if scp := _SCP.fullmatch(text):
        if scp["path"].startswith("-"):
            raise AssetSourceError(f"git.repo {text!r}: the path begins with '-', which would be read as an option.")
        return text, remote
    if "@" in text and ":" in text and "/" not in text.split(":")[0]:
        raise AssetSourceError(f"git.repo {text!r} is not an accepted address; use {ACCEPTED}.")
    return _check_directory(text, base_dir), ("file",)


def _check_url(text: str, scheme: str) -> str:
    try:
        url = urlsplit(text)
    except ValueError as error:
        raise AssetSourceError(f"git.repo {text!r} is not a valid address: {error}.") from None
    if "@" in url.netloc and ":" in url.netloc.rsplit("@", 1)[0]:
        host = url.netloc.rsplit("@", 1)[1]  # the secret itself must not appear in a message
        raise AssetSourceError(
            f"git.repo on {host!r} contains a password; leave it out and use a credential helper of git."
        )
    if " " in text or not _AUTHORITY.fullmatch(url.netloc) or url.fragment or not url.path.strip("/"):
        raise AssetSourceError(f"git.repo {text!r} is not a valid {scheme} address; use {scheme}://host/path.")
    if unquote(url.path.lstrip("/")).startswith("-"):
        raise AssetSourceError(f"git.repo {text!r}: the path begins with '-', which would be read as an option.")
    return text.rstrip("/")


def _check_file_url(text: str) -> str:
    rest = text.split("//", 1)[1]
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise AssetSourceError(f"git.repo {text!r} names another machine; use file:///path for this one.")
    decoded = check_text("git.repo", unquote("/" + path, errors="replace"))
    return _check_directory(decoded, None)


def _check_directory(text: str, base_dir: Path | None) -> str:
    try:
        given = Path(text).expanduser()
        roots = [Path.cwd()] if base_dir is None else [base_dir.absolute(), Path.cwd()]
        for folder in [given] if given.is_absolute() else [root / given for root in roots]:
            if folder.is_dir():
                return str(folder.resolve())
    except (RuntimeError, OSError) as error:
        raise AssetSourceError(f"git.repo {text!r}: {error}.") from None
    raise AssetSourceError(f"git.repo {text!r} is not a folder of this machine; use {ACCEPTED}.")


def _check_rev(value: object) -> str:
    text = _refuse_option("git.rev", value)
    if _HASH.fullmatch(text):
        return text.lower()
    if _BAD_IN_REF.search(text):
        raise AssetSourceError(
            f"git.rev {text!r} is not the name of a revision; give a full hash (best), a branch or a tag."
        )
    return text


def _check_path(what: str, value: object) -> PurePosixPath:
    path = check_relative_path(what, _refuse_option(what, value), "the repository")
    if any(part.lower() == ".git" for part in path.parts):
        raise AssetSourceError(f"{what} {str(path)!r} points into git's own data.")
    return path


def _check_sparse(value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise AssetSourceError(f"git.sparse must be a list of folders, found {type(value).__name__} {value!r:.80}.")
    if len(value) > SPARSE_MAX:
        raise AssetSourceError(f"git.sparse has {len(value)} entries; at most {SPARSE_MAX} are accepted.")
    entries = [_check_path(f"git.sparse[{i}]", entry) for i, entry in enumerate(value)]
    for i, entry in enumerate(entries):
        if re.search(r"[*?]", str(entry)):
            raise AssetSourceError(
                f"git.sparse[{i}] {str(entry)!r} is a pattern; name folders or files, which are taken whole."
            )
    return tuple(sorted({str(entry) for entry in _outermost(entries)}))


def _outermost(entries: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    kept = set(entries)
    return [entry for entry in kept if not any(folder in kept for folder in entry.parents)]
