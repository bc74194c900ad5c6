import numpy as np
import pytest

from finetune.scores import Evaluation, top_classes


def evaluation(labels, probabilities, classes=("a", "b", "c")):
    return Evaluation(
        classes=tuple(classes),
        names=tuple(f"{i}.jpg" for i in range(len(labels))),
        labels=np.array(labels),
        probabilities=np.array(probabilities, np.float32),
        split="val",
        step=7,
    )


FOUR = evaluation(
    [0, 0, 1, 1],
    [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.6, 0.3], [0.4, 0.5, 0.1]],
)


def test_accuracy_and_confusion():
    assert FOUR.count == 4
    assert FOUR.accuracy == 0.75
    assert FOUR.confusion().tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]


def test_precision_and_recall_are_absent_where_nothing_defines_them():
    assert FOUR.per_class() == [
        {"class": "a", "count": 2, "precision": 1.0, "recall": 0.5},
        {"class": "b", "count": 2, "precision": pytest.approx(2 / 3), "recall": 1.0},
        {"class": "c", "count": 0, "precision": None, "recall": None},
    ]


def test_top_5_means_something_with_more_than_five_classes():
    assert FOUR.top5 is None
    row = [0.3, 0.2, 0.15, 0.14, 0.11, 0.06, 0.04]
    seven = evaluation([4, 5], [row, row], "abcdefg")
    assert seven.top5 == 0.5
    assert seven.accuracy == 0.0


def test_of_equal_probabilities_the_lower_class_wins():
    assert evaluation([1], [[0.5, 0.5, 0.0]]).predicted.tolist() == [0]


def test_the_json_has_each_pictures_answer_when_asked():
    assert "pictures" not in FOUR.as_json()
    assert FOUR.as_json(pictures=True)["pictures"][1] == {
        "name": "1.jpg",
        "label": 0,
        "predicted": 1,
        "probability": pytest.approx(0.7),
    }
    assert FOUR.as_json()["step"] == 7


def test_top_classes_are_in_order_and_at_most_as_many_as_asked():
    assert top_classes(np.array([0.1, 0.6, 0.3], np.float32), ("花", "C++", "c"), 2) == [
        {"label": "C++", "probability": pytest.approx(0.6)},
        {"label": "c", "probability": pytest.approx(0.3)},
    ]
    assert len(top_classes(np.array([0.4, 0.6], np.float32), ("a", "b"), 5)) == 2
