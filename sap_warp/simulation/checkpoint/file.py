"""File of a checkpoint: arrays and a description in one zip archive, checksummed and replaced as a whole.

Members are ``meta.json``, one ``.npy`` for each array (so that `numpy.load` can look into it), and ``sha256`` over all
of them. Nothing in it is code: a file from a stranger can be wrong, but it cannot run anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FORMAT, VERSION = "sap-warp checkpoint", 1
"""Beginning of the description; the version grows when older programs can no longer read the files."""
_META, _SUM = "meta.json", "sha256"


class CheckpointError(ValueError):
    """A file is not a checkpoint, is damaged, or belongs to another model."""


def write_checkpoint(path: str | os.PathLike[str], meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file; an existing one is replaced when everything is on the disk, or stays as it is.

    Raises:
        OSError: It cannot be written.
    """
    path = Path(path)
    members = {_META: json.dumps({"format": FORMAT, "version": VERSION, **meta}, indent=1).encode()}
    members |= {f"{name}.npy": _to_bytes(array) for name, array in arrays.items()}
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, data in members.items():
                    archive.writestr(name, data, _method(name), compresslevel=1)
                archive.writestr(_SUM, _checksum(members))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # as a file that was opened in the usual way
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return description and arrays of a file.

    Raises:
        FileNotFoundError: There is none.
        CheckpointError: It is no checkpoint, of a later version, cut off or changed.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        raise CheckpointError(f"{path} is no complete checkpoint: {error}. {_ADVICE}") from None
    stated = members.pop(_SUM, b"").decode("ascii", "replace")
    if _META not in members:
        raise CheckpointError(f"{path} is an archive, but no checkpoint: it has no {_META}.")
    if stated != _checksum(members):
        raise CheckpointError(
            f"{path} is damaged: its content does not have the checksum it was written with. {_ADVICE}"
        )
    meta = json.loads(members.pop(_META))
    if meta.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no checkpoint: its format is {meta.get('format')!r}.")
    if meta.get("version") != VERSION:
        raise CheckpointError(
            f"{path} is of version {meta.get('version')} of the format; this program reads version {VERSION}. "
            f"It was written by sap-warp {meta.get('written_by', {}).get('sap-warp', 'of unknown version')}."
        )
    arrays = {
        name.removesuffix(".npy"): np.load(io.BytesIO(data), allow_pickle=False) for name, data in members.items()
    }
    return meta, arrays


_ADVICE = "Take an older one, or copy it again from where it came."


def _to_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _method(name: str) -> int:
    """Choose the compression: models of many worlds shrink to a hundredth, states not at all."""
    return zipfile.ZIP_DEFLATED if name.startswith("model/") or name == _META else zipfile.ZIP_STORED


def _checksum(members: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(members):
        digest.update(f"{name} {len(members[name])}\n".encode())
        digest.update(members[name])
    return digest.hexdigest()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut where folders can be synchronized."""
    with contextlib.suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
