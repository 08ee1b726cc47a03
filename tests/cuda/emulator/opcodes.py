"""What each PTX instruction does, as a C statement.

`OPCODES` maps the first part of an opcode to a function from instruction and operands to C. `kinds` says what an
instruction counts as.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .operands import C_TYPE, FLOATS, Operands, identifier, vector
from .ptx import BYTES, Instruction, PtxError

Emitter = Callable[[Instruction, Operands], str]
OPCODES: dict[str, Emitter] = {}
ENDS_BLOCK = ("bra", "ret", "exit", "bar", "barrier", "call", "trap", "shfl", "vote")
SPACES = ("global", "shared", "local", "param", "const")
ROUNDING = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
UNORDERED = {f"{name}u": symbol for name, symbol in ORDERED.items()}
WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
HALF = {"b64": "b32", "b32": "b16", "u32": "u16", "u64": "u32"}


def opcode(*names: str) -> Callable[[Emitter], Emitter]:
    """Register an emitter."""

    def register(emitter: Emitter) -> Emitter:
        OPCODES.update(dict.fromkeys(names, emitter))
        return emitter

    return register


def space_of(i: Instruction) -> str:
    """The state space of a load or store; generic addresses are ``generic``."""
    return next((p for p in i.parts[1:] if p in SPACES), "generic")


def kinds(i: Instruction) -> Iterator[str]:
    """What an instruction counts as, besides ``all``. Moves are what ptxas does not make an instruction of."""
    name, kind, space = i.parts[0], i.parts[-1], space_of(i)
    if name in ("ld", "st"):
        if space in ("generic", "global"):
            yield "loads" if name == "ld" else "stores"
        else:
            yield space
        if space == "param":
            yield "moves"
    elif name in ("mov", "cvta"):
        yield "moves"
    elif name in ("atom", "red"):
        yield "atomics"
    elif name in ("shfl", "vote"):
        yield "shuffles"
    elif name in ("bra", "call"):
        yield "branches"
    elif name in ("div", "sqrt", "rcp", "rsqrt") and kind in FLOATS:
        yield "fp64 divisions" if kind == "f64" else "fp32 divisions"
        yield "fp64" if kind == "f64" else "fp32"
    elif name not in ("mov", "selp") and FLOATS[1] in i.parts[1:]:
        yield "fp64"
    elif name not in ("mov", "selp") and FLOATS[0] in i.parts[1:]:
        yield "fp32"


# --- control ----------------------------------------------------------------------------------------------------------


for name, statement in {"ret": "return;", "exit": "return;", "membar": ";", "fence": ";"}.items():
    OPCODES[name] = lambda i, o, statement=statement: statement


@opcode("bra")
def branch(i: Instruction, o: Operands) -> str:
    return f"goto {identifier(i.operands[0])};"


@opcode("trap")
def trap(i: Instruction, o: Operands) -> str:
    return f"rt_trap(L, {i.line});"


@opcode("bar", "barrier")
def barrier(i: Instruction, o: Operands) -> str:
    if i.has("warp"):
        return f"rt_warp_barrier(L, {o.read(i.operands[0], 'u32')}, {i.line});"
    if not i.has("sync") or i.operands not in (("0",), ("0", "%ntid.x")):
        raise PtxError("only barrier 0 of all lanes")
    return f"rt_barrier(L, {i.line});"


@opcode("call")
def call(i: Instruction, o: Operands) -> str:
    parts = [part.strip("() \t") for part in i.operands]
    results, name, arguments = (parts + [""])[:3] if i.operands[0].startswith("(") else ("", *(parts + [""])[:2])
    given = [identifier(a.strip()) for a in (results + "," + arguments).split(",") if a.strip()]
    return f"{identifier(name)}({', '.join(['L', *given])});"


@opcode("shfl")
def shuffle(i: Instruction, o: Operands) -> str:
    mode = next(p for p in i.parts if p in ("up", "down", "bfly", "idx"))
    target, *predicate = i.operands[0].split("|")
    value, b, c, mask = (o.read(x, "u32") for x in i.operands[1:5])
    arguments = f"SHUFFLE_{mode.upper()}, {value}, {b}, {c}, {mask}, &in_range, {i.line}"
    writes = o.write(target, "b32", "v") + (o.write(predicate[0], "pred", "in_range") if predicate else "")
    return f"{{ uint8_t in_range; uint32_t v = rt_shuffle(L, {arguments}); {writes} }}"


@opcode("vote")
def vote(i: Instruction, o: Operands) -> str:
    ballot = f"rt_ballot(L, {o.read(i.operands[1], 'pred')}, {o.read(i.operands[2], 'u32')}, {i.line})"
    if i.has("ballot"):
        return o.write(i.operands[0], "b32", ballot)
    if i.has("any"):
        return o.write(i.operands[0], "pred", f"{ballot} != 0")
    if i.has("all"):
        return o.write(i.operands[0], "pred", f"{ballot} == {o.read(i.operands[2], 'u32')}")
    raise PtxError("vote")


# --- memory -----------------------------------------------------------------------------------------------------------


def _place(i: Instruction, o: Operands, operand: str, size: int, kind: str) -> str:
    """The pointer that an access goes through."""
    space, address = space_of(i), o.address(operand)
    if space in ("param", "local", "const"):
        return f"(char*){address}"
    if space == "shared":
        address = f"((uint64_t)L->shared + {address})"
    return f"(char*)rt_access(L, {address}, {size}, {kind}, {i.line})"


@opcode("ld", "ldu")
def load(i: Instruction, o: Operands) -> str:
    kind, targets = i.parts[-1], vector(i.operands[0])
    place = _place(i, o, i.operands[1], BYTES[kind] * len(targets), "READ")
    values = " ".join(o.write(r, kind, f"(({C_TYPE[kind]}*)p)[{k}]") for k, r in enumerate(targets))
    return f"{{ char* p = {place}; {values} }}"


@opcode("st")
def store(i: Instruction, o: Operands) -> str:
    kind, sources = i.parts[-1], vector(i.operands[1])
    place = _place(i, o, i.operands[0], BYTES[kind] * len(sources), "WRITE")
    values = " ".join(f"(({C_TYPE[kind]}*)p)[{k}] = {o.read(r, kind)};" for k, r in enumerate(sources))
    return f"{{ char* p = {place}; {values} }}"


@opcode("atom", "red")
def atomic(i: Instruction, o: Operands) -> str:
    names = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    action = next((p for p in i.parts[1:] if p in names), "")
    kind = i.parts[-1]
    old_to, rest = ("_", i.operands) if i.parts[0] == "red" else (i.operands[0], i.operands[1:])
    value = o.read(rest[1], kind)
    if action in SYMBOLS:
        new = f"old {SYMBOLS[action]} {value}"
    elif action in ("min", "max"):
        new = f"(old {'<' if action == 'min' else '>'} {value} ? old : {value})"
    elif action == "exch":
        new = value
    elif action == "cas":
        new = f"(old == {value} ? {o.read(rest[2], kind)} : old)"
    else:
        raise PtxError("atomic")
    place = _place(i, o, rest[0], BYTES[kind], "ATOMIC")
    c = C_TYPE[kind]
    return f"{{ {c}* p = ({c}*){place}; {c} old = *p; *p = {new}; {o.write(old_to, kind, 'old')} }}"


@opcode("mov")
def move(i: Instruction, o: Operands) -> str:
    kind, (target, source) = i.parts[-1], i.operands
    if target.startswith("{"):
        half = HALF[kind]
        parts = [f"(v >> {8 * BYTES[half] * k})" for k in range(2)]
        writes = " ".join(o.write(r, half, part) for r, part in zip(vector(target), parts, strict=True) if r != "_")
        return f"{{ {C_TYPE[kind]} v = {o.read(source, kind)}; {writes} }}"
    if source.startswith("{"):
        half = HALF[kind]
        low, high = (f"({C_TYPE[kind]}){o.read(r, half)}" for r in vector(source))
        return o.write(target, kind, f"({low} | ({high} << {8 * BYTES[half]}))")
    return o.write(target, kind, o.read(source, kind))


@opcode("cvta")
def convert_address(i: Instruction, o: Operands) -> str:
    value = o.read(i.operands[1], "u64")
    if i.has("shared"):
        value = f"({value} {'-' if i.has('to') else '+'} (uint64_t)L->shared)"
    return o.write(i.operands[0], "u64", value)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _check_rounding(i: Instruction) -> None:
    if any(i.has(mode) for mode in ("rz", "rm", "rp", "sat")):
        raise PtxError("rounding other than to nearest")


def _with_carry(i: Instruction, o: Operands) -> str:
    """add.cc, addc, sub.cc, subc, mad.cc, madc of 32 bits."""
    name, kind = i.parts[0], i.parts[-1]
    if BYTES[kind] != 4:
        raise PtxError("carry of other than 32 bits")
    a, b = (f"(uint64_t){o.read(x, 'u32')}" for x in i.operands[1:3])
    carry = " + L->carry" if name.endswith("c") else ""
    if name.startswith("mad"):
        half = ">> 32" if i.has("hi") else "& 0xffffffffull"
        value = f"(({a} * {b}) {half}) + (uint64_t){o.read(i.operands[3], 'u32')}{carry}"
    elif name.startswith("sub"):
        value = f"{a} - {b}{carry.replace('+', '-')}"
    else:
        value = f"{a} + {b}{carry}"
    keep = "L->carry = (uint32_t)(v >> 32) & 1;" if i.has("cc") else ""
    return f"{{ uint64_t v = {value}; {keep} {o.write(i.operands[0], 'u32', 'v')} }}"


@opcode("add", "sub", "mul", "and", "or", "xor", "addc", "subc", "madc", "mad", "fma")
def arithmetic(i: Instruction, o: Operands) -> str:
    name, kind, target = i.parts[0], i.parts[-1], i.operands[0]
    if i.parts == ("fma", "rm", "f32"):
        return o.write(target, kind, f"rt_fma_down({', '.join(o.read(x, kind) for x in i.operands[1:4])})")
    _check_rounding(i)
    if i.has("cc") or name in ("addc", "subc", "madc"):
        return _with_carry(i, o)
    a, b = (o.read(x, kind) for x in i.operands[1:3])
    if name in ("mad", "fma") and kind in FLOATS:
        return o.write(target, kind, f"{'fmaf' if kind == 'f32' else 'fma'}({a}, {b}, {o.read(i.operands[3], kind)})")
    if kind in FLOATS or kind == "pred":
        return o.write(target, kind, f"{a} {SYMBOLS[name]} {b}")
    if i.has("wide"):
        wide = WIDER[kind]
        value = f"({C_TYPE[wide]}){a} * ({C_TYPE[wide]}){b}"
        if name == "mad":
            value = f"(uint{8 * BYTES[wide]}_t)({value}) + {o.read(i.operands[3], 'u' + wide[1:])}"
        return o.write(target, wide, value)
    unsigned = "u" + kind[1:]
    if i.has("hi"):
        wide_type = {"s32": "int64_t", "u32": "uint64_t", "s64": "__int128", "u64": "unsigned __int128"}[kind]
        value = f"(({wide_type}){a} * ({wide_type}){b}) >> {8 * BYTES[kind]}"
        if name == "mad":
            value = f"({C_TYPE[kind]})({value}) + {o.read(i.operands[3], kind)}"
        return o.write(target, kind, value)
    a, b = (o.read(x, unsigned) for x in i.operands[1:3])
    value = f"{a} {SYMBOLS['mul' if name == 'mad' else name]} {b}"
    if name == "mad":
        value += f" + {o.read(i.operands[3], unsigned)}"
    return o.write(target, kind, value)


@opcode("div", "rem")
def divide(i: Instruction, o: Operands) -> str:
    kind = i.parts[-1]
    _check_rounding(i)
    a, b = (o.read(x, kind) for x in i.operands[1:3])
    value = f"{a} {'/' if i.parts[0] == 'div' else '%'} {b}"
    if kind not in FLOATS:  # a GPU does not trap
        value = f"({b} == 0 ? ({C_TYPE[kind]})-1 : {value})"
    return o.write(i.operands[0], kind, value)


@opcode("neg", "not", "abs", "sqrt", "rcp", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh", "copysign")
def function_of_one(i: Instruction, o: Operands) -> str:
    name, kind = i.parts[0], i.parts[-1]
    _check_rounding(i)
    a, f = o.read(i.operands[1], kind), "f" if kind == "f32" else ""
    if name == "neg":
        value = f"-{a}" if kind in FLOATS else f"0 - {a}"
    elif name == "not":
        value = f"!{a}" if kind == "pred" else f"~{a}"
    elif name == "abs":
        value = f"fabs{f}({a})" if kind in FLOATS else f"({a} < 0 ? -{a} : {a})"
    elif name == "copysign":  # the sign comes first
        value = f"copysign{f}({o.read(i.operands[2], kind)}, {a})"
    elif name in ("rcp", "rsqrt"):
        value = f"({C_TYPE[kind]})1 / {a if name == 'rcp' else f'sqrt{f}({a})'}"
    else:
        value = f"{dict(sqrt='sqrt', sin='sin', cos='cos', ex2='exp2', lg2='log2', tanh='tanh')[name]}{f}({a})"
    return o.write(i.operands[0], kind, value)


@opcode("min", "max")
def extreme(i: Instruction, o: Operands) -> str:
    name, kind = i.parts[0], i.parts[-1]
    a, b = (o.read(x, kind) for x in i.operands[1:3])
    if i.has("NaN"):
        raise PtxError("min or max that keeps NaN")
    if kind in FLOATS:
        return o.write(i.operands[0], kind, f"f{name}{'f' if kind == 'f32' else ''}({a}, {b})")
    return o.write(i.operands[0], kind, f"({a} {'<' if name == 'min' else '>'} {b} ? {a} : {b})")


# --- bits, comparisons, conversions -----------------------------------------------------------------------------------


@opcode("shl", "shr")
def shift(i: Instruction, o: Operands) -> str:
    kind = i.parts[-1]
    width = 8 * BYTES[kind]
    a, by = o.read(i.operands[1], kind), o.read(i.operands[2], "u32")
    if i.parts[0] == "shr" and kind[0] == "s":
        return o.write(i.operands[0], kind, f"{a} >> ({by} >= {width} ? {width - 1} : {by})")
    unsigned, to = o.read(i.operands[1], "u" + kind[1:]), "<<" if i.parts[0] == "shl" else ">>"
    return o.write(i.operands[0], kind, f"({by} >= {width} ? 0 : {unsigned} {to} {by})")


@opcode("shf")
def funnel_shift(i: Instruction, o: Operands) -> str:
    low, high, by = (o.read(x, "u32") for x in i.operands[1:4])
    by = f"({by} & 31)" if i.has("wrap") else f"({by} > 32 ? 32 : {by})"
    both = f"(((uint64_t){high} << 32) | {low})"
    return o.write(i.operands[0], "b32", f"({both} << {by}) >> 32" if i.has("l") else f"{both} >> {by}")


@opcode("bfi", "bfe")
def bit_field(i: Instruction, o: Operands) -> str:
    kind = i.parts[-1]
    if i.parts[0] == "bfe" and kind[0] == "s":
        raise PtxError("signed bit field")
    count = 2 if i.parts[0] == "bfi" else 1
    values = [o.read(x, kind) for x in i.operands[1 : 1 + count]] + [o.read(x, "u32") for x in i.operands[1 + count :]]
    name = "bit_insert" if i.parts[0] == "bfi" else "bit_extract"
    return o.write(i.operands[0], kind, f"{name}({', '.join(values)}, {8 * BYTES[kind]})")


@opcode("prmt")
def permute(i: Instruction, o: Operands) -> str:
    if i.parts != ("prmt", "b32"):
        raise PtxError("mode of prmt")
    return o.write(i.operands[0], "b32", f"permute({', '.join(o.read(x, 'b32') for x in i.operands[1:4])})")


@opcode("clz", "popc", "brev", "bfind")
def count_bits(i: Instruction, o: Operands) -> str:
    kind = i.parts[-1]
    width, a = 8 * BYTES[kind], o.read(i.operands[1], "u" + kind[1:])
    if i.parts[0] == "popc":
        return o.write(i.operands[0], "u32", f"__builtin_popcountll({a})")
    leading = f"({a} == 0 ? {width} : __builtin_clzll({a}) - {64 - width})"
    if i.parts[0] == "clz":
        return o.write(i.operands[0], "u32", leading)
    if i.parts == ("brev", "b32"):
        swaps = ((1, "0x55555555u"), (2, "0x33333333u"), (4, "0x0f0f0f0fu"))
        swapped = " ".join(f"r = (r >> {n} & {mask}) | (r & {mask}) << {n};" for n, mask in swaps)
        return o.write(i.operands[0], "b32", f"({{ uint32_t r = {a}; {swapped} __builtin_bswap32(r); }})")
    if i.parts[0] == "bfind" and kind.startswith("u"):
        place = leading if "shiftamt" in i.parts else f"{width - 1} - {leading}"
        return o.write(i.operands[0], "u32", f"({a} == 0 ? 0xffffffffu : (uint32_t)({place}))")
    raise PtxError("bit count")


@opcode("selp")
def select(i: Instruction, o: Operands) -> str:
    kind = i.parts[-1]
    a, b = (o.read(x, kind) for x in i.operands[1:3])
    return o.write(i.operands[0], kind, f"({o.read(i.operands[3], 'pred')} ? {a} : {b})")


def _compare(i: Instruction, o: Operands, kind: str) -> str:
    test = i.parts[1]
    a, b = (o.read(x, kind) for x in i.operands[1:3])
    if test in ("num", "nan"):
        return f"({'!' if test == 'nan' else ''}({a} == {a} && {b} == {b}))"
    if kind in FLOATS and test in UNORDERED:
        return f"({a} {UNORDERED[test]} {b} || {a} != {a} || {b} != {b})"
    if kind in FLOATS and test == "ne":
        return f"({a} < {b} || {a} > {b})"
    return f"({a} {(ORDERED | UNSIGNED)[test]} {b})"


@opcode("setp", "set")
def compare(i: Instruction, o: Operands) -> str:
    kind = i.parts[-1]
    value = _compare(i, o, kind)
    if i.parts[0] == "set":
        target = i.parts[-2]
        one = "1.0f" if target == "f32" else f"({C_TYPE[target]})-1"
        return o.write(i.operands[0], target, f"({value} ? {one} : 0)")
    first, *second = i.operands[0].split("|")
    if len(i.operands) > 3:
        combine = SYMBOLS[i.parts[2]]
        third = o.read(i.operands[3], "pred")
        writes = o.write(first, "pred", f"v {combine} {third}")
        writes += " " + o.write(second[0], "pred", f"!v {combine} {third}") if second else ""
        return f"{{ uint8_t v = {value}; {writes} }}"
    writes = o.write(first, "pred", "v") + (" " + o.write(second[0], "pred", "!v") if second else "")
    return f"{{ uint8_t v = {value}; {writes} }}"


@opcode("testp")
def test_property(i: Instruction, o: Operands) -> str:
    names = {"finite": "isfinite", "infinite": "isinf", "notanumber": "isnan"}
    return o.write(i.operands[0], "pred", f"({names[i.parts[1]]}({o.read(i.operands[1], i.parts[-1])}) != 0)")


@opcode("cvt")
def convert(i: Instruction, o: Operands) -> str:
    target, source = i.parts[-2:]
    value = o.read(i.operands[1], source)
    if i.parts in (("cvt", "sat", "f32", "f32"), ("cvt", "sat", "f64", "f64")):  # to 0 ... 1, NaN becomes 0
        return o.write(i.operands[0], target, f"({value} > 0 ? ({value} < 1 ? {value} : 1) : 0)")
    if any(i.has(mode) for mode in ("rz", "rm", "rp", "sat")) or "f16" in (target, source):
        raise PtxError("conversion")
    if source in FLOATS:
        mode = next((p for p in i.parts if p in ROUNDING), None)
        if mode:
            value = f"{ROUNDING[mode]}((double){value})"
        if target not in FLOATS:  # saturates, NaN becomes 0
            c, is_signed = C_TYPE[target], target[0] == "s"
            bits = 8 * BYTES[target] - is_signed
            low, least = (f"-0x1p{bits}", f"({c})0x{2**bits:x}ull") if is_signed else ("0.0", "0")
            inside = f"{value} < {low} ? {least} : ({c}){value}"
            value = f"({value} != {value} ? 0 : {value} >= 0x1p{bits} ? ({c})0x{2**bits - 1:x}ull : {inside})"
    return o.write(i.operands[0], target, f"({C_TYPE[target]})({value})")
