"""Heights above the faces of a hull: eight at a time, one by one, and with NumPy."""

import numpy as np
import pytest
import warp as wp

from sap_warp.collision.narrow.hulls.planes import PADDING, plane_heights, steep_planes
from sap_warp.core.kernels.launch import kernel
from sap_warp.core.kernels.template import Variant
from sap_warp.core.kernels.types import Floats, Ints

FIRST = 3


@kernel
def look(
    x: Floats,
    y: Floats,
    z: Floats,
    offset: Floats,
    stretch: Floats,
    at: wp.vec3f,
    limit: float,
    heights: Floats,
    steep: Ints,
) -> None:
    """The two functions for the planes from `FIRST` on; the highest plane and the number of steep ones come last."""
    count = offset.shape[0] - 8 - 3
    steep[steep.shape[0] - 2] = plane_heights(x, y, z, offset, 3, count, at, heights)
    steep[steep.shape[0] - 1] = steep_planes(heights, stretch, 3, count, limit, steep)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 125])
def test_as_with_numpy(count):
    """In the native build and, in a block of two lanes, in the plain one; equal heights: the first one counts."""
    rng = np.random.default_rng(count)
    normals = rng.normal(size=(FIRST + count + PADDING, 3)).astype(np.float32)
    offsets = rng.normal(size=len(normals)).astype(np.float32)
    stretches = rng.uniform(1.0, 1.5, len(normals)).astype(np.float32)
    at = rng.normal(size=3).astype(np.float32)
    expected = (normals @ at - offsets)[FIRST:-PADDING]
    top = int(expected.argmax())
    if top + 1 < count:  # the same plane once more
        normals[FIRST + count - 1], offsets[FIRST + count - 1] = normals[FIRST + top], offsets[FIRST + top]
        expected[-1] = expected[top]
    offsets[FIRST + count :] = -1e3  # what lies behind is higher than all
    limit = float(np.median(expected)) + 1e-3
    stretched = np.where(expected > 0.0, expected * stretches[FIRST : FIRST + count], expected)
    for lanes in (1, 2):
        heights = wp.zeros(count + PADDING, dtype=float, device="cpu")
        steep = wp.zeros(count + PADDING + 2, dtype=int, device="cpu")
        planes = [
            wp.array(np.ascontiguousarray(v), dtype=float, device="cpu") for v in (*normals.T, offsets, stretches)
        ]
        inputs = [*planes, wp.vec3(*at), limit]
        wp.launch(look.of(Variant()), dim=lanes, inputs=inputs, outputs=[heights, steep], block_dim=lanes, device="cpu")
        np.testing.assert_allclose(heights.numpy()[:count], expected, atol=1e-5)
        *listed, found_top, found = steep.numpy()
        assert found_top == top
        np.testing.assert_array_equal(listed[:found], np.flatnonzero(stretched > limit))
