"""What ptxas makes of the kernels that a step launches: no more registers and spills than were recorded."""

import json

import pytest

from tests.cuda import registers

pytestmark = pytest.mark.long_cuda
TESTED = dict.fromkeys(registers.VARIANTS, (89,)) | {"a warp": registers.ARCHITECTURES}
"""Architectures that tests look at: an assembly of the solve takes half a minute. The table has all of them."""


@pytest.fixture(scope="module", params=registers.VARIANTS)
def variant(request):
    """What shares a world, and registers and spilled bytes of the launched kernels, by kernel and architecture."""
    name = request.param
    if registers.ptxas() is None:
        pytest.skip("needs ptxas, of NVIDIA's toolkit")
    return name, registers.measure(architectures=TESTED[name], **registers.VARIANTS[name])


@pytest.fixture(scope="module")
def table():
    """The recorded table."""
    return json.loads(registers.TABLE.read_text(encoding="ascii"))


def test_registers_and_spills_do_not_grow(variant, table):
    """Each kernel of the table takes at most what it says; `python -m tests.cuda.registers` writes it anew."""
    now = registers.versions()
    if any(table[name] != version for name, version in now.items()):
        pytest.skip(f"the table is of ptxas {table['ptxas']} and Warp {table['warp']}, here are {now}")
    shared_by, found = variant
    recorded = table["registers, spilled bytes"][shared_by]
    assert {"newton_solve", "free_motion"} <= set(recorded) <= set(found)
    grown = []
    for name, limits in recorded.items():
        for arch in (f"sm_{number}" for number in TESTED[shared_by]):
            most, (used, spilled) = limits[arch], found[name][arch]
            if used > most[0] or spilled > most[1]:
                grown.append(f"{name}, {arch}: {used} registers, {spilled} bytes; the table has {most}")
    assert not grown, "\n".join(grown)
