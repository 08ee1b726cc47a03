"""Numbers written as expressions, against Python's own arithmetic."""

import ast
import math
import operator
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sap_warp.scene.text.expressions import MAX_DEPTH, MAX_LENGTH, ExpressionError, evaluate_expression
from tests.support.scene_files import load, with_shape

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def python_value(text):
    """The value that Python gives to ``text``, by its syntax tree; raises for anything but arithmetic with pi."""

    def walk(node):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return float(node.value)
        if isinstance(node, ast.Name) and node.id == "pi":
            return math.pi
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](walk(node.operand))
        raise KeyError(type(node))

    return walk(ast.parse(text.strip(), mode="eval").body)


@pytest.mark.parametrize(
    "text",
    ["1", " 2.5 ", "1e5", "1.5E-3", ".5", "5.", "pi", "pi * 0.5", "-pi/2", "pi*2/3", "1 - 2 - 3", "8/4/2", "2*(3+4)*5"]
    + ["-(1 + 2) / 3", "--2", "+-+2", "3--2", "3 * -2", "((((1))))", "1+2*3-4/5", "-pi * -pi", "1e-320*1e300"],
)
def test_the_value_is_that_of_python(text):
    assert evaluate_expression(text) == python_value(text)


@pytest.mark.parametrize(
    "text, what",
    [
        ("", "something is missing at the end"),
        ("1 +", "something is missing at the end"),
        ("(1", r"a '\)' is missing"),
        ("1)", r"unexpected '\)'"),
        ("2pi", "unexpected 'pi'"),
        ("1 2", "unexpected '2'"),
        ("2**3", r"unexpected '\*'"),
        ("7//2", "unexpected '/'"),
        ("7 % 2", "unexpected '%'"),
        ("e", "unexpected 'e'"),
        ("tau", "unexpected 'tau'"),
        ("inf", "unexpected 'inf'"),
        ("0x10", "unexpected 'x10'"),
        ("1_000", "unexpected '_000'"),
        ("sin(1)", "unexpected 'sin'"),
        ("__import__('os')", 'unexpected "\'"'),
        ("1/0", "division by zero"),
        ("1/(pi-pi)", "division by zero"),
        ("()", r"unexpected '\)'"),
        ("1,2", "unexpected ','"),
    ],
)
def test_everything_else_is_refused_with_a_reason(text, what):
    with pytest.raises(ExpressionError, match=what):
        evaluate_expression(text)


def test_long_and_deep_expressions_are_refused():
    assert evaluate_expression("1" + "+1" * ((MAX_LENGTH - 1) // 2)) == 1 + (MAX_LENGTH - 1) // 2
    with pytest.raises(ExpressionError, match="at most 200 are read"):
        evaluate_expression("1+" * MAX_LENGTH + "1")
    deep = MAX_DEPTH - 1
    assert evaluate_expression("(" * deep + "1" + ")" * deep) == 1.0
    with pytest.raises(ExpressionError, match="more than 20 levels"):
        evaluate_expression("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH)
    with pytest.raises(ExpressionError, match="more than 20 levels"):
        evaluate_expression("-" * 50 + "1")


numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.floats(0.0, 1e6, allow_nan=False).map(repr),
    st.sampled_from(["pi", "0.5", "1e3", ".25"]),
)
expressions = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=12,
)


def value_or_none(read, text, errors):
    """What ``read`` makes of ``text``; None for one of ``errors``."""
    try:
        return read(text)
    except errors:
        return None


def same(value, expected):
    return value == expected or (math.isnan(value) and math.isnan(expected))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(expressions)
def test_random_expressions_have_the_value_of_python(text):
    expected = value_or_none(python_value, text, ZeroDivisionError)
    value = value_or_none(evaluate_expression, text, ExpressionError)
    if value is not None:
        assert expected is not None and same(value, expected)
    elif len(text) <= MAX_LENGTH and text.count("(") + text.count("-") < MAX_DEPTH:
        assert expected is None


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(alphabet="0123456789.eEpi+-*/() _x,\t\n²٣", max_size=30))
def test_random_text_is_a_number_or_an_error_and_never_more_than_python_accepts(text):
    value = value_or_none(evaluate_expression, text, ExpressionError)
    # Python knows no leading zeros ("007") and no other digits than ASCII; all else is the same.
    if value is not None and text.isascii():
        expected = value_or_none(python_value, " ".join(text.split()), SyntaxError)
        assert re.search(r"(?<![\d.e])0\d", text) if expected is None else same(value, expected)


def test_expressions_stand_wherever_a_number_does():
    loaded = load(
        with_shape(
            {
                "type": "box",
                "hx": "1/4",
                "hy": "pi * 0.1",
                "hz": ".5e-1 + 0.05",
                "transform": {"p": ["1/8", "-(1+1)", 3], "q": [0, 0, "1", "0 * pi"]},
                "mu": "3 / 4",
            },
            simulation={"dt": "1 / 400", "num_worlds": "1 + 1", "solver": {"contact_tau_d": "1 / 50"}},
            post_build=[
                {"op": "set_array", "array": "joint_q", "range": ["1 - 1", "1 + 1"], "values": ["pi", "-pi/2"]}
            ],
        )
    )
    model = loaded.sap_model
    assert model.shape_scale.numpy()[0].tolist() == pytest.approx([0.25, 0.1 * math.pi, 0.1])
    assert model.shape_transform.numpy()[0].tolist() == pytest.approx([0.125, -2, 3, 0, 0, 1, 0])
    assert model.shape_material_mu.numpy()[0] == 0.75
    assert (loaded.dt, loaded.num_worlds) == (1 / 400, 2)
    assert loaded.solver_options["contact_tau_d"] == 1 / 50
    assert model.joint_q.numpy()[:2].tolist() == pytest.approx([math.pi, -math.pi / 2])
