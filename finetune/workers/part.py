"""Which rows of each batch a process takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Part:
    """A like part of every batch: rows index * rows to (index + 1) * rows of batch_size.

    Attributes:
      batch_size: pictures of a step, of all processes together.
      index: whose part it is, from 0.
      count: how many processes there are; batch_size is a multiple of it.
    """

    batch_size: int
    index: int = 0
    count: int = 1

    @property
    def rows(self) -> int:
        """Pictures of a step that this process takes."""
        return self.batch_size // self.count

    def places(self, start: int, count: int) -> NDArray[np.int64]:
        """Where in the run the pictures start, start + 1 ... of this process stand; int64."""
        steps, rows = np.divmod(np.arange(start, start + count, dtype=np.int64), self.rows)
        return steps * self.batch_size + self.index * self.rows + rows
