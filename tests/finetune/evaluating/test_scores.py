import dataclasses
from pathlib import Path

import numpy as np
import pytest

from finetune.evaluating.scores import Evaluation, top_classes


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


def test_precision_recall_and_f1_are_absent_where_nothing_defines_them():
    half, whole = pytest.approx([0.0945, 0.9055], abs=5e-5), pytest.approx([0.3424, 1.0], abs=5e-5)
    assert FOUR.per_class() == [
        {
            "class": "a",
            "count": 2,
            "precision": 1.0,
            "recall": 0.5,
            "recall_interval": half,
            "f1": pytest.approx(2 / 3),
        },
        {
            "class": "b",
            "count": 2,
            "precision": pytest.approx(2 / 3),
            "recall": 1.0,
            "recall_interval": whole,
            "f1": pytest.approx(0.8),
        },
        {
            "class": "c",
            "count": 0,
            "precision": None,
            "recall": None,
            "recall_interval": None,
            "f1": None,
        },
    ]


def test_the_accuracy_has_its_wilson_interval():
    assert FOUR.accuracy_interval == pytest.approx((0.3006, 0.9544), abs=5e-5)


def test_calibration_is_of_the_most_probable_class():
    # Confidences 0.8, 0.7, 0.6, 0.5, each in a bin of its own; all right but the second.
    assert FOUR.calibration().ece == pytest.approx((0.2 + 0.7 + 0.4 + 0.5) / 4)


def test_mistakes_stand_surest_first_with_their_paths():
    two = evaluation([0, 1, 2], [[0.3, 0.6, 0.1], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]])
    assert two.mistakes() == [
        {"path": "1.jpg", "label": "b", "predicted": "a", "probability": pytest.approx(0.9)},
        {"path": "0.jpg", "label": "a", "predicted": "b", "probability": pytest.approx(0.6)},
    ]
    assert two.mistakes(1) == two.mistakes()[:1]
    placed = dataclasses.replace(two, folder=Path("pictures"))
    assert placed.mistakes(1)[0]["path"] == str(Path("pictures") / "1.jpg")


def test_confusions_stand_commonest_first():
    found = evaluation([0, 0, 0, 1], np.eye(3)[[1, 1, 2, 2]])
    assert found.confusions(5) == [("a", "b", 2, 3), ("a", "c", 1, 3), ("b", "c", 1, 1)]
    assert found.confusions(1) == [("a", "b", 2, 3)]


def test_top_5_means_something_with_more_than_five_classes():
    assert FOUR.top5 is None
    row = [0.3, 0.2, 0.15, 0.14, 0.11, 0.06, 0.04]
    seven = evaluation([4, 5], [row, row], "abcdefg")
    assert seven.top5 == 0.5
    order = np.argsort(-seven.probabilities, axis=1, kind="stable")[:, :5]
    assert seven.top5 == (order == seven.labels[:, None]).any(axis=1).mean()
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
