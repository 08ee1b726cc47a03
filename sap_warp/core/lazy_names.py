"""Public names of a package that are imported when they are first asked for; imports nothing of this package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, submodule_of: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Type checkers follow only literal imports and a literal list, so the package repeats the names in ``__all__`` and
    under ``if TYPE_CHECKING:``; tests/test_package.py keeps the three in step.

    Args:
        package: The package's ``__name__``.
        submodule_of: Public name -> submodule that defines it; a submodule that is itself public maps to its own name.
    """

    def load(name: str) -> Any:
        if name not in submodule_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        submodule = submodule_of[name]
        module = import_module(f".{submodule}", package)
        value = module if name == submodule else getattr(module, name)
        setattr(sys.modules[package], name, value)  # the next access no longer comes here
        return value

    return load
