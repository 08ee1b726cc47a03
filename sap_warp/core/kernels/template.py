"""Device functions, structs and kernels that are written once, at module level, for all precisions and devices.

A `Parameter` is something that a variant of the code fixes: the types of one precision, or a switch. A module declares
its parameters, or imports them, and uses them by name like constants:

    cost = Parameter("cost")
    energy = cost.scalar

    @device
    def half(x: energy) -> energy:
        return energy(0.5) * x

``half.of(Variant(cost=FP64))`` is the Warp function for double precision, made on first use. Inside a device function
every global name that is a template stands for its instance in the same variant, so functions call each other by name
and are imported like any other. Variants that agree in all that an instance depends on share it.

Modules that use this begin with ``from __future__ import annotations``: annotations are evaluated for each variant.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import warp as wp

_LOCK = threading.RLock()
"""Threads that build simulations share instances."""

ABSENT = object()
"""What `Variant.peek` returns for a parameter that the variant does not fix."""


class Variant:
    """The values of parameters by name; ``variant | {...}`` is one with other values."""

    DEFAULTS: ClassVar[dict[str, Callable[[], Any]]] = {}
    """What finds the values of parameters that a variant need not fix."""

    def __init__(self, **values: Any):
        """Fix the parameters."""
        self._values = values

    def __getitem__(self, name: str) -> Any:
        value = self.peek(name)
        if value is ABSENT:
            known = ", ".join(sorted(self._values)) or "nothing"
            raise KeyError(f"this variant of the kernels does not say what {name!r} is; it fixes {known}")
        return value

    def peek(self, name: str) -> Any:
        """The value of a parameter, or `ABSENT`."""
        if name not in self._values and name in self.DEFAULTS:
            return self.DEFAULTS[name]()
        return self._values.get(name, ABSENT)

    def __or__(self, values: Mapping[str, Any]) -> Variant:
        return Variant(**{**self._values, **values})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variant) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Variant({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


class _Recording:
    """A variant that remembers which of its parameters were read."""

    def __init__(self, variant: Any):
        self._variant = variant
        self.read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        self.read[name] = self._variant[name]
        return self.read[name]

    def peek(self, name: str) -> Any:
        return self._variant.peek(name)


class _Overlay:
    """A variant in which some parameters are what templates say."""

    def __init__(self, variant: Any, templates: Mapping[str, Any]):
        self._variant, self._templates = variant, templates

    def __getitem__(self, name: str) -> Any:
        return instance(self._templates[name], self._variant) if name in self._templates else self._variant[name]

    def peek(self, name: str) -> Any:
        if name not in self._templates:
            return self._variant.peek(name)
        template = self._templates[name]
        return self._variant.peek(template.key) if isinstance(template, Parameter) else self[name]


class Template:
    """Something that exists once for each variant."""

    def __init__(self, make: Callable[[Any], Any]):
        """``make(variant)`` makes the one of a variant; it reads ``variant["name"]`` or ``other.of(variant)``."""
        self._make = make
        self._made: list[tuple[dict[str, Any], Any]] = []

    def of(self, variant: Any) -> Any:
        """The instance in a variant."""
        with _LOCK:
            for read, made in self._made:
                if all(variant.peek(name) == value for name, value in read.items()):
                    for name in read:
                        variant[name]  # whoever is being made from this depends on it too
                    return made
            recording = _Recording(variant)
            made = self._make(recording)
            self._made.append((recording.read, made))
            return made

    def on(self, **values: Any) -> Any:
        """Return this template with other parameters: ``f.on(vector=cost)`` has the types of ``cost`` as ``vector``."""
        return Template(lambda variant: self.of(_Overlay(variant, values)))


class Parameter(Template):
    """What a variant fixes under a name. Its attributes are templates: ``cost.scalar`` is the scalar of ``cost``."""

    def __init__(self, name: str):
        """``name`` is that in the variant."""
        super().__init__(lambda variant: variant[name])
        self.key = name

    def of(self, variant: Any) -> Any:
        """The value in a variant."""
        return variant[self.key]

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return Template(lambda variant: getattr(self.of(variant), attribute))


class Constant(Template):
    """A value that is equal in every variant: ``load_quat.on(number=Constant(FP64))``."""

    def __init__(self, value: Any):
        """``value`` is not a template."""
        super().__init__(lambda _: value)


def instance(value: Any, variant: Any) -> Any:
    """``value`` itself, or its instance if it is a template."""
    return value.of(variant) if isinstance(value, Template) else value


class Device(Template):
    """A device function; ``function`` is the Python function as it was written."""

    def __init__(self, function: Callable[..., Any], decorate: Callable[[Any, Any], Any]):
        """``decorate(copy, variant)`` makes a Warp function of a copy that sees the names of a variant."""
        super().__init__(lambda variant: decorate(bound(function, variant), variant))
        self.function = function
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__


def device(function: Any = None, *, inline: Any = None) -> Any:
    """Decorate a device function.

    ``inline`` is that of ``wp.func``, or a template for it.
    """
    if function is None:
        return lambda f: device(f, inline=inline)
    return Device(function, lambda copy, variant: _warp_function(copy, instance(inline, variant)))


def composed(name: str, parts: list[Device], inline: Any = None) -> Any:
    """The device function that calls several with the same parameters, one after the other.

    If they return something, each gets as its last argument what the one before has returned.
    """
    plain = parts[0].function
    names, returns = list(inspect.signature(plain).parameters), "return" in plain.__annotations__
    calls = [f"part_{i}({', '.join(names)})" for i in range(len(parts))]
    lines = [f"    {names[-1]} = {call}\n" if returns else f"    {call}\n" for call in calls]
    text = f"def {name}({', '.join(names)}):\n{''.join(lines)}" + (f"    return {names[-1]}\n" if returns else "")
    known = {**plain.__globals__, **{f"part_{i}": part for i, part in enumerate(parts)}}
    function = _from_text(text, f"<{plain.__module__}: {name} in turn>", known)[name]
    function.__module__, function.__annotations__ = plain.__module__, plain.__annotations__
    return device(function, inline=inline)


def native(snippet: Any) -> Any:
    """Decorate a stub: the device function with this native code, a text or a template for one.

    ``$name`` stands for the scalar type of that parameter of the variant.
    """

    def decorate(function: Any) -> Template:
        def make(variant: Any) -> Any:
            code = with_types(instance(snippet, variant), variant)
            return native_stub(function, annotations_of(function, variant), code)

        return Template(make)

    return decorate


def native_stub(plain: Any, annotations: dict[str, Any], snippet: str, suffix: str = "") -> Any:
    """The native device function with this code and the parameters of a Python function."""
    text = "@wp.func_native(snippet)\ndef {name}({names}): ...\n"  # Warp sees by the decorator that there is a result
    return wp.func_native(snippet)(written(plain, annotations, suffix, text, snippet=""))


def written(plain: Any, annotations: dict[str, Any], suffix: str, text: str, **known: Any) -> Any:
    """A function made from ``text``, with the parameters of ``plain``. Warp reads the source of what it compiles."""
    name = f"{plain.__qualname__}{suffix}"
    names = ", ".join(inspect.signature(plain).parameters)
    known = {"wp": types.SimpleNamespace(func_native=lambda _: lambda f: f), **known}
    stub = _from_text(text.format(name="stub", names=names), f"<{plain.__module__}.{name}>", known)["stub"]
    stub.__qualname__, stub.__module__, stub.__annotations__ = name, plain.__module__, annotations
    return stub


def _from_text(text: str, file: str, names: dict[str, Any]) -> dict[str, Any]:
    """Execute ``text`` with these names, as if it stood in a file."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names


