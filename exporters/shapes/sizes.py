"""Shapes as tuples: sizes that are known or not, and how they are broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence

from checkpoints.errors import GraphError

Shape = tuple[int | None, ...]


class ShapeError(GraphError):
    """Shapes that do not go together."""


def product(sizes: Sequence[int | None]) -> int | None:
    """The number of elements; None where a size is not known."""
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that shapes are broadcast to.

    Raises:
      ShapeError: two sizes differ and neither is 1.
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    rank = max(map(len, known), default=0)
    sizes: list[int | None] = []
    for place in range(-rank, 0):
        there = {shape[place] for shape in known if len(shape) >= -place}
        others = there - {1, None}
        if len(others) > 1:
            written = " with ".join(map(written_shape, known))
            raise ShapeError(f"combines {written}")
        if others:
            sizes.append(next(iter(others)))
        else:
            sizes.append(None if None in there else 1)
    return tuple(sizes)


def written_shape(shape: Shape) -> str:
    """`[?, 4]`."""
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
