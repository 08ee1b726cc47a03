"""Split a mesh that is not convex into convex parts with CoACD, and keep them on disk.

What was found for a mesh stays in a folder (`cache_folder`), under a name made of its triangles and the options, so a
mesh is taken apart once, whatever file or scene it stands in. Who has the folder needs no CoACD.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.faq import see

FOLDER = "SAP_WARP_MESH_CACHE"
"""Environment variable with the folder where parts are kept."""
INSTALL = "pip install 'sap-warp[decompose]'"
_FORMAT = 1
_SEED = 0
_ALMOST_CONVEX = 1e-4
"""Relative excess of the hull's volume up to which a mesh counts as convex."""

Parts = list[tuple[np.ndarray, np.ndarray]]
"""Vertices [n, 3] and triangles [m, 3] of each part."""


class DecompositionError(RuntimeError):
    """A mesh cannot be taken apart."""


@dataclass(frozen=True)
class PartOptions:
    """How finely a mesh is taken apart."""

    threshold: float = 0.05
    """Largest concavity of a part as CoACD measures it, in units of a mesh scaled to the range -1 to 1."""
    max_parts: int | None = None
    """Most parts of each connected piece; with fewer than it needs, the threshold is not kept."""


def cache_folder() -> Path:
    """Where parts are kept: what `FOLDER` says, else ``~/.cache/sap_warp/meshes``."""
    return Path(os.environ.get(FOLDER) or "~/.cache/sap_warp/meshes").expanduser().absolute()


def decompose(
    vertices: np.ndarray,
    faces: np.ndarray,
    options: PartOptions,
    working: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Parts:
    """Return convex parts that together have the shape of a mesh; they are read from the folder if they are there.

    Args:
        vertices: Shape [n, 3].
        faces: Triangles, shape [m, 3].
        options: See there.
        working: Entered while CoACD works, to show that it does.

    Raises:
        DecompositionError: CoACD is not installed, or finds no parts.
    """
    vertices, faces = np.ascontiguousarray(vertices, np.float64), np.ascontiguousarray(faces, np.int32)
    file = cache_folder() / f"{_digest(vertices, faces, options)}.npz"
    kept = _read(file)
    if kept is not None:
        return kept
    coacd = _import_coacd()
    with working():
        parts = [part for piece in _pieces(vertices, faces) for part in _take_apart(coacd, *piece, options)]
    if not parts:
        raise DecompositionError("CoACD finds no parts of it; use meshes: hull")
    _write(file, parts)
    return parts


def _digest(vertices: np.ndarray, faces: np.ndarray, options: PartOptions) -> str:
    head = {"format": _FORMAT, "seed": _SEED, "shape": [vertices.shape, faces.shape], **asdict(options)}
    found = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    found.update(vertices.tobytes())
    found.update(faces.tobytes())
    return found.hexdigest()


def _import_coacd() -> Any:
    try:
        import coacd
    except (ImportError, OSError) as error:
        raise DecompositionError(f"convex parts need coacd ({error}): {INSTALL}{see('missing-extra')}") from None
    coacd.set_log_level("error")
    return coacd


def _pieces(vertices: np.ndarray, faces: np.ndarray) -> Parts:
    """Split a mesh into its connected pieces: CoACD may put one hull around two that do not touch."""
    import trimesh

    whole = trimesh.Trimesh(vertices, faces)  # merges equal vertices
    pieces = whole.split(only_watertight=False)
    return [(np.asarray(piece.vertices), np.asarray(piece.faces)) for piece in pieces]


def _take_apart(coacd: Any, vertices: np.ndarray, faces: np.ndarray, options: PartOptions) -> Parts:
    if _is_convex(vertices, faces):
        return [(vertices, faces)]
    found = coacd.run_coacd(
        coacd.Mesh(vertices, faces),
        threshold=options.threshold,
        max_convex_hull=-1 if options.max_parts is None else options.max_parts,
        seed=_SEED,
    )
    return [(np.asarray(v, np.float64), np.asarray(f, np.int32)) for v, f in found]


def _is_convex(vertices: np.ndarray, faces: np.ndarray) -> bool:
    import trimesh
    from scipy.spatial import ConvexHull, QhullError

    piece = trimesh.Trimesh(vertices, faces, process=False)
    if not piece.is_watertight:
        return False
    try:
        return bool(ConvexHull(vertices).volume <= (1.0 + _ALMOST_CONVEX) * abs(piece.volume))
    except QhullError:
        return False


def _read(file: Path) -> Parts | None:
    try:
        with np.load(file, allow_pickle=False) as stored:
            vertices, faces, ends = stored["vertices"], stored["faces"], stored["ends"]
        starts = np.vstack([[[0, 0]], ends[:-1]])
        return [(vertices[a:c], faces[b:d]) for (a, b), (c, d) in zip(starts, ends, strict=True)]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        warnings.warn(f"The parts of a mesh in {str(file)!r} cannot be read ({error}); found again.", stacklevel=4)
        return None


def _write(file: Path, parts: Parts) -> None:
    """Write the parts to a file that other processes see complete or not at all."""
    ends = np.cumsum([(len(vertices), len(faces)) for vertices, faces in parts], axis=0)
    vertices, faces = (np.vstack(some) for some in zip(*parts, strict=True))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as new:
            np.savez_compressed(new, vertices=vertices, faces=faces, ends=ends)
        os.replace(new.name, file)
    except OSError as error:
        what = f"Parts of a mesh cannot be kept ({error}); they will be found again each time."
        warnings.warn(f"{what} Set {FOLDER} to a folder that can be written.", stacklevel=4)
