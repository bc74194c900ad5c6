import numpy as np

from finetune.evaluating.confusion import Confusion
from finetune.report.classes import MAX_ROWS, class_rows, matrix, worst_pairs
from finetune.report.facts import Scores


def scores(confusion):
    confusion = np.array(confusion, np.int64)
    names = tuple("abcdefgh"[: len(confusion)]) if len(confusion) < 9 else None
    return Scores(
        "val", 1, names or tuple(map(str, range(len(confusion)))), Confusion.of_matrix(confusion), None, ()
    )  # fmt: skip


def test_cells_hold_counts_and_shares_of_their_row():
    rows = matrix(scores([[3, 1], [0, 0]]))
    (name, cells), (_, empty) = rows
    assert name == "a"
    assert [(c.count, c.share, c.is_right, c.predicted) for c in cells] == [
        (3, 0.75, True, "a"),
        (1, 0.25, False, "b"),
    ]
    assert [cell.share for cell in empty] == [0, 0]


def test_fifty_classes_have_a_matrix_and_more_have_pairs():
    assert len(matrix(scores(np.eye(50)))) == 50
    many = np.eye(60, dtype=np.int64)
    many[:, 0] += 1
    assert matrix(scores(many)) is None
    pairs, count = worst_pairs(scores(many))
    assert (len(pairs), count) == (30, 59)


def test_pairs_stand_most_pictures_first_then_smaller_classes():
    pairs, count = worst_pairs(scores([[9, 1, 0], [2, 1, 0], [1, 0, 1]]))
    assert [(p.true, p.predicted, p.count, p.of) for p in pairs] == [
        ("b", "a", 2, 3),
        ("c", "a", 1, 2),
        ("a", "b", 1, 10),
    ]
    assert count == 3


def test_classes_stand_weakest_first_and_the_undefined_last():
    rows, left_out = class_rows(scores([[4, 0, 0], [1, 1, 0], [0, 0, 0]]))
    assert [(r.name, r.count, r.recall, r.precision, r.f1) for r in rows] == [
        ("b", 2, 0.5, 1.0, 2 / 3),
        ("a", 4, 1.0, 0.8, 8 / 9),
        ("c", 0, None, None, None),
    ]
    assert rows[2].interval is None
    assert left_out == 0


def test_of_very_many_classes_the_weakest_are_listed():
    confusion = np.eye(MAX_ROWS + 7, dtype=np.int64)
    confusion[-1] = 0
    confusion[-1, 0] = 1
    rows, left_out = class_rows(scores(confusion))
    assert (len(rows), left_out) == (MAX_ROWS, 7)
    assert rows[0].name == str(MAX_ROWS + 6)
