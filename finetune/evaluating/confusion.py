"""What is taken for what: how often pictures of each class were called by each. Plain numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Confusion:
    """The confusion matrix, of which only what is not zero is kept: thousands of classes fit.

    Attributes:
      size: how many classes there are.
      true: int64 [pairs], the true class of each pair.
      said: int64 [pairs], what was said; pairs are in order, and each stands once.
      counts: int64 [pairs], how many pictures, from 1.
    """

    size: int
    true: NDArray[np.int64]
    said: NDArray[np.int64]
    counts: NDArray[np.int64]

    @staticmethod
    def of_answers(labels: NDArray[np.int64], predicted: NDArray[np.int64], size: int) -> Confusion:
        """Of the classes of pictures, int64 [pictures] from 0, and of what was said of each."""
        pairs, counts = np.unique(labels * size + predicted, return_counts=True)
        true, said = np.divmod(pairs, size)
        return Confusion(size, true, said, counts.astype(np.int64))

    @staticmethod
    def of_matrix(matrix: NDArray[np.int64]) -> Confusion:
        """Of int64 [classes, classes]: row true, column said."""
        true, said = np.nonzero(matrix)
        return Confusion(len(matrix), true, said, matrix[true, said])

    def matrix(self) -> NDArray[np.int64]:
        """int64 [classes, classes]: row true, column said."""
        matrix = np.zeros((self.size, self.size), np.int64)
        matrix[self.true, self.said] = self.counts
        return matrix

    @property
    def pictures(self) -> NDArray[np.int64]:
        """int64 [classes], the pictures of each class."""
        return self._summed(self.true, self.counts)

    @property
    def called(self) -> NDArray[np.int64]:
        """int64 [classes], how many pictures were called by each."""
        return self._summed(self.said, self.counts)

    @property
    def right(self) -> NDArray[np.int64]:
        """int64 [classes], how many pictures of each were called by it."""
        return self._summed(self.true, np.where(self.true == self.said, self.counts, 0))

    def wrong(self) -> Confusion:
        """The pairs of different classes."""
        is_wrong = self.true != self.said
        return Confusion(self.size, self.true[is_wrong], self.said[is_wrong], self.counts[is_wrong])

    def _summed(self, classes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        summed = np.zeros(self.size, np.int64)
        np.add.at(summed, classes, counts)
        return summed
