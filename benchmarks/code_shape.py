"""What generated code is apart from the names in it: for `same_code.py`.

A program is a set of units (functions, and constants of PTX). A unit is a list of lines in which its own names are
numbers in the order of their first use, and what it calls is a mark. Two programs are the same if they agree from the
entry on, mark by mark.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MARK = "\0"
"""Stands in a line for the next of the unit's calls."""


@dataclass
class Unit:
    """A function or constant without names."""

    name: str
    lines: list[str]
    calls: list[str]
    """Names of other units, in the order of the marks."""

    @functools.cached_property
    def own(self) -> str:
        """Hash of the lines alone."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]


@dataclass
class Program:
    """Units by name, and the one that a launch starts."""

    units: dict[str, Unit]
    entry: str
    notes: list[str] = field(default_factory=list)
    """What else must agree, such as flags of the compiler."""
    _hashes: dict[str, str] = field(default_factory=dict)

    def hash_of(self, name: str) -> str:
        """Hash of a unit with all that it calls."""
        if name not in self._hashes:
            self._hashes[name] = "itself"
            unit = self.units[name]
            told = unit.own + " ".join(map(self.hash_of, unit.calls))
            self._hashes[name] = hashlib.sha256(told.encode()).hexdigest()[:16]
        return self._hashes[name]

    @functools.cached_property
    def key(self) -> str:
        """Equal for programs that are the same."""
        return self.hash_of(self.entry) + hashlib.sha256("\n".join(self.notes).encode()).hexdigest()[:16]

    @functools.cached_property
    def reached(self) -> list[Unit]:
        """Units that the entry leads to."""
        found: dict[str, Unit] = {}
        waiting = [self.entry]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.units[name]
                waiting += reversed(found[name].calls)
        return list(found.values())

    @property
    def size(self) -> int:
        """Number of lines."""
        return sum(len(unit.lines) for unit in self.reached)


def differences(ours: Program, theirs: Program) -> list[str]:
    """Lines that differ, with - before theirs and + before ours; at least one if the programs are not the same."""
    if ours.key == theirs.key:
        return []
    found = [f"- {line}" for line in theirs.notes if line not in ours.notes]
    found += [f"+ {line}" for line in ours.notes if line not in theirs.notes]
    left, right = _unmatched(theirs, ours), _unmatched(ours, theirs)
    for name in sorted({*left, *right}):
        for i in range(max(len(left[name]), len(right[name]))):
            old, new = (units[name][i] if i < len(units[name]) else None for units in (left, right))
            lines = [*_changes(old.lines if old else [], new.lines if new else [])]
            found += [f"  in {name}:", *lines] if lines else []
    return found or ["  the same lines, called in another order"]


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    texts = ([line.replace(MARK, "CALL") for line in lines] for lines in (old, new))
    diff = difflib.unified_diff(*texts, n=0, lineterm="")
    yield from (line[0] + " " + line[1:] for line in diff if not line.startswith(("---", "+++", "@@")))


def _unmatched(program: Program, other: Program) -> defaultdict[str, list[Unit]]:
    """Units whose own lines the other program does not have, by short name."""
    there = Counter(unit.own for unit in other.reached)
    found: defaultdict[str, list[Unit]] = defaultdict(list)
    for unit in program.reached:
        if there[unit.own]:
            there[unit.own] -= 1
        else:
            found[short_name(unit.name)].append(unit)
    return found


def short_name(name: str) -> str:
    """The name in the Python source, as far as one can tell."""
    name = re.sub(r"^_Z\w*?\d+(?=[a-zA-Z_])", "", name).rpartition("__locals__")[2]
    name = re.sub(r"(_cpu|_cuda)_kernel_(forward|backward).*", "", name)
    return re.sub(r"_(\d+|[0-9a-f]{8})(?![a-zA-Z0-9_][a-z]).*$", "", name) or name


def without_comments(text: str) -> str:
    """C++ without comments and empty lines."""
    pattern = r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*'
    text = re.sub(pattern, lambda m: m[0] if m[0][0] == '"' else " ", text, flags=re.S)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


# --- C++ that Warp writes ---

TOKEN = re.compile(
    r'(?P<pp>^[ \t]*#(?:[^\n\\]|\\\n|\\.)*)|(?P<string>"(?:\\.|[^"\\])*")|(?P<name>[A-Za-z_]\w*)'
    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<sign>->|::|<<=|>>=|&&|\|\||[-+*/%&|^=!<>]=|\+\+|--|\S)",
    re.M,
)
NO_TYPES = {"return", "goto", "else", "case", "using", "typedef", "new", "delete", "template", "public", "break"}
OPEN, CLOSE = {"(": ")", "{": "}", "[": "]"}, {")": "(", "}": "{", "]": "["}
Type = tuple[str, ...]


@dataclass
class Function:
    """Tokens of a function."""

    name: str
    head: list[str]
    body: list[str]


class Source:
    """A module that Warp wrote, in C++ or CUDA."""

    def __init__(self, text: str):
        """Find structs and functions."""
        self.structs: dict[str, list[tuple[str, Type]]] = {}
        self.functions: dict[str, Function] = {}
        text = without_comments(text)
        begin = text.rfind("#define adj_int(")
        tokens = [match[0] for match in TOKEN.finditer(text[text.find("\n", begin) :])]
        self._find(tokens)

    def _find(self, tokens: list[str]) -> None:
        head: list[str] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token == "{" and head[-2:] != ["extern", '"C"']:
                end = _closing(tokens, i)
                self._add(head, tokens[i + 1 : end])
                head, i = [], end
            elif token == "{" or token in (";", "}") or token.lstrip().startswith("#"):
                head = []
            else:
                head.append(token)
            i += 1

    def _add(self, head: list[str], body: list[str]) -> None:
        if head[:1] == ["struct"]:
            self.structs[head[1]] = list(_fields(body))
            return
        depth, name = 0, ""
        for token, following in pairwise(head):
            depth += (token == "(") - (token == ")")
            if following == "(" and depth == 0 and re.match(r"[A-Za-z_]\w*$", token):
                name = token
        if name:
            self.functions[name] = Function(name, head, body)

    @functools.cache  # noqa: B019, as long as the source
    def struct_hash(self, name: str) -> str:
        """Return a name of a struct that depends on the types of its fields alone."""
        told = [self.type_text(kind) for _, kind in self.structs[name]]
        return "S" + hashlib.sha256("\n".join(told).encode()).hexdigest()[:8]

    def type_text(self, kind: Type) -> str:
        """A type without names of structs."""
        return " ".join(self.struct_hash(t) if t in self.structs else t for t in kind)

    def program(self, entry: str, notes: Sequence[str] = ()) -> Program:
        """The program of one kernel: all functions that it calls."""
        units: dict[str, Unit] = {}
        waiting = [entry]
        while waiting:
            name = waiting.pop()
            if name not in units:
                units[name] = _Writer(self, self.functions[name]).unit()
                waiting += units[name].calls
        return Program(units, entry, list(notes))


def _closing(tokens: Sequence[str], i: int) -> int:
    """Where the bracket at ``i`` is closed."""
    depth = 0
    for k in range(i, len(tokens)):
        depth += (tokens[k] == tokens[i]) - (tokens[k] == OPEN[tokens[i]])
        if depth == 0:
            return k
    raise ValueError("a bracket is not closed")


def _fields(body: list[str]) -> Iterator[tuple[str, Type]]:
    i = 0
    while i < len(body):
        found = _declaration(body, i)
        if found and body[found[2]] == ";":
            yield found[0], found[1]
            i = found[2] + 1
        elif body[i] == "{":
            i = _closing(body, i) + 1
        else:
            i += 1


def _declaration(tokens: Sequence[str], i: int) -> tuple[str, Type, int] | None:
    """Name, type and the place after the name, if a declaration begins at ``i``."""
    begin = i
    while i < len(tokens) and tokens[i] == "const":
        i += 1
    depth = 0
    while i < len(tokens):
        token = tokens[i]
        if token in NO_TYPES:
            return None
        depth += (token == "<") - (token == ">")
        is_word = re.match(r"[A-Za-z_]\w*$", token)
        if not is_word and token not in ("::", "<", ">", ",", "*", "&") and not (depth and token.isdigit()):
            return None
        if is_word and depth == 0 and i > begin and tokens[i - 1] not in ("::", "const"):
            ends = i + 1 < len(tokens) and tokens[i + 1] in (";", "=")
            return (token, tuple(t for t in tokens[begin:i] if t != "const"), i + 1) if ends else None
        if token == "," and depth == 0:
            return None
        i += 1
    return None


class _Writer:
    """Writes the unit of one function."""

    def __init__(self, source: Source, function: Function):
        self.source, self.function = source, function
        self.types: dict[str, Type] = dict(self._parameters())
        self.values: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.calls: list[str] = []
        self.tokens = self._without_declarations()

    def _parameters(self) -> Iterator[tuple[str, Type]]:
        head = self.function.head
        start = len(head) - 1 - head[::-1].index(self.function.name) + 1
        depth, part = 0, list[str]()
        for token in [*head[start + 1 : _closing(head, start)], ","]:
            depth += (token in "<(") - (token in ">)")
            if token == "," and depth == 0:
                if part:
                    yield part[-1], tuple(t for t in part[:-1] if t != "const")
                part = []
            else:
                part.append(token)

    def _without_declarations(self) -> list[str]:
        """The body; variables of Warp's are known by type then, and constants by value."""
        body, kept, i = self.function.body, list[str](), 0
        while i < len(body):
            found = (
                _declaration(body, i) if i == 0 or body[i - 1] in (";", "{", "}", ":") or "#" in body[i - 1] else None
            )
            if found:
                name, kind, at = found
                self.types[name] = kind
                if re.match(r"var_\d+$", name) and (body[at] == ";" or body[i] == "const"):
                    end = body.index(";", at)
                    if body[at] == "=":
                        value = " ".join(self.source.struct_hash(t) if t in self.source.structs else t
                                         for t in body[at + 1 : end])  # fmt: skip
                        self.values[name] = f"({self.source.type_text(kind)} {value})"
                    i = end + 1
                    continue
            kept.append(body[i])
            i += 1
        return kept

    def unit(self) -> Unit:
        """The function without names."""
        lines = [self._head()]
        line: list[str] = []
        for i, token in enumerate(self.tokens):
            if token.lstrip().startswith("#"):
                lines += [" ".join(line), " ".join(token.split())] if line else [" ".join(token.split())]
                line = []
                continue
            line.append(self._written(i))
            if token in (";", "{", "}"):
                lines.append(" ".join(line))
                line = []
        lines += [" ".join(line)] if line else []
        return Unit(self.function.name, lines, self.calls)

    def _head(self) -> str:
        """How it is compiled, what it returns and takes."""
        head = self.function.head
        before = head[: len(head) - 1 - head[::-1].index(self.function.name)]
        kinds = [self._local(name) for name in dict(self._parameters())]
        written = " ".join([self.source.type_text(tuple(before)), "(", ", ".join(kinds), ")"])
        return re.sub(r"wp_args_\w+", "ARGUMENTS", written)

    def _local(self, name: str) -> str:
        if name in self.values:
            return self.values[name]
        first = name not in self.numbers
        number = self.numbers.setdefault(name, len(self.numbers))
        kind = f":{self.source.type_text(self.types[name])}" if first and name in self.types else ""
        return f"v{number}{kind}"

    def _written(self, i: int) -> str:
        token, before = self.tokens[i], self.tokens[i - 1] if i else ""
        if not re.match(r"[A-Za-z_]", token):
            return token
        if before in (".", "->"):
            return self._field(i)
        if before == "::":
            return token
        if token in self.types:
            return self._local(token)
        if token in self.source.functions:
            self.calls.append(token)
            return MARK
        if token in self.source.structs:
            return self.source.struct_hash(token)
        if re.match(r"(start|end)_(for|while)_\d+$", token):
            return f"{token.split('_')[0]}{self.numbers.setdefault(token.partition('_')[2], len(self.numbers))}"
        return re.sub(r"^wp_args_\w+$", "ARGUMENTS", token)

    def _field(self, i: int) -> str:
        """A field of a known struct by its place, others by name."""
        struct = self._type_before(i - 1)
        names = [name for name, _ in self.source.structs.get(struct, [])]
        return f"#{names.index(self.tokens[i])}" if self.tokens[i] in names else self.tokens[i]

    def _type_before(self, i: int) -> str:
        """The struct of the expression that ends before ``i``, or nothing."""
        kind = self._type_at(i - 1)
        plain = [t for t in kind if t not in ("*", "&", "const")]
        return plain[0] if len(plain) == 1 and plain[0] in self.source.structs else ""

    def _type_at(self, i: int) -> Type:
        token = self.tokens[i]
        if token == ")":
            begin = i
            depth = 0
            while begin >= 0:
                depth += (self.tokens[begin] == ")") - (self.tokens[begin] == "(")
                if depth == 0:
                    break
                begin -= 1
            if begin and re.match(r"[A-Za-z_]", self.tokens[begin - 1]):
                return ()
            return self._type_at(i - 1)
        if i and self.tokens[i - 1] in (".", "->"):
            return dict(self.source.structs.get(self._type_before(i - 1), [])).get(token, ())
        return self.types.get(token, ())


