"""Solver order: tables of random and of hand-made worlds against an independent walk over Newton's joints."""

from types import SimpleNamespace

import newton
import numpy as np
import pytest
import warp as wp

from sap_warp.core.kernels.packed_rows import RowPattern
from sap_warp.solver.model import layout as layout_module
from sap_warp.solver.model.layout import Layout, build_layout
from tests.support.costs import count_calls, peak_bytes
from tests.support.oracle import random_model

UNIT = wp.mat33(np.eye(3))
NO_TABLES = ("rows", "has_chains", "coord_runs", "dof_runs")
ORDER_WORLD = layout_module._order_world
FLOATING = (newton.JointType.FREE, newton.JointType.DISTANCE)
SCALAR = (newton.JointType.REVOLUTE, newton.JointType.PRISMATIC, newton.JointType.D6)


def link(builder):
    return builder.add_link(mass=1.0, inertia=UNIT)


def branching_tree(builder):
    """A floating base with two legs, one of which forks; a fixed link and a ball joint among them. 13 dofs."""
    base, hip, knee, toe, arm, tool = (link(builder) for _ in range(6))
    axis = newton.ModelBuilder.JointDofConfig
    builder.add_articulation(
        [
            builder.add_joint_free(base),
            builder.add_joint_revolute(base, hip),
            builder.add_joint_fixed(hip, knee),
            builder.add_joint_d6(
                knee, toe, linear_axes=[axis(axis=(1, 0, 0))], angular_axes=[axis(axis=(0, 1, 0)), axis(axis=(0, 0, 1))]
            ),
            builder.add_joint_ball(hip, arm),
            builder.add_joint_fixed(base, tool),
        ]
    )


def chain(builder, count=3):
    """A chain on a fixed base: the root cannot move."""
    parent, joints = link(builder), []
    joints.append(builder.add_joint_fixed(-1, parent))
    for _ in range(count):
        child = link(builder)
        joints.append(builder.add_joint_prismatic(parent, child))
        parent = child
    builder.add_articulation(joints)


def hinges(parents):
    """Three hinges on the given parents (-1 is the world): the same joints, another tree."""

    def add(builder):
        links = [link(builder) for _ in parents]
        builder.add_articulation(
            [builder.add_joint_revolute(links[p] if p >= 0 else -1, links[i]) for i, p in enumerate(parents)]
        )

    return add


def sliders(count):
    """One d6 joint with ``count`` linear axes: the same joint type, another number of dofs."""

    def add(builder):
        axes = [newton.ModelBuilder.JointDofConfig(axis=tuple(np.eye(3)[i])) for i in range(count)]
        builder.add_articulation([builder.add_joint_d6(-1, link(builder), linear_axes=axes)])

    return add


def leash(builder):
    """One distance joint: the dofs of a free joint, another type."""
    builder.add_articulation([builder.add_joint_distance(-1, link(builder))])


def tether(builder):
    """Two distance joints, one below the other."""
    first, second = link(builder), link(builder)
    builder.add_articulation([builder.add_joint_distance(-1, first), builder.add_joint_distance(first, second)])


def world(*parts):
    builder = newton.ModelBuilder()
    for part in parts:
        part(builder)
    return builder


def heterogeneous_model():
    """Worlds that differ in joints, in tree or only in dofs; one without bodies, one without dofs, two equal ones."""
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    builder.add_world(world(branching_tree, chain))
    builder.add_world(world(lambda b: b.add_body(mass=1.0, inertia=UNIT)))
    builder.add_world(world(lambda b: b.add_shape_box(-1)))
    builder.add_world(world(tether, branching_tree, lambda b: chain(b, 1)))
    builder.add_world(world(lambda b: chain(b, 0)))
    for part in (hinges((-1, 0, 1)), hinges((-1, 0, 0)), sliders(2), sliders(3), leash):
        builder.add_world(world(part))
    builder.add_world(world(branching_tree, chain))
    return builder.finalize(device="cpu")


