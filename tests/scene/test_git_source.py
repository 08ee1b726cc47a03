"""The git source of assets, against real repositories on this machine."""

import fcntl
import json
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sap_warp.scene.assets.sources import AssetSourceError, resolve_git
from sap_warp.scene.assets.sources.git_cache import GitCache
from sap_warp.scene.assets.sources.git_command import Git
from sap_warp.scene.assets.sources.git_request import check_request

GIT = shutil.which("git")
pytestmark = pytest.mark.skipif(GIT is None, reason="git is not installed")

LFS_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 123456\n"
ASSET = "robot/urdf/robot.urdf"
SPARSE = ["robot/urdf", "robot/meshes"]


def git(folder: Path, *arguments: str, stdin: str | None = None) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, input=stdin).stdout.strip()


def commit(folder: Path, files: dict[str, str], message: str = "Change") -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def new_source(folder: Path, files: dict[str, str]) -> str:
    folder.mkdir()
    git(folder, "init", "--quiet")
    return commit(folder, files)


@pytest.fixture(autouse=True)
def _only_this_repository(monkeypatch, tmp_path):
    """No configuration, cache or variable of the user takes part."""
    (tmp_path / "home").mkdir()
    (tmp_path / "gitconfig").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("SAP_WARP_ASSET_CACHE", "SAP_WARP_ASSET_OFFLINE", "SAP_WARP_ASSET_TIMEOUT", "GIT_ALLOW_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def robots(tmp_path):
    """A bare repository with three commits: the tag v1, the branch dev, and the head of main."""
    source, bare = tmp_path / "source", tmp_path / "robots.git"
    files = {"LICENSE": "free", "robot/README": "r", ASSET: "one", "robot/meshes/arm/a.stl": "mesh", "other/big": "big"}
    first = new_source(source, files)
    git(source, "tag", "-a", "v1", "-m", "first")
    second = commit(source, {ASSET: "two"})
    git(source, "branch", "dev")
    third = commit(source, {ASSET: "three"})
    git(tmp_path, "clone", "--quiet", "--bare", str(source), str(bare))
    git(bare, "config", "uploadpack.allowFilter", "true")
    return SimpleNamespace(source=source, bare=bare, repo=str(bare), first=first, second=second, third=third)


@pytest.fixture
def fetch(robots, tmp_path):
    """`resolve_git` with the test's repository and cache; reported lines collect in ``fetch.lines``."""

    def call(rev=robots.first, sparse=SPARSE, path=ASSET, repo=robots.repo, **options):
        options.setdefault("cache_dir", tmp_path / "cache")
        return resolve_git(repo, rev, sparse, path, report=call.lines.append, **options)

    call.lines = []
    call.cache = tmp_path / "cache" / "git"
    return call


def entries(fetch) -> list[Path]:
    return sorted((fetch.cache / "entries").glob("*"))


def leftovers(fetch) -> list[Path]:
    return sorted((fetch.cache / "tmp").glob("*"))


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


@pytest.fixture
def no_git(monkeypatch, tmp_path):
    """Takes git away."""

    def remove():
        monkeypatch.setenv("PATH", str(tmp_path / "home"))

    return remove


@pytest.fixture
def fake_git(monkeypatch, tmp_path):
    """Puts a shell script before git; in it, ``"$REAL" "$@"`` is git."""

    def install(script: str) -> None:
        folder = tmp_path / "fake"
        folder.mkdir(exist_ok=True)
        program = folder / "git"
        program.write_text(f"#!/bin/sh\nREAL={GIT}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return install


# What is fetched


@pytest.mark.parametrize("filtering", [True, False])
def test_a_pinned_revision_is_fetched_with_its_sparse_folders_only(robots, fetch, filtering):
    """Whether or not the server can leave out file contents, the same files appear."""
    git(robots.bare, "config", "uploadpack.allowFilter", str(filtering).lower())
    file = fetch()
    tree = file.parents[2]
    assert file.read_text() == "one"
    assert files_below(tree) == ["LICENSE", "robot/README", "robot/meshes/arm/a.stl", "robot/urdf/robot.urdf"]
    assert not leftovers(fetch)


def test_contents_outside_of_the_sparse_folders_are_not_downloaded(robots, fetch, fake_git, tmp_path):
    big = git(robots.source, "rev-parse", "HEAD:other/big")
    mesh = git(robots.source, "rev-parse", "HEAD:robot/meshes/arm/a.stl")
    fake_git(
        'case "$*" in *checkout-index*) for a; do case $a in --git-dir=*) D="$a";; esac; done\n'
        f'"$REAL" "$D" cat-file --batch-all-objects --batch-check > {tmp_path}/objects;; esac\nexec "$REAL" "$@"'
    )
    fetch()
    objects = (tmp_path / "objects").read_text()
    assert mesh in objects and big not in objects


def test_an_empty_sparse_list_takes_everything(fetch):
    assert "other/big" in files_below(fetch(sparse=[]).parents[2])


def test_a_single_file_may_be_sparse(fetch):
    assert files_below(fetch(sparse=[ASSET]).parents[2]) == ["LICENSE", "robot/README", ASSET]


def test_a_cached_pin_needs_neither_git_nor_server(robots, fetch, no_git):
    file = fetch()
    shutil.rmtree(robots.bare / "objects")
    no_git()
    assert fetch() == file
    assert fetch(sparse=["robot/meshes/", "./robot/urdf", "robot/meshes/arm"]) == file  # the same set


def test_the_entry_depends_on_repository_commit_and_sparse_set(robots, fetch):
    fetch()
    fetch(robots.third)
    fetch(sparse=["robot"])
    fetch(repo=str(robots.source))
    assert len(entries(fetch)) == 4


@pytest.mark.parametrize("rev", ["v1", "refs/tags/v1"])
def test_a_tag_means_its_commit(fetch, rev):
    assert fetch(rev).read_text() == "one"


def test_a_branch_follows_the_server(robots, fetch):
    assert fetch("dev").read_text() == "two"
    git(robots.bare, "branch", "--force", "dev", robots.third)
    assert fetch("dev").read_text() == "three"
    assert fetch("HEAD").read_text() == "three"


def test_a_name_that_is_branch_and_tag_must_be_written_out(robots, fetch):
    git(robots.bare, "branch", "v1", robots.third)
    with pytest.raises(AssetSourceError, match=r"tag and a branch.*refs/tags/v1.*refs/heads/v1"):
        fetch("v1")
    assert fetch("refs/heads/v1").read_text() == "three"


def test_a_short_hash_is_completed_once(robots, fetch, no_git):
    assert fetch(robots.second[:9]).read_text() == "two"
    no_git()
    assert fetch(robots.second[:9]).read_text() == "two"


def test_a_hexadecimal_branch_wins_over_a_short_hash(robots, fetch):
    git(robots.bare, "branch", robots.first[:8], robots.third)
    assert fetch(robots.first[:8]).read_text() == "three"


def test_a_repository_with_sha256_hashes(tmp_path, fetch):
    source = tmp_path / "sha256"
    source.mkdir()
    git(source, "init", "--quiet", "--object-format=sha256")
    rev = commit(source, {ASSET: "long"})
    assert len(rev) == 64
    assert fetch(rev, sparse=[], repo=str(source)).read_text() == "long"
    assert fetch("main", sparse=[], repo=str(source)).read_text() == "long"


def test_local_repositories_by_url_and_by_relative_path(robots, fetch, tmp_path, monkeypatch):
    file = fetch()
    assert fetch(repo=f"file://{robots.repo}") == file
    assert fetch(repo="robots.git", base_dir=tmp_path) == file
    monkeypatch.chdir(tmp_path)
    assert fetch(repo="./robots.git/") == file


def test_a_server_without_single_commits_sends_everything(robots, fetch, fake_git):
    """An older protocol refuses commits that no branch points at."""
    fake_git(
        'for a; do shift; [ "$a" = protocol.version=2 ] && a=protocol.version=0; set -- "$@" "$a"; done\n"$REAL" "$@"'
    )
    assert fetch(robots.first.upper()).read_text() == "one", "a tag points at it, but at no content"
    git(robots.bare, "branch", "--delete", "--force", "dev")
    assert fetch(robots.second).read_text() == "two", "only the history leads to it"
    with pytest.raises(AssetSourceError, match=rf"{HASH} is not a commit"):
        fetch(HASH)


def test_a_git_directory_of_the_calling_process_is_left_alone(robots, fetch, monkeypatch):
    """As in a hook, where git sets these variables."""
    head = git(robots.source, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(robots.source / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(robots.source / ".git/index"))
    assert fetch().read_text() == "one"
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert git(robots.source, "rev-parse", "HEAD") == head and not git(robots.source, "status", "--porcelain")


def test_progress_is_reported(fetch):
    fetch()
    assert any("fetching" in line for line in fetch.lines)
    assert any("Receiving objects 100%" in line for line in fetch.lines)
    assert "ready" in fetch.lines[-1]


def test_without_a_reporter_progress_goes_to_standard_error(robots, tmp_path, capsys):
    resolve_git(robots.repo, robots.first, SPARSE, ASSET, cache_dir=tmp_path / "cache")
    assert "Receiving objects" in capsys.readouterr().err


# Cache and offline use


def test_the_cache_folder_is_the_variable_or_below_the_home(robots, tmp_path, monkeypatch):
    resolve_git(robots.repo, robots.first, SPARSE, ASSET, report=lambda text: None)
    assert (tmp_path / "home/.cache/sap_warp/assets/git/entries").is_dir()
    monkeypatch.setenv("SAP_WARP_ASSET_CACHE", "~/elsewhere")
    file = resolve_git(robots.repo, robots.first, SPARSE, ASSET, report=lambda text: None)
    assert file.is_relative_to(tmp_path / "home/elsewhere")


def test_offline_needs_the_entry(robots, fetch, monkeypatch, no_git):
    monkeypatch.setenv("SAP_WARP_ASSET_OFFLINE", "1")
    with pytest.raises(AssetSourceError, match=r"offline.*does not exist.*with a network"):
        fetch()
    with pytest.raises(AssetSourceError, match=r"offline.*'dev'.*never fetched"):
        fetch("dev")
    assert not (fetch.cache).exists()
    file = fetch(offline=False)
    no_git()
    assert fetch() == file


def test_offline_takes_a_branch_as_it_was_last_and_says_so(robots, fetch):
    file = fetch("dev")
    git(robots.bare, "branch", "--force", "dev", robots.third)
    fetch.lines.clear()
    assert fetch("dev", offline=True) == file
    assert len(fetch.lines) == 1 and robots.second in fetch.lines[0] and "'dev'" in fetch.lines[0]


def test_an_unreachable_server_points_at_the_last_known_commit(robots, fetch):
    fetch("dev")
    shutil.rmtree(robots.bare)
    robots.bare.mkdir()
    with pytest.raises(AssetSourceError, match=f"not appear to be a git repository.*OFFLINE=1.*{robots.second}"):
        fetch("dev")


@pytest.mark.parametrize("variable", ["SAP_WARP_ASSET_OFFLINE", "SAP_WARP_ASSET_TIMEOUT"])
def test_a_variable_with_a_meaningless_value_is_an_error(fetch, monkeypatch, variable):
    monkeypatch.setenv(variable, "maybe")
    with pytest.raises(AssetSourceError, match=f"{variable} is 'maybe'"):
        fetch()


def _truncate(entry: Path) -> None:
    (entry / "tree" / ASSET).write_text("")


def _delete(entry: Path) -> None:
    (entry / "tree/robot/meshes/arm/a.stl").unlink()


def _lose_manifest(entry: Path) -> None:
    (entry / "manifest.json").unlink()


def _break_manifest(entry: Path) -> None:
    (entry / "manifest.json").write_text('{"format": 1, "files"')


def _replace_by_link(entry: Path) -> None:
    (entry / "tree" / ASSET).unlink()
    (entry / "tree" / ASSET).symlink_to("/etc/passwd")


def _empty(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.mkdir()


@pytest.mark.parametrize("damage", [_truncate, _delete, _lose_manifest, _break_manifest, _replace_by_link, _empty])
def test_a_damaged_entry_is_fetched_again(fetch, damage):
    file = fetch()
    damage(entries(fetch)[0])
    with pytest.raises(AssetSourceError, match=r"damaged"):
        fetch(offline=True)
    assert fetch() == file and file.read_text() == "one"
    assert len(entries(fetch)) == 1 and not leftovers(fetch)
    assert fetch(offline=True) == file


def test_a_cache_that_cannot_be_written_is_named(tmp_path, fetch):
    (tmp_path / "file").touch()
    with pytest.raises(AssetSourceError, match=r"cannot be written.*SAP_WARP_ASSET_CACHE"):
        fetch(cache_dir=tmp_path / "file")


# Interruptions


def test_an_interruption_at_any_command_leaves_no_entry(robots, fetch, monkeypatch):
    """The n-th git command is interrupted, for all n; afterwards the fetch succeeds."""
    run, calls, stop = Git.run, 0, 0

    def interrupted(self, *arguments, **options):
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return run(self, *arguments, **options)

    monkeypatch.setattr(Git, "run", interrupted)
    for stop in range(1, 20):
        calls = 0
        try:
            file = fetch()
        except KeyboardInterrupt:
            assert not entries(fetch) and not leftovers(fetch)
        else:
            break
    assert stop > 5, "the fetch should take several commands"
    assert file.read_text() == "one" and len(entries(fetch)) == 1


def test_an_interruption_while_the_entry_is_described_leaves_none(fetch, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fetch()
    assert not entries(fetch) and not leftovers(fetch)
    assert fetch().read_text() == "one"


def test_a_git_that_breaks_off_in_the_middle_leaves_no_entry(fetch, fake_git, tmp_path):
    fake_git('case "$*" in *" fetch "*) "$REAL" "$@"; echo "fatal: early EOF" >&2; exit 128;; esac\nexec "$REAL" "$@"')
    with pytest.raises(AssetSourceError, match=r"fetching commit.*git says: fatal: early EOF"):
        fetch()
    assert not entries(fetch) and not leftovers(fetch)
    (tmp_path / "fake/git").unlink()
    assert fetch().read_text() == "one"


def test_a_killed_process_leaves_no_entry_and_the_next_one_cleans_up(robots, fetch, fake_git, tmp_path):
    """The process dies without a chance to tidy, while git is fetching."""
    started = tmp_path / "started"
    os.mkfifo(started)
    fake_git(f'case "$*" in *" fetch "*) echo $$ > {started}; exec sleep 600;; esac\nexec "$REAL" "$@"')
    code = "import sys; from sap_warp.scene.assets.sources import resolve_git\n"
    code += "resolve_git(*sys.argv[1:3], [], *sys.argv[3:])"
    environment = os.environ | {"SAP_WARP_ASSET_CACHE": str(tmp_path / "cache")}
    victim = subprocess.Popen(
        [sys.executable, "-c", code, robots.repo, robots.first, ASSET], env=environment, stderr=subprocess.DEVNULL
    )
    git_pid = int(started.read_text())
    victim.kill()
    victim.wait()
    os.kill(git_pid, signal.SIGKILL)
    assert not entries(fetch) and len(leftovers(fetch)) == 1
    (tmp_path / "fake/git").unlink()
    assert fetch().read_text() == "one", "another entry of the same cache"
    assert not leftovers(fetch)
    assert fetch(sparse=[]).read_text() == "one", "the entry that was interrupted"


def test_work_of_a_living_process_is_not_cleaned_up(fetch):
    for folder in ("tmp", "locks"):
        (fetch.cache / folder).mkdir(parents=True)
    (fetch.cache / "tmp/alive.1").mkdir()
    (fetch.cache / "tmp/dead.1").mkdir()
    with open(fetch.cache / "locks/alive.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch()
        assert [p.name for p in leftovers(fetch)] == ["alive.1"]
    fetch(sparse=[])
    assert not leftovers(fetch)


def test_a_stalled_fetch_is_stopped_with_all_it_started(fetch, fake_git, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    fake_git(f'case "$*" in *" fetch "*) exec 3> {pipe}; echo up >&3; sleep 600;; esac\nexec "$REAL" "$@"')
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        with pytest.raises(AssetSourceError, match=r"stalled: git was silent for 2 s.*SAP_WARP_ASSET_TIMEOUT"):
            fetch(stall_timeout=2.0)  # less, and a busy computer stops git before the fetch
        assert reader.read(3) == b"up\n"
        poll = select.poll()
        poll.register(reader)
        assert poll.poll(60_000) == [(reader.fileno(), select.POLLHUP)], "no process holds the pipe any more"
    assert not entries(fetch) and not leftovers(fetch)


# Several processes


def _fetch_at_once(barrier, results, repo, rev, cache):
    barrier.wait()
    lines = []
    try:
        file = resolve_git(repo, rev, SPARSE, ASSET, cache_dir=cache, report=lines.append)
        results.put((str(file), file.read_text(), ""))
    except BaseException as error:
        results.put(("", "", repr(error)))


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("rev", ["first", "dev"])
def test_processes_that_fetch_at_once_all_get_the_whole_entry(
    robots, fetch, fake_git, tmp_path, monkeypatch, rev, locks
):
    """With locks one process fetches for all; on a file system without locks the first rename wins."""
    fake_git(f'case "$*" in *checkout-index*) echo x >> {tmp_path}/count;; esac\nexec "$REAL" "$@"')
    if not locks:
        monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=OSError("no locks here")))
    context = multiprocessing.get_context("fork")
    count = 3
    barrier, results = context.Barrier(count), context.Queue()
    name = getattr(robots, rev, rev)
    arguments = (barrier, results, robots.repo, name, tmp_path / "cache")
    processes = [context.Process(target=_fetch_at_once, args=arguments) for _ in range(count)]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    _, text, error = found[0]
    assert not error and text == ("one" if rev == "first" else "two")
    assert set(found) == {found[0]}
    assert len(entries(fetch)) == 1 and not leftovers(fetch)
    fetches = len((tmp_path / "count").read_text().splitlines())
    assert fetches == 1 if locks else 1 <= fetches <= count


# Refused


HASH = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def never_git():
    """Fails the test if any program is started."""
    with mock.patch.object(subprocess, "Popen", side_effect=AssertionError("a program was started")) as popen:
        yield popen


@pytest.fixture
def refused(never_git):
    """`resolve_git` with an address that would be accepted."""

    def call(rev=HASH, sparse=SPARSE, path=ASSET):
        return resolve_git("https://example.org/a.git", rev, sparse, path)

    return call


@pytest.mark.parametrize(
    ("repo", "reason"),
    [
        ("ext::sh -c touch% /tmp/x", "helper"),
        ("EXT::sh", "helper"),
        ("fd::3", "helper"),
        ("::https://example.org/a", "helper"),
        ("transport::/x", "helper"),
        ("--upload-pack=touch x", "option"),
        ("-oProxyCommand=x", "option"),
        ("http://example.org/a.git", "forged.*https://"),
        ("git://example.org/a.git", "forged"),
        ("ftp://example.org/a.git", "not an accepted"),
        ("https:/example.org/a", "not an accepted"),
        ("https://", "not a valid"),
        ("https://example.org", "not a valid"),
        ("https://-example.org/a", "not a valid"),
        ("https://example.org:port/a", "not a valid"),
        ("https://exa mple.org/a", "not a valid"),
        ("https://[::1/a", "not a valid"),
        ("https://user:secret@example.org/a", "password"),
        ("ssh://-oProxyCommand=x/a", "not a valid"),
        ("ssh://-x@example.org/a", "not a valid"),
        ("ssh://example.org/-x", "option"),
        ("ssh://example.org/%2Dx", "option"),
        ("git@-oProxyCommand=x:a", "not an accepted"),
        ("-x@example.org:a", "option"),
        ("git@example.org:-x", "option"),
        ("host:path", "not an accepted"),
        ("file://example.org/a", "another machine"),
        ("file:///no/such/folder", "not a folder"),
        ("/no/such/folder", "not a folder"),
        ("https://example.org/a\nb", "control character"),
        ("https://example.org/\x1b[2J", "control character"),
        ("https://example.org/a\0", "control character"),
        (" https://example.org/a", "white space"),
        ("", "empty"),
        ("x" * 5000, "at most"),
        ("\ud800", "control character"),
        (None, "must be a text"),
        (b"https://example.org/a", "must be a text"),
    ],
)
def test_an_address_that_is_not_accepted_never_reaches_git(never_git, tmp_path, repo, reason):
    with pytest.raises(AssetSourceError, match=f"git.repo.*{reason}") as error:
        resolve_git(repo, HASH, [], "a", cache_dir=tmp_path / "cache")
    assert "secret" not in str(error.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "repo",
    [
        "https://example.org/a.git",
        "https://user@example.org:8443/a/b.git/",
        "ssh://git@example.org:22/a.git",
        "ssh://[::1]/a.git",
        "git@example.org:group/a.git",
        "git@example.org:/abs/a.git",
    ],
)
def test_accepted_remote_addresses(repo):
    request = check_request(repo, HASH, [], "a")
    assert request.repo == repo.rstrip("/") and request.transports == ("https", "ssh")


@pytest.mark.parametrize(
    "rev",
    ["--upload-pack=x", "-x", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "@{u}", "@", "/a", "a/"]
    + ["a//b", ".a", "a/.b", "a.lock", "a.", "a\nb", "", "+a:b", "\x7f", None, 1234567, 1e10],
)
def test_a_revision_that_is_not_a_name_never_reaches_git(refused, rev):
    with pytest.raises(AssetSourceError, match=r"git.rev"):
        refused(rev)


BAD_PATHS = ["../x", "a/../../x", "/etc/passwd", "-x", "--x", ".", "", "a\0b", "a\nb", ".git/config", "a/.GIT/x"]


@pytest.mark.parametrize("path", [*BAD_PATHS, "a\\b", None, 3, ["a"]])
def test_a_path_that_leaves_the_repository_never_reaches_git(refused, path):
    with pytest.raises(AssetSourceError, match=r"git.path"):
        refused(path=path)
    with pytest.raises(AssetSourceError, match=r"git.sparse\[1\]"):
        refused(sparse=["robot", path])


@pytest.mark.parametrize("sparse", ["robot", b"robot", None, {"robot"}, ["robot/*"], ["a"] * 2000])
def test_a_sparse_list_is_a_list_of_folders(refused, sparse):
    with pytest.raises(AssetSourceError, match=r"git.sparse"):
        refused(sparse=sparse)


def test_an_asset_outside_of_the_sparse_folders_is_noticed_before_the_refused(refused):
    with pytest.raises(AssetSourceError, match=r"add 'robot/urdf' to git.sparse"):
        refused(sparse=["robot/meshes/arm"])


VALID = {"repo": "https://example.org/a.git", "rev": HASH, "sparse": "robot/urdf", "path": ASSET}
BREAKS = [
    lambda text, at: "-" + text,
    lambda text, at: "/../" + text,
    lambda text, at: text[: at % len(text)] + "\n" + text[at % len(text) :] + "x",
    lambda text, at: text[: at % len(text)] + "\0" + text[at % len(text) :],
    lambda text, at: text[: at % len(text)] + "\x1b" + text[at % len(text) :],
    lambda text, at: "ext::" + text,
]


class _GitStarted(Exception):
    pass


def _arguments_of_git(repo, rev, sparse, path) -> list[str] | None:
    """Command line of the first git command, None if the arguments were refused before."""
    with (
        mock.patch.object(subprocess, "Popen", side_effect=_GitStarted) as popen,
        mock.patch("sap_warp.scene.assets.sources.git_command._has_own_ssh_command", return_value=False),
        mock.patch.dict(os.environ, {"SAP_WARP_ASSET_CACHE": os.environ["TEST_FUZZ_CACHE"]}),
    ):
        try:
            resolve_git(repo, rev, sparse, path, report=lambda text: None)
        except AssetSourceError:
            assert not popen.called
            return None
        except _GitStarted:
            return popen.call_args.args[0]
    raise AssertionError("neither refused nor started")


@pytest.fixture(scope="module")
def fuzz_cache(tmp_path_factory):
    with mock.patch.dict(os.environ, {"TEST_FUZZ_CACHE": str(tmp_path_factory.mktemp("cache"))}):
        yield


@settings(deadline=None)
@given(
    field=st.sampled_from(sorted(VALID)), breaks=st.lists(st.sampled_from(BREAKS), min_size=1), at=st.integers(0, 99)
)
def test_a_valid_request_with_one_broken_text_never_starts_git(fuzz_cache, field, breaks, at):
    texts = dict(VALID)
    for change in breaks:
        texts[field] = change(texts[field], at)
    # A colon is allowed in the name of a file; the transport helper only matters in an address.
    if field in ("path", "sparse") and texts[field].startswith("ext::") and not set("\n\0\x1b") & set(texts[field]):
        texts[field] = "-" + texts[field]
    assert _arguments_of_git(texts["repo"], texts["rev"], [texts["sparse"]], texts["path"]) is None


_STARTS = st.sampled_from(["", "https://", "ssh://", "git@", "file://", "ext::", "-", "--", "/", "~", "http:", "refs/"])
_TEXTS = st.one_of(st.sampled_from(list(VALID.values())), st.builds(str.__add__, _STARTS, st.text(max_size=20)))


@settings(deadline=None, max_examples=300)
@given(repo=_TEXTS, rev=_TEXTS, sparse=st.lists(_TEXTS, max_size=2), path=_TEXTS)
def test_any_texts_are_refused_or_reach_git_as_plain_arguments(fuzz_cache, repo, rev, sparse, path):
    """What reaches git is an accepted address, after `--`, and never a text in the place of an option."""
    command = _arguments_of_git(repo, rev, sparse, path)
    if command is None:
        return
    assert repo.startswith(("https://", "ssh://", "git@", "file://", "/", "~")) or Path(repo).is_dir()
    assert not any(ord(c) < 32 or ord(c) == 127 for c in repo + rev + path + "".join(sparse))
    given_texts = {repo, rev, path, *sparse}
    options = command[: command.index("--")] if "--" in command else command
    assert not given_texts & set(options[1:])


def test_broken_texts_are_refused_for_the_right_reason(fuzz_cache):
    """The request that the fuzz tests break would start git."""
    assert _arguments_of_git(VALID["repo"], VALID["rev"], [VALID["sparse"]], VALID["path"]) is not None


# Hostile repositories and settings


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../../../../etc/passwd", "../../../outside", "..//../..", "up/../../outside"]
)
def test_a_link_out_of_the_checkout_is_refused(tmp_path, fetch, target):
    source = tmp_path / "links"
    source.mkdir()
    git(source, "init", "--quiet")
    (source / "robot/urdf").mkdir(parents=True)
    (source / "robot/urdf/up").symlink_to("..")
    (source / "robot/urdf/evil").symlink_to(target)
    rev = commit(source, {ASSET: "x"})
    with pytest.raises(AssetSourceError, match=r"link 'robot/urdf/evil' to .*leads out of the checkout"):
        fetch(rev, sparse=[], repo=str(source))
    assert not entries(fetch) and not leftovers(fetch)


def test_a_link_inside_of_the_checkout_is_followed(tmp_path, fetch):
    source = tmp_path / "links"
    source.mkdir()
    git(source, "init", "--quiet")
    (source / "folder").symlink_to("robot/urdf")
    (source / "alias.urdf").symlink_to("robot/urdf/robot.urdf")
    (source / "dangling").symlink_to("not/checked/out")
    rev = commit(source, {ASSET: "x"})
    assert fetch(rev, sparse=["robot"], path="alias.urdf", repo=str(source)).read_text() == "x"
    assert fetch(rev, sparse=[], path="folder/robot.urdf", repo=str(source)).read_text() == "x"


def test_a_commit_with_paths_of_git_itself_is_refused(tmp_path, fetch):
    source = tmp_path / "evil"
    new_source(source, {"a": "x"})
    blob = git(source, "rev-parse", "HEAD:a")
    inner = git(source, "mktree", stdin=f"100644 blob {blob}\tconfig\n")
    tree = git(source, "mktree", stdin=f"100644 blob {blob}\ta\n040000 tree {inner}\t.git\n")
    rev = git(source, "commit-tree", tree, "-m", "evil")
    git(source, "branch", "evil", rev)
    with pytest.raises(AssetSourceError, match=r"forbidden path '\.git/config'"):
        fetch(rev, sparse=[], path="a", repo=str(source))
    assert not entries(fetch)


def test_hooks_do_not_run(robots, fetch, tmp_path):
    """Even hooks that the user has set up for all repositories."""
    hooks, marker = tmp_path / "hooks", tmp_path / "ran"
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n")
    fetch()
    fetch("dev")
    fetch(robots.second[:8])
    assert not marker.exists()
    git(robots.source, "update-ref", "refs/heads/x", "HEAD")
    assert marker.exists(), "the hook itself should work"


def test_no_setting_leads_to_a_transport_that_starts_programs(fetch, tmp_path):
    marker = tmp_path / "ran"
    (tmp_path / "gitconfig").write_text(
        f'[protocol "ext"]\n\tallow = always\n[url "ext::sh -c touch% {marker} #"]\n\tinsteadOf = https://example.org/\n'
    )
    with pytest.raises(AssetSourceError, match=r"transport 'ext' not allowed"):
        fetch("main", repo="https://example.org/a.git")
    assert not marker.exists()


def test_submodules_are_not_followed(robots, tmp_path, fetch):
    source = tmp_path / "super"
    new_source(source, {"a": "x"})
    git(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", robots.repo, "sub")
    rev = commit(source, {})
    assert files_below(fetch(rev, sparse=[], path="a", repo=str(source)).parent) == [".gitmodules", "a"]
    with pytest.raises(AssetSourceError, match=r"lies in the submodule 'sub'.*not followed"):
        fetch(rev, sparse=["sub"], path="sub/x.urdf", repo=str(source))


def test_control_sequences_of_a_server_are_not_shown(fetch, fake_git):
    fake_git("printf 'Receiving \\033[2Jobjects:  50%% (1/2)\\rfatal: \\033]0;title\\007gone\\n' >&2; exit 128")
    with pytest.raises(AssetSourceError, match=r"gone") as error:
        fetch()
    assert any("50%" in line for line in fetch.lines)
    assert "\x1b" not in str(error.value) + "".join(fetch.lines) and "\x07" not in str(error.value)


# Clear messages


def test_an_lfs_pointer_is_recognised(tmp_path, fetch):
    source = tmp_path / "lfs"
    rev = new_source(source, {"mesh.usda": LFS_POINTER, "robot.usda": "#usda 1.0"})
    with pytest.raises(AssetSourceError, match=r"'mesh.usda'.*LFS pointer to 123456 bytes.*git lfs install"):
        fetch(rev, sparse=[], path="mesh.usda", repo=str(source))
    assert fetch(rev, sparse=[], path="robot.usda", repo=str(source)).read_text() == "#usda 1.0"
    assert "1 files beside the asset, such as mesh.usda" in fetch.lines[-1]


def test_a_missing_path_names_near_ones(fetch):
    with pytest.raises(AssetSourceError, match=rf"'robot/urdf/robt.urdf' does not exist in commit.*mean '{ASSET}'"):
        fetch(path="robot/urdf/robt.urdf")
    assert not entries(fetch)
    fetch()
    with pytest.raises(AssetSourceError, match=rf"not a file of the checkout.*mean '{ASSET}'"):
        fetch(path="robot/urdf/robt.urdf")


def test_a_missing_sparse_folder_names_near_ones(fetch):
    with pytest.raises(AssetSourceError, match=r"'robot/mehses' does not exist in commit.*mean 'robot/meshes'"):
        fetch(sparse=["robot/urdf", "robot/mehses"])


def test_a_folder_is_not_an_asset(fetch):
    with pytest.raises(AssetSourceError, match=r"is a folder"):
        fetch(path="robot/urdf")


def test_an_unknown_name_lists_what_there_is(fetch):
    with pytest.raises(AssetSourceError, match=r"'mian' is neither.*mean 'main'.*dev, main, v1"):
        fetch("mian")


@pytest.mark.parametrize("rev", [HASH, HASH[:10]])
def test_an_unknown_hash_is_named(fetch, rev):
    with pytest.raises(AssetSourceError, match=rf"{rev}.*(does not exist in|not the beginning of)"):
        fetch(rev)


def test_the_object_of_a_tag_names_its_commit(robots, fetch):
    tag = git(robots.source, "rev-parse", "v1")
    with pytest.raises(AssetSourceError, match=f"object of a tag; use its commit, {robots.first}"):
        fetch(tag)


@pytest.mark.parametrize("rev", [HASH, "main"])
def test_an_unreachable_repository_gives_the_reason_of_git(tmp_path, fetch, rev):
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssetSourceError, match=f"{tmp_path}/empty failed. git says: fatal: .*not appear to be a git"):
        fetch(rev, repo=str(tmp_path / "empty"))
    with pytest.raises(AssetSourceError, match=r"git says: fatal: unable to access 'https://localhost:1/a.git/'"):
        fetch(rev, repo="https://localhost:1/a.git")
    assert not entries(fetch) and not leftovers(fetch)


def test_a_missing_git_is_named(fetch, no_git):
    no_git()
    with pytest.raises(AssetSourceError, match=r"needs git, which is not installed.*install git"):
        fetch()


def test_the_manifest_tells_where_an_entry_came_from(robots, fetch):
    fetch()
    manifest = json.loads((entries(fetch)[0] / "manifest.json").read_text())
    assert (manifest["repo"], manifest["rev"]) == (robots.repo, robots.first)
    assert manifest["sparse"] == sorted(SPARSE) and manifest["files"][ASSET] == len("one")
    request = check_request(robots.repo, robots.first, SPARSE, ASSET)
    assert GitCache(fetch.cache.parent).entry(request, robots.first) == entries(fetch)[0]
