from finetune.report.charts import make_charts
from finetune.report.facts import StoredPhase
from finetune.report.phases import phase_marks, phase_rows

PHASES = (
    StoredPhase(0, 60, ("Net/Logits",), 0.01),
    StoredPhase(60, 90, ("Net/Logits", "Net/Block4"), 0.001),
)


def score(step, accuracy):
    return {"step": step, "split": "val", "accuracy": accuracy, "count": 9}


def test_each_phase_has_the_last_score_within_it():
    metrics = [
        {"step": 60, "split": "train", "loss": 0.5},
        *(score(30, 0.5), score(60, 0.75), score(75, 0.625), score(90, 0.875)),
    ]
    first, second = phase_rows(PHASES, metrics)
    assert (first.first, first.last, first.scopes) == (1, 60, ("Net/Logits",))
    assert (first.accuracy, first.gain) == (0.75, None)
    assert (second.first, second.last, second.scopes) == (61, 90, ("Net/Block4",))
    assert (second.accuracy, second.gain) == (0.875, 0.125)


def test_a_phase_that_was_not_evaluated_yet_has_no_score():
    rows = phase_rows(PHASES, [score(60, 0.75)])
    assert [(row.accuracy, row.gain) for row in rows] == [(0.75, None), (None, None)]


def test_one_phase_needs_no_table():
    assert phase_rows(PHASES[:1], [score(60, 0.75)]) == []
    assert phase_marks(PHASES[:1]) == []


def test_charts_are_marked_where_a_phase_begins():
    marks = phase_marks(PHASES)
    assert [(mark.step, mark.label) for mark in marks] == [(60, "phase 2")]
    metrics = [{"step": step, "split": "train", "loss": 1.0} for step in (1, 90)]
    (chart,) = make_charts(metrics, 90, marks)
    assert [(round(tick.place, 3), tick.label) for tick in chart.marks] == [(66.667, "phase 2")]
    (short,) = make_charts(metrics[:1], 40, marks)
    assert short.marks == ()
