"""Contact stiffness in columns, by native code and by the code of several lanes, against dense matrices."""

import numpy as np
import pytest
import warp as wp

from sap_warp.core.kernels.lanes import lane
from sap_warp.core.kernels.launch import solver_kernel
from sap_warp.core.kernels.template import Variant
from sap_warp.core.kernels.types import FP32, FP64
from sap_warp.solver.objective.stiffness import SIZE, add_child_stiffness, gather_stiffness, multiply_stiffness
from sap_warp.solver.terms.contact import Projection

ROWS, BODIES, DOFS = 7, 3, 5


def make_kernel(dynamics, types):
    """Body 0 takes the rows of both sides, body 1 some, body 2 none but those of the others; then K S of five dofs."""
    variant = Variant(dynamics=dynamics, solve=types, linear=types)
    gather, add_child, multiply = (
        function.of(variant) for function in (gather_stiffness, add_child_stiffness, multiply_stiffness)
    )
    Row = Projection.of(variant)
    scalar, vec3, column = types.scalar, types.vec3, dynamics.vec3

    @solver_kernel
    def use_stiffness(
        rows: wp.array(dtype=wp.int32),
        projection: wp.array(dtype=Row),
        normal: wp.array(dtype=vec3),
        r_a: wp.array(dtype=vec3),
        r_b: wp.array(dtype=vec3),
        Sw: wp.array(dtype=column),
        Sv: wp.array(dtype=column),
        K: wp.array(dtype=scalar),
        forces: wp.array(dtype=scalar),
    ):
        if lane() == 0:
            gather(K, 0, rows, 0, 4, projection, normal, r_a, r_b)
            gather(K, 1, rows, 4, 3, projection, normal, r_a, r_b)
            gather(K, 2, rows, 7, 0, projection, normal, r_a, r_b)
            add_child(K, 2, 1)
            add_child(K, 2, 0)
            multiply(K, 2, 1, 4, Sw, Sv, forces, 0, wp.static(DOFS))

    return use_stiffness


@pytest.mark.parametrize("types", [FP64, FP32], ids=lambda t: t.name)
def test_stiffness_is_that_of_dense_matrices(cpu_blocks, types):
    """One lane takes the native functions, a block of four the others."""
    rng = np.random.default_rng(3)
    real = np.float64 if types is FP64 else np.float32
    Row = Projection.of(Variant(solve=types))
    values = np.zeros(ROWS, dtype=Row.numpy_dtype())
    values["mode"] = [1, 2, 0, 2, 1, 0, 2]
    for name in ("across", "along_n", "along_s"):
        values[name] = rng.uniform(0.5, 2.0, ROWS)
    for name in ("t", "s"):
        values[name] = rng.normal(size=(ROWS, 3))
    arrays = {name: rng.normal(size=(n, 3)).astype(real) for name, n in (("n", ROWS), ("a", ROWS), ("b", ROWS))}
    columns = rng.normal(size=(2, DOFS, 3))
    sides = np.array([1, 0, 1, 1, 0, 1, 0])
    results = []
    for lanes in (1, 4):
        K, forces = wp.zeros(SIZE * BODIES, dtype=types.scalar), wp.zeros(6 * DOFS, dtype=types.scalar)
        wp.launch(
            make_kernel(FP64, types),
            dim=lanes,
            inputs=[
                wp.array(2 * np.arange(ROWS) + sides, dtype=wp.int32),
                wp.array(values, dtype=Row),
                *(wp.array(arrays[name], dtype=types.vec3) for name in "nab"),
                *(wp.array(part, dtype=wp.vec3d) for part in columns),
            ],
            outputs=[K, forces],
            block_dim=lanes,
            device="cpu",
        )
        results.append((K.numpy().reshape(BODIES, 6, 8), forces.numpy().reshape(6, DOFS)))
    expected = np.zeros((BODIES, 6, 6))
    for row in range(ROWS):
        r, arm = values[row], arrays["b" if sides[row] else "a"][row]
        n = arrays["n"][row]
        G = (r["across"] * np.eye(3) + r["along_n"] * np.outer(n, n)) * (r["mode"] > 0)
        if r["mode"] == 2:
            G += r["along_s"] * np.outer(r["s"], r["s"]) - r["across"] * np.outer(r["t"], r["t"])
        X = np.hstack([-np.array([[0, -arm[2], arm[1]], [arm[2], 0, -arm[0]], [-arm[1], arm[0], 0]]), np.eye(3)])
        expected[0 if row < 4 else 1] += X.T @ G @ X
    expected[2] = expected[0] + expected[1]
    tolerance = 1e-12 if types is FP64 else 1e-4
    for K, forces in results:
        np.testing.assert_allclose(K[:, :, :6], expected, atol=tolerance)
        np.testing.assert_array_equal(K[:, :, 6:], 0.0)
        np.testing.assert_allclose(forces[:, 1:4], expected[2] @ np.hstack(columns[:, 1:4]).T, atol=tolerance)
        np.testing.assert_array_equal(forces[:, [0, 4]], 0.0)
