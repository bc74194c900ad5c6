import numpy as np
import pytest

from finetune.report.facts import Answer, Scores
from finetune.report.reliability import reliability


def scores(*answers):
    """(probability, is right) each."""
    return Scores(
        "val",
        1,
        ("a", "b"),
        np.eye(2, dtype=np.int64),
        None,
        tuple(
            Answer(place, f"{place}.jpg", 0, 0 if right else 1, probability)
            for place, (probability, right) in enumerate(answers)
        ),
    )


def test_columns_stand_where_the_answers_are():
    found = reliability(scores((0.9, True), (0.92, False), (0.9, True), (0.55, True)))
    low, high = found.columns
    assert (high.left, high.width) == (pytest.approx(100 * 13 / 15), pytest.approx(100 / 15))
    assert (high.accuracy, high.share) == (pytest.approx(200 / 3), 100.0)
    assert high.confidence == pytest.approx(100 * 2.72 / 3)
    assert (low.accuracy, low.share) == (100.0, pytest.approx(100 / 3))
    assert low.title == "55% sure, 100% right, 1 picture"
    assert high.title == "91% sure, 67% right, 3 pictures"
    assert found.description == f"Accuracy by confidence: {low.title}; {high.title}."
    # 3/4 * |0.9067 - 0.6667| + 1/4 * |0.55 - 1|
    assert found.ece == pytest.approx(0.18 + 0.1125)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([(0.9, False), (0.8, True)], "too sure"),
        ([(0.4, True)], "too cautious"),
        ([(0.5, True), (0.5, False)], "as sure as it is right"),
    ],
)
def test_the_verdict(answers, verdict):
    assert reliability(scores(*answers)).verdict == verdict


def test_without_single_answers_there_is_no_plot():
    assert reliability(scores()) is None
