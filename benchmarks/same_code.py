"""Compare the code that Warp generates for the kernels of this tree and of another one.

    python benchmarks/same_code.py OTHER_TREE                      # C++ and CUDA source, as trees of functions
    python benchmarks/same_code.py OTHER_TREE --ptx --keep DIR     # what NVRTC makes of the CUDA source

Each tree runs in a process of its own, with PYTHONPATH set to it. It makes simulations of three scenes with each
preset, on the CPU and on the pretended GPU of its tests (`tests/cuda/emulator`), and takes two steps in which none of
its own kernels are executed or compiled. Every kernel that is launched on the way is compared, kernels of the same name
with each other, without the names of kernels, functions, structs, fields, variables and labels, and without comments.

- Source: fast. It tells which functions differ. Functions that are split, joined or wrapped differ here though the
  compiler makes the same of them. Fields of structs are compared by place where the code tells their struct; in native
  snippets and headers (`sap_warp/core/native`) they may keep their names. ``--rename`` tells these.
- PTX: slower, some five seconds for a solve, but with functions inlined, and all that is left without the numbers of
  registers. If PTX is equal, so are results on a GPU. Names are no part of it. Worlds that share a warp need other PTX
  of the same source: see ``--block-dim``.

``--rename`` is OLD=NEW or a file with one of these on each line: identifiers of the other tree, replaced before
comparing. Kernels whose names differ need it, too.

The folder ``--keep`` has PTX by the content of its source (without comments and without the hashes that Warp appends to
names), and the generated source by the content of a tree. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import code_shape
from same_bits import HERE, PRESETS, SCENES, check_tree, choose, describe, environment, make_simulation

DEFAULT_SCENES, DEFAULT_PRESETS = ("humanoid", "mechanism", "rough_ground"), ("approx32", "drake")
ARCH = 80
"""Compute capability for PTX."""
HEADERS = "native headers"
"""Stands for a kernel in tables."""
TARGETS = {"cpu": "cpu", "cuda": "cuda:0"}


# --- in the process of one tree ---


class Stub:
    """Stands for a loaded module: notes which kernels are launched, and executes nothing."""

    binary_path = cuda_compile_artifact = None

    def __init__(self, module: Any, block_dim: int, launched: dict[Any, None]):
        """``launched`` gets (kernel, block_dim)."""
        self.module, self.block_dim, self._launched = module, block_dim, launched
        self.module_hash = module.get_module_hash(block_dim)

    def get_kernel_mangled_name(self, kernel: Any) -> str:
        """Return the name of a kernel in the code of its module, in the place of Warp's ModuleExec."""
        return str(kernel.get_mangled_name())

    def get_kernel_hooks(self, kernel: Any) -> Any:
        """Note that a kernel is launched, and return hooks that execute nothing."""
        from warp._src.context import KernelHooks

        self._launched[kernel, self.block_dim] = None
        return KernelHooks(NOTHING, None)


NOTHING = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda bounds, arguments: None)
"""A kernel that does nothing."""


@contextmanager
def pretended_gpu() -> Iterator[Any]:
    """Warp believes in a device ``cuda:0`` while it lasts. The one place that needs the tests of a tree."""
    from tests.cuda.emulator.device import Device
    from tests.cuda.emulator.driver import pretended

    with pretended(Device(), arch=ARCH) as driver:
        usual = driver.wp_cuda_launch_kernel

        def launch(context: Any, kernel: Any, *arguments: Any) -> int:
            return 0 if kernel is NOTHING else usual(context, kernel, *arguments)

        def make_mesh(context: Any, *arguments: Any) -> Any:
            kinds = [0 if i == 6 else argument for i, argument in enumerate(arguments)]  # the CPU has fewer trees
            return driver.native.wp_mesh_create_host(*kinds)

        driver.wp_cuda_launch_kernel, driver.wp_mesh_create_device = launch, make_mesh
        yield driver


@contextmanager
def recording(launched: dict[Any, None]) -> Iterator[None]:
    """Kernels of the package are noted when they are launched, and not compiled; Newton's are executed."""
    from warp._src.context import Module

    usual = Module.load

    def load(module: Any, device: Any, block_dim: int | None = None, *rest: Any, **named: Any) -> Any:
        if any(kernel.func.__module__.partition(".")[0] == "sap_warp" for kernel in module.kernels.values()):
            return Stub(module, module.options["block_dim"] if block_dim is None else block_dim, launched)
        return usual(module, device, block_dim, *rest, **named)

    Module.load = load  # type: ignore[method-assign]
    try:
        yield
    finally:
        Module.load = usual  # type: ignore[method-assign]


