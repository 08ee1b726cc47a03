"""Operands of PTX as C expressions: registers, literals, special registers and addresses.

A register is a C variable of its declared type. PTX does not care whether a 32 bit register holds a float or an
integer; where an instruction and a register disagree, the bits are taken as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .ptx import BYTES, PtxError

C_TYPE = {"pred": "uint8_t", "f32": "float", "f64": "double"} | {
    f"{kind}{bits}": f"{'int' if kind == 's' else 'uint'}{bits}_t" for kind in "bus" for bits in (8, 16, 32, 64)
}
FLOATS = ("f32", "f64")
SPECIAL = {
    "%tid.x": "L->tid",
    "%ntid.x": "L->ntid",
    "%ctaid.x": "L->ctaid",
    "%nctaid.x": "L->nctaid",
    "%laneid": "(L->tid & 31u)",
    "%warpid": "(L->tid / 32u)",
}
for _axis in "yz":
    SPECIAL |= {f"%tid.{_axis}": "0u", f"%ctaid.{_axis}": "0u", f"%ntid.{_axis}": "1u", f"%nctaid.{_axis}": "1u"}


def identifier(name: str) -> str:
    """A C name for a symbol, label or register."""
    return "S_" + re.sub(r"\W", "_", name)


class Operands:
    """Reads and writes the operands of one function."""

    def __init__(self, registers: Mapping[str, str], symbol: Callable[[str], str]):
        """``registers`` has their types, ``symbol`` gives the address of a variable as C."""
        self._registers, self._symbol = registers, symbol

    def type_of(self, register: str) -> str:
        """The declared type."""
        if register in self._registers:
            return self._registers[register]
        kind = self._registers.get(re.sub(r"\d+$", "<>", register))
        if kind is None:
            raise PtxError(f"register {register} is not declared")
        return kind

    def read(self, operand: str, kind: str) -> str:
        """The value of an operand as type ``kind``."""
        if operand in SPECIAL:
            return f"(({C_TYPE[kind]}){SPECIAL[operand]})"
        if operand.startswith("!"):
            return f"(!{self.read(operand[1:], kind)})"
        if operand.startswith("%") or operand in self._registers:
            return self._register(operand, kind)
        if re.match(r"0[fF][0-9A-Fa-f]{8}$", operand):
            return f"as_f32(0x{operand[2:]}u)"
        if re.match(r"0[dD][0-9A-Fa-f]{16}$", operand):
            return f"as_f64(0x{operand[2:]}ull)"
        if re.match(r"-?(0x[0-9A-Fa-f]+|\d+)U?$", operand):
            value = int(operand.rstrip("U"), 0)
            if kind in FLOATS or kind == "pred":
                return f"(({C_TYPE[kind]}){value})"
            return f"(({C_TYPE[kind]})0x{value & ((1 << 8 * BYTES[kind]) - 1):x}ull)"
        return f"(({C_TYPE[kind]}){self._symbol(operand)})"

    def _register(self, register: str, kind: str) -> str:
        declared, name = self.type_of(register), identifier(register)
        if declared == kind:
            return name
        if kind == "pred":
            raise PtxError(f"{register} is no predicate")
        if kind in FLOATS:
            return f"as_{kind}({name})"
        if declared in FLOATS:
            name = f"bits_{declared}({name})"
        return f"(({C_TYPE[kind]}){name})"

    def write(self, register: str, kind: str, value: str) -> str:
        """A statement that gives ``value``, of type ``kind``, to a register; sign or zero extends into a wider one."""
        if register == "_":
            return f"(void)({value});"
        declared, name = self.type_of(register), identifier(register)
        if kind in FLOATS and declared != kind:
            value = f"bits_{kind}({value})"
        elif declared in FLOATS and kind not in FLOATS:
            value = f"as_{declared}({value})"
        elif kind not in (*FLOATS, "pred"):
            value = f"({C_TYPE[kind]})({value})"
        return f"{name} = {value};"

    def address(self, operand: str) -> str:
        """``[base+offset]`` as a number."""
        found = re.match(r"^\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\d+))?\s*\]$", operand)
        if not found:
            raise PtxError(f"address {operand}")
        base = self.read(found[1], "u64")
        return f"({base} + {found[2]}ll)" if found[2] and int(found[2]) else base


def vector(operand: str) -> list[str]:
    """The registers of ``{a, b}``, or the operand alone."""
    return [part.strip() for part in operand.strip("{}").split(",")]
