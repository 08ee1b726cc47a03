"""The base of all blocks of a scene: unknown keys are errors, aliases are understood."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationInfo, model_validator

from .errors import Complaint
from .values import show


class Section(BaseModel):
    """A mapping of a scene with a fixed set of keys."""

    # deferred: a validator made when a scene is read takes half of the time of one made for each class at import
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)

    aliases: ClassVar[dict[str, str]] = {}
    """Other spellings of keys, each with the canonical one."""

    short_forms: ClassVar[list[dict[str, Any]]] = []
    """JSON schemas of other ways to write this block."""

    @classmethod
    def accepted_keys(cls) -> list[str]:
        """Return all keys of this block, aliases last."""
        return [*cls.model_fields, *cls.all_aliases()]

    @classmethod
    def all_aliases(cls) -> dict[str, str]:
        """Return the aliases of this class and of those it extends."""
        found: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            found.update(base.__dict__.get("aliases", {}))
        return found

    @model_validator(mode="before")
    @classmethod
    def _use_canonical_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            raise Complaint(f"found {show(value)}; expected a mapping")
        if info.context is not None:
            info.context[id(value)] = cls  # lets a message list the keys that are valid here
        aliases = cls.all_aliases()
        result: dict[Any, Any] = {}
        spelling: dict[str, Any] = {}
        for key, part in value.items():
            name = aliases.get(key, key) if isinstance(key, str) else str(key)  # as SceneDocument.key_of has it
            if name in result:
                raise Complaint(f"{spelling[name]!r} and {key!r} mean the same; give one of them")
            result[name] = part
            spelling[name] = key
        return result

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        self._check()
        return self

    def _check(self) -> None:
        """Complain about fields that do not go together; overridden by blocks that have such fields."""

    def _expect_one_of(self, *names: str) -> None:
        """Complain unless exactly one of these fields is given."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise Complaint(
                f"found {' and '.join(given) or 'none'}; expected one of {', '.join(names[:-1])} and {names[-1]}"
            )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema for editors, with aliases and the short forms of this block."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema.setdefault("properties", {})
        aliases = {alias: name for alias, name in cls.all_aliases().items() if name in properties}
        for alias, name in aliases.items():
            properties[alias] = {**properties[name], "description": f"The same as {name}."}
        required = [name for name in schema.get("required", []) if name not in aliases.values()]
        schema.pop("required", None)
        if required:
            schema["required"] = required
        _tidy(schema)
        if not cls.short_forms:
            return schema
        return {"anyOf": [*cls.short_forms, schema], "description": schema.get("description", "")}

    def given(self) -> dict[str, Any]:
        """Return the fields that the scene sets, by canonical name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


def _tidy(schema: dict[str, Any]) -> None:
    """Drop what pydantic adds and no editor needs: titles, and null as default of fields that are not given."""
    schema.pop("title", None)
    for entry in schema.get("properties", {}).values():
        entry.pop("title", None)
        if "default" in entry and entry["default"] is None:
            del entry["default"]
