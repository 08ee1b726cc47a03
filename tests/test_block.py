"""Block primitives: native snippets against plain Warp twins and NumPy; one lane and many; CPU and CUDA builds."""

import re
import shutil
import subprocess

import numpy as np
import pytest
import warp as wp
from oracle import fill_newton_contacts, random_contacts, random_controls, random_model, random_state

import sap_warp
from sap_warp.precision import FP32, FP64
from sap_warp.solver.block import (
    barrier,
    lane,
    make_add_rows,
    make_block_sum,
    make_cholesky,
    make_copy,
    make_multiply,
)
from sap_warp.solver.boundary import make_boundary_kernels
from sap_warp.solver.contact_binning import make_bin_kernel
from sap_warp.solver.contact_jacobian import make_contact_kernel
from sap_warp.solver.contact_solve import make_solve_kernel
from sap_warp.solver.free_motion import make_free_motion_kernel
from sap_warp.solver.integrate import make_integrate_kernel
from sap_warp.solver.kinematics import make_pack_kernel
from sap_warp.solver.layout import build_layout

ARCHITECTURES = (90,)


@pytest.fixture
def cpu_blocks():
    """Blocks of several lanes on the CPU, as cooperative fibers with real barriers."""
    before = wp.config.enable_cpu_blocks
    wp.config.enable_cpu_blocks = True
    yield
    wp.config.enable_cpu_blocks = before


class Packed:
    """A random positive definite matrix of one world in packed tree rows, optionally widened."""

    def __init__(self, rng, types, coupled):
        self.types, self.coupled = types, int(coupled)
        self.layout, sizes = build_layout(random_model(rng, 1, trees=3))
        self.n = sizes.dof_count
        self.first = self.layout.dof_first.numpy().copy()
        if coupled:
            for i in rng.choice(self.n, 5):
                self.first[i] = min(self.first[i], rng.integers(0, i + 1))
        L = np.zeros((self.n, self.n))
        for i in range(self.n):
            L[i, self.first[i] : i] = rng.normal(size=i - self.first[i])
            L[i, i] = rng.uniform(1.0, 2.0)
        self.L, self.A = L, L @ L.T
        lengths = np.arange(self.n) - self.first + 1
        self.entry = np.concatenate([[0], np.cumsum(lengths)])[:-1]

    def arguments(self):
        first, entry = (wp.array(a.astype(np.int32), dtype=wp.int32, device="cpu") for a in (self.first, self.entry))
        return first, entry, self.layout.dof_above, self.layout.dof_above_start

    def pack(self, matrix):
        rows = [matrix[i, self.first[i] : i + 1] for i in range(self.n)]
        return wp.array(np.concatenate(rows), dtype=self.types.scalar, device="cpu")

    def unpack(self, packed):
        values, matrix = packed.numpy(), np.zeros((self.n, self.n))
        for i in range(self.n):
            matrix[i, self.first[i] : i + 1] = values[self.entry[i] : self.entry[i] + i - self.first[i] + 1]
        return matrix


def primitives_kernel(types, native):
    """One block: factor, solve, multiply and add_rows on the same inputs."""
    cholesky = make_cholesky(types, native)
    factor, solve = cholesky.factor, cholesky.solve
    multiply = make_multiply(types, types, native)
    columns_of = make_add_rows(types, types, types, native)
    store_force, add_rows = columns_of.store_force, columns_of.add_rows
    copy = make_copy(types, types, native)
    scalar, vec3 = types.scalar, types.vec3

    @wp.kernel(module="unique", enable_backward=False)
    def run(
        first: wp.array(dtype=wp.int32),
        entry: wp.array(dtype=wp.int32),
        above: wp.array(dtype=wp.int32),
        above_start: wp.array(dtype=wp.int32),
        count: int,
        coupled: int,
        A: wp.array(dtype=scalar),
        factored: wp.array(dtype=scalar),
        x: wp.array(dtype=scalar),
        product: wp.array(dtype=scalar),
        Sw: wp.array(dtype=vec3),
        Sv: wp.array(dtype=vec3),
        forces: wp.array(dtype=scalar),
        products: wp.array(dtype=scalar),
        columns: wp.array(dtype=scalar),
        ok: wp.array(dtype=wp.int32),
    ):
        copy(A, 0, factored, 0, A.shape[0])
        if coupled == 0:
            multiply(A, first, entry, above, above_start, 0, count, x, product)
            for e in range(lane(), count, wp.block_dim()):
                store_force(forces, 0, count, e, Sw[e], Sv[e])
            barrier()
            add_rows(products, first, entry, A, first, entry, 0, count, Sw, Sv, forces, 0)
            add_rows(columns, first, entry, products, first, entry, 0, count, Sw, Sv, forces, 1)
        barrier()
        good = factor(factored, first, entry, above, above_start, 0, count, coupled)
        if good != 0:
            solve(factored, first, entry, above, above_start, 0, count, coupled, x)
        if lane() == 0:
            ok[0] = good

    return run


