"""The machine code that ptxas makes of PTX, and how often its instructions are issued.

No disassembler is needed: an instruction is 16 bytes, of which the lowest bits name the operation, and with
``-lineinfo`` a table in the file tells the line of PTX that each comes from. The emulator knows how often warps pass
that line. So instructions that ptxas removes, as moves between registers, are not counted, and those that it adds are.

ptxas is told to unroll no loops, since copies of a line cannot be told apart; on a GPU loops take somewhat less for it.
What it executes under a predicate instead of jumping over it is counted as often as somebody needed it. Not in it are
the slow way of divisions and roots, for numbers that are hardly normal, and that of shuffles and votes, for warps whose
lanes have come apart, which stands behind the return of each function: ours come together before.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.cuda.registers import at_version, ptxas

SIZE = 16
"""Bytes of an instruction."""
FORMS = 0x1FF
"""Of the twelve bits of an operation, those that do not tell where the operands are."""
KINDS = {
    "fp64": {0x028, 0x029, 0x02A, 0x02B, 0x110, 0x111, 0x112},  # product, sum, comparison, fused; conversions
    "fp32": {0x020, 0x021, 0x023, 0x00B},  # product, sum, fused; comparison
    "moves": {0x002},
    "shuffles": {0x189},
    "spills": {0x183, 0x187},  # loads and stores of local memory
    "loads": {0x181, 0x180, 0x182},  # global, generic, constant
    "stores": {0x186, 0x185},
}
NO_OPERATION = 0x118
RETURNS = {0x14D, 0x150}
"""Of kernels and of functions."""


class Section(NamedTuple):
    """Part of an ELF file."""

    name: str
    data: bytes
    link: int


@dataclass(frozen=True)
class Code:
    """Instructions of one function, each with its line of PTX."""

    operations: tuple[int, ...]
    lines: tuple[int, ...]

    def issued(self, passes: Mapping[int, int]) -> Counter[str]:
        """Instructions by kind; ``passes`` of warps by line, of all lines that have an instruction of PTX.

        What belongs to another line, as the bracket at the begin of a kernel, is passed as often as the next one.
        """
        found: Counter[str] = Counter()
        known = sorted(passes)
        for operation, line in zip(self.operations, self.lines, strict=True):
            times = passes[known[min(bisect_left(known, line), len(known) - 1)]]
            found["all"] += times
            for kind, members in KINDS.items():
                if operation in members:
                    found[kind] += times
        return found


def assemble(text: str, arch: int, registers: int | None = None) -> bytes:
    """The file that ptxas writes, without unrolled loops; ``registers`` is the most that a lane may have.

    Raises:
        RuntimeError: ptxas does not read the text.
    """
    if registers:  # in the place of what the kernel itself asks for
        text = re.sub(r"\.maxnreg\s+\d+", f".maxnreg {registers}", text)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(re.sub(r"^\.address_size.*$", r'\g<0> .pragma "nounroll";', at_version(text), flags=re.M))
        command = [ptxas() or "ptxas", "-lineinfo", "-O3", f"-arch=sm_{arch}", "-o", str(target), str(source)]
        command += [f"-maxrregcount={registers}"] if registers else []
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode:
            raise RuntimeError(f"ptxas refuses the text:\n{said.stderr[:2000]}")
        return target.read_bytes()


def functions(file: bytes) -> dict[str, Code]:
    """All kernels and functions of a file by name."""
    sections = _sections(file)
    names = [section.name for section in sections]
    symbols = list(_symbols(sections))
    lines = _lines(sections[names.index(".nv_debug_line_sass")].data, _order(sections, names, symbols))
    found = {}
    for number, section in enumerate(sections):
        if not section.name.startswith(".text."):
            continue
        own = section.name.removeprefix(".text.")
        starts = {at: name for name, at, size, where in symbols if where == number and size and name.startswith("$")}
        table = sorted(lines.get(own, {0: 0}).items())
        operations, numbers, line = [], [], 0
        for first, last in pairwise(sorted({0, len(section.data), *starts})):
            if "__internal" in starts.get(first, ""):  # slow ways
                continue
            words = [word[0] & FORMS for word in struct.iter_unpack("<Q8x", section.data[first:last])]
            end = max((i for i, operation in enumerate(words) if operation in RETURNS), default=len(words) - 1)
            for i, operation in enumerate(words[: end + 1]):
                while table and table[0][0] <= first + SIZE * i:
                    line = table.pop(0)[1]
                if operation != NO_OPERATION:
                    operations.append(operation)
                    numbers.append(line)
        found[own] = Code(tuple(operations), tuple(numbers))
    return found


def _sections(file: bytes) -> list[Section]:
    table = struct.unpack_from("<Q", file, 0x28)[0]
    size, count, name_table = struct.unpack_from("<HHH", file, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", file, table + i * size) for i in range(count)]
    names = heads[name_table][4]
    made = []
    for name, kind, _, _, offset, length, link, _ in heads:
        text = file[names + name : file.index(b"\0", names + name)].decode()
        made.append(Section(text, b"" if kind == 8 else file[offset : offset + length], link))
    return made


def _symbols(sections: list[Section]) -> Iterator[tuple[str, int, int, int]]:
    """(name, offset, size, section) of each symbol."""
    table = next(section for section in sections if section.name == ".symtab")
    texts = sections[table.link].data
    for name, _, _, where, at, size in struct.iter_unpack("<IBBHQQ", table.data):
        yield texts[name : texts.index(b"\0", name)].decode(), at, size, where


def _order(sections: list[Section], names: list[str], symbols: list[tuple[str, int, int, int]]) -> dict[int, str]:
    """Functions by the place in the table of lines that has their address."""
    found = {}
    for name in (".rel.nv_debug_line_sass", ".rela.nv_debug_line_sass"):
        if name in names:
            data, size = sections[names.index(name)].data, 16 if name.startswith(".rel.") else 24
            for at in range(0, len(data), size):
                offset, info = struct.unpack_from("<QQ", data, at)
                found[offset] = sections[symbols[info >> 32][3]].name.removeprefix(".text.")
    return found


def _number(data: bytes, at: int, is_signed: bool = False) -> tuple[int, int]:
    """A number in DWARF's variable length, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value - (1 << shift) if is_signed and byte & 0x40 else value), at


