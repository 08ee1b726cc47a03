"""Reading PTX: the text that NVRTC writes, as functions of instructions.

Only what NVRTC writes is read: one statement per `;`, labels, scopes of inline assembly, register declarations,
parameters and variables of the state spaces. Whatever is not understood is an error that shows the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

COMMENT = re.compile(r"//[^\n]*")
LABEL = re.compile(r"^(\$?[\w$]+)\s*:(?!:)")
VARIABLE = re.compile(
    r"^(?:\.visible\s+|\.extern\s+|\.weak\s+)*\.(const|global|shared|local)\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)"
    r"(\[(\d*)\])?(?:\s*=\s*(.*))?$",
    re.S,
)
PARAMETER = re.compile(r"^\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$")
HEAD = re.compile(r"^(?:\.visible\s+|\.extern\s+|\.weak\s+)*\.(entry|func)\b")
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*")
BYTES = {"pred": 1} | {f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (8, 16, 32, 64)}


class PtxError(ValueError):
    """The text has something that the emulator does not know."""


@dataclass(frozen=True)
class Variable:
    """A named piece of memory: parameter, constant, shared or local."""

    name: str
    space: str
    type: str
    count: int
    is_array: bool
    align: int = 1
    initial: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return BYTES[self.type] * self.count


@dataclass(frozen=True)
class Instruction:
    """``@guard opcode operands;``"""

    line: int
    text: str
    guard: str | None
    is_guard_negated: bool
    parts: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def opcode(self) -> str:
        """With all its modifiers."""
        return ".".join(self.parts)

    def has(self, modifier: str) -> bool:
        """Whether the opcode has a modifier."""
        return modifier in self.parts[1:]


@dataclass(frozen=True)
class Label:
    """Where branches go."""

    name: str


@dataclass(frozen=True)
class Scope:
    """An opening or closing brace, of inline assembly or around a call."""

    brace: str
    registers: tuple[tuple[str, str], ...] = ()


@dataclass
class Function:
    """An entry (kernel) or a function that is not inlined."""

    name: str
    is_entry: bool
    parameters: list[Variable]
    results: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    """Type of each register class, like ``%rd``, and of single registers."""
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label | Scope | Variable] = field(default_factory=list)


@dataclass
class Module:
    """All of a file."""

    variables: dict[str, Variable]
    functions: dict[str, Function]

    @property
    def entries(self) -> list[Function]:
        """The kernels."""
        return [f for f in self.functions.values() if f.is_entry]


def parse(text: str) -> Module:
    """Read a file's text.

    Raises:
        PtxError: Something in it is not known.
    """
    text = COMMENT.sub("", text.replace("\0", ""))
    module = Module({}, {})
    for line, statement, body in _top_level(text):
        if HEAD.match(statement):
            if body is None:
                continue  # a declaration; the definition follows
            function = _function(statement)
            _fill(function, body, line)
            module.functions[function.name] = function
        elif not statement.startswith((".version", ".target", ".address_size", ".file", ".pragma")):
            variable = _variable(statement, line)
            module.variables[variable.name] = variable
    return module


def _top_level(text: str):
    """(line, statement, body or None) of all declarations and functions."""
    at, size = 0, len(text)
    while at < size:
        line = text.count("\n", 0, at) + 1
        directive = re.compile(r"\s*(\.(?:version|target|address_size|file)[^\n]*)\n").match(text, at)
        if directive:
            at = directive.end()
            yield line, directive[1].strip(), None
            continue
        head = re.compile(r"[^;{]*").match(text, at)
        assert head
        end = head.end()
        if end >= size:
            return
        if text[end] == "{" and HEAD.match(head[0].strip()):
            close = _closing(text, end)
            yield text.count("\n", 0, end) + 1, head[0].strip(), text[end + 1 : close]
            at = close + 1
        else:
            end = text.index(";", end)
            yield line, text[at:end].strip(), None
            at = end + 1


def _closing(text: str, at: int) -> int:
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise PtxError("a brace is not closed")


def _function(head: str) -> Function:
    found = re.match(r"^(.*?)\.(entry|func)\s*(?:\(([^()]*)\))?\s*([\w$]+)\s*(?:\((.*?)\))?[^()]*$", head, re.S)
    if not found:
        raise PtxError(f"function head: {head[:200]}")
    _, kind, results, name, parameters = found.groups()
    return Function(name, kind == "entry", _parameters(parameters), _parameters(results))


def _parameters(text: str | None) -> list[Variable]:
    return [_parameter(p.strip()) for p in (text or "").split(",") if p.strip()]


def _parameter(text: str) -> Variable:
    found = PARAMETER.match(text)
    if not found:
        raise PtxError(f"parameter: {text}")
    align, kind, name, count = found.groups()
    return Variable(name, "param", kind, int(count or 1), count is not None, int(align or BYTES[kind]))


def _variable(text: str, line: int) -> Variable:
    found = VARIABLE.match(text)
    if not found:
        raise PtxError(f"line {line}: {text[:200]}")
    space, align, kind, name, array, count, initial = found.groups()
    return Variable(name, space, kind, int(count or 1) if array else 1, bool(array), int(align), initial)


def _statements(body: str, line: int):
    """(line, text) of labels, braces and statements; the braces of operands stay in their statement."""
    piece = re.compile(r"\s*(?:(\$[\w$]+:)|([{}])|([^;{}]*(?:\{[^;{}]*\}[^;{}]*)*;))")
    at, end = 0, len(body.rstrip())
    while at < end:
        found = piece.match(body, at)
        if not found:
            raise PtxError(f"line {line}: {body[at : at + 120].strip()}")
        start = found.start(found.lastindex or 0)
        line += body.count("\n", at, start)
        yield line, found[found.lastindex or 0].strip()
        line += body.count("\n", start, found.end())
        at = found.end()


def _fill(function: Function, body: str, line: int) -> None:
    depth = 0
    for at, text in _statements(body, line):
        if text in "{}":
            depth += 1 if text == "{" else -1
            function.body.append(Scope(text))
        elif text.endswith(":"):
            function.body.append(Label(text[:-1]))
        elif text.startswith(".reg"):
            registers = _registers(text.rstrip(";"))
            function.registers.update(registers)
            if depth:
                function.body.append(Scope("", tuple(registers.items())))
        elif text.startswith((".local", ".shared")):
            function.variables.append(_variable(text.rstrip(";").strip(), at))
        elif text.startswith(".param"):
            function.body.append(_parameter(text.rstrip(";").strip()))
        elif not text.startswith((".loc", ".pragma")):
            function.body.append(instruction(text.rstrip(";").strip(), at))


def _registers(text: str) -> dict[str, str]:
    """Type by register, or by ``%r<>`` for a numbered class."""
    found = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.S)
    if not found:
        raise PtxError(f"registers: {text}")
    return {re.sub(r"<\d+>", "<>", name.strip()): found[1] for name in found[2].split(",")}


def instruction(text: str, line: int) -> Instruction:
    """Read one instruction, without its semicolon."""
    found = re.match(r"^(?:@(!?)(%[\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", text, re.S)
    if not found:
        raise PtxError(f"line {line}: {text}")
    negated, guard, opcode, rest = found.groups()
    operands = tuple(o.strip() for o in OPERAND.findall(rest))
    return Instruction(line, " ".join(text.split()), guard, bool(negated), tuple(opcode.split(".")), operands)
