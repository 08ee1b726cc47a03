"""The Warp types that belong to the two floating-point precisions, and names of common arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import warp as wp


@dataclass(frozen=True)
class Types:
    """The Warp types of one precision; kernel factories take one of these per stage of the step."""

    name: str
    scalar: Any
    vec2: Any
    vec3: Any
    mat33: Any
    quat: Any
    transform: Any
    spatial: Any

    @property
    def c_name(self) -> str:
        """The scalar's name in native code."""
        return "double" if self.scalar is wp.float64 else "float"


FP32 = Types("fp32", wp.float32, wp.vec2f, wp.vec3f, wp.mat33f, wp.quatf, wp.transformf, wp.spatial_vectorf)
FP64 = Types("fp64", wp.float64, wp.vec2d, wp.vec3d, wp.mat33d, wp.quatd, wp.transformd, wp.spatial_vectord)
TYPES = {"fp32": FP32, "fp64": FP64}

# Parameters of kernels and device functions.
Bools: TypeAlias = wp.array[wp.bool]
Ints: TypeAlias = wp.array[wp.int32]
IntTable: TypeAlias = wp.array2d[wp.int32]
Longs: TypeAlias = wp.array[wp.int64]
Floats: TypeAlias = wp.array[wp.float32]
Doubles: TypeAlias = wp.array[wp.float64]
Vectors: TypeAlias = wp.array[wp.vec3f]
Poses: TypeAlias = wp.array[wp.transformf]
