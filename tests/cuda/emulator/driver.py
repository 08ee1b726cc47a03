"""A CUDA driver that is none: below Warp, in the place of the functions of its native library.

Warp's Python code believes in a device ``cuda:0``: arrays lie in the arena of `device`, copies are copies, streams run
at once, graphs are lists of what was launched while they were captured. Kernels of SAP Warp and of the tests run from
their PTX. All other kernels (Newton's) run as Warp's CPU build, on the same memory.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import warp as wp
from warp._src import context as warp_context

from . import build
from .device import Device, EmulationError, Kernel, load_kernel

OURS = ("sap_warp", "tests")
STREAM = 0x57E0000
CONTEXTS = itertools.count(0xC0DA00, 16)
"""The first context of each driver; its device i has the i-th after it. Warp remembers what it loaded by context."""
HANDLES = itertools.count(1)
"""Of streams, events and graphs. One count for all drivers: Warp may destroy a graph of an earlier driver late, when
its garbage is collected, and must not hit a graph of the driver in place by then."""
SIZES: dict[int, int] = {}
"""Bytes by address of all that is allocated."""
PROPERTIES = {
    "name": b"pretended",
    "sm_count": 4,
    "max_shared_memory": 65536,
    "pci_domain_id": 0,
    "pci_bus_id": 0,
    "pci_device_id": 0,
}
"""Of a device, as wp_cuda_device_get_... answers; whatever is not here is 0."""


def _number(pointer: Any) -> int:
    return int(getattr(pointer, "value", pointer) or 0)


class HostKernel:
    """A kernel that runs as Warp's CPU build."""

    def __init__(self, kernel: Any, forward: Any):
        """``forward`` is the function of the CPU build."""
        self.name = kernel.key
        self._forward = forward
        fields = [(f"a{k}", _ctype(argument.type)) for k, argument in enumerate(kernel.adj.args)]
        self._arguments = type("Arguments", (ctypes.Structure,), {"_fields_": fields})
        bounds = warp_context._build_launch_bounds_from_tuple((1,), kernel.adj.kernel_dim)
        self.parameter_sizes = [ctypes.sizeof(bounds), *(ctypes.sizeof(t) for _, t in fields)]

    def run(self, parameters: list[int]) -> None:
        """Launch it; ``parameters`` are addresses, the launch bounds first."""
        arguments = self._arguments()
        for (name, kind), address in zip(self._arguments._fields_, parameters[1:], strict=True):
            at = ctypes.addressof(arguments) + getattr(self._arguments, name).offset
            ctypes.memmove(at, address, ctypes.sizeof(kind))
        self._forward(ctypes.c_void_p(parameters[0]), ctypes.byref(arguments))


def _ctype(kind: Any) -> Any:
    """What Warp packs an argument into."""
    if wp._src.types.is_array(kind):
        return type(kind.__ctype__())
    if isinstance(kind, wp._src.codegen.Struct):
        return kind.ctype
    if issubclass(kind, (ctypes.Array, ctypes.Structure)):
        return kind
    return kind._type_


class HostModule:
    """Stands for a loaded module whose kernels run as Warp's CPU build."""

    def __init__(self, load: Callable[[], Any]):
        """``load`` gives the CPU build."""
        self._host = load()
        self._hooks: dict[Any, Any] = {}

    def get_kernel_hooks(self, kernel: Any) -> Any:
        """Return hooks that execute a kernel of the CUDA build on the host."""
        if kernel not in self._hooks:
            forward = HostKernel(kernel, self._host.get_kernel_hooks(kernel).forward)
            self._hooks[kernel] = warp_context.KernelHooks(forward, None)
        return self._hooks[kernel]


