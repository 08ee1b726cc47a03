"""Check that the current commit can be released as the version in pyproject.toml, and build what would be published.

    python tools/release_check.py        (or: make release-check)

Looks at version, changelog, tags and working tree, builds sdist and wheel into dist/, looks at their contents, installs
the wheel into a fresh environment outside of the tree and runs the command there. Says what is wrong and what to do.
Publishes nothing and sets no tag. Needs the `dev` extra, and a package index for the fresh environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (["--help"], ["presets"], ["check", "cube"])
"""What a user may do first, as arguments of `sap-warp`."""
IMPORTED = """
import sys, sap_warp
print("imported version", sap_warp.__version__, "from", sap_warp.__file__)
sys.exit(sap_warp.__version__ != sys.argv[1] or not sap_warp.__file__.startswith(sys.prefix))
"""
"""Fails unless the package is imported from the fresh environment, in the version given."""
CACHE = re.compile(r"(^|/)(__pycache__|\.[a-z]+_cache|\.hypothesis|\.venv|\.git)(/|$)|\.py[cod]$")
SHOWN = 5
"""File names that a message lists."""


def project_version(pyproject: str) -> str:
    """The version that the text of a pyproject.toml declares."""
    return tomllib.loads(pyproject)["project"]["version"]


def version_problems(declared: str, installed: str) -> list[str]:
    """Whether `sap_warp.__version__` is the declared version."""
    if declared == installed:
        return []
    return [
        f"pyproject.toml says version {declared}, sap_warp.__version__ is {installed}: "
        "install the tree again, pip install -e '.[dev]'"
    ]


def changelog_problems(changelog: str, version: str) -> list[str]:
    """Whether the changelog has a dated section for the version, or else a section Unreleased, with lines in it."""
    sections = {}
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        name, _, date = heading.partition(" - ")
        sections[name.strip(" []")] = date.strip(), bool(re.search(r"^- ", body, flags=re.MULTILINE))
    wanted = f"'## [{version}] - YYYY-MM-DD'"
    if version not in sections and "Unreleased" not in sections:
        return [f"CHANGELOG.md has neither a section {version} nor one Unreleased: add {wanted} with what is new"]
    date, has_lines = sections[version if version in sections else "Unreleased"]
    if not has_lines:
        return [f"CHANGELOG.md says nothing about {version}: list what is new, a line beginning with '- ' for each"]
    if version in sections and not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        return [f"CHANGELOG.md has no date for {version}: write {wanted}"]
    return []


def tag_problems(tags: Iterable[str], version: str) -> list[str]:
    """Whether the tag of the version is free."""
    if f"v{version}" not in tags:
        return []
    return [f"the tag v{version} exists already: raise the version in pyproject.toml"]


def tree_problems(status: str) -> list[str]:
    """Whether `git status --porcelain` printed nothing."""
    files = [line[3:] for line in status.splitlines()]
    return [f"the working tree has changes: commit or remove {_listing(files)}"] if files else []


def wheel_files(tracked: Sequence[str]) -> set[str]:
    """Paths in the wheel of those tracked files that belong there: the package, and the assets inside it."""
    inside = {name for name in tracked if name.startswith("sap_warp/")}
    return inside | {f"sap_warp/{name}" for name in tracked if name.startswith("assets/")}


def content_problems(archive: str, found: Iterable[str], expected: Iterable[str]) -> list[str]:
    """Whether an archive holds what it should, and neither caches nor files that nobody committed."""
    found, expected = set(found), set(expected)
    caches = {name for name in found if CACHE.search(name)}
    messages = {
        "lacks": (expected - found, "see [tool.hatch.build] in pyproject.toml"),
        "contains caches": (caches, "add them to .gitignore, which hatchling follows"),
        "contains files that git does not track": (found - expected - caches, "commit or remove them"),
    }
    return [f"{archive} {what}: {_listing(files)}; {how}" for what, (files, how) in messages.items() if files]


def _listing(files: Iterable[str]) -> str:
    files = sorted(files)
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return ", ".join(files[:SHOWN]) + more


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _run(command: Sequence[str | Path], folder: Path, **environment: str) -> list[str]:
    """Run a command; its output becomes the problem if it fails."""
    environment = {**os.environ, **environment}
    output = subprocess.PIPE
    done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=output, stderr=subprocess.STDOUT)
    shown = " ".join([Path(command[0]).name, *map(str, command[1:])])
    return [f"`{shown}` failed with code {done.returncode}:\n{done.stdout.rstrip()}"] if done.returncode else []


def check_sources(version: str) -> list[str]:
    """What can be seen without building: version, changelog, tag, tree."""
    import sap_warp

    return [
        *version_problems(version, sap_warp.__version__),
        *changelog_problems((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version),
        *tag_problems(_git("tag", "--list").split(), version),
        *tree_problems(_git("status", "--porcelain")),
    ]


def build(version: str) -> tuple[Path, Path, list[str]]:
    """Build the sdist, and the wheel from the sdist."""
    problems = _run([sys.executable, "-m", "build", "--outdir", ROOT / "dist"], ROOT)
    sdist, wheel = (ROOT / "dist" / f"sap_warp-{version}{end}" for end in (".tar.gz", "-py3-none-any.whl"))
    missing = [file.name for file in (sdist, wheel) if not file.is_file()]
    if missing and not problems:
        problems = [f"dist/ lacks {_listing(missing)} after the build: see [build-system] in pyproject.toml"]
    return sdist, wheel, problems


def check_archives(sdist: Path, wheel: Path, version: str) -> list[str]:
    """Compare both archives with what git tracks."""
    tracked = _git("ls-files").splitlines()
    with tarfile.open(sdist) as archive:
        packed = [file.name.partition("/")[2] for file in archive.getmembers() if file.isfile()]
    with zipfile.ZipFile(wheel) as archive:
        installed = [name for name in archive.namelist() if not name.startswith(f"sap_warp-{version}.dist-info/")]
    return [
        *content_problems(sdist.name, packed, [*tracked, "PKG-INFO"]),
        *content_problems(wheel.name, installed, wheel_files(tracked)),
    ]


def check_installed(wheel: Path, version: str) -> list[str]:
    """Install the wheel into a fresh environment and use it where the source tree cannot be seen."""
    with tempfile.TemporaryDirectory(prefix="release_check_") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        problems = _run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel], folder)
        if problems:
            return problems
        clean = {"PYTHONPATH": "", "WARP_CACHE_PATH": str(folder / "kernels")}
        problems += _run([python, "-c", IMPORTED, version], folder, **clean)
        for arguments in COMMANDS:
            print("  sap-warp", *arguments, flush=True)
            problems += _run([python.with_name("sap-warp"), *arguments], folder, **clean)
        return problems


def main() -> int:
    """Go from cheap to slow and stop at the first stage that has problems."""
    version = project_version((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    print(f"version, changelog, tags and tree of {version}", flush=True)
    problems = check_sources(version)
    if not problems:
        print("building sdist and wheel into dist/", flush=True)
        sdist, wheel, problems = build(version)
    if not problems:
        print("contents of sdist and wheel", flush=True)
        problems = check_archives(sdist, wheel, version)
    if not problems:
        print("installing the wheel into a fresh environment", flush=True)
        problems = check_installed(wheel, version)
    for problem in problems:
        print(f"release-check: {problem}", file=sys.stderr)
    if not problems:
        print(f"ready: git tag -a v{version} -m 'Version {version}'")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
