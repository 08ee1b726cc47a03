"""Recognize files that are taken for scenes but are none: robots, stages, schemas, folders and devices."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SUFFIXES = {".urdf": "urdf", ".mjcf": "mjcf", ".usd": "usd", ".usda": "usd", ".usdc": "usd", ".usdz": "usd"}
_MAGIC = ((b"PXR-USDC", "usd"), (b"#usda", "usd"), (b"PK\x03\x04", "usd"))
_FIRST_TAG = re.compile(rb"<(robot|mujoco|mujocoinclude|sdf|\w+)[\s/>]")
_NAMES = {"usd": "a USD stage", "urdf": "a URDF file", "mjcf": "an MJCF file"}


def describe_non_file(mode: int) -> str | None:
    """Say what something without content is, from its mode; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def find_kind(file: Path, content: bytes) -> str | None:
    """Return ``"urdf"``, ``"mjcf"`` or ``"usd"`` for a robot or stage, by its content or the ending of its name."""
    head = _head(content)
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    if kind is None and head.startswith(b"<"):
        tag = _FIRST_TAG.search(head)
        return {b"robot": "urdf", b"mujoco": "mjcf", b"mujocoinclude": "mjcf"}.get(tag[1] if tag else b"")
    return kind or _SUFFIXES.get(file.suffix.lower())


def _head(content: bytes) -> bytes:
    return content[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()


def describe_other_file(file: Path, content: bytes) -> str | None:
    """Say why ``content`` is no scene if it is a robot or stage, and how a scene would name it."""
    kind = find_kind(file, content)
    if kind is None:
        if _head(content).startswith(b"<"):
            tag = _FIRST_TAG.search(_head(content))
            shown = f"<{tag[1].decode(errors='replace')}>" if tag else "XML"
            return f"this is {shown}, not a scene; a scene is YAML or JSON"
        return None
    return (
        f"this is {_NAMES[kind]}, not a scene; a scene names it: "
        f"'assets: [{{type: {kind}, source: {file.name}}}]' in a YAML file beside it"
    )


def is_json_schema(data: Any) -> bool:
    """Return True if ``data`` is a JSON schema, such as `sap-warp schema` writes, instead of a scene."""
    return isinstance(data, Mapping) and "$schema" in data and ("properties" in data or "$defs" in data)