class Case:
    """A layout as NumPy arrays beside an independent description of the same model."""

    def __init__(self, model):
        self.model = model
        layout, self.sizes = build_layout(model)
        tables = {name: getattr(layout, name).numpy() for name in Layout.vars if name not in NO_TABLES}
        rows = {f"dof_{name}": getattr(layout.rows, name).numpy() for name in RowPattern.vars}
        self.t = SimpleNamespace(**tables, **rows)
        self.joint_type = model.joint_type.numpy()
        self.q_start, self.qd_start = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
        # Newton's tree: joint above each body and its parent body
        self.joint = {int(c): j for j, c in enumerate(model.joint_child.numpy())}
        self.parent = {b: int(model.joint_parent.numpy()[j]) for b, j in self.joint.items()}
        self.new = {int(b): e for e, b in enumerate(self.t.body_newton)}

    def path(self, body):
        """The body and its ancestors in Newton's numbering, root last."""
        out = []
        while body >= 0:
            out.append(body)
            body = self.parent[body]
        return out

    def dofs(self, body):
        """Newton's dofs of the joint above a body."""
        j = self.joint[body]
        return list(range(self.qd_start[j], self.qd_start[j + 1]))

    def subtree(self, body):
        return [b for b in self.joint if body in self.path(b)]

    def worlds(self):
        """Newton's bodies by world; a model without local worlds is one world."""
        of = self.model.body_world.numpy()
        if (of < 0).all():
            return [list(range(len(of)))]
        return [list(np.flatnonzero(of == w)) for w in range(self.model.world_count)]


MODELS = {f"random{seed}": lambda seed=seed: random_model(np.random.default_rng(seed), 5, 3, 6) for seed in range(6)}
MODELS |= {"heterogeneous": heterogeneous_model, "plain": lambda: world(branching_tree, chain).finalize(device="cpu")}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    return Case(MODELS[request.param]())


def test_random_models_are_worth_testing():
    """The random models contain branches, several trees, worlds that differ, and every joint type."""
    cases = [Case(build()) for name, build in MODELS.items() if name.startswith("random")]
    kinds = set().union(*(c.joint_type for c in cases))
    assert {int(k) for k in (*FLOATING, *SCALAR, newton.JointType.BALL, newton.JointType.FIXED)} <= kinds
    for c in cases:
        parents = np.array(list(c.parent.values()))
        assert (np.bincount(parents[parents >= 0]) > 1).any()
        assert (parents < 0).sum() > c.model.world_count
        assert len(set(np.diff(c.t.world_dof))) > 1


def test_bodies_and_dofs_are_permutations(case):
    """Every body and dof of Newton's appears once, and newton_body inverts body_newton."""
    np.testing.assert_array_equal(np.sort(case.t.body_newton), np.arange(case.model.body_count))
    np.testing.assert_array_equal(np.sort(case.t.dof_newton), np.arange(case.model.joint_dof_count))
    np.testing.assert_array_equal(case.t.newton_body[case.t.body_newton], np.arange(case.model.body_count))


def test_worlds_are_partitioned(case):
    """World ranges cover bodies and dofs without gaps, hold exactly the world's own ones, and fit the sizes."""
    worlds, t, sizes = case.worlds(), case.t, case.sizes
    assert sizes.world_count == len(worlds)
    assert (sizes.body_count, sizes.dof_count) == (case.model.body_count, case.model.joint_dof_count)
    assert t.world_body[0] == t.world_dof[0] == t.world_entry[0] == t.world_hessian[0] == 0
    assert t.world_body[-1] == sizes.body_count and t.world_dof[-1] == sizes.dof_count
    assert t.world_entry[-1] == sizes.entry_count and t.world_hessian[-1] == sizes.hessian_count
    for w, bodies in enumerate(worlds):
        mine = slice(t.world_body[w], t.world_body[w + 1])
        assert sorted(t.body_newton[mine]) == bodies
        assert (t.body_world[mine] == w).all()
        dofs = sorted(d for b in bodies for d in case.dofs(b))
        assert sorted(t.dof_newton[t.world_dof[w] : t.world_dof[w + 1]]) == dofs
        assert t.world_hessian[w + 1] - t.world_hessian[w] == len(dofs) * (len(dofs) + 1) // 2
    np.testing.assert_array_equal(t.world_gravity, np.arange(len(worlds)))


def test_children_come_before_parents(case):
    """body_parent is Newton's parent and always has the larger index."""
    for b, body in enumerate(case.t.body_newton):
        parent = case.parent[int(body)]
        assert case.t.body_parent[b] == (case.new[parent] if parent >= 0 else -1)
        assert case.t.body_parent[b] == -1 or case.t.body_parent[b] > b
        assert case.t.body_joint[b] == case.joint[int(body)]


def test_subtrees_are_ranges_that_end_at_their_root(case):
    """A body and all its descendants are neighbours, the body last."""
    for b, body in enumerate(case.t.body_newton):
        members = sorted(case.new[d] for d in case.subtree(int(body)))
        assert members == list(range(b - len(members) + 1, b + 1))


