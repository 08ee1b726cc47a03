"""The base of all blocks of a scene: unknown keys are errors, aliases are understood."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from .errors import Complaint
from .values import show


class Section(BaseModel):
    """A mapping of a scene with a fixed set of keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    aliases: ClassVar[dict[str, str]] = {}
    """Other spellings of keys, each with the canonical one."""

    @classmethod
    def accepted_keys(cls) -> list[str]:
        """All keys of this block, aliases last."""
        return [*cls.model_fields, *cls.all_aliases()]

    @classmethod
    def all_aliases(cls) -> dict[str, str]:
        """Aliases of this class and of those it extends."""
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
            name = aliases.get(key, key) if isinstance(key, str) else str(key)
            if name in result:
                raise Complaint(f"{spelling[name]!r} and {key!r} mean the same; give one of them")
            result[name] = part
            spelling[name] = key
        return result

    def given(self) -> dict[str, Any]:
        """The fields that the scene sets, by canonical name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
