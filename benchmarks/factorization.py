"""Time of the packed-row Cholesky factorization and solve, tree rows against dense rows, for several mechanisms.

The solver has one factorization for both: contacts between moving bodies only widen rows. This shows what a world pays
when they do: the dense column is the worst case, every row widened to the first dof. One core, fp64; only ratios hold.

    python benchmarks/factorization.py
"""

import argparse
import time

import newton
import newton.examples
import numpy as np
import warp as wp

from sap_warp.core.kernels.launch import solver_kernel
from sap_warp.core.kernels.packed_rows import RowPattern
from sap_warp.core.kernels.packed_rows import factor_and_solve as factor_and_solve_rows
from sap_warp.core.kernels.template import Variant
from sap_warp.core.kernels.types import FP64
from sap_warp.solver.model.layout import build_layout


def chain(dofs):
    """An arm of revolute joints: its rows are dense already."""
    builder = newton.ModelBuilder()
    parent, joints = -1, []
    for _ in range(dofs):
        link = builder.add_link(mass=1.0, inertia=wp.mat33(np.eye(3)))
        joints.append(builder.add_joint_revolute(parent, link, axis=(0.0, 0.0, 1.0)))
        parent = link
    builder.add_articulation(joints)
    return builder


def free_bodies(count):
    """Bodies that do not touch one another."""
    builder = newton.ModelBuilder()
    for _ in range(count):
        builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)))
    return builder


def humanoid():
    """Newton's packaged humanoid, 27 dofs in five branches."""
    builder = newton.ModelBuilder()
    builder.add_mjcf(newton.examples.get_asset("nv_humanoid.xml"), ignore_names=["floor", "ground"])
    return builder


CASES = {
    "7-dof arm": lambda: chain(7),
    "1 free body": lambda: free_bodies(1),
    "humanoid": humanoid,
    "5 free bodies": lambda: free_bodies(5),
    "10 free bodies": lambda: free_bodies(10),
    "30 free bodies": lambda: free_bodies(30),
}


def make_kernel():
    """Copy, factor and solve for every world."""
    solve = factor_and_solve_rows.of(Variant(matrix=FP64))

    @solver_kernel
    def factor_and_solve(
        source: wp.array(dtype=wp.float64),
        right: wp.array(dtype=wp.float64),
        rows: RowPattern,
        count: int,
        coupled: int,
        matrix: wp.array(dtype=wp.float64),
        x: wp.array(dtype=wp.float64),
    ):
        pattern = rows
        i = int(0)
        while i < source.shape[0]:
            matrix[i] = source[i]
            i += 1
        i = 0
        while i < count:
            x[i] = right[i]
            i += 1
        solve(matrix, pattern, 0, count, coupled, x)

    return factor_and_solve


def measure(kernel, builder, dense, repeats):
    """Microseconds of one factorization and solve, and the number of stored entries."""
    layout, sizes = build_layout(builder.finalize(device="cpu"))
    n = sizes.dof_count
    first = np.zeros(n, np.int32) if dense else layout.rows.first.numpy()
    lengths = np.arange(n) - first + 1
    entry = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int32)
    rng = np.random.default_rng(0)
    packed = rng.uniform(-0.5, 0.5, int(lengths.sum())) / n
    packed[entry + lengths - 1] = 2.0
    rows = RowPattern()
    rows.first, rows.entry = (wp.array(a, dtype=wp.int32, device="cpu") for a in (first, entry))
    rows.above, rows.above_start = layout.rows.above, layout.rows.above_start
    source = wp.array(packed, dtype=wp.float64, device="cpu")
    right = wp.ones(n, dtype=wp.float64, device="cpu")
    matrix, x = wp.zeros_like(source), wp.zeros_like(right)
    inputs = [source, right, rows, n, int(dense), matrix, x]
    batch = 200
    wp.launch(kernel, dim=1, inputs=inputs, device="cpu")
    with wp.ScopedCapture(device="cpu") as capture:
        for _ in range(batch):
            wp.launch(kernel, dim=1, inputs=inputs, device="cpu")
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        wp.capture_launch(capture.graph)
        times.append((time.perf_counter() - start) / batch * 1e6)
    return float(np.median(times)), len(packed)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50, help="timed batches per case (default 50)")
    repeats = parser.parse_args().repeats
    wp.config.log_level = wp.LOG_WARNING
    kernel = make_kernel()
    print(f"{'mechanism':<16}{'dofs':>6}{'entries tree/dense':>22}{'us tree':>10}{'us dense':>10}{'dense/tree':>12}")
    for name, make in CASES.items():
        tree, entries = measure(kernel, make(), False, repeats)
        dense, full = measure(kernel, make(), True, repeats)
        dofs = int((np.sqrt(8 * full + 1) - 1) / 2)
        print(f"{name:<16}{dofs:>6}{f'{entries} / {full}':>22}{tree:>10.2f}{dense:>10.2f}{dense / tree:>12.2f}")


if __name__ == "__main__":
    main()
