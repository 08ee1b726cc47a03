"""Packed rows: native code of one lane and the code of many against NumPy; builds for other machines and for CUDA."""

import platform

import numpy as np
import pytest
import warp as wp

import sap_warp
from sap_warp.core.kernels.lanes import barrier, block_sum, lane
from sap_warp.core.kernels.launch import solver_kernel
from sap_warp.core.kernels.packed_rows import RowPattern, add_rows, factor_and_solve, multiply, store_force
from sap_warp.core.kernels.template import Constant, Variant
from sap_warp.core.kernels.types import FP32, FP64
from sap_warp.core.native import compiler_flags
from sap_warp.solver.model.layout import build_layout
from tests.support.oracle import fill_newton_contacts, random_contacts, random_controls, random_model, random_state

ARCHITECTURES = (90,)


class Packed:
    """A random positive definite matrix in packed rows, one world of a longer array.

    Rows are joined to joints and limbs as in a tree, or widened as contacts between moving bodies do (``coupled``).
    """

    def __init__(self, rng, types, coupled, first=None):
        self.types, self.coupled = types, int(coupled)
        if first is None:
            layout, _ = build_layout(random_model(rng, 1, trees=3))
            first = layout.rows.first.numpy()
        self.start, self.count = 3, len(first)  # before it another world of three dofs
        self.n = self.start + self.count
        tree = np.concatenate([[0, 1, 1], first + self.start])
        above = [[i for i in range(j + 1, self.n) if tree[i] <= j] for j in range(self.n)]
        self.above = np.array([i for rows in above for i in rows])
        self.above_start = np.concatenate([[0], np.cumsum([len(rows) for rows in above])])
        depth = np.array([len(rows) for rows in above])
        world = np.repeat([0, 1], [self.start, self.count])
        self.staged = np.lexsort((-depth, world))
        same = (world[:, None] == world) & (depth[self.staged][:, None] == depth[self.staged])
        self.stage_end = self.n - np.argmax(same[:, ::-1], axis=1)
        self.first = tree.copy()
        if coupled:
            for i in rng.choice(np.arange(self.start, self.n), self.count // 3):
                joint = tree[i:] == tree[i] if rng.random() < 0.7 else np.zeros(1, bool)  # the whole joint or one row
                rows = i + np.arange(1 if joint.all() else np.argmin(joint))
                self.first[rows] = np.minimum(self.first[rows], rng.integers(self.start, i + 1))
        lengths = np.arange(self.n) - self.first + 1
        L = np.zeros((self.n, self.n))
        for i in range(self.n):
            L[i, self.first[i] : i] = rng.normal(size=i - self.first[i]) * 0.7 / np.sqrt(lengths[i])
            L[i, i] = rng.uniform(1.0, 2.0)
        self.L, self.A = L, L @ L.T
        self.entry = np.concatenate([[0], np.cumsum(lengths)])[:-1]

    @property
    def world(self):
        return slice(self.start, self.n)

    def pattern(self):
        rows = RowPattern()
        for name in RowPattern.vars:
            setattr(rows, name, wp.array(getattr(self, name).astype(np.int32), dtype=wp.int32, device="cpu"))
        return rows

    def pack(self, matrix):
        rows = [matrix[i, self.first[i] : i + 1] for i in range(self.n)]
        return wp.array(np.concatenate(rows), dtype=self.types.scalar, device="cpu")

    def unpack(self, packed):
        values, matrix = packed.numpy(), np.zeros((self.n, self.n))
        for i in range(self.n):
            matrix[i, self.first[i] : i + 1] = values[self.entry[i] : self.entry[i] + i - self.first[i] + 1]
        return matrix


def trees_of_all_sizes():
    """Roots of 1 to 8 dofs without limbs, with few and with many dofs below them, and a chain of 20 dofs."""
    first = []
    for root in range(1, 9):
        for limbs in ((), (3,), (2, 5), (4, 1, 3), (3, 6, 8, 4)):
            begin = len(first)
            for limb in limbs:
                first += [len(first)] * limb
            first += [begin] * root
    return np.array(first + [len(first)] * 20)


def primitives_kernel(types, numbers=None, flags=None):
    """One block: solve, multiply and add_rows on the same inputs; ``numbers`` for the vectors of products."""
    numbers = numbers or types
    variant = Variant(matrix=types, vector=types)
    solve, multiply_A = factor_and_solve.of(variant), multiply.of(variant | {"vector": numbers})
    store, add = store_force.of(variant), add_rows.of(variant)
    scalar = types.scalar
    reals, vectors, wide = (wp.array(dtype=t) for t in (scalar, types.vec3, numbers.scalar))

    def run(
        rows: RowPattern,
        start: int,
        count: int,
        coupled: int,
        A: reals,
        right: wide,
        Sw: vectors,
        Sv: vectors,
        factored: reals,
        x: reals,
        product: wide,
        forces: reals,
        products: reals,
        columns: reals,
        ok: wp.array(dtype=wp.int32),
    ):
        pattern = rows
        for e in range(start + lane(), start + count, wp.block_dim()):
            x[e] = scalar(right[e])
        if coupled == 0:
            multiply_A(A, pattern, start, count, right, product)
            for e in range(start + lane(), start + count, wp.block_dim()):
                store(forces, start, count, e, Sw[e], Sv[e])
            barrier()
            add(products, pattern, A, pattern, start, count, Sw, Sv, forces, 0)
            add(columns, pattern, products, pattern, start, count, Sw, Sv, forces, 1)
        barrier()
        good = solve(factored, pattern, start, count, coupled, x)
        if lane() == 0:
            ok[0] = good

    if flags is None:
        return solver_kernel(run)
    flags = f"{flags} {compiler_flags()}"
    return wp.kernel(run, module="unique", enable_backward=False, module_options={"cpu_compiler_flags": flags})


def run_primitives(case, kernel, rng, block_dim=1, numbers=None):
    n, types, numbers = case.n, case.types, numbers or case.types
    A = case.pack(case.A)
    right, S = rng.normal(size=n), rng.normal(size=(2, n, 3))
    inputs = [
        case.pattern(),
        case.start,
        case.count,
        case.coupled,
        A,
        wp.array(right, dtype=numbers.scalar, device="cpu"),
        *(wp.array(values, dtype=types.vec3, device="cpu") for values in S),
    ]
    outputs = {
        "factored": wp.clone(A),
        "x": wp.zeros(n, dtype=types.scalar, device="cpu"),
        "product": wp.zeros(n, dtype=numbers.scalar, device="cpu"),
        "forces": wp.zeros(6 * n, dtype=types.scalar, device="cpu"),
        "products": wp.zeros_like(A),
        "columns": wp.zeros_like(A),
        "ok": wp.zeros(1, dtype=wp.int32, device="cpu"),
    }
    wp.launch(kernel, dim=block_dim, inputs=inputs, outputs=list(outputs.values()), block_dim=block_dim, device="cpu")
    return right, S, outputs


def check_primitives(case, right, S, out, tolerance):
    """Factor, solution, product and column sums against NumPy; the other world is untouched."""
    world, A = case.world, case.A[case.world, case.world]
    assert out["ok"].numpy()[0] == 1
    before = case.entry[case.start]
    L = case.unpack(out["factored"])[world, world]
    np.fill_diagonal(L, 1.0 / np.diag(L))
    np.testing.assert_allclose(L, case.L[world, world], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(out["factored"].numpy()[:before], case.pack(case.A).numpy()[:before])
    x = out["x"].numpy()
    np.testing.assert_allclose(A @ x[world], right[world], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(x[: case.start], 0.0)
    if case.coupled:
        return
    product, columns = out["product"].numpy(), out["columns"].numpy()
    np.testing.assert_allclose(product[world], A @ right[world], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(product[: case.start], 0.0)
    S6 = np.concatenate(S, axis=1)[world]
    pattern = case.unpack(case.pack(np.ones((case.n, case.n))))[world, world]
    sums = case.unpack(out["columns"])[world, world]
    np.testing.assert_allclose(sums, 2.0 * (S6 @ S6.T) * pattern, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(columns[:before], 0.0)


def tolerance_of(types):
    return 1e-3 if types is FP32 else 1e-11  # the condition numbers are below 1e3


@pytest.mark.parametrize("types, numbers", [(FP32, FP32), (FP64, FP64), (FP32, FP64)], ids=["fp32", "fp64", "mixed"])
def test_primitives_match_numpy_by_one_lane_and_by_several(cpu_blocks, types, numbers):
    """All panel sizes, tree rows and widened rows: native code, shared code and NumPy agree to round-off."""
    tolerance = tolerance_of(types)
    kernel = primitives_kernel(types, numbers)
    for coupled in (False, True):
        for first in (None, trees_of_all_sizes()):
            case = Packed(np.random.default_rng(3), types, coupled, first)
            for lanes in (1, 4):
                results = run_primitives(case, kernel, np.random.default_rng(4), lanes, numbers)
                check_primitives(case, *results, tolerance)


@pytest.mark.parametrize("dofs", [2, 9, 530])
def test_chains_shorter_and_longer_than_the_panels_buffer(fp64_kernel, dofs):
    """Two dofs, one more than a panel, and rows longer than the panels' buffer of 504 columns."""
    case = Packed(np.random.default_rng(9), FP64, False, np.zeros(dofs, np.int64))
    check_primitives(case, *run_primitives(case, fp64_kernel, np.random.default_rng(10)), 1e-9)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 machines")
def test_primitives_do_not_need_the_vector_registers_of_this_machine():
    """The same snippets for a machine with 128-bit registers and no fused multiply-add."""
    kernel = primitives_kernel(FP64, flags="-target-cpu x86-64")
    for coupled in (False, True):
        case = Packed(np.random.default_rng(3), FP64, coupled, trees_of_all_sizes())
        check_primitives(case, *run_primitives(case, kernel, np.random.default_rng(4)), 1e-11)


@pytest.fixture(scope="module")
def fp64_kernel():
    return primitives_kernel(FP64)


@pytest.mark.parametrize("spoil", [-1.0, 0.0, np.nan, np.inf])
def test_factorization_reports_a_matrix_that_is_not_positive_definite(fp64_kernel, spoil):
    """A bad pivot in a limb, in the middle and in the last row of a panel gives 0, not a silent result."""
    for coupled in (False, True):
        case = Packed(np.random.default_rng(5), FP64, coupled, trees_of_all_sizes())
        good = case.A.copy()
        for i in (case.start, case.n // 2, case.n - 14, case.n - 1):
            case.A = good.copy()
            case.A[i, i] = spoil
            assert run_primitives(case, fp64_kernel, np.random.default_rng(6))[2]["ok"].numpy()[0] == 0


@pytest.mark.parametrize("coupled", [False, True], ids=["tree", "coupled"])
def test_lanes_share_the_primitives_without_changing_the_result(cpu_blocks, fp64_kernel, coupled):
    """4 and 32 lanes give the same bits, every entry is computed by one lane; one lane alone has another order."""
    for first in (None, trees_of_all_sizes()):
        case = Packed(np.random.default_rng(7), FP64, coupled, first)
        results = {n: run_primitives(case, fp64_kernel, np.random.default_rng(8), n) for n in (1, 4, 32)}
        check_primitives(case, *results[4], 1e-11)
        for name, values in results[4][2].items():
            np.testing.assert_array_equal(results[32][2][name].numpy(), values.numpy(), err_msg=name)
            np.testing.assert_allclose(
                results[1][2][name].numpy(), values.numpy(), rtol=1e-11, atol=1e-11, err_msg=name
            )


def test_block_sum_is_the_same_on_every_lane(cpu_blocks):
    """All lanes get the sum over the block, whatever its size."""
    sum_over_block = block_sum.on(dtype=Constant(wp.vec3d)).of(Variant())

    @solver_kernel
    def total(scratch: wp.array(dtype=wp.vec3d), out: wp.array(dtype=wp.vec3d)):
        world = wp.tid() // wp.block_dim()
        x = wp.float64(wp.tid())
        out[wp.tid()] = sum_over_block(wp.vec3d(x, wp.float64(1.0), -x), scratch, world)

    for block_dim in (1, 4, 32):
        scratch, out = (wp.zeros(3 * block_dim, dtype=wp.vec3d, device="cpu") for _ in range(2))
        wp.launch(total, dim=3 * block_dim, outputs=[scratch, out], block_dim=block_dim, device="cpu")
        ids = np.arange(3 * block_dim).reshape(3, block_dim).sum(axis=1)
        expected = np.stack([ids, np.full(3, block_dim), -ids], axis=1)
        np.testing.assert_array_equal(out.numpy().reshape(3, block_dim, 3), np.repeat(expected[:, None], block_dim, 1))


@pytest.mark.slow
def test_solver_gives_the_same_step_with_1_and_4_lanes(cpu_blocks):
    """Each evaluation agrees to round-off, the solved velocity to 1e-9 with tight tolerances.

    `tests/cuda` compares 32 lanes with one.
    """
    rng = np.random.default_rng(11)
    model = random_model(rng, 4, exact=True)
    q, qd = random_state(rng, model, exact=True)
    records = [r for w in range(4) for r in random_contacts(rng, model, w, 8, q, exact=True)]
    contacts, controls = fill_newton_contacts(model, records), random_controls(rng, model)
    results = {}
    for block_dim in (1, 4):
        solver = sap_warp.SolverSAP(
            model,
            contact_preset_variant="drake",
            line_search_variant="exact_root",
            optimality_rel_tol=1e-12,
            block_dim=block_dim,
        )
        state, after, control = (
            solver.sap_model.state("fp64"),
            solver.sap_model.state("fp64"),
            solver.sap_model.control(),
        )
        state.joint_q.assign(q)
        state.joint_qd.assign(qd)
        control.joint_f.assign(controls["joint_f"].astype(np.float32))
        solver.step(state, after, control, contacts, 0.01)
        assert solver.last_contact_count > 0 and solver.last_solve_iterations > 1
        evaluations = {
            "A": solver.free_motion.data.A,
            "impulse": solver.free_motion.data.impulse,
            "w": solver.contact_jacobian.data.weight,
            "phi0": solver.contact_jacobian.data.phi0,
        }
        solved = {"v": solver.contact_solve.velocity, "q": after.joint_q, "qd": after.joint_qd}
        results[block_dim] = (
            {k: a.numpy() for k, a in evaluations.items()},
            {k: a.numpy() for k, a in solved.items()},
        )
    for name, values in results[1][0].items():
        np.testing.assert_allclose(results[4][0][name], values, rtol=1e-13, atol=1e-13, err_msg=name)
    for name, values in results[1][1].items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(results[4][1][name], values, rtol=1e-9, atol=1e-9 * scale, err_msg=name)
