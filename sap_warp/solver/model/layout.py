"""Per-world topology tables in solver order.

The solver numbers bodies and dofs of a world so that every subtree is one contiguous range that *ends* at its
root: children before parents, the world's trees one after another. Three things follow:

* row ``e`` of the mass matrix has its non-zeros exactly in the columns ``rows.first[e] .. e``, so rows are packed
  without gaps and a Cholesky factorization in this order makes no fill-in;
* "all dofs below a dof" is a range, "all dofs above a dof" is the chain ``dof_parent`` with growing indices;
* a contact between two moving bodies only widens rows to the left (`contact.lists`), so the same row storage
  and the same factorization serve trees, coupled trees and the dense case.

Kinematic bodies follow a given motion: the dofs of their joints are no unknowns. These *kinematic* dofs are
numbered after the dofs of all worlds, and no chain, row or range of a world contains one. Only root bodies may be
kinematic, so the given motion of a tree is the velocity of its root.

Moving bodies that Newton gives to all worlds (world -1) are one more world, after the others: nothing of a single world
acts on them (`support` sees to that), so they move once and alike for all.

Worlds may differ in topology: all tables are offset tables, nothing assumes equal sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import newton
import numpy as np
import warp as wp

from ...core.kernels.packed_rows import RowPattern
from ...core.kernels.warps import walks_chains
from ...model.joint_types import DISTANCE, FLOATING_JOINTS, QUATERNION_JOINTS, SCALAR_JOINTS
from .topology import kinematic_bodies, shared_trees, tree_joints


@wp.struct
class Runs:
    """Which entries of an array belong to the bodies of each world; mostly one run without a gap."""

    world: wp.array(dtype=wp.int32)  # first run, [worlds + 1]
    first: wp.array(dtype=wp.int32)  # entry of each run
    end: wp.array(dtype=wp.int32)


@wp.struct
class Layout:
    """Index tables of all worlds. Bodies and dofs are in solver order, numbered through all worlds."""

    world_body: wp.array(dtype=wp.int32)  # first body of each world, [worlds + 1]
    world_dof: wp.array(dtype=wp.int32)  # first dof, [worlds + 1]
    world_kinematic: wp.array(dtype=wp.int32)  # first kinematic dof, [worlds + 1]
    world_entry: wp.array(dtype=wp.int32)  # first packed entry of A, [worlds + 1]
    world_hessian: wp.array(dtype=wp.int32)  # first entry of the Hessian's storage, [worlds + 1]
    world_level: wp.array(dtype=wp.int32)  # first depth level, [worlds + 1]
    world_gravity: wp.array(dtype=wp.int32)  # index into model.gravity, [worlds]
    level_start: wp.array(dtype=wp.int32)  # first entry of level_body, [levels + 1]
    level_body: wp.array(dtype=wp.int32)  # bodies by depth, roots first

    body_world: wp.array(dtype=wp.int32)
    body_mask: wp.array(dtype=wp.int32)  # entry of Newton's world masks: the world, or the last one for global bodies
    body_newton: wp.array(dtype=wp.int32)  # Newton's body index
    body_joint: wp.array(dtype=wp.int32)  # Newton's index of the joint above the body
    body_parent: wp.array(dtype=wp.int32)  # -1 for a root
    body_root: wp.array(dtype=wp.int32)  # root body of the tree; its origin is the tree's reference point
    body_child: wp.array(dtype=wp.int32)  # first child or -1
    body_sibling: wp.array(dtype=wp.int32)  # next child of the same parent or -1
    body_dof: wp.array(dtype=wp.int32)  # first dof of the joint above
    body_dof_count: wp.array(dtype=wp.int32)
    body_kinematic: wp.array(dtype=wp.int32)  # 1 if the dofs of the joint above are kinematic
    body_chain: wp.array(dtype=wp.int32)  # first dof of the chain from the body to its root, -1 if it cannot move
    body_frame: wp.array(dtype=wp.int32)  # how the frame that a body's joint starts from moves, see FRAME_*

    dof_newton: wp.array(dtype=wp.int32)  # Newton's dof index, of kinematic dofs too
    dof_parameter: wp.array(dtype=wp.int32)  # index of armature and damping: floating joints store linear dofs first
    dof_coord: wp.array(dtype=wp.int32)  # Newton's joint_q index of a scalar dof, else -1
    dof_body: wp.array(dtype=wp.int32)
    dof_parent: wp.array(dtype=wp.int32)  # next dof of the chain to the root, -1 at its end
    rows: RowPattern  # of A: row e holds the dofs of the subtree that ends at e
    has_chains: int  # 1 if `rows` has the tables of who is above whom
    dof_reach: wp.array(dtype=wp.int32)  # first column of the Hessian's row without contacts: constraints widen it
    world_coupled: wp.array(dtype=wp.int32)  # 1 if constraints couple dofs that are not above one another, [worlds]

    term_dof: wp.array(dtype=wp.int32)  # dofs that may have terms, by world: those of floating joints never do
    world_term: wp.array(dtype=wp.int32)  # first of them, [worlds + 1]
    distance_body: wp.array(dtype=wp.int32)  # bodies below distance joints, by world
    world_distance: wp.array(dtype=wp.int32)  # first of them, [worlds + 1]

    coord_runs: Runs  # of joint_q
    dof_runs: Runs  # of joint_qd
    floating_child: wp.array(dtype=wp.int32)  # floating bodies below bodies with dofs, by world, parents first
    floating_child_depth: wp.array(dtype=wp.int32)  # of each of them in its tree
    world_floating_child: wp.array(dtype=wp.int32)  # first of them, [worlds + 1]
    turning_body: wp.array(dtype=wp.int32)  # bodies below free, distance and ball joints, by world
    world_turning: wp.array(dtype=wp.int32)  # first of them, [worlds + 1]
    loop_joint: wp.array(dtype=wp.int32)  # Newton's joints that close loops, by world of their child
    world_loop: wp.array(dtype=wp.int32)  # first of them, [worlds + 1]

    newton_body: wp.array(dtype=wp.int32)  # solver body of each Newton body


@wp.func
def moves(layout: wp.ref[Layout], e: int, body: int) -> bool:
    """Return True if dof e is above a body, which may be none (-1).

    The dofs of a subtree are a range that ends at its root.
    """
    if body < 0:
        return False
    chain = layout.body_chain[body]
    return chain >= layout.rows.first[e] and chain <= e


@dataclass(frozen=True)
class LayoutSizes:
    """Buffer sizes that follow from a layout."""

    world_count: int
    body_count: int
    dof_count: int
    """All dofs, kinematic ones included."""
    free_dof_count: int
    entry_count: int
    hessian_count: int
    distance_rows_max: int
    """Largest number of distance-joint rows of one world: two per joint, one for each bound."""
    floating_child_count: int
    """Floating bodies below bodies with dofs."""
    lanes: int
    """Lanes that share a world."""


FRAME_KINEMATIC = wp.constant(0)
"""A kinematic body above moves it, from one step to the next."""
FRAME_STILL = wp.constant(1)
"""It does not move."""
FRAME_DRIVEN = wp.constant(2)
"""Dofs above move it."""


def build_layout(model: newton.Model, lanes: int | None = None) -> tuple[Layout, LayoutSizes]:
    """Tabulate the trees of every world of ``model``.

    A model without local worlds, as a plain `newton.ModelBuilder` makes it, is one world. Tables that the
    ``lanes`` of a world do not need are left out.
    """
    return _Tables(model).assemble(lanes)


class _Tables:
    """Worlds of equal topology are worked out once, as a template that is spread over all of them."""

    def __init__(self, model: newton.Model):
        self.model = model
        self.joint_q_start = model.joint_q_start.numpy()
        self.joint_qd_start = model.joint_qd_start.numpy()
        tree = np.flatnonzero(tree_joints(model))
        child = model.joint_child.numpy()[tree]
        parent = np.full(model.body_count, -1, np.int64)
        self.joint = np.full(model.body_count, -1, np.int64)
        parent[child] = model.joint_parent.numpy()[tree]
        self.joint[child] = tree
        body_world = model.body_world.numpy()
        is_global = bool((body_world < 0).all())
        shared = shared_trees(model)
        local = 1 if is_global else model.world_count
        self.count = count = local + int(shared.any())
        self.body_mask = np.where(body_world < 0, 0 if is_global else local, body_world)
        # of the bodies of all worlds, the first world computes what does not respond to forces
        body_world = np.where(shared, local, np.maximum(body_world, 0))
        self.loops = np.setdiff1d(np.arange(model.joint_count), tree)
        loop_world = body_world[model.joint_child.numpy()[self.loops]]
        self.loops = self.loops[np.argsort(loop_world, kind="stable")]
        self.world_loop = np.searchsorted(np.sort(loop_world), np.arange(count + 1))
        self.order = np.argsort(body_world, kind="stable")
        self.templates, self.template = self._find_templates(parent, body_world)

    def _find_templates(
        self, parent: np.ndarray, body_world: np.ndarray
    ) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
        """Return the local tables of each topology, and the topology of each world."""
        bodies = np.bincount(body_world, minlength=self.count)
        start = np.cumsum(bodies) - bodies
        index = np.empty(len(parent), np.int64)  # of each body in its world
        index[self.order] = np.arange(len(parent)) - np.repeat(start, bodies)
        has_parent = (parent >= 0) & (body_world[parent] == body_world)
        kind = self.model.joint_type.numpy()[self.joint]
        dofs = self.joint_qd_start[self.joint + 1] - self.joint_qd_start[self.joint]
        row = np.stack([np.where(has_parent, index[parent], -1), kind, dofs, kinematic_bodies(self.model)], axis=1)
        row = row[self.order]
        templates: list[dict[str, np.ndarray]] = []
        template = np.empty(self.count, np.int64)
        for size in np.unique(bodies):
            worlds = np.flatnonzero(bodies == size)
            rows = row[start[worlds, None] + np.arange(size)].reshape(len(worlds), -1)
            first, which = _distinct_rows(rows)
            template[worlds] = len(templates) + which
            templates += [_order_world(*rows[i].reshape(size, 4).T) for i in first]
        return templates, template

    def assemble(self, lanes: int | None) -> tuple[Layout, LayoutSizes]:
        """Spread the templates over the worlds, shifting every index by what came before."""
        lengths = {
            "body": "source",
            "dof": "dof_body",
            "kinematic": "kinematic_body",
            "level": "level_body_start",
            "term": "term_dof",
            "distance": "distance_body",
            "turning": "turning_body",
            "floating_child": "floating_child",
            "above": "dof_above",
        }
        sizes = {unit: self._of_worlds([len(t[name]) for t in self.templates]) for unit, name in lengths.items()}
        sizes["entry"] = self._of_worlds([t["entry_count"] for t in self.templates])
        sizes["hessian"] = sizes["dof"] * (sizes["dof"] + 1) // 2
        start = {name: np.concatenate([[0], np.cumsum(count)]) for name, count in sizes.items()}
        rows_of = {name: values.copy() for name, values in start.items()}
        start["kinematic"] += start["dof"][-1]
        if max(int(s[-1]) for s in start.values()) >= 2**31:
            raise ValueError("The model is too large for 32-bit indices: split its worlds over several solvers.")

        def spread(name: str, rows: str, unit: str | None = None) -> np.ndarray:
            """Return a table of all worlds with an entry for each of ``rows``; entries count ``unit``, -1 stays."""
            result = np.empty(int(rows_of[rows][-1]), np.int64)
            for i, template in enumerate(self.templates):
                worlds = slice(None) if len(self.templates) == 1 else np.flatnonzero(self.template == i)
                values = template[name]
                shifted = values if unit is None else values + np.where(values < 0, 0, start[unit][:-1][worlds, None])
                result[rows_of[rows][:-1][worlds, None] + np.arange(len(values))] = shifted
            return result

        kinematic = spread("body_kinematic", "body")
        body_newton = self.order[spread("source", "body", "body")]
        body_joint = self.joint[body_newton]
        dof_body = spread("dof_body", "dof", "body")
        owner, within = body_joint[dof_body], spread("dof_within", "dof")
        moved = body_joint[spread("kinematic_body", "kinematic", "body")]
        coord = self.joint_q_start[owner] + within
        names = (
            "body",
            "dof",
            "kinematic",
            "entry",
            "hessian",
            "level",
            "term",
            "distance",
            "turning",
            "floating_child",
        )
        arrays = {
            **{f"world_{name}": start[name] for name in names},
            "world_gravity": np.arange(self.count),
            "level_start": np.append(spread("level_body_start", "level", "body"), start["body"][-1]),
            "level_body": spread("level_body", "body", "body"),
            "body_world": np.repeat(np.arange(self.count), sizes["body"]),
            "body_mask": self.body_mask[body_newton],
            "body_newton": body_newton,
            "body_joint": body_joint,
            **{f"body_{n}": spread(f"body_{n}", "body", "body") for n in ("parent", "root", "child", "sibling")},
            "body_dof": np.where(kinematic, spread("body_dof", "body", "kinematic"), spread("body_dof", "body", "dof")),
            "body_kinematic": kinematic,
            "body_dof_count": spread("body_dof_count", "body"),
            "body_chain": spread("body_chain", "body", "dof"),
            "body_frame": spread("body_frame", "body"),
            "dof_newton": np.concatenate(
                [
                    self.joint_qd_start[owner] + within,
                    self.joint_qd_start[moved] + spread("kinematic_within", "kinematic"),
                ]
            ),
            "dof_parameter": self.joint_qd_start[owner] + spread("dof_parameter", "dof"),
            "dof_coord": np.where(spread("dof_scalar", "dof"), coord, -1),
            "dof_body": dof_body,
            "dof_parent": spread("dof_parent", "dof", "dof"),
            "dof_reach": spread("dof_first", "dof", "dof"),
            "world_coupled": np.zeros(self.count),
            "term_dof": spread("term_dof", "term", "dof"),
            "distance_body": spread("distance_body", "distance", "body"),
            "turning_body": spread("turning_body", "turning", "body"),
            "floating_child": spread("floating_child", "floating_child", "body"),
            "floating_child_depth": spread("floating_child_depth", "floating_child"),
            "loop_joint": self.loops,
            "world_loop": self.world_loop,
            "newton_body": np.argsort(body_newton),
        }
        rows = {"first": arrays["dof_reach"], "entry": spread("dof_entry", "dof", "entry")}
        chains = lanes is None or walks_chains(lanes, int(sizes["dof"].max()), self.model.device)
        if chains:
            rows |= {
                "above": spread("dof_above", "above", "dof"),
                "above_start": np.concatenate([[0], np.cumsum(spread("dof_above_count", "dof"))]),
                "staged": spread("dof_staged", "dof", "dof"),
                "stage_end": spread("dof_stage_end", "dof", "dof"),
            }
        layout: Any = Layout()
        layout.has_chains = int(chains)
        coord_runs, dof_runs = (
            _runs(start, body_joint, sizes["body"]) for start in (self.joint_q_start, self.joint_qd_start)
        )
        parts = ((layout.rows, rows), (layout.coord_runs, coord_runs), (layout.dof_runs, dof_runs))
        for struct, tables in ((layout, arrays), *parts):
            for name, values in tables.items():
                setattr(struct, name, wp.array(values.astype(np.int32), dtype=wp.int32, device=self.model.device))
        return layout, LayoutSizes(
            world_count=self.count,
            body_count=int(start["body"][-1]),
            dof_count=int(start["kinematic"][-1]),
            free_dof_count=int(start["dof"][-1]),
            entry_count=int(start["entry"][-1]),
            hessian_count=int(start["hessian"][-1]),
            distance_rows_max=2 * int(sizes["distance"].max()),
            floating_child_count=int(start["floating_child"][-1]),
            lanes=lanes or 1,
        )

    def _of_worlds(self, of_templates: Sequence[Any]) -> np.ndarray:
        """Return a number of each template for each world."""
        return np.array(of_templates, np.int64)[self.template]


def _distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of rows that differ, and for every row which of them it equals; most often there is one."""
    if not (rows != rows[:1]).any():
        return np.zeros(1, np.int64), np.zeros(len(rows), np.int64)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def _runs(start: np.ndarray, joints: np.ndarray, bodies: np.ndarray) -> dict[str, np.ndarray]:
    """Return runs of indices without a gap that the ``joints`` of each world take, from where each joint starts."""
    world = np.repeat(np.arange(len(bodies)), bodies)
    first, end = start[joints], start[joints + 1]
    order = np.lexsort((first, world))
    order = order[(end > first)[order]]
    world, first, end = world[order], first[order], end[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (world[1:] != world[:-1]) | (first[1:] != end[:-1])
    ends = np.append(begins[1:], True)[: len(order)]
    starts = np.searchsorted(world[begins], np.arange(len(bodies) + 1))
    return {"world": starts, "first": first[begins], "end": end[ends]}


def _order_world(
    parent: np.ndarray, kind: np.ndarray, dofs: np.ndarray, kinematic: np.ndarray
) -> dict[str, np.ndarray]:
    """Return solver order and tables of one world from what its bodies have, in Newton's order."""
    count = len(parent)
    children: list[list[int]] = [[] for _ in range(count)]
    stack: list[int] = []
    for body in range(count):
        (stack if parent[body] < 0 else children[parent[body]]).append(body)
    preorder = []
    while stack:
        body = stack.pop()
        preorder.append(body)
        stack.extend(children[body])
    source = np.array(preorder[::-1], np.int64)  # reversed preorder: subtrees are contiguous and end at their root
    new = np.empty(count, np.int64)
    new[source] = np.arange(count)

    body_parent = np.array([new[parent[b]] if parent[b] >= 0 else -1 for b in source], np.int64)
    body_kinematic = kinematic[source].astype(np.int64)
    body_dof_count = dofs[source].astype(np.int64)
    free_count, kinematic_count = body_dof_count * (1 - body_kinematic), body_dof_count * body_kinematic
    body_dof = np.concatenate([[0], np.cumsum(free_count)])[:-1]
    body_kinematic_dof = np.concatenate([[0], np.cumsum(kinematic_count)])[:-1]
    total = int(free_count.sum())

    root, depth = np.empty(count, np.int64), np.zeros(count, np.int64)
    chain = np.full(count, -1, np.int64)
    child, sibling = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    subtree_dof = body_dof.copy()  # first dof of the body's subtree
    for b in range(count):  # leaves first
        p = body_parent[b]
        if p >= 0:
            subtree_dof[p] = min(subtree_dof[p], subtree_dof[b])
            sibling[b], child[p] = child[p], b
    dof_parent, dof_first = np.empty(total, np.int64), np.empty(total, np.int64)
    for b in range(count - 1, -1, -1):  # roots first
        p = body_parent[b]
        root[b], depth[b] = (b, 0) if p < 0 else (root[p], depth[p] + 1)
        above = -1 if p < 0 else chain[p]
        first, last = body_dof[b], body_dof[b] + free_count[b] - 1
        chain[b] = first if last >= first else above
        for e in range(first, last + 1):
            dof_parent[e] = e + 1 if e < last else above
            dof_first[e] = subtree_dof[b]
    row = np.arange(total) - dof_first + 1
    ancestors: list[list[int]] = [[] for _ in range(total)]
    for e in range(total - 1, -1, -1):
        if dof_parent[e] >= 0:
            ancestors[e] = [dof_parent[e], *ancestors[dof_parent[e]]]
    above_count = np.array([len(chain_above) for chain_above in ancestors], np.int64)
    staged = np.argsort(-above_count, kind="stable")
    level_body = np.argsort(depth, kind="stable")
    levels = int(depth.max()) + 1 if count else 0
    dof_body = np.repeat(np.arange(count), free_count)
    dof_within = np.arange(total) - body_dof[dof_body]
    floating = np.isin(kind[source][dof_body], FLOATING_JOINTS)
    driven = (body_parent >= 0) & (chain[body_parent] >= 0)
    frame = np.where(driven, int(FRAME_DRIVEN), int(FRAME_STILL))
    frame[(body_parent >= 0) & (kinematic_count[root] > 0)] = int(FRAME_KINEMATIC)
    floating_child = np.flatnonzero((frame == int(FRAME_DRIVEN)) & np.isin(kind[source], FLOATING_JOINTS))
    floating_child = floating_child[np.argsort(depth[floating_child], kind="stable")]
    return {
        "source": source,
        "body_parent": body_parent,
        "body_root": root,
        "body_child": child,
        "body_sibling": sibling,
        "body_dof": np.where(body_kinematic, body_kinematic_dof, body_dof),
        "body_dof_count": body_dof_count,
        "body_kinematic": body_kinematic,
        "body_chain": chain,
        "body_frame": frame,
        "floating_child": floating_child,
        "floating_child_depth": depth[floating_child],
        "kinematic_body": np.repeat(np.arange(count), kinematic_count),
        "kinematic_within": np.concatenate([np.zeros(0, np.int64), *map(np.arange, kinematic_count)]),
        "dof_body": dof_body,
        "dof_within": dof_within,
        "dof_parameter": np.where(floating, (dof_within + 3) % 6, dof_within),
        "dof_scalar": np.isin(kind[source][dof_body], SCALAR_JOINTS).astype(np.int64),
        "dof_parent": dof_parent,
        "dof_above": np.array([i for chain_above in ancestors for i in chain_above], np.int64),
        "dof_above_count": above_count,
        "dof_staged": staged,
        "dof_stage_end": np.searchsorted(-above_count[staged], -above_count[staged], side="right"),
        "dof_first": dof_first,
        "dof_entry": np.concatenate([[0], np.cumsum(row)])[:-1].astype(np.int64),
        "entry_count": np.array(row.sum()),
        "level_body_start": np.searchsorted(depth[level_body], np.arange(levels)),
        "level_body": level_body,
        "term_dof": np.flatnonzero(~floating),
        "turning_body": np.flatnonzero(np.isin(kind[source], QUATERNION_JOINTS)),
        "distance_body": np.flatnonzero((kind[source] == int(DISTANCE)) & (body_kinematic == 0)),
    }
