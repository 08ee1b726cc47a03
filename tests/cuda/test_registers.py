"""What ptxas makes of the kernels that a step launches: no more registers and spills than were recorded."""

import json

import pytest

from tests.cuda import registers

pytestmark = pytest.mark.long_cuda
TESTED = 89
"""The one architecture that tests look at: an assembly of the solve takes half a minute. The table has all of them."""


@pytest.fixture(scope="module", params=registers.VARIANTS)
def variant(request):
    """What shares a world, and registers and spilled bytes of the launched kernels, by kernel and architecture."""
    if registers.ptxas() is None:
        pytest.skip("needs ptxas, of NVIDIA's toolkit")
    return request.param, registers.measure(architectures=[TESTED], **registers.VARIANTS[request.param])


@pytest.fixture(scope="module")
def table():
    """The recorded table."""
    return json.loads(registers.TABLE.read_text(encoding="ascii"))


def test_registers_and_spills_do_not_grow(variant, table):
    """Each kernel of the table takes at most what it says; `python -m tests.cuda.registers` writes it anew."""
    now = registers.versions()
    if any(table[name] != version for name, version in now.items()):
        pytest.skip(f"the table is of ptxas {table['ptxas']} and Warp {table['warp']}, here are {now}")
    name, found = variant
    recorded = table["registers, spilled bytes"][name]
    assert {"newton_solve", "free_motion"} <= set(recorded) <= set(found)
    grown = []
    for name, limits in recorded.items():
        most, (used, spilled) = limits[f"sm_{TESTED}"], found[name][f"sm_{TESTED}"]
        if used > most[0] or spilled > most[1]:
            grown.append(f"{name}: {used} registers, {spilled} bytes; the table has {most}")
    assert not grown, "\n".join(grown)
