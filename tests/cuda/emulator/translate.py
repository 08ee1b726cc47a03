"""PTX to C: one C function per kernel, which one lane runs from begin to end.

Between the basic blocks of the text stand calls that count them. What each block consists of is known here, so the
counts of blocks become counts of instructions of any kind.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from .opcodes import ENDS_BLOCK, OPCODES, kinds
from .operands import C_TYPE, Operands, identifier
from .ptx import Function, Instruction, Label, Module, PtxError, Scope, Variable


class UnknownOpcodeError(PtxError):
    """An instruction that the emulator does not know yet."""


@dataclass
class Translation:
    """A kernel as C."""

    name: str
    c: str
    parameter_sizes: list[int]
    shared_bytes: int
    blocks: list[Counter[str]] = field(default_factory=list)
    """Instructions of each basic block by kind; ``all`` is all of them."""
    texts: dict[int, str] = field(default_factory=dict)
    """Instructions by line, for messages."""
    block_of: dict[int, int] = field(default_factory=dict)
    """Basic blocks by line."""


class _Writer:
    """Collects the C text of one kernel and of the functions it calls."""

    def __init__(self, module: Module, entry: Function):
        self.module, self.entry = module, entry
        self.shared: dict[str, int] = {}
        self.shared_bytes = 0
        self.constants: dict[str, Variable] = {}
        self.blocks: list[Counter[str]] = []
        self.texts: dict[int, str] = {}
        self.block_of: dict[int, int] = {}
        self.functions: dict[str, str] = {}

    def symbol(self, function: Function, name: str) -> str:
        """The address of a variable: of shared ones the offset."""
        if name in self.shared:
            return f"{self.shared[name]}ull"
        if name in self.module.variables:
            self._use(self.module.variables[name])
            return f"{self.shared[name]}ull" if name in self.shared else f"(uintptr_t)&constants.{identifier(name)}"
        return f"(uintptr_t){identifier(name)}"

    def _use(self, variable: Variable) -> None:
        if variable.space == "shared":
            start = -(-self.shared_bytes // variable.align) * variable.align
            self.shared[variable.name] = start
            self.shared_bytes = start + variable.size
        else:
            self.constants[variable.name] = variable

    def function(self, f: Function) -> str:
        """Its text."""
        for variable in f.variables:
            if variable.space == "shared":
                self._use(variable)
        operands = Operands(f.registers, lambda name: self.symbol(f, name))
        lines: list[str] = []
        is_open = False  # whether the current basic block is counted already
        for item in f.body:
            if isinstance(item, Label):
                lines.append(f"{identifier(item.name)}: ;")
                is_open = False
            elif isinstance(item, Scope):
                lines.append(item.brace + "".join(f" {C_TYPE[t]} {identifier(n)} = 0;" for n, t in item.registers))
            elif isinstance(item, Variable):
                lines.append(_memory(item))
            else:
                if not is_open:
                    lines.append(f"rt_count(L, {len(self.blocks)});")
                    self.blocks.append(Counter())
                lines.append(self._instruction(f, item, operands))
                self.blocks[-1].update(["all", *kinds(item)])
                self.block_of[item.line] = len(self.blocks) - 1
                is_open = item.parts[0] not in ENDS_BLOCK
        locals_ = [_memory(v) for v in f.variables if v.space == "local"]
        return "\n".join([*_declare(f, lines), *locals_, *lines])

    def _instruction(self, f: Function, i: Instruction, operands: Operands) -> str:
        self.texts[i.line] = i.text
        emit = OPCODES.get(i.parts[0])
        where = f"kernel {self.entry.name}, line {i.line}: {i.text}"
        if emit is None:
            raise UnknownOpcodeError(f"unknown opcode {i.opcode} in {where}")
        if i.parts[0] == "call":
            self._callee(i)
        try:
            statement = emit(i, operands)
        except (PtxError, KeyError) as error:
            raise UnknownOpcodeError(f"unknown form of {i.opcode} ({error}) in {where}") from error
        if i.guard:
            return f"if ({'!' if i.is_guard_negated else ''}{identifier(i.guard)}) {{ {statement} }}"
        return statement

    def _callee(self, i: Instruction) -> None:
        name = next(operand for operand in i.operands if not operand.startswith("("))
        if name not in self.module.functions:
            raise UnknownOpcodeError(f"kernel {self.entry.name}, line {i.line}: {i.text} calls an unknown function")
        if name not in self.functions:
            f = self.module.functions[name]
            self.functions[name] = ""  # it may call itself
            taken = ", ".join(["lane_t* L", *(f"char* {identifier(v.name)}" for v in [*f.results, *f.parameters])])
            self.functions[name] = f"static void {identifier(name)}({taken}) {{\n{self.function(f)}\n}}\n"


def _memory(v: Variable) -> str:
    return f"char {identifier(v.name)}[{max(v.size, 8)}] __attribute__((aligned(16)));"


def _declare(f: Function, lines: list[str]) -> list[str]:
    """Variables for the registers that are used."""
    scoped = {n for item in f.body if isinstance(item, Scope) for n, _ in item.registers}
    used = set(re.findall(r"\bS__\w+\b", "\n".join(lines)))
    classes = {n[:-2]: t for n, t in f.registers.items() if n.endswith("<>")}
    declared = []
    for name in sorted(used):
        found = re.match(r"S__([A-Za-z]+)(\d+)$", name)
        if found and f"%{found[1]}" in classes:
            declared.append(f"{C_TYPE[classes['%' + found[1]]]} {name} = 0;")
    for name, kind in f.registers.items():
        if not name.endswith("<>") and name not in scoped:
            declared.append(f"{C_TYPE[kind]} {identifier(name)} = 0;")
    return declared


def _constants(variables: dict[str, Variable]) -> str:
    """All of them in one struct, so that one range of addresses has them."""
    fields, values = [], []
    for v in variables.values():
        fields.append(f"{C_TYPE[v.type]} {identifier(v.name)}[{v.count}] __attribute__((aligned({max(v.align, 8)})));")
        text = (v.initial or "0").strip().strip("{}")
        text = re.sub(r"\b0[dD]([0-9A-Fa-f]{16})\b", r"as_f64(0x\1ull)", text)
        if "as_f64" in text or re.search(r"\b0[fF][0-9A-Fa-f]{8}\b", text):
            raise PtxError(f"initial value of {v.name}")
        values.append("{" + text + "}")
    fields, values = [*fields, "char end_;"], [*values, "0"]
    return f"static struct {{ {' '.join(fields)} }} constants = {{ {', '.join(values)} }};"


def translate(module: Module, name: str) -> Translation:
    """The kernel ``name`` of a module as C.

    Raises:
        UnknownOpcodeError: It has an instruction that is not known; the message names opcode and kernel.
    """
    entry = module.functions[name]
    writer = _Writer(module, entry)
    body = writer.function(entry)
    parameters = "\n".join(f"char* {identifier(v.name)} = P[{k}];" for k, v in enumerate(entry.parameters))
    signatures = [text.partition(" {\n")[0] + ";" for text in writer.functions.values()]
    parts = [
        '#include "lane.h"',
        _constants(writer.constants),
        "const char* constants_begin = (const char*)&constants;",
        "const char* constants_end = (const char*)(&constants + 1);",
        *signatures,
        *writer.functions.values(),
        f"void run_lane(lane_t* L, char** P) {{\n{parameters}\n{body}\n}}\n",
    ]
    sizes = [v.size for v in entry.parameters]
    return Translation(name, "\n".join(parts), sizes, writer.shared_bytes, writer.blocks, writer.texts, writer.block_of)
