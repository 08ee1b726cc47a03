"""Structs of arrays: how large they may be, and what blocks have of the scratch that worlds share."""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from sap_warp.core.kernels.scratch import WARPS_PER_MULTIPROCESSOR, Scratch
from sap_warp.core.kernels.structs import LARGEST_INDEX, allocate_arrays


@wp.struct
class Pair:
    few: wp.array(dtype=wp.int32)
    many: wp.array(dtype=wp.float64)


def test_arrays_that_cannot_be_numbered_are_refused():
    """Before anything of that size is allocated; the largest number counts, with the room behind the end."""
    with pytest.raises(
        ValueError, match=r"many would have 2,147,483,640 entries, too many for 32-bit .*max_rigid_contact"
    ):
        allocate_arrays(Pair(), {"many": LARGEST_INDEX - 7}, 3, "cpu")
    made = Pair()
    allocate_arrays(made, {"many": 5}, 3, "cpu")
    assert (made.few.size, made.many.size) == (3, 5)


@pytest.mark.parametrize(
    ("dofs", "lanes", "slots", "blocks"),
    [
        ([6] * 100, 1, 1, 1),
        ([6] * 100, 32, 2 * WARPS_PER_MULTIPROCESSOR, 2 * WARPS_PER_MULTIPROCESSOR),
        ([6] * 500, 8, 2 * 6 * 12, 2 * 6),  # 6 blocks of 3 warps, in each of which are 4 worlds
        ([6] * 10, 32, 10, 2 * WARPS_PER_MULTIPROCESSOR),
        ([1] * 99 + [60], 32, 2 * WARPS_PER_MULTIPROCESSOR, 0),
    ],
)
def test_scratch_grows_with_blocks_and_not_with_worlds(dofs, lanes, slots, blocks):
    """As many slots as worlds at work, unless one large world among small ones would make them all large."""
    device = SimpleNamespace(is_cpu=lanes == 1, sm_count=2)
    start = SimpleNamespace(numpy=lambda: np.cumsum([0, *dofs]))
    total, hessian = sum(dofs), sum(n * (n + 1) // 2 for n in dofs)
    sizes = SimpleNamespace(body_count=total, dof_count=total, hessian_count=hessian, world_count=len(dofs))
    sizes.lanes = lanes
    found = Scratch(SimpleNamespace(world_body=start, world_dof=start), sizes, device, rows=7)
    is_shared = blocks > 0
    assert (found.at_work, bool(found.share.shared), found.max_blocks) == (slots, is_shared, blocks)
    assert found.dof_count == found.body_count == (slots * max(dofs) if is_shared else total)
    assert found.hessian_count == (slots * max(dofs) * (max(dofs) + 1) // 2 if is_shared else hessian)
    assert found.row_count == 7 * (slots if is_shared else len(dofs))
