import math

import pytest

from finetune.report.charts import MAX_POINTS, make_charts, nice_ticks, smooth, thin


def train(step, **numbers):
    return {"step": step, "split": "train", **numbers}


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (1.0, [0, 0.25, 0.5, 0.75, 1.0]),
        (2.7, [0, 1, 2, 3]),
        (300, [0, 100, 200, 300]),
        (0.001, [0, 0.00025, 0.0005, 0.00075, 0.001]),
        (7, [0, 2, 4, 6, 8]),
        (0, [0, 1]),
    ],
)
def test_ticks_are_round_and_reach_the_highest(highest, ticks):
    assert nice_ticks(highest) == ticks


def test_lines_stand_where_their_values_are():
    metrics = [train(0, loss=4.0), train(50, loss=2.0), train(100, loss=0.0)]
    (chart,) = make_charts(metrics, 100)
    assert [(tick.place, tick.label) for tick in chart.y_ticks] == [
        (100, "0"),
        (75, "1"),
        (50, "2"),
        (25, "3"),
        (0, "4"),
    ]
    assert [tick.label for tick in chart.x_ticks] == ["0", "25", "50", "75", "100"]
    (line,) = chart.lines
    assert line.path == "M0.0 0.0L500.0 500.0L1000.0 1000.0"
    assert (line.trace, line.dots, line.last) == ("", "", "0")
    assert chart.description == "Loss by step: training from 4 at step 0 to 0 at step 100."


def test_accuracy_always_spans_the_whole_scale_and_shows_each_evaluation():
    metrics = [
        train(1, batch_accuracy=0.5),
        train(2, batch_accuracy=0.75),
        {"step": 2, "split": "val", "accuracy": 0.6, "count": 10},
        {"step": 4, "split": "val", "accuracy": 0.55, "count": 10},
    ]
    (chart,) = make_charts(metrics, 4)
    assert [tick.label for tick in chart.y_ticks] == ["0%", "25%", "50%", "75%", "100%"]
    assert [(line.name, line.last) for line in chart.lines] == [
        ("training batches", "75%"),
        ("validation", "55%"),
    ]
    assert chart.lines[1].dots == "M500.0 400.0h0M1000.0 450.0h0"
    assert chart.note == "Best on validation 60.0%, at step 2."


def test_a_single_measurement_is_a_dot():
    (chart,) = make_charts([train(1, loss=1.0)], 10)
    assert (chart.lines[0].path, chart.lines[0].dots) == ("", "M100.0 0.0h0")


def test_what_is_no_number_is_left_out():
    metrics = [
        train(1, loss=math.nan),
        train(2, loss=math.inf),
        train(3, loss="high"),
        train("four", loss=1.0),
        train(5, loss=True),
        {"loss": 1.0},
    ]
    assert make_charts(metrics, 10) == []


def test_a_rate_that_never_changes_is_said_to():
    metrics = [train(1, learning_rate=0.001), train(9, learning_rate=0.001)]
    (chart,) = make_charts(metrics, 10)
    assert (chart.note, chart.lines[0].last) == ("The same at every step.", "0.001")


def test_long_series_are_thinned_to_means_and_smoothed():
    points = [(float(step), float(step % 2)) for step in range(10 * MAX_POINTS)]
    thinned = thin(points)
    assert len(thinned) == MAX_POINTS
    assert thinned[0] == (4.5, 0.5)
    inner = [value for _, value in smooth(points)[500:-500]]
    assert (min(inner), max(inner)) == pytest.approx((0.5, 0.5), abs=0.01)
    chart = make_charts([train(step, loss=value) for step, value in points], len(points))[0]
    assert chart.lines[0].path.count("L") == MAX_POINTS - 1
    assert chart.lines[0].trace.count("L") == MAX_POINTS - 1


def test_smoothing_keeps_a_straight_line_but_for_its_ends():
    points = [(float(step), 2.0 * step) for step in range(40)]
    smoothed = smooth(points)
    assert smoothed[2:-2] == points[2:-2]
    assert smoothed[0] == (0.0, 2.0)