# --- PTX ---

PTX_HEAD = re.compile(r"^(?:\.(?:visible|weak|extern|noinline)\s+)*\.(entry|func)\b", re.M)
PTX_VALUE = re.compile(
    r"^(?:\.(?:visible|weak|extern)\s+)*\.(?:global|shared|const)\b[^;{]*?\s([\w$]+)(?:\[\d*\])*\s*(?:=|;)"
)
PTX_DROPPED = (".version", ".address_size", ".file", ".loc", ".section", ".reg")


def ptx_program(text: str, entry: str) -> Program:
    """The program of an entry of PTX."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text.replace("\0", ""), flags=re.S)
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(PTX_DROPPED)]
    parts: dict[str, list[str]] = {}
    notes, i = [line for line in lines if line.startswith(".target")], 0
    while i < len(lines):
        if PTX_HEAD.match(lines[i]):
            end = next(k for k in range(i, len(lines)) if lines[k] in ("{", ";") or lines[k].endswith(";"))
            head = " ".join(lines[i:end])
            if lines[end] == "{":
                stop = _ptx_end(lines, end)
                parts[_ptx_name(head)] = [head, *lines[end:stop]]
                end = stop - 1
            i = end + 1
        else:
            found = PTX_VALUE.match(lines[i])
            if found:
                parts[found[1]] = [lines[i]]
            i += 1
    units = {name: _ptx_unit(name, body, parts) for name, body in parts.items()}
    return Program(units, entry, notes)


def _ptx_end(lines: Sequence[str], i: int) -> int:
    depth = 0
    for k in range(i, len(lines)):
        depth += lines[k].count("{") - lines[k].count("}")
        if depth == 0:
            return k + 1
    raise ValueError("a function does not end")


def _ptx_name(head: str) -> str:
    rest = re.sub(r"^.*?\.(?:entry|func)\s*(?:\(.*?\)\s*)?", "", head)
    return re.match(r"[\w$]+", rest)[0]  # type: ignore[index]


def _ptx_unit(name: str, body: Sequence[str], parts: dict[str, list[str]]) -> Unit:
    """Registers, labels and parameters by number, other functions as marks."""
    numbers: defaultdict[str, dict[str, int]] = defaultdict(dict)
    calls: list[str] = []

    def number(kind: str, word: str) -> str:
        return f"{kind}{numbers[kind].setdefault(word, len(numbers[kind]))}"

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        register = re.match(r"%([a-z]+)\d+$", word)
        if register and word != "%clock64":
            return number(f"%{register[1]}", word)
        if word.startswith("$"):
            return number("LABEL", word)
        if word == name:
            return "SELF"
        if word in parts:
            calls.append(word)
            return MARK
        if word.startswith(name + "_param_"):
            return "PARAM_" + word.removeprefix(name + "_param_")
        return re.sub(r"^(__local_depot|prototype_)\d+$", r"\1", word)

    lines = [re.sub(r"[%$]?[\w$]+", replaced, line) for line in body]
    return Unit(name, lines, calls)
