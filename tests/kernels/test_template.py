"""Device functions that exist once for each variant: names are found, instances are shared, mistakes are told."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import warp as wp

from sap_warp.core.kernels.lanes import uses
from sap_warp.core.kernels.launch import kernel
from sap_warp.core.kernels.template import (
    Constant,
    Parameter,
    Template,
    Variant,
    composed,
    device,
    device_struct,
    native,
    sized,
    sizes,
)
from sap_warp.core.kernels.types import FP32, FP64
from sap_warp.core.native import without

fine, coarse = Parameter("fine"), Parameter("coarse")
scalar, rough = fine.scalar, coarse.scalar
by_dof, dof_scratch = sized("dof"), sized("dof", True)
factor = Parameter("factor")
SCALE = Template(lambda variant: 10.0 * variant["factor"])


@device_struct
class Pair:
    """Two arrays."""

    x: by_dof(scalar)
    y: dof_scratch(rough)
    count: int


@device
def half(x: scalar) -> scalar:
    """Half of a number."""
    return scalar(0.5) * x


half_rough = half.on(fine=coarse)


@device
def scaled(x: scalar) -> scalar:
    """A number times a constant of the variant, plus its half in the other precision."""
    return scalar(wp.static(SCALE)) * x + scalar(half_rough(rough(x)))


@device
def first(x: scalar, total: scalar) -> scalar:
    """Add x."""
    return total + x


@device
def second(x: scalar, total: scalar) -> scalar:
    """Double what came before."""
    return total * scalar(2.0)


both = composed("both", [first, second])


@native("return ($fine)(sizeof(x));")
def size_of(x: scalar) -> scalar:
    """Bytes of a number."""
    ...


@kernel
def evaluate(x: wp.array[scalar], out: wp.array[scalar]):
    """Write what each function makes of the first number."""
    out[0] = scaled(x[0])
    out[1] = both(x[0], scalar(3.0))
    out[2] = size_of(x[0])


@pytest.mark.parametrize(("types", "other"), [(FP32, FP64), (FP64, FP32)])
def test_functions_take_the_precisions_of_the_variant(types, other):
    """Calls, constants, functions on other parameters and native code are those of one variant."""
    variant = Variant(fine=types, coarse=other, factor=0.7)
    x, out = (wp.zeros(3, dtype=types.scalar, device="cpu") for _ in range(2))
    x.fill_(1.0 / 3.0)
    wp.launch(evaluate.of(variant), dim=1, inputs=[x, out], device="cpu")
    number, rounded = x.numpy()[0], np.float32(x.numpy()[0])
    assert out.dtype is types.scalar
    coarse_half = 0.5 * (rounded if other is FP32 else number)
    np.testing.assert_allclose(out.numpy()[0], 7.0 * number + coarse_half, rtol=1e-6 if types is FP32 else 1e-15)
    np.testing.assert_allclose(out.numpy()[1:], [2.0 * (3.0 + number), 4 if types is FP32 else 8], rtol=1e-6)


def test_variants_share_what_does_not_depend_on_their_difference():
    """``half`` reads one precision; other parameters make no second instance."""
    one, other = Variant(fine=FP64, coarse=FP32, factor=1.0), Variant(fine=FP64, coarse=FP64, factor=2.0)
    assert half.of(one) is half.of(other)
    assert scaled.of(one) is not scaled.of(other)
    assert scaled.of(one) is scaled.of(one | {"unused": 3})
    assert half_rough.of(Variant(coarse=FP32)) is half.of(Variant(fine=FP32))


def test_a_parameter_that_is_missing_is_named():
    """The error also tells what the variant has."""
    with pytest.raises(KeyError, match=r"does not say what 'coarse' is; it fixes fine"):
        half_rough.of(Variant(fine=FP64))


def test_fields_say_what_counts_their_entries():
    """Fields declared with `sized` tell their counts, and have the types of the variant."""
    fields = sizes(Pair, Variant(fine=FP64, coarse=FP32))
    assert {name: (field.count, field.is_scratch) for name, field in fields.items()} == {
        "x": ("dof", False),
        "y": ("dof", True),
    }
    struct = Pair.of(Variant(fine=FP64, coarse=FP32))
    assert [struct.vars[name].type.dtype for name in ("x", "y")] == [wp.float64, wp.float32]


def test_constants_and_templates_of_templates():
    """A constant is the same in every variant, and may stand for a parameter."""
    assert half.on(fine=Constant(FP32)).of(Variant()) is half.of(Variant(fine=FP32))


def test_a_template_is_found_as_it_was_written():
    """Docstring, name and source lead to the function in its file."""
    assert (half.__name__, half.__module__) == ("half", __name__)
    assert "scalar(0.5) * x" in inspect.getsource(half.function)
    assert half.__doc__ == "Half of a number."


def test_headers_are_left_out_only_inside():
    """And their names are checked."""
    takes_it = uses("cholesky")
    before = takes_it.of(Variant())
    with without("cholesky", "rows"):
        assert takes_it.of(Variant()) is not before
    assert takes_it.of(Variant()) is before
    with pytest.raises(ValueError, match="no native header \\['vectors'\\]"), without("vectors"):
        pass
