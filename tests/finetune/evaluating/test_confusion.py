"""Pairs of classes that were taken for each other, against the matrix."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from finetune.evaluating.confusion import Confusion

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40)


@given(PAIRS)
def test_it_says_what_the_matrix_says(pairs):
    matrix = np.zeros((7, 7), np.int64)
    for true, said in pairs:
        matrix[true, said] += 1
    labels = np.array([true for true, _ in pairs], np.int64)
    predicted = np.array([said for _, said in pairs], np.int64)
    for found in (Confusion.of_answers(labels, predicted, 7), Confusion.of_matrix(matrix)):
        assert found.matrix().tolist() == matrix.tolist()
        assert found.pictures.tolist() == matrix.sum(axis=1).tolist()
        assert found.called.tolist() == matrix.sum(axis=0).tolist()
        assert found.right.tolist() == matrix.diagonal().tolist()
        wrong = found.wrong().matrix()
        assert wrong.tolist() == (matrix - np.diag(matrix.diagonal())).tolist()


def test_a_million_classes_take_no_more_than_what_happened():
    labels = np.array([5, 999_999, 5], np.int64)
    found = Confusion.of_answers(labels, np.array([5, 0, 7], np.int64), 1_000_000)
    assert list(zip(found.true, found.said, found.counts, strict=True)) == [
        (5, 5, 1),
        (5, 7, 1),
        (999_999, 0, 1),
    ]
    assert (found.pictures[5], found.called[0], found.right.sum()) == (2, 1, 1)
