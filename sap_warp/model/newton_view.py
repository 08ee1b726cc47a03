"""Base of views of Newton objects that add a little of their own."""

from __future__ import annotations

from typing import Any, ClassVar


class NewtonView:
    """Base of classes that wrap one Newton object; attributes that they do not define are that object's.

    Reading and writing go to the wrapped object, so a change made through either of the two is seen by both.
    """

    _wrapped: ClassVar[str]
    """Name of the attribute that holds the wrapped object."""

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that the class does not define; before construction there is nothing to forward to.
        if name == self._wrapped:
            raise AttributeError(name)
        return getattr(getattr(self, self._wrapped), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == self._wrapped:
            super().__setattr__(name, value)
        else:
            setattr(getattr(self, self._wrapped), name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(getattr(self, self._wrapped))})
