"""Git LFS pointers: small texts that stand where git would otherwise hold a large file."""

import re
from pathlib import Path

_HEAD = b"version https://git-lfs.github.com/spec/"
_POINTER_MAX = 1024  # bytes; the format allows no larger pointer


def lfs_pointer_size(file: Path) -> int | None:
    """Return the size [bytes] of the content that ``file`` stands for if it is an LFS pointer, else None."""
    if file.stat().st_size > _POINTER_MAX:
        return None
    content = file.read_bytes()
    size = re.search(rb"^size (\d+)$", content, re.MULTILINE)
    return int(size[1]) if content.startswith(_HEAD) and size else None