def launch_all(scene: str, preset: str, device: str) -> None:
    """Build, step, reset and ask for forces."""
    sim = make_simulation(scene, preset, device, worlds=2)
    sim.step(2)
    sim.reset(world_mask=[True, False])
    sim.step(1)
    sim.joint_forces()
    sim.contact_forces()


def generate(kernel: Any, block_dim: int, target: str) -> dict[str, Any]:
    """Source of the module of a kernel, with what its compilation depends on."""
    module = kernel.module
    module.get_module_hash(block_dim)
    options = module.resolved_options[block_dim] | {"output_arch": ARCH if target == "cuda" else None}
    source = module._run_codegen(options, target == "cpu")[0]
    flags = options.pop("cpu_compiler_flags") or ""
    if target == "cuda":
        flags = ""
    headers = [Path(name).read_text() for name in re.findall(r"-include (\S+)", flags)]
    flags = re.sub(r"-include \S+|-DSAP_WARP_NATIVE=\S+", "", flags)
    kept = ("fast_math", "fuse_fp", "mode", "optimization_level", "verify_fp", "block_dim", "default_grid_stride")
    notes = [" ".join(flags.split()), json.dumps({name: options[name] for name in kept}, default=str)]
    entry = f"{kernel.get_mangled_name()}_{target}_kernel_forward"
    key = kernel.key.rpartition("__locals__")[2]
    return {"name": key, "entry": entry, "source": source, "notes": notes, "headers": headers}


def collect(tree: Path, tasks: Sequence[tuple[str, str, str]]) -> None:
    """Write all that scenes launch on both devices to files; a task is scene, preset and file."""
    import warnings

    import warp as wp

    import sap_warp

    check_tree(tree, sap_warp.__file__)
    wp.config.log_level = wp.LOG_WARNING
    warnings.simplefilter("ignore")
    known: dict[Any, Any] = {}
    for scene, preset, file in tasks:
        found: dict[str, list[Any]] = {}
        for target, device in TARGETS.items():
            launched: dict[Any, None] = {}
            with pretended_gpu() if target == "cuda" else nullcontext(), recording(launched):
                launch_all(scene, preset, device)
            for kernel, block_dim in launched:
                key = kernel, block_dim, target
                known[key] = known[key] if key in known else generate(*key)
            found[target] = [known[kernel, block_dim, target] for kernel, block_dim in launched]
        part = Path(f"{file}.part")
        part.write_text(json.dumps(found))
        part.replace(file)
        print(f"DONE {scene}, {preset}", flush=True)


# --- in the process that compares ---


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Kernel:
    """One kernel of one tree, as it was generated."""

    name: str
    entry: str
    source: str
    notes: list[str]
    headers: list[str]

    def renamed(self, names: dict[str, str]) -> Kernel:
        """With other identifiers."""
        if not names:
            return self
        before = r"(?:(?<=__locals__)|(?<=\bvar_)|(?<=\badj_)|(?<=\b_wp_ref_)|(?<=\bwp_args_)|(?<!\w))"
        after = r"(?=\b|_\d+\b|_[0-9a-f]{8}(?:\b|_c))"
        pattern = re.compile(f"{before}({'|'.join(map(re.escape, names))}){after}")

        def change(text: str) -> str:
            return pattern.sub(lambda match: names[match[0]], text)

        texts = change(self.name), change(self.entry), change(self.source)
        return Kernel(*texts, self.notes, [change(text) for text in self.headers])

    def plain_source(self) -> tuple[str, str]:
        """Source and entry without comments, with hashes in names numbered."""
        numbers: dict[str, str] = {}

        def number(match: re.Match[str]) -> str:
            return numbers.setdefault(match[0], f"_h{len(numbers)}")

        text = code_shape.without_comments(self.source)
        pattern = r"(?<=\w)_(?=[0-9a-f]*\d)[0-9a-f]{8}(?=\b|_c)"
        return re.sub(pattern, number, text), re.sub(pattern, number, self.entry)


def collect_tree(tree: Path, scenes: Sequence[str], presets: Sequence[str], keep: Path) -> dict[Any, list[Kernel]]:
    """Kernels of a tree by (target, preset)."""
    made_by = (Stub, pretended_gpu, recording, launch_all, generate, collect)
    here = "".join(map(inspect.getsource, made_by)) + json.dumps(describe(tree))
    of = hashlib.sha256(here.encode()).hexdigest()[:12]
    files = {(scene, p): keep / f"source_{of}_{scene}_{p}.json" for p in presets for scene in scenes}
    make_missing(tree, [(*names, str(file)) for names, file in files.items() if not file.exists()])
    found: defaultdict[Any, list[Kernel]] = defaultdict(list)
    for (_, preset), file in files.items():
        for target, kernels in json.loads(file.read_text()).items():
            found[target, preset] += [Kernel(**kernel) for kernel in kernels]
    return found


