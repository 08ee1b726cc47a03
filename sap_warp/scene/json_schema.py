"""The JSON schema of scene files for editors, made from the classes that read them."""

from __future__ import annotations

from typing import Any

from .schema import Scene
from .text.values import NUMBER_SCHEMA


def scene_json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a scene."""
    schema = _share_numbers(Scene.model_json_schema(mode="validation"))
    schema["$defs"]["number"] = NUMBER_SCHEMA
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "SAP Warp scene", **schema}


def _share_numbers(part: Any) -> Any:
    """Refer to one description of numbers instead of repeating it some hundred times."""
    if isinstance(part, list):
        return [_share_numbers(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("anyOf") == NUMBER_SCHEMA["anyOf"]:
        rest = {key: value for key, value in part.items() if key != "anyOf"}
        if rest.get("description") == NUMBER_SCHEMA["description"]:
            del rest["description"]
        return {"$ref": "#/$defs/number", **rest}
    return {key: _share_numbers(value) for key, value in part.items()}