def run_primitives(case, kernel, rng, block_dim=1):
    n, scalar, vec3 = case.n, case.types.scalar, case.types.vec3
    A = case.pack(case.A)
    right = rng.normal(size=n)
    S = rng.normal(size=(2, n, 3))
    outputs = {
        "factored": wp.zeros_like(A),
        "x": wp.array(right, dtype=scalar, device="cpu"),
        "product": wp.zeros(n, dtype=scalar, device="cpu"),
        "Sw": wp.array(S[0], dtype=vec3, device="cpu"),
        "Sv": wp.array(S[1], dtype=vec3, device="cpu"),
        "forces": wp.zeros(6 * n, dtype=scalar, device="cpu"),
        "products": wp.zeros_like(A),
        "columns": wp.zeros_like(A),
        "ok": wp.zeros(1, dtype=wp.int32, device="cpu"),
    }
    inputs = [*case.arguments(), n, case.coupled, A]
    wp.launch(kernel, dim=block_dim, inputs=inputs, outputs=list(outputs.values()), block_dim=block_dim, device="cpu")
    return right, S, outputs


@pytest.mark.parametrize("coupled", [False, True], ids=["tree", "coupled"])
@pytest.mark.parametrize("types", [FP32, FP64], ids=lambda t: t.name)
def test_native_primitives_match_numpy_and_their_plain_twins(types, coupled):
    """Factor, solve, product and column sums: native, plain Warp and NumPy agree to the precision's round-off."""
    tolerance = 1e-3 if types is FP32 else 1e-11  # the random matrices have condition numbers up to about 1e3
    case = Packed(np.random.default_rng(3), types, coupled)
    results = {}
    for native in (True, False):
        right, S, out = run_primitives(case, primitives_kernel(types, native), np.random.default_rng(4))
        assert out["ok"].numpy()[0] == 1
        results[native] = out
        L = case.unpack(out["factored"])
        np.fill_diagonal(L, 1.0 / np.diag(L))
        np.testing.assert_allclose(L, case.L, atol=tolerance)
        np.testing.assert_allclose(out["x"].numpy(), np.linalg.solve(case.A, right), rtol=tolerance, atol=tolerance)
        if not coupled:
            np.testing.assert_allclose(out["product"].numpy(), case.A @ right, rtol=tolerance, atol=tolerance)
            S6 = np.concatenate(S, axis=1)
            pattern = case.unpack(case.pack(np.ones((case.n, case.n))))
            np.testing.assert_allclose(case.unpack(out["columns"]), 2.0 * (S6 @ S6.T) * pattern, rtol=1e-4, atol=1e-4)
    for name in ("factored", "x", "product", "columns"):
        np.testing.assert_allclose(
            results[True][name].numpy(), results[False][name].numpy(), rtol=tolerance, atol=tolerance
        )


