"""Run git without prompts, hooks or foreign transports, watch it, and stop it when it stalls."""

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import AssetSourceError
from .progress import Report, parse_progress

STALL_TIMEOUT = 120.0
"""Silence [s] after which a fetch counts as stalled."""

_GLANCE = 0.5  # seconds between looks at whether a silent git still lives

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "core.symlinks": "true",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "credential.interactive": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",  # any commit may be asked for by its hash
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
}
"""What a fetch sets on the command line; the user's own configuration holds otherwise."""

# Left over from a git command that started this process, these would redirect ours to its repository.
_FOREIGN = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
}


class GitFailed(AssetSourceError):
    """Git ended with an error."""

    def __init__(self, action: str, stderr: list[str]):
        self.stderr = stderr
        super().__init__(f"{action} failed. git says: {_reason(stderr)}")


class Git:
    """Starts git commands for one address.

    Args:
        transports: The only transports git may use.
        report: Receives progress; each line begins with ``label``.
        stall_timeout: Silence [s] after which a command is stopped.
        watched: Folder in which git works. When it grows, git is not stalled, however silent it is.
    """

    def __init__(
        self, transports: tuple[str, ...], report: Report, label: str, stall_timeout: float, watched: Path | None = None
    ):
        self._transports = transports
        self._report = report
        self._label = label
        self._stall_timeout = stall_timeout
        self._watched = watched
        self._own_ssh_command = "ssh" in transports and _has_own_ssh_command()

    def run(self, action: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run ``git arguments`` and return its standard output.

        Args:
            action: What is being done, for messages, such as ``fetching commit 261cd1f4 of REPO``.
            stdin: Standard input of git.

        Raises:
            GitFailed: Git ended with an error; the message has git's own reason.
            AssetSourceError: Git is not installed, or was silent for too long.
        """
        program = shutil.which("git")
        if program is None:
            raise AssetSourceError(f"{action} needs git, which is not installed or not on PATH; install git.")
        settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        process = subprocess.Popen(
            [program, *settings, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment(),
            cwd="/",  # outside of whatever repository the user stands in
            start_new_session=True,  # a group of its own to stop, and no terminal to ask questions on
        )
        try:
            stdout, stderr = self._communicate(process, action, stdin)
        finally:
            _stop(process)
        if process.returncode != 0:
            raise GitFailed(action, stderr)
        return stdout

    def _environment(self) -> dict[str, str]:
        environment = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
        user_allows = environment.get("GIT_ALLOW_PROTOCOL")
        allowed = [t for t in self._transports if user_allows is None or t in user_allows.split(":")]
        environment |= {
            "GIT_ALLOW_PROTOCOL": ":".join(allowed),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            "SSH_ASKPASS_REQUIRE": "never",
            "GCM_INTERACTIVE": "never",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CEILING_DIRECTORIES": "/",
            "LC_ALL": "C",
            "LANGUAGE": "",
        }
        if not self._own_ssh_command:
            environment["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes -oConnectTimeout=30"
        return environment

    def _communicate(self, process: subprocess.Popen[bytes], action: str, stdin: bytes) -> tuple[bytes, list[str]]:
        assert process.stdin and process.stdout and process.stderr
        stdout, line, lines, shown = bytearray(), "", list[str](), ""
        size, heard, unsent = self._size(), time.monotonic(), memoryview(stdin)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            if unsent:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            else:
                process.stdin.close()
            while selector.get_map():
                ready = selector.select(min(_GLANCE, self._stall_timeout))
                if not ready:
                    if process.poll() is not None:
                        break  # a connection that ssh keeps for later still holds our pipes
                    if time.monotonic() - heard < self._stall_timeout:
                        continue
                    grown = self._size()
                    if grown == size:
                        raise AssetSourceError(
                            f"{action} stalled: git was silent for {self._stall_timeout:g} s and was stopped. Check "
                            "the network and try again; SAP_WARP_ASSET_TIMEOUT sets the seconds to wait."
                        )
                    size = grown
                heard = time.monotonic()
                for key, _ in ready:
                    if key.fileobj is process.stdin:
                        unsent = _send(process, unsent)
                        if not unsent:
                            selector.unregister(process.stdin)
                            process.stdin.close()
                        continue
                    chunk = os.read(key.fd, 65536)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        stdout += chunk
                    else:
                        *complete, line = re.split(r"[\r\n]", line + _clean(chunk))
                        for text in filter(None, map(str.strip, complete)):
                            progress = parse_progress(text)
                            if progress is None:
                                lines.append(text)
                            elif progress != shown:
                                shown = progress
                                self._report(f"{self._label}: {progress}")
        if line.strip():
            lines.append(line.strip())
        process.wait()
        return bytes(stdout), lines

    def _size(self) -> int:
        total = 0
        for folder, _, files in os.walk(self._watched) if self._watched else ():
            for file in files:
                with contextlib.suppress(OSError):  # git's own temporary files come and go
                    total += os.lstat(os.path.join(folder, file)).st_size
        return total


def environment_timeout() -> float:
    """Return the seconds in the variable SAP_WARP_ASSET_TIMEOUT, or `STALL_TIMEOUT`."""
    text = os.environ.get("SAP_WARP_ASSET_TIMEOUT", "")
    if not text:
        return STALL_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds < float("inf"):
        raise AssetSourceError(f"SAP_WARP_ASSET_TIMEOUT is {text!r}; set it to a positive number of seconds.")
    return seconds


def _has_own_ssh_command() -> bool:
    """Return True if the user configured how to start ssh; that is kept, without a terminal to ask questions on."""
    if "GIT_SSH_COMMAND" in os.environ or "GIT_SSH" in os.environ:
        return True
    program = shutil.which("git")
    if program is None:
        return False
    asked = [program, "config", "--get", "core.sshCommand"]
    return subprocess.run(asked, cwd="/", capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def _send(process: subprocess.Popen[bytes], unsent: memoryview) -> memoryview:
    assert process.stdin
    try:
        return unsent[os.write(process.stdin.fileno(), unsent[:65536]) :]
    except BlockingIOError:
        return unsent
    except BrokenPipeError:  # git has given up; its exit code and last words say why
        return unsent[:0]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End git and the helpers that it started, however this process got here."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _clean(chunk: bytes) -> str:
    """Escape control characters of a server's text before it goes to the terminal."""
    return re.sub(r"[^\x20-\x7e\r\n\u00a0-\uffff]", "", chunk.decode("utf-8", errors="replace"))


def _reason(lines: list[str]) -> str:
    """Return the lines of git that name the cause, without its general advice."""
    causes = [
        line for line in lines if line.startswith(("fatal:", "error:", "remote: error", "remote: fatal", "ERROR"))
    ]
    general = "fatal: Could not read from remote repository."
    specific = [line for line in causes if line != general]
    chosen = specific or [line for line in lines if not line.startswith(("hint:", "Please make", "and the repository"))]
    return " / ".join(chosen[-3:]) if chosen else "(nothing)"


def is_git_problem(error: GitFailed, words: Sequence[str]) -> bool:
    """Return True if git's messages contain one of ``words``."""
    return any(word in line for line in error.stderr for word in words)