class Driver:
    """Answers for Warp's native library; what has to do with neither CUDA nor devices goes on to it."""

    def __init__(self, native: Any, device: Device, device_count: int, arch: int):
        """Stand in for ``native``."""
        self.native, self.device, self._device_count = native, device, device_count
        self._properties = PROPERTIES | {"arch": arch}
        self.edit: Callable[[str, str], str] = lambda name, text: text
        """Changes the PTX of a kernel before it is translated: for mutations."""
        self.log: list[tuple[str, str]] = []
        """What was asked of the device: (launch, kernel), (h2d, ""), (d2h, ""), (d2d, ""), (set, ""), (graph, "")."""
        self._first_context = next(CONTEXTS)
        self._current: list[int | None] = [None]
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self._captures: dict[int, list[Callable[[], None]]] = {}
        self._lock = threading.RLock()
        self.error = ""

    def __getattr__(self, name: str) -> Any:
        """Properties of the device are those of `PROPERTIES`; the rest is Warp's, if it needs no GPU."""
        if name.startswith(("wp_cuda_device_get_", "wp_cuda_device_is_")):
            key = name.removeprefix("wp_cuda_device_get_")
            return lambda *_: self._properties.get(key, 0)
        if name.startswith("wp_cuda_compile") or ("cuda" not in name and not name.endswith("_device")):
            return getattr(self.native, name)
        if name.endswith("_device") and hasattr(self.native, name[:-6] + "host"):
            return self._on_host(name[:-6] + "host")
        raise NotImplementedError(f"The pretended CUDA driver has no {name}.")

    def _on_host(self, name: str) -> Callable[..., Any]:
        function = getattr(self.native, name)

        def call(*arguments: Any) -> Any:
            if len(arguments) > len(function.argtypes or arguments):
                arguments = arguments[1:]  # the context
            return self._do(None, lambda: function(*arguments))

        return call

    # --- contexts, streams, events ---

    def wp_cuda_device_get_count(self) -> int:
        return self._device_count

    def wp_cuda_device_get_uuid(self, ordinal: int, buffer: Any) -> None:
        buffer[:] = bytes([ordinal] * 16)

    def wp_cuda_device_get_memory_info(self, ordinal: int, free: Any, total: Any) -> None:
        for target in (free, total):
            if target is not None:
                target._obj.value = 1 << 30

    def wp_cuda_device_get_primary_context(self, ordinal: int) -> int:
        return self._first_context + ordinal

    def wp_cuda_driver_is_initialized(self) -> bool:
        return True

    def wp_cuda_context_get_current(self) -> int | None:
        return self._current[-1]

    def wp_cuda_context_set_current(self, context: int | None) -> None:
        self._current[-1] = context

    def wp_cuda_context_push_current(self, context: int | None) -> None:
        self._current.append(context)

    def wp_cuda_context_pop_current(self) -> None:
        self._current.pop()

    def wp_cuda_context_is_primary(self, context: int) -> bool:
        return True

    def wp_cuda_context_get_device_ordinal(self, context: int) -> int:
        return context - self._first_context

    def wp_cuda_context_set_stream(self, context: int, stream: Any, sync: int) -> None:
        pass

    def wp_cuda_context_synchronize(self, context: int) -> bool:
        self._refuse_in_capture("synchronization")
        return True

    def wp_cuda_context_check(self, context: int) -> int:
        return 0

    def wp_cuda_stream_create(self, context: int, priority: int) -> int:
        return STREAM + next(HANDLES)

    def wp_cuda_stream_destroy(self, context: int, stream: Any) -> None:
        pass

    wp_cuda_stream_register = wp_cuda_stream_unregister = wp_cuda_stream_destroy

    def wp_cuda_stream_is_capturing(self, stream: Any) -> bool:
        return _number(stream) in self._captures

    def wp_cuda_stream_get_capture_id(self, stream: Any) -> int:
        return _number(stream)

    def wp_cuda_stream_synchronize(self, stream: Any) -> bool:
        self._refuse_in_capture("synchronization")
        return True

    def wp_cuda_stream_wait_event(self, *_: Any) -> None:
        pass

    wp_cuda_stream_wait_stream = wp_cuda_event_record = wp_cuda_event_destroy = wp_cuda_stream_wait_event

    def wp_cuda_event_create(self, *_: Any) -> int:
        return next(HANDLES)

    def wp_cuda_event_synchronize(self, event: Any) -> bool:
        self._refuse_in_capture("synchronization")
        return True

    # --- memory ---

    def wp_alloc_device_default(self, context: int, size: int, tag: Any) -> int:
        self._refuse_in_capture("allocation")
        pointer = build.runtime().device_alloc(max(size, 1))
        SIZES[pointer] = size
        return pointer

    def wp_free_device_default(self, context: int, pointer: Any) -> None:
        address = _number(pointer)
        build.runtime().device_free(address, SIZES.pop(address))

    def wp_memcpy_h2d(self, context: int, to: Any, source: Any, size: int, stream: Any) -> bool:
        return self._copy("h2d", to, source, size, stream)

    def wp_memcpy_d2h(self, context: int, to: Any, source: Any, size: int, stream: Any) -> bool:
        self._refuse_in_capture("a copy to the host")
        return self._copy("d2h", to, source, size, stream)

    def wp_memcpy_d2d(self, context: int, to: Any, source: Any, size: int, stream: Any) -> bool:
        return self._copy("d2d", to, source, size, stream)

    def wp_memcpy_p2p(self, context: int, to: Any, peer: int, source: Any, size: int, stream: Any) -> bool:
        return self._copy("p2p", to, source, size, stream)

    def _copy(self, kind: str, to: Any, source: Any, size: int, stream: Any) -> bool:
        target, origin = _number(to), _number(source)
        self._check(target if kind != "d2h" else origin, size, kind)

        def copy() -> None:
            self.log.append((kind, ""))
            ctypes.memmove(target, origin, size)

        self._do(stream, copy)
        return True

    def _check(self, pointer: int, size: int, what: str) -> None:
        """A copy must stay within one allocation."""
        inside = any(p <= pointer and pointer + size <= p + n for p, n in SIZES.items())
        if size and not inside:
            raise EmulationError(f"{what} of {size} bytes at {pointer:#x} leaves what is allocated on the device")

    def wp_memset_device(self, context: int, pointer: Any, value: int, size: int, stream: Any) -> bool:
        address = _number(pointer)
        self._check(address, size, "memset")

        def fill() -> None:
            self.log.append(("set", ""))
            ctypes.memset(address, value, size)

        self._do(None, fill)
        return True

    def wp_memtile_device(self, context: int, pointer: Any, source: Any, size: int, count: int) -> bool:
        tile = ctypes.string_at(_number(ctypes.cast(source, ctypes.c_void_p)), size)
        address = _number(pointer)
        self._check(address, size * count, "fill")

        def fill() -> None:
            self.log.append(("set", ""))
            ctypes.memmove(address, tile * count, size * count)

        self._do(None, fill)
        return True

    def wp_bvh_create_device(self, context: int, lower: Any, upper: Any, count: int, kind: int, *rest: Any) -> int:
        return self.native.wp_bvh_create_host(lower, upper, count, 0, *rest)  # there are fewer kinds on the CPU

    # --- kernels ---

    def wp_cuda_load_module(self, context: int, path: bytes) -> str:
        return Path(path.decode()).read_text(errors="replace")

    def wp_cuda_unload_module(self, context: int, text: str) -> None:
        pass

    def wp_cuda_get_kernel(self, context: int, text: str, name: bytes) -> Kernel:
        return load_kernel(self.edit(name.decode(), text), name.decode())

    def wp_cuda_configure_kernel_shared_memory(self, kernel: Kernel, size: int) -> bool:
        if size:
            raise NotImplementedError(f"{kernel.name} wants dynamic shared memory.")
        return True

    def wp_cuda_launch_kernel(
        self,
        context: int,
        kernel: Any,
        size: int,
        max_blocks: int,
        lanes: int,
        grid_stride: int,
        cluster: int,
        shared: int,
        parameters: Any,
        stream: Any,
        info: Any,
    ) -> int:
        sizes = kernel.parameter_sizes if isinstance(kernel, HostKernel) else kernel.translation.parameter_sizes
        kept = [ctypes.create_string_buffer(ctypes.string_at(p, n), n) for p, n in zip(parameters, sizes, strict=True)]
        addresses = [ctypes.addressof(p) for p in kept]
        blocks = (size + lanes - 1) // lanes
        if max_blocks > 0:
            blocks = min(blocks, max_blocks)

        def launch(kept: Any = kept) -> None:
            self.log.append(("launch", kernel.name))
            if isinstance(kernel, HostKernel):
                kernel.run(addresses)
            elif not self.device.launch(kernel, addresses, blocks, lanes):
                raise EmulationError("\n".join(map(str, self.device.faults)))

        self._do(stream, launch)
        return 0

    # --- graphs ---

    def wp_cuda_graph_begin_capture(self, context: int, stream: Any, external: int, mode: int) -> bool:
        self._captures[_number(stream)] = []
        return True

    def wp_cuda_graph_end_capture(self, context: int, stream: Any, graph: Any) -> bool:
        graph._obj.value = next(HANDLES)
        self._graphs[graph._obj.value] = self._captures.pop(_number(stream))
        return True

    def wp_cuda_graph_create_exec(self, context: int, stream: Any, graph: Any, executable: Any) -> bool:
        executable._obj.value = graph.value
        return True

    def wp_cuda_graph_launch(self, executable: Any, stream: Any) -> bool:
        self.log.append(("graph", ""))
        for action in self._graphs[executable.value]:
            action()
        return True

    def wp_cuda_graph_destroy(self, context: int, graph: Any) -> None:
        self._graphs.pop(_number(graph), None)

    wp_cuda_graph_exec_destroy = wp_cuda_graph_destroy

    def _do(self, stream: Any, action: Callable[[], Any]) -> Any:
        """Now, or whenever the graph is launched that is captured."""
        with self._lock:
            if self._captures:
                next(iter(self._captures.values())).append(action)
                return None
            return action()

    def _refuse_in_capture(self, what: str) -> None:
        if self._captures:
            raise EmulationError(f"{what} while a graph is captured")