def test_roots_children_and_siblings(case):
    """body_root is the last of the path, and the child lists hold each child once."""
    t = case.t
    for b, body in enumerate(t.body_newton):
        assert t.body_root[b] == case.new[case.path(int(body))[-1]]
        listed, child = [], t.body_child[b]
        while child >= 0:
            listed.append(int(child))
            child = t.body_sibling[child]
        assert sorted(listed) == sorted(case.new[c] for c, p in case.parent.items() if p == body)


def test_dofs_of_a_body_are_neighbours_in_newtons_order(case):
    """The joint's dofs follow one another as in Newton, whatever comes before."""
    t = case.t
    for b, body in enumerate(t.body_newton):
        mine = slice(t.body_dof[b], t.body_dof[b] + t.body_dof_count[b])
        assert list(t.dof_newton[mine]) == case.dofs(int(body))
        assert (t.dof_body[mine] == b).all()


def test_chain_to_the_root_is_the_ancestors(case):
    """Following dof_parent from a body visits exactly the dofs between it and its root, with growing indices."""
    t = case.t
    for b, body in enumerate(t.body_newton):
        chain, e = [], t.body_chain[b]
        while e >= 0:
            chain.append(int(e))
            e = t.dof_parent[e]
        assert chain == sorted(chain)
        expected = [d for ancestor in case.path(int(body)) for d in case.dofs(ancestor)]
        assert list(t.dof_newton[chain]) == expected


def test_first_dof_is_the_first_of_the_subtree(case):
    """dof_first is the smallest dof below, and the dofs from there to the body's last are the whole subtree."""
    t = case.t
    for b, body in enumerate(t.body_newton):
        if t.body_dof_count[b] == 0:
            continue
        below = {d for member in case.subtree(int(body)) for d in case.dofs(member)}
        first, last = t.dof_first[t.body_dof[b]], t.body_dof[b] + t.body_dof_count[b] - 1
        assert (t.dof_first[t.body_dof[b] : last + 1] == first).all()
        assert set(t.dof_newton[first : last + 1]) == below


def test_packed_rows_have_neither_gaps_nor_overlaps(case):
    """Rows dof_first..e lie one after another, worlds one after another, and fill the storage exactly."""
    t = case.t
    addresses = [t.dof_entry[e] + np.arange(e - t.dof_first[e] + 1) for e in range(case.sizes.dof_count)]
    np.testing.assert_array_equal(np.concatenate(addresses), np.arange(case.sizes.entry_count))
    for w in range(case.sizes.world_count):
        if t.world_dof[w] < t.world_dof[w + 1]:
            assert t.dof_entry[t.world_dof[w]] == t.world_entry[w]


def test_levels_are_sorted_by_depth(case):
    """Level i of a world holds all its bodies of depth i; no level is empty."""
    t = case.t
    assert t.level_start[0] == 0 and t.level_start[-1] == case.sizes.body_count
    assert len(t.level_start) == t.world_level[-1] + 1
    for w, bodies in enumerate(case.worlds()):
        for depth, level in enumerate(range(t.world_level[w], t.world_level[w + 1])):
            members = t.level_body[t.level_start[level] : t.level_start[level + 1]]
            assert sorted(t.body_newton[members]) == [b for b in bodies if len(case.path(b)) == depth + 1]
            assert len(members) > 0
        assert t.world_level[w + 1] - t.world_level[w] == max((len(case.path(b)) for b in bodies), default=0)


def test_coordinates_of_scalar_dofs(case):
    """Revolute, prismatic and d6 dofs know their joint_q entry; ball and floating ones have none."""
    t = case.t
    for e, dof in enumerate(t.dof_newton):
        j = case.joint[int(t.body_newton[t.dof_body[e]])]
        scalar = case.joint_type[j] in [int(k) for k in SCALAR]
        assert t.dof_coord[e] == (case.q_start[j] + dof - case.qd_start[j] if scalar else -1)


def test_parameters_of_floating_dofs_are_swapped(case):
    """Sap dofs of floating joints are angular first while Newton stores armature and damping linear first."""
    t = case.t
    for e, dof in enumerate(t.dof_newton):
        j = case.joint[int(t.body_newton[t.dof_body[e]])]
        within = dof - case.qd_start[j]
        if case.joint_type[j] in [int(k) for k in FLOATING]:
            within = (3, 4, 5, 0, 1, 2)[within]
        assert t.dof_parameter[e] == case.qd_start[j] + within


def test_distance_joints_are_listed_by_world(case):
    """The bodies below distance joints, each in the range of its world."""
    t = case.t
    most = 0
    for w, bodies in enumerate(case.worlds()):
        expected = [b for b in bodies if case.joint_type[case.joint[b]] == int(newton.JointType.DISTANCE)]
        listed = t.distance_body[t.world_distance[w] : t.world_distance[w + 1]]
        assert sorted(t.body_newton[listed]) == expected
        most = max(most, len(expected))
    assert case.sizes.distance_rows_max == 2 * most


