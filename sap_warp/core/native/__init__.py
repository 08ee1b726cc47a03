"""C++ for one lane on the CPU: headers that the CPU build of a kernel includes.

Only where it is measured to pay. Every function in a header has a plain Warp function beside its caller, which runs on
CUDA and in blocks of several lanes, and which tests compare it with.

| header | what |
| --- | --- |
| `vectors.h` | eight numbers at a time: loads, transpositions, sums; the other headers build on it |
| `cholesky.h` | factorization and solution with packed rows (`kernels/packed_rows.py`) |
| `rows.h` | products with packed rows (`kernels/packed_rows.py`) |
| `tree8.h` | kinematics and dynamics, eight bodies or dofs at a time (`solver/state/`, `solver/dynamics/`) |
| `stiffness.h` | contact stiffness of a body in six columns and between two (`solver/objective/`) |
| `contact8.h` | contact rows, eight at a time (`solver/objective/contacts.py`) |
| `planes.h` | heights above the faces of a hull (`collision/narrow/hulls/planes.py`) |
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

_left_out: frozenset[str] = frozenset()


def left_out() -> frozenset[str]:
    """Headers that kernels made now do not use, by name without ending."""
    return _left_out


@contextlib.contextmanager
def without(*headers: str) -> Iterator[None]:
    """Let what is made inside run the Warp functions in place of those of some headers, ``"cholesky"`` for example.

    For tests, which compare both, and for measuring what a header gains. Make whole solvers inside, and step them
    inside too: tables that only the Warp functions need are made with a solver.

    Raises:
        ValueError: There is no such header, or it has no functions of its own.
    """
    global _left_out
    known = {name.removesuffix(".h") for name in HEADERS} - {"vectors"}
    if unknown := set(headers) - known:
        raise ValueError(f"no native header {sorted(unknown)}; there are {', '.join(sorted(known))}")
    before, _left_out = _left_out, _left_out | set(headers)
    try:
        yield
    finally:
        _left_out = before


HEADERS = ("vectors.h", "cholesky.h", "rows.h", "stiffness.h", "tree8.h", "contact8.h", "planes.h")
"""In the order in which they include each other."""


@functools.cache
def compiler_flags() -> str:
    """Flags that make the headers part of a kernel's CPU build, and their text part of its hash."""
    folder = Path(__file__).parent
    text = "".join((folder / name).read_text(encoding="utf-8") for name in HEADERS)
    digest = hashlib.sha256(text.encode()).hexdigest()[:15]
    if re.search(r"\s", str(folder)):  # Warp splits flags at white space
        folder = _copy_without_spaces(folder, digest)
    return " ".join([*(f"-include {folder / name}" for name in HEADERS), f"-DSAP_WARP_NATIVE=0x{digest}"])


def _copy_without_spaces(folder: Path, digest: str) -> Path:
    """A folder of temporary files with the same headers, whose path can be part of the flags."""
    target = Path(tempfile.gettempdir()) / f"sap_warp_native_{digest}_{os.getuid()}"
    if re.search(r"\s", str(target)):
        raise OSError(
            f"Kernels cannot be compiled: the package lies in '{folder}' and temporary files in '{target.parent}', "
            "and the compiler takes neither path with white space. Set TMPDIR to a folder without it."
        )
    target.mkdir(exist_ok=True)
    for name in HEADERS:
        with tempfile.NamedTemporaryFile("w", dir=target, delete=False, encoding="utf-8") as part:
            part.write((folder / name).read_text(encoding="utf-8"))
        os.replace(part.name, target / name)
    return target
