"""Registers and spilled bytes of the kernels that a step launches, and the table of how many there may be.

    python -m tests.cuda.registers

writes `registers.json` anew. NVRTC makes the PTX, as for the emulator (for sm_80, with the block size of a run); ptxas,
of NVIDIA's toolkit, tells what becomes of it on each architecture. Neither needs a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import warp as wp

from sap_warp.core.kernels.lanes import block_size
from sap_warp.scene.shipped.scenes import build_scene
from sap_warp.simulation import Simulation
from tests.cuda.emulator.device import Device
from tests.cuda.emulator.driver import pretended

TABLE = Path(__file__).with_name("registers.json")
ARCHITECTURES = (80, 89, 90, 120)
VARIANTS: dict[str, dict[str, Any]] = {
    "a warp": {"scene": "humanoid"},
    "16 lanes": {"scene": "ant", "block_dim": 16},
    "8 lanes": {"scene": "cube", "block_dim": 8},
}
"""What the table is of: what shares a world, and the options of `launched` that make it so."""
PTX_VERSION = "8.8"
"""An older ptxas refuses a newer version line, though it knows the instructions."""


def launched(scene: str = "humanoid", **options: Any) -> dict[str, str]:
    """PTX of all our kernels that steps of a scene launch, by name of the kernel in it."""
    texts: dict[str, str] = {}

    def keep(name: str, text: str) -> str:
        texts[name] = text
        return text

    with pretended(Device()) as driver:
        driver.edit = keep
        sim = Simulation.from_loaded(build_scene(scene, 2, "cuda:0")[1], **options)
        texts.clear()  # what only the construction launches
        for kernel in sim.solver.kernels(sim.state):
            loaded = kernel.module.load("cuda:0", block_size(sim.solver.block_dim, sim.device))
            loaded.get_kernel_hooks(kernel)
            texts |= {name: loaded.handle for name in _entries(loaded.handle)}
        sim.step(2)
        assert not driver.device.faults, "\n".join(map(str, driver.device.faults))
    return texts


def _entries(text: str) -> list[str]:
    return re.findall(r"\.entry (\w+)\(", text)


def short_name(entry: str) -> str:
    """The kernel's name in the source."""
    return re.sub(r"_[0-9a-f]{8}_cuda_kernel_forward$", "", entry).rpartition("__")[2]


def ptxas() -> str | None:
    """The assembler of NVIDIA's toolkit, if there is one."""
    return shutil.which("ptxas")


def at_version(text: str) -> str:
    """The same text for any ptxas that knows its instructions."""
    return re.sub(r"^\.version \S+", f".version {PTX_VERSION}", text.replace("\0", ""), flags=re.M)


def versions() -> dict[str, str]:
    """What the numbers depend on beside our source."""
    said = subprocess.run([ptxas() or "ptxas", "--version"], capture_output=True, text=True).stdout
    return {"ptxas": re.findall(r"\bV([\d.]+)", said)[0], "warp": wp.__version__}


def measure(architectures: Sequence[int] = ARCHITECTURES, **options: Any) -> dict[str, dict[str, list[int]]]:
    """Registers and spilled bytes by kernel and architecture; options are those of `launched`.

    Raises:
        RuntimeError: ptxas cannot read a text.
    """
    files: dict[str, list[str]] = {}
    for name, text in launched(**options).items():
        files.setdefault(text.replace("\0", ""), []).append(name)
    tasks = [(text, names, arch) for text, names in files.items() for arch in architectures]
    found: dict[str, dict[str, list[int]]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (_, _, arch), numbers in zip(tasks, pool.map(lambda task: _assemble(*task), tasks), strict=True):
            for name, pair in numbers.items():
                found.setdefault(short_name(name), {})[f"sm_{arch}"] = pair
    return dict(sorted(found.items()))


def _assemble(text: str, names: list[str], arch: int) -> dict[str, list[int]]:
    """Registers and spills of some kernels of one text; spills of functions that are called count for all of them."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(at_version(text))
        command = [ptxas() or "ptxas", "-v", "-O3", f"-arch=sm_{arch}", "-o", "/dev/null", str(source)]
        said = subprocess.run(command, capture_output=True, text=True).stderr
    spills = {n: int(b) for n, b in re.findall(r"properties for (\S+)\s+.*?(\d+) bytes spill stores", said)}
    called = sum(b for n, b in spills.items() if n not in _entries(text))
    used = dict(re.findall(r"entry function '(\S+)' for[\s\S]*?Used (\d+) registers", said))
    if not set(names) <= set(used):
        raise RuntimeError(f"ptxas does not read {', '.join(names)}:\n{said[:2000]}")
    return {name: [int(used[name]), spills[name] + called] for name in names}


def main() -> None:
    """Write the table."""
    wp.config.log_level = wp.LOG_WARNING
    found = {name: measure(**options) for name, options in VARIANTS.items()}
    table = versions() | {"registers, spilled bytes": found}
    text = json.dumps(table, indent=2)
    TABLE.write_text(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n", encoding="ascii")
    print(TABLE.read_text(encoding="ascii"))


if __name__ == "__main__":
    main()
