"""Counting machine code: what ptxas makes of a loop, passed as often as the loop."""

import pytest

from tests.cuda import machine_code, registers

TEXT = """.version 8.8
.target sm_80
.address_size 64
.visible .entry loop(.param .u64 place, .param .u32 turns)
{
.reg .pred %p<3>;
.reg .b32 %r<4>;
.reg .f64 %fd<4>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [place];
ld.param.u32 %r1, [turns];
cvta.to.global.u64 %rd2, %rd1;
ld.global.f64 %fd1, [%rd2];
mov.u32 %r2, 0;
mov.f64 %fd2, %fd1;
LOOP:
fma.rn.f64 %fd1, %fd1, %fd2, %fd1;
bar.sync 0;
add.s32 %r2, %r2, 1;
setp.lt.s32 %p2, %r2, %r1;
@%p2 bra LOOP;
div.rn.f64 %fd3, %fd1, %fd2;
st.global.f64 [%rd2], %fd3;
ret;
}
"""
LINES = TEXT.splitlines()
FUSED, LAST_OF_LOOP = LINES.index("fma.rn.f64 %fd1, %fd1, %fd2, %fd1;") + 1, LINES.index("@%p2 bra LOOP;") + 1


@pytest.mark.skipif(registers.ptxas() is None, reason="needs ptxas, of NVIDIA's toolkit")
def test_instructions_are_counted_as_often_as_their_lines_are_passed():
    """A turn more is an instruction of FP64 more, a division is several, and a limit of registers is kept."""
    is_instruction = [";" in line and not line.startswith(".") for line in LINES]
    once = {number: 1 for number, found in enumerate(is_instruction, 1) if found}
    again = once | dict.fromkeys(range(FUSED, LAST_OF_LOOP + 1), 101)
    file = machine_code.assemble(TEXT, 89, registers=32)
    few, many = (machine_code.count(TEXT, file, "loop", passes) for passes in (once, again))
    assert many["fp64"] - few["fp64"] == 100
    assert 4 <= (many["all"] - few["all"]) / 100 <= 8
    assert few["loads"] >= 1 and few["stores"] == 1 and few["spills"] == 0
    assert 5 < few["fp64"] < 20
    never = machine_code.count(TEXT, file, "loop", dict.fromkeys(once, 0))
    assert not any(never.values())


@pytest.mark.skipif(registers.ptxas() is None, reason="needs ptxas, of NVIDIA's toolkit")
def test_a_text_that_ptxas_refuses_is_an_error():
    with pytest.raises(RuntimeError, match=r"ptxas refuses the text"):
        machine_code.assemble(TEXT.replace("fma.rn", "fmb.rn"), 89)