def make_missing(tree: Path, tasks: Sequence[tuple[str, str, str]]) -> None:
    """Let a process of the tree do the tasks of `collect`."""
    if not tasks:
        return
    start = time.perf_counter()
    command = [sys.executable, str(Path(__file__).resolve()), str(tree), "--collect", json.dumps(tasks)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, env=environment(tree), cwd=tree, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        for line in process.stdout or ():
            if line.startswith("DONE "):
                say(f"{tree}: generated {line.split(' ', 1)[1].strip()} {time.perf_counter() - start:.0f} s")
        if process.wait():
            errors.seek(0)
            raise SystemExit(f"{tree}:\n{errors.read()[-3000:]}")


def source_program(kernel: Kernel) -> code_shape.Program:
    """Its generated source."""
    return code_shape.Source(kernel.source).program(kernel.entry, [*kernel.notes, f"{len(kernel.headers)} headers"])


def header_program(texts: tuple[str, ...]) -> code_shape.Program:
    """Headers that the CPU build includes, as one unit."""
    lines = [" ".join(line.split()) for text in texts for line in code_shape.without_comments(text).splitlines()]
    return code_shape.Program({HEADERS: code_shape.Unit(HEADERS, lines, [])}, HEADERS)


def ptx_program(kernel: Kernel, keep: Path, block_dim: int = 32) -> code_shape.Program:
    """Its PTX, from the folder if it is there; ``block_dim`` is in the place of 32."""
    source, entry = kernel.plain_source()
    source = source.replace("#define WP_TILE_BLOCK_DIM 32\n", f"#define WP_TILE_BLOCK_DIM {block_dim}\n")
    key = hashlib.sha256("\n".join([source, str(ARCH), describe(HERE)["warp"], *kernel.notes]).encode()).hexdigest()[
        :20
    ]
    file = keep / f"{kernel.name}_{key}.ptx"
    if not file.exists():
        start = time.perf_counter()
        compile_ptx(source, json.loads(kernel.notes[1]), file)
        say(f"{kernel.name}: compiled in {time.perf_counter() - start:.0f} s")
    return code_shape.ptx_program(file.read_text(errors="replace"), entry)


def compile_ptx(source: str, options: dict[str, Any], file: Path) -> None:
    """Compile CUDA source to PTX with the options that Warp passes to NVRTC."""
    import warp as wp
    from warp._src import build, context

    wp.config.log_level = wp.LOG_ERROR
    wp.init()
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        text, made = Path(folder) / "kernel.cu", Path(folder) / "kernel.ptx"
        text.write_text(source)
        build.build_cuda(
            str(text),
            ARCH,
            str(made),
            pch_dir=context.runtime.get_nvrtc_pch_dir(),
            config=options["mode"],
            optimization_level=3 if options["optimization_level"] is None else options["optimization_level"],
            verify_fp=options["verify_fp"],
            fast_math=options["fast_math"],
            fuse_fp=options["fuse_fp"],
        )
        made.replace(file)


@dataclass
class Cell:
    """How the kernels of one name with one preset compare."""

    lines: int
    different: list[str]

    def __str__(self) -> str:
        count = sum(not line.startswith("  in ") for line in self.different)
        return f"{self.lines} {f'DIFFERENT {count}' if count else 'equal'}"


def compare(ours: list[code_shape.Program], theirs: list[code_shape.Program]) -> Cell:
    """Variants of a kernel: those that are the same are matched first, the others in order."""
    new, old = ({program.key: program for program in programs} for programs in (ours, theirs))
    left = [program for key, program in old.items() if key not in new]
    right = [program for key, program in new.items() if key not in old]
    different: list[str] = []
    for a, b in zip(right, left, strict=False):
        different += code_shape.differences(a, b)
    for word, rest in (("only in the other tree", left[len(right) :]), ("only in this tree", right[len(left) :])):
        different += [f"  a variant of {program.size} lines is {word}" for program in rest]
    return Cell(sum(program.size for program in new.values()), different)


def read_renames(given: Sequence[str]) -> dict[str, str]:
    """Names by old names."""
    lines = [line for each in given for line in ([each] if "=" in each else Path(each).read_text().splitlines())]
    pairs = (line.partition("#")[0].partition("=") for line in lines)
    return {old.strip(): new.strip() for old, _, new in pairs if old.strip() and new.strip()}


def programs_of(kernels: list[Kernel], given: argparse.Namespace) -> dict[str, list[code_shape.Program]]:
    """By name of the kernel, those that were asked for; each source once."""
    found: defaultdict[str, list[code_shape.Program]] = defaultdict(list)
    seen = set()
    for kernel in kernels:
        once = (kernel.entry, *kernel.notes, hashlib.sha256(kernel.plain_source()[0].encode()).digest())
        if once in seen or (given.kernels and kernel.name not in given.kernels.split(",")):
            continue
        seen.add(once)
        found[kernel.name].append(
            ptx_program(kernel, given.keep, given.block_dim) if given.ptx else source_program(kernel)
        )
    headers = {tuple(kernel.headers): None for kernel in kernels if kernel.headers}
    if headers and not given.ptx:
        found[HEADERS] = [header_program(texts) for texts in headers]
    return found


def compare_target(target: str, trees: Sequence[dict[Any, list[Kernel]]], given: argparse.Namespace) -> bool:
    """Print the table of one target; returns whether all is equal."""
    cells: defaultdict[str, dict[str, Cell]] = defaultdict(dict)
    for preset in given.presets:
        ours, theirs = (programs_of(tree[target, preset], given) for tree in trees)
        for name in sorted({*ours, *theirs}):
            cells[name][preset] = compare(ours.get(name, []), theirs.get(name, []))
    print(f"\n{target + (' PTX' if given.ptx else ' source'):24s}" + "".join(f"{p:>24s}" for p in given.presets))
    for name, row in sorted(cells.items()):
        print(f"{name:24s}" + "".join(f"{row.get(preset, '-')!s:>24s}" for preset in given.presets))
        shown = [line for cell in row.values() for line in cell.different]
        for line in shown[: given.diff]:
            print(f"    {line[:200]}")
    different = sum(bool(cell.different) for row in cells.values() for cell in row.values())
    print(f"{target}: {sum(map(len, cells.values())) - different} equal, {different} different")
    return not different


def run(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Compare with the folder in place."""
    given.presets = choose(given.presets, PRESETS if given.presets else DEFAULT_PRESETS, parser)
    scenes = choose(given.scenes, SCENES if given.scenes else DEFAULT_SCENES, parser)
    given.keep.mkdir(parents=True, exist_ok=True)
    theirs, ours = (
        collect_tree(tree.resolve(), scenes, given.presets, given.keep) for tree in (given.other, given.tree)
    )
    names = read_renames(given.rename)
    theirs = {key: [kernel.renamed(names) for kernel in kernels] for key, kernels in theirs.items()}
    equal = [compare_target(target, (ours, theirs), given) for target in (["cuda"] if given.ptx else TARGETS)]
    return 0 if all(equal) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, metavar="OTHER_TREE", help="a checkout to compare with")
    parser.add_argument("--tree", type=Path, default=HERE, help="the tree that is compared (default: this one)")
    parser.add_argument("--source", action="store_true", help="compare generated source (default)")
    parser.add_argument(
        "--block-dim", type=int, default=32, metavar="N", help="of PTX: 96 or 160 for 8 or 16 lanes of a world, or 64"
    )
    parser.add_argument("--ptx", action="store_true", help="compare PTX")
    parser.add_argument(
        "--presets", metavar="A,B", help=f"of {', '.join(PRESETS)} (default: {','.join(DEFAULT_PRESETS)})"
    )
    parser.add_argument("--scenes", metavar="A,B", help=f"default: {','.join(DEFAULT_SCENES)}; see same_bits.py")
    parser.add_argument("--kernels", metavar="A,B", help="only these, by their names in this tree")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW|FILE", help="may be repeated")
    parser.add_argument("--diff", type=int, nargs="?", const=20, default=0, metavar="N", help="show N lines per kernel")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder of what is made (default: a temporary one)")
    parser.add_argument("--collect", help=argparse.SUPPRESS)  # in the process of a tree: the tasks
    given = parser.parse_args(arguments)
    if given.collect:
        collect(given.other, json.loads(given.collect))
        return 0
    if given.keep is not None:
        return run(given, parser)
    with tempfile.TemporaryDirectory() as folder:
        given.keep = Path(folder)
        return run(given, parser)


if __name__ == "__main__":
    sys.exit(main())