def is_ours(module: Any) -> bool:
    """Whether the kernels of a Warp module are those under test."""
    return any(kernel.func.__module__.partition(".")[0] in OURS for kernel in module.kernels.values())


@contextmanager
def pretended(device: Device, device_count: int = 1, arch: int = 80) -> Iterator[Driver]:
    """Devices ``cuda:0``, ... of sm_``arch`` for the time of a ``with`` block; the default device stays the CPU."""
    wp.init()
    runtime: Any = warp_context.runtime
    before, load, ptx_arch = runtime.core, warp_context.Module.load, runtime.default_ptx_arch
    native = before.native if isinstance(before, (_Retired, Driver)) else before
    lists = [runtime.device_map, runtime.cuda_devices, runtime.cuda_primary_devices]
    kept = [each.copy() for each in lists]
    driver = Driver(native, device, device_count, arch)
    hosts: dict[tuple[Any, bytes], HostModule] = {}

    def load_module(module: Any, on: Any, block_dim: Any = None, *rest: Any, **named: Any) -> Any:
        on = runtime.get_device(on)
        if on.is_cpu or is_ours(module):
            return load(module, on, block_dim, *rest, **named)
        cpu = runtime.get_device("cpu")
        key = (module, module.get_module_hash(1))
        if key not in hosts:
            hosts[key] = HostModule(lambda: load(module, cpu, 1))
        return hosts[key]

    version = runtime.driver_version
    runtime.core, runtime.default_ptx_arch = driver, arch
    runtime.driver_version = (12, 8)  # for an older one Warp would load every module there is before a capture
    warp_context.Module.load = load_module
    try:
        runtime.cuda_devices.clear()
        runtime.cuda_primary_devices.clear()
        for i in range(device_count):
            made = warp_context.Device(runtime, f"cuda:{i}", ordinal=i, is_primary=True)
            made.is_cubin_supported = False  # so that Warp makes PTX
            runtime.device_map[made.alias] = made
            runtime.cuda_devices.append(made)
            runtime.cuda_primary_devices.append(made)
        yield driver
    finally:
        for each, content in zip(lists, kept, strict=True):
            each.clear()
            (each.update if isinstance(each, dict) else each.extend)(content)
        warp_context.Module.load = load
        runtime.default_ptx_arch, runtime.driver_version = ptx_arch, version
        runtime.core = before if isinstance(before, Driver) else _Retired(native, driver)


class _Retired:
    """Warp's library again, and the driver for arrays and graphs that are collected later."""

    def __init__(self, native: Any, driver: Driver):
        self.native, self._driver = native, driver

    def __getattr__(self, name: str) -> Any:
        retired = ("wp_free_device_default", "wp_cuda_context_push_current", "wp_cuda_context_pop_current")
        if name in retired or name.endswith("destroy") or name == "wp_cuda_unload_module":
            return getattr(self._driver, name)
        return getattr(self.native, name)