def test_factorization_reports_a_matrix_that_is_not_positive_definite():
    """An indefinite matrix and one with nan give 0, not a silent result."""
    kernel = primitives_kernel(FP64, True)
    for spoil in (-1.0, np.nan, np.inf):
        case = Packed(np.random.default_rng(5), FP64, False)
        case.A[case.n // 2, case.n // 2] = spoil
        assert run_primitives(case, kernel, np.random.default_rng(6))[2]["ok"].numpy()[0] == 0


@pytest.mark.parametrize("coupled", [False, True], ids=["tree", "coupled"])
def test_lanes_share_the_primitives_without_changing_the_result(cpu_blocks, coupled):
    """One, 4 and 32 lanes give the same bits: every entry is computed by one lane in one order."""
    kernel = primitives_kernel(FP64, True)
    case = Packed(np.random.default_rng(7), FP64, coupled)
    reference = run_primitives(case, kernel, np.random.default_rng(8))[2]
    for block_dim in (4, 32):
        other = run_primitives(case, kernel, np.random.default_rng(8), block_dim)[2]
        for name, values in reference.items():
            np.testing.assert_array_equal(other[name].numpy(), values.numpy(), err_msg=f"{name} with {block_dim} lanes")


def test_block_sum_is_the_same_on_every_lane(cpu_blocks):
    """All lanes get the sum over the block, whatever its size."""
    block_sum = make_block_sum(wp.vec3d)

    @wp.kernel(module="unique", enable_backward=False)
    def total(scratch: wp.array(dtype=wp.vec3d), out: wp.array(dtype=wp.vec3d)):
        world = wp.tid() // wp.block_dim()
        x = wp.float64(wp.tid())
        out[wp.tid()] = block_sum(wp.vec3d(x, wp.float64(1.0), -x), scratch, world)

    for block_dim in (1, 4, 32):
        scratch, out = (wp.zeros(3 * block_dim, dtype=wp.vec3d, device="cpu") for _ in range(2))
        wp.launch(total, dim=3 * block_dim, outputs=[scratch, out], block_dim=block_dim, device="cpu")
        ids = np.arange(3 * block_dim).reshape(3, block_dim).sum(axis=1)
        expected = np.stack([ids, np.full(3, block_dim), -ids], axis=1)
        np.testing.assert_array_equal(out.numpy().reshape(3, block_dim, 3), np.repeat(expected[:, None], block_dim, 1))


@pytest.mark.slow
def test_solver_gives_the_same_step_with_1_4_and_32_lanes(cpu_blocks):
    """Each evaluation agrees to round-off, the solved velocity to 1e-9 with tight tolerances."""
    rng = np.random.default_rng(11)
    model = random_model(rng, 4, exact=True)
    q, qd = random_state(rng, model, exact=True)
    records = [r for w in range(4) for r in random_contacts(rng, model, w, 8, q, exact=True)]
    contacts, controls = fill_newton_contacts(model, records), random_controls(rng, model)
    results = {}
    for block_dim in (1, 4, 32):
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
            "v*": solver.free_motion.data.v_star,
            "w": solver.contact_jacobian.data.weight,
            "phi0": solver.contact_jacobian.data.phi0,
        }
        solved = {"v": solver.contact_solve.velocity, "q": after.joint_q, "qd": after.joint_qd}
        results[block_dim] = (
            {k: a.numpy() for k, a in evaluations.items()},
            {k: a.numpy() for k, a in solved.items()},
        )
    for block_dim in (4, 32):
        for name, values in results[1][0].items():
            np.testing.assert_allclose(results[block_dim][0][name], values, rtol=1e-13, atol=1e-13, err_msg=name)
        for name, values in results[1][1].items():
            scale = np.abs(values).max()
            np.testing.assert_allclose(results[block_dim][1][name], values, rtol=1e-9, atol=1e-9 * scale, err_msg=name)


def modules():
    """Every module of a step: the default preset, and all-fp64 for the other presets."""
    return {
        "boundary, fp32 state": make_boundary_kernels(FP32).read,
        "boundary, fp64 state": make_boundary_kernels(FP64).read,
        "pack links": make_pack_kernel(FP64),
        "free motion, fp32": make_free_motion_kernel(FP32, FP32),
        "free motion, fp64": make_free_motion_kernel(FP64, FP64),
        "bin contacts": make_bin_kernel(FP32, FP32, FP32),
        "contact data, approx32": make_contact_kernel(FP32, FP32, FP32, FP32, FP64),
        "contact data, fp64": make_contact_kernel(FP64, FP64, FP64, FP64, FP64),
        "solve, approx32": make_solve_kernel(FP32, FP64, FP32, FP32),
        "solve, fp64": make_solve_kernel(FP64, FP64, FP64, FP64),
        "integrate, fp32 state": make_integrate_kernel(FP32),
        "integrate, fp64 state": make_integrate_kernel(FP64),
    }


@pytest.mark.slow
def test_every_module_compiles_for_cuda(tmp_path, record_property):
    """NVRTC builds all modules for one architecture; the summary has registers and spills where ptxas is at hand."""
    for name, kernel in modules().items():
        folder = tmp_path / re.sub(r"\W+", "_", name)
        files = wp.compile_aot_module(kernel.module, arch=list(ARCHITECTURES), module_dir=folder, use_ptx=True)
        ptx = [f for f in files if f.suffix == ".ptx"]
        assert len(ptx) == len(ARCHITECTURES), f"{name}: {files}"
        for file in ptx:
            assert ".visible .entry" in file.read_text(errors="ignore")
        record_property(name, register_use(ptx[0], ARCHITECTURES[0]))


def register_use(file, arch):
    """Registers and spills of one build, if there is a ptxas to tell."""
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        return "built; no ptxas to report registers"
    # An older ptxas refuses a newer version line, though it knows the instructions.
    text = re.sub(r"^\.version \S+", ".version 8.7", file.read_text(errors="ignore").replace("\0", ""), flags=re.M)
    source = file.with_suffix(".check.ptx")
    source.write_text(text)
    command = [ptxas, "-v", "-O1", f"-arch=sm_{arch}", "-o", "/dev/null", source]
    report = subprocess.run(command, capture_output=True, text=True).stderr
    used, spilled = (re.findall(p, report) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores"))
    if not used:
        return "built; this ptxas does not read it"
    return f"sm_{arch} {max(map(int, used))} registers, {max(map(int, spilled))} bytes spilled"