def _lines(data: bytes, order: Mapping[int, str]) -> dict[str, dict[int, int]]:
    """Lines by address from where on they hold, for each function: the line number programs of DWARF 2."""
    found: dict[str, dict[int, int]] = {}
    begin = 0
    while begin < len(data):
        length, _, head = struct.unpack_from("<IHI", data, begin)
        end, at = begin + 4 + length, begin + 10 + head
        step, _, base, span, first = struct.unpack_from("<BBbBB", data, begin + 10)
        table: dict[int, int] = {}
        address, line = 0, 1
        while at < end:
            code = data[at]
            at += 1
            if code >= first:
                address += (code - first) // span * step
                line += base + (code - first) % span
                table[address] = line
            elif code == 0:
                size, at = _number(data, at)
                if data[at] == 2:  # the address of a function
                    table = found.setdefault(order[at + 1], {})
                    address = struct.unpack_from("<Q", data, at + 1)[0]
                elif data[at] == 1:  # the end of one
                    address, line = 0, 1
                at += size
            elif code == 1:
                table[address] = line
            elif code == 2:
                moved, at = _number(data, at)
                address += moved * step
            elif code == 3:
                moved, at = _number(data, at, is_signed=True)
                line += moved
            elif code == 8:
                address += (255 - first) // span * step
            elif code == 9:
                address, at = address + struct.unpack_from("<H", data, at)[0], at + 2
            elif code in (4, 5, 12):  # file, column, set of instructions
                _, at = _number(data, at)
        begin = end
    return found


def count(text: str, file: bytes, entry: str, passes: Mapping[int, int]) -> Counter[str]:
    """Instructions that a kernel and the functions of its text issued; ``passes`` are those of `Code.issued`."""
    found: Counter[str] = Counter()
    entries = set(re.findall(r"\.entry (\w+)\(", text))
    for name, code in functions(file).items():
        if name == entry or name not in entries:
            found.update(code.issued(passes))
    return found
