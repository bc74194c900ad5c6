"""What happened to values that are not the variable's, in words."""

from __future__ import annotations

from collections.abc import Iterable

from checkpoints.differences import compare_arrays
from checkpoints.tensors import from_little_endian
from exporters.values import Values, bytes_of, first_difference, header_of


def describe_difference(
    found: memoryview, values: Values, key: str, others: Iterable[str] = ()
) -> str:
    """Says whether the bytes are another variable's, hold NaN, or are how far apart.

    Args:
      found: the bytes in the place of a variable's; as many.
      values: the variables.
      key: which of them it should be.
      others: names of variables it may have been mistaken for.
    """
    header = header_of(values, key)
    for other in others:
        if other != key and header_of(values, other) == header:
            theirs = bytes_of(values, other)
            if len(theirs) == len(found) and first_difference(found, theirs) is None:
                return f"they are those of {other}"
    ours = from_little_endian(found, header.dtype.numpy, header.shape)
    figures = compare_arrays(ours, values[key])
    if figures.num_nan:
        return f"{figures.num_nan} of {figures.num_elements} are NaN in one of the two only"
    apart = "" if figures.max_abs is None else f", by {figures.max_abs:.3g} at most"
    return f"{figures.num_different} of {figures.num_elements} differ{apart}"
