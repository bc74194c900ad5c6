"""Which variables are written in slices, and which slices, as TensorFlow's partitioners make them."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints import dtypes
from checkpoints.errors import UsageError
from checkpoints.tensors import Extents, Shape

SMALLEST_BYTES = 1 << 18
"""What a variable has at least to be cut: the smallest slice that
tf.compat.v1.min_max_variable_partitioner makes."""

RESTORED_IN_SLICES = frozenset(
    {
        "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
        "complex64", "complex128", "qint8", "quint8", "qint32",
    }
)  # fmt: skip
"""Dtypes of which TensorFlow reads a slice, or puts slices together, in a V2 checkpoint; it refuses
to with the others."""


@dataclass(frozen=True)
class Slicing:
    """Large variables are cut along their first axis.

    Attributes:
      count: how many slices a variable becomes; of a shorter axis one an index.
      smallest_bytes: variables below this stay whole.
    """

    count: int
    smallest_bytes: int = SMALLEST_BYTES

    def __post_init__(self) -> None:
        """Refuses what cuts nothing."""
        if self.count < 1 or self.smallest_bytes < 0:
            raise UsageError(
                "A variable cannot be cut so.",
                expected="at least 1 slice, and no negative size",
                received=f"{self.count} slices from {self.smallest_bytes} bytes on",
            )

    def extents(self, dtype: dtypes.DType, shape: Shape) -> list[Extents]:
        """The slices of a variable, in order; empty where it stays whole.

        The first of them are one longer where the axis cannot be divided evenly, as
        tf.compat.v1.fixed_size_partitioner has it. Scalars, strings, and dtypes whose slices
        TensorFlow does not restore (float16 and float8 among them) stay whole.
        """
        if not shape or dtype.name not in RESTORED_IN_SLICES:
            return []
        num_bytes = dtype.numpy.itemsize
        for size in shape:
            num_bytes *= size
        count = min(self.count, shape[0])
        if count < 2 or num_bytes < max(1, self.smallest_bytes):
            return []
        length, longer = divmod(shape[0], count)
        others = tuple((0, size) for size in shape[1:])
        slices = []
        start = 0
        for number in range(count):
            end = start + length + (number < longer)
            slices.append(((start, end - start), *others))
            start = end
        return slices