def device_struct(declared: type) -> Any:
    """Decorate a class of typed fields; it becomes a Warp struct.

    An annotation may be a `Sized`, whose count `sizes` tells.
    """
    fields = declared.__annotations__

    def make(variant: Any) -> Any:
        names = _instances(vars(sys.modules[declared.__module__]), _words(fields.values()), variant)
        annotations = {name: _unsized(_evaluated(text, names)) for name, text in fields.items()}
        body = {"__annotations__": annotations, "__module__": declared.__module__, "__doc__": declared.__doc__}
        return wp.struct(type(declared.__name__, (), body))

    template = Template(make)
    template.__doc__, template.declared = declared.__doc__, declared
    return template


def array_of(dtype: Template) -> Template:
    """The type of one-dimensional arrays of a template's instances, as a kernel's parameter."""
    return Template(lambda variant: wp.array[dtype.of(variant)])


class Sized:
    """The type of an array field, and what counts its entries."""

    def __init__(self, dtype: Any, count: str, is_scratch: bool = False):
        """``count`` names what there is one entry of."""
        self.type, self.count, self.is_scratch = wp.array(dtype=dtype), count, is_scratch


def sized(count: str, is_scratch: bool = False) -> Callable[[Any], Sized]:
    """Make a type of array fields.

    With ``by_dof = sized("dof")``, the field ``v: by_dof(scalar)`` is an array with an entry per dof. Scratch is what
    worlds share one after the other (`scratch.Scratch`); its count tells where that of a world begins.
    """
    return lambda dtype: Sized(dtype, count, is_scratch)


def sizes(struct: Any, variant: Any) -> dict[str, Sized]:
    """The fields of a `device_struct` that say what counts their entries."""
    declared = struct.declared
    names = _instances(vars(sys.modules[declared.__module__]), _words(declared.__annotations__.values()), variant)
    found = {name: _evaluated(text, names) for name, text in declared.__annotations__.items()}
    return {name: value for name, value in found.items() if isinstance(value, Sized)}


def bound(function: Any, variant: Any) -> Any:
    """A copy of a function in which templates are their instances in a variant."""
    names = _instances(function.__globals__, set(_global_names(function.__code__)), variant)
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__annotations__ = annotations_of(function, variant)
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def annotations_of(function: Any, variant: Any) -> dict[str, Any]:
    """The types of a function's parameters and result in a variant."""
    annotations = function.__annotations__
    names = _instances(function.__globals__, _words(map(str, annotations.values())), variant)
    return {name: _evaluated(text, names) for name, text in annotations.items()}


def with_types(code: str, variant: Any) -> str:
    """Native code in which ``$name`` is replaced by the scalar type of that parameter."""
    return re.sub(r"\$(\w+)", lambda found: str(variant[found[1]].c_name), code)


def _warp_function(_copy: Any, _inline: Any) -> Any:
    """Warp looks for overloads among the names of the caller's scope, so there are no others here."""
    return wp.func(_copy, inline=_inline) if _inline is not None else wp.func(_copy)


def _instances(known: dict[str, Any], used: set[str], variant: Any) -> dict[str, Any]:
    """The names of a module as a variant sees them."""
    return known | {name: known[name].of(variant) for name in sorted(used) if isinstance(known.get(name), Template)}


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that a function and the functions within it look up in their module."""
    yield from (op.argval for op in dis.get_instructions(code) if op.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _words(texts: Any) -> set[str]:
    """Names in annotations; what follows a dot is an attribute, not a name of the module."""
    return set(re.findall(r"(?<![\w.])\w+", " ".join(texts)))


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    return eval(annotation, names) if isinstance(annotation, str) else annotation


def _unsized(annotation: Any) -> Any:
    return annotation.type if isinstance(annotation, Sized) else annotation