SHIFTS = {
    "body": [
        *("body_parent", "body_root", "body_child", "body_sibling", "dof_body", "level_body", "distance_body"),
        *("body_newton", "newton_body"),
    ],
    "dof": ["body_dof", "body_chain", "dof_parent", "dof_first", "dof_newton", "dof_parameter"],
    "entry": ["dof_entry"],
    "joint": ["body_joint"],
    "coord": ["dof_coord"],
}
"""What the indices of a table count: a replica's are moved by that much of one world."""


def test_a_thousand_equal_worlds_are_shifted_copies():
    """Replicas have the tables of one world, every index moved by whole worlds."""
    count = 1000
    sub = world(branching_tree, tether, chain)
    one, many = newton.ModelBuilder(), newton.ModelBuilder()
    one.add_world(sub)
    many.replicate(sub, count)
    a, b = Case(one.finalize(device="cpu")), Case(many.finalize(device="cpu"))
    steps = {
        "body": a.sizes.body_count,
        "dof": a.sizes.dof_count,
        "entry": a.sizes.entry_count,
        "joint": a.model.joint_count,
        "coord": a.model.joint_coord_count,
    }
    for unit, name in ((unit, name) for unit, names in SHIFTS.items() for name in names):
        single = getattr(a.t, name)
        shift = np.arange(count)[:, None] * steps[unit]
        expected = np.where(single[None, :] < 0, -1, single[None, :] + shift)
        np.testing.assert_array_equal(getattr(b.t, name).reshape(count, -1), expected, err_msg=name)
    for name in ("body", "dof", "entry", "hessian", "level", "distance"):
        single = getattr(a.t, f"world_{name}")
        assert len(single) == 2 and single[1] > 0
        np.testing.assert_array_equal(getattr(b.t, f"world_{name}"), np.arange(count + 1) * single[1], err_msg=name)
    np.testing.assert_array_equal(b.t.body_dof_count, np.tile(a.t.body_dof_count, count))
    np.testing.assert_array_equal(b.t.body_world, np.repeat(np.arange(count), a.sizes.body_count))
    assert b.sizes.hessian_count == count * a.sizes.hessian_count
    assert b.sizes.distance_rows_max == a.sizes.distance_rows_max == 4


def test_equal_worlds_of_a_mixed_model_are_shifted_copies():
    """Worlds of equal topology have equal tables even with other worlds between them."""
    c = Case(heterogeneous_model())
    first, last = 0, c.sizes.world_count - 1
    for start, names in ((c.t.world_body, ("body_parent", "body_root")), (c.t.world_dof, ("dof_parent", "dof_first"))):
        for name in names:
            values = getattr(c.t, name)
            local = [
                np.where(v < 0, -1, v - start[w]) for w in (first, last) for v in [values[start[w] : start[w + 1]]]
            ]
            np.testing.assert_array_equal(*local, err_msg=name)


def test_a_plain_builder_is_one_world():
    """Without begin_world everything lies in one world, with the tables that one added world would have."""
    sub = world(branching_tree, tether, chain)
    added = newton.ModelBuilder()
    added.add_world(sub)
    plain, single = Case(sub.finalize(device="cpu")), Case(added.finalize(device="cpu"))
    assert plain.sizes == single.sizes and plain.sizes.world_count == 1
    for name in vars(plain.t):
        np.testing.assert_array_equal(getattr(plain.t, name), getattr(single.t, name), err_msg=name)


def test_cost_of_worlds_is_linear():
    """Nothing is done world by world, and what is allocated grows as the number of worlds does."""
    part = world(branching_tree, chain)

    def model(count):
        builder = newton.ModelBuilder()
        builder.replicate(part, count)
        return builder.finalize(device="cpu")

    few, many = model(200), model(800)
    build_layout(few)  # what is loaded on first use
    assert count_calls(lambda: build_layout(many)) < 1.1 * count_calls(lambda: build_layout(few))
    assert peak_bytes(lambda: build_layout(many)) < 5 * peak_bytes(lambda: build_layout(few))


def test_worlds_that_differ_are_worked_out_once_each(monkeypatch):
    """Eleven worlds of ten kinds."""
    seen = []
    monkeypatch.setattr(layout_module, "_order_world", lambda *rows: seen.append(rows) or ORDER_WORLD(*rows))
    assert build_layout(heterogeneous_model())[1].world_count == 11
    assert len(seen) == 10
