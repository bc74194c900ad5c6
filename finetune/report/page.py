"""Puts the page together and writes it."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.files import write_text
from checkpoints.progress import SILENT, Progress
from finetune.evaluating.intervals import wilson_interval
from finetune.report.charts import make_charts
from finetune.report.classes import class_rows, matrix, worst_pairs
from finetune.report.commands import commands, options
from finetune.report.extras import Extras
from finetune.report.facts import Answer, Facts, Scores, StoredPlan, read_facts
from finetune.report.phases import phase_marks, phase_rows
from finetune.report.pictures import (
    FoundData,
    find_data,
    surest_mistakes,
    surest_right_answers,
    thumbnail_of_file,
)
from finetune.report.proof import prove_frozen
from finetune.report.reliability import reliability
from finetune.report.several import SeveralScores
from finetune.run import Run

MAX_PREDICTIONS = 12
MAX_NAME = 90
"""Longer names are cut in the middle."""

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
"""What HTML or UTF-8 do not allow, and signs that turn the direction of the text after them."""


def write_report(
    run: str | Path,
    *,
    model_verification: Mapping[str, Any] | None = None,
    comparison: Mapping[str, Any] | None = None,
    predictions: Sequence[Mapping[str, Any]] | None = None,
    progress: Progress = SILENT,
) -> Path:
    """Writes report.html of a run: one page that needs no network, no script and no other file.

    Everything comes from the run's files and the pictures of its dataset; what is missing is
    said on the page. The three additions stay on the page when it is written again without
    them, as long as the run is the same.

    Args:
      run: the run directory.
      model_verification: of the exported model: {mode, passed, max_abs, max_rel,
        top1_agreement, ...}; further keys are shown as they are.
      comparison: what this run is held against: {what, accuracy, best_learning_rate,
        rows: [{name, accuracy}], title}; accuracies are shares from 0 to 1, and the first row is
        this run. All but `what` may be left out; without rows there are two bars, this run and
        `what`.
      predictions: [{path, classes: [{label, probability}]}], as predict gives them.
      progress: where it tells how far it is.

    Returns:
      The path of the page.

    Raises:
      RunError: the directory holds no run, or a file in it is not what train writes.
    """
    place = Run(Path(run))
    facts = read_facts(place)
    extras = Extras(model_verification, comparison, predictions).or_kept(place)
    data = find_data(facts)
    if data.problem is not None:
        progress.say(f"{data.problem}: the report goes without its pictures.")
    write_text(place.report_file, _render(facts, extras, data, progress))
    return place.report_file


def _render(facts: Facts, extras: Extras, data: FoundData, progress: Progress) -> str:
    import jinja2
    from markupsafe import Markup

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": _percent,
        "number": "{:,}".format,
        "short": _short,
        "figure": _figure,
        "shape": lambda shape: " × ".join(map(str, shape)) or "scalar",
    }
    scores = facts.scores
    predictions = list(extras.predictions or ())
    phases = () if facts.plan is None else facts.plan.phases
    context = {
        # Our own files, and JSON without "<" and ">": the only parts that are not escaped.
        "style": Markup((folder / "style.css").read_text(encoding="utf-8")),  # noqa: S704
        "kept": Markup(extras.comment(facts.run)),  # noqa: S704
        "version": importlib.metadata.version("slimtune"),
        "facts": facts,
        "config": facts.config,
        "plan": facts.plan,
        "scopes": [] if facts.plan is None else scope_rows(facts.plan),
        "proof": None if facts.plan is None else prove_frozen(facts.run, facts.plan, progress),
        "scores": scores,
        "several": facts.several,
        "evaluated": facts.evaluated,
        "better": facts.evaluated and better_checkpoint(facts.run, facts.evaluated),
        "classes": facts.evaluated.classes if facts.evaluated else facts.classes,
        "trained_on": _count(data, "train"),
        # The name as it was given may be "." or end in "..".
        "run_name": facts.run.directory.resolve().name,
        "data_name": data.dataset.name if data.dataset else Path(facts.config.data).name,
        "data_problem": data.problem,
        "charts": make_charts(facts.metrics, facts.total_steps, phase_marks(phases)),
        "phases": phase_rows(phases, facts.metrics),
        "verification": extras.model_verification,
        "comparison": _bars(
            extras.comparison, facts.evaluated.accuracy if facts.evaluated else None
        ),
        "predictions": [
            (prediction, thumbnail_of_file(str(prediction["path"])))
            for prediction in predictions[:MAX_PREDICTIONS]
        ],
        "more_predictions": max(0, len(predictions) - MAX_PREDICTIONS),
        "options": options(facts.config),
        "commands": commands(facts, [str(prediction["path"]) for prediction in predictions[:3]]),
    }
    if scores is not None:
        mistakes, right = surest_mistakes(scores), surest_right_answers(scores)
        with progress.task("Making pictures small", len(mistakes) + len(right), "pictures") as task:

            def shown(answer: Answer) -> tuple[Answer, str | None]:
                task.advance()
                return answer, data.pictures.thumbnail(answer) if data.pictures else None

            context |= {
                "interval": wilson_interval(scores.right, scores.count),
                "matrix": matrix(scores),
                "pairs": worst_pairs(scores),
                "class_rows": class_rows(scores),
                "reliability": reliability(scores),
                "mistakes": [shown(answer) for answer in mistakes],
                "right_answers": [shown(answer) for answer in right],
            }
    return environment.get_template("template.html").render(context)


@dataclass(frozen=True)
class Better:
    """A checkpoint that scored better than the one the page is about."""

    step: int
    accuracy: float


def better_checkpoint(run: Run, scores: Scores | SeveralScores) -> Better | None:
    """What is in best/, where that is another checkpoint with a higher accuracy on validation."""
    accuracy = run.best_accuracy()
    if accuracy is None or scores.split != "val" or accuracy <= scores.accuracy:
        return None
    return Better(run.best_step(), accuracy)


@dataclass(frozen=True)
class ScopeRow:
    """Neighbouring variables of one scope that share a fate."""

    scope: str
    state: str
    origin: str
    variables: int
    parameters: int


def scope_rows(plan: StoredPlan) -> list[ScopeRow]:
    """The plan by second-level scopes, in the net's order."""
    sizes: dict[tuple[str, str, str], list[int]] = {}
    for variable in plan.variables:
        scope = "/".join(variable.name.split("/")[:2])
        group = (scope, variable.state, variable.origin)
        sizes.setdefault(group, []).append(variable.parameters)
    return [ScopeRow(*group, len(found), sum(found)) for group, found in sizes.items()]


@dataclass(frozen=True)
class Bars:
    """A comparison as bars.

    Attributes:
      title: the heading.
      what: the other side, in words.
      gain: by how many points of accuracy this run is better, or None.
      best_learning_rate: of the other side, or None.
      rows: (name, accuracy), this run first.
    """

    title: str
    what: str
    gain: float | None
    best_learning_rate: float | None
    rows: list[tuple[str, float]]


def _bars(comparison: Mapping[str, Any] | None, accuracy: float | None) -> Bars | None:
    if comparison is None:
        return None
    title = str(comparison.get("title", "What transfer is worth"))
    what = str(comparison["what"])
    other = comparison.get("accuracy")
    rows = [(str(row["name"]), float(row["accuracy"])) for row in comparison.get("rows") or ()]
    if not rows and accuracy is not None and other is not None:
        rows = [("this run", accuracy), (what, float(other))]
    # The rows were measured on the same pictures; this page's accuracy may be of others.
    gain = 100 * (rows[0][1] - float(other)) if rows and other is not None else None
    return Bars(title, what, gain, comparison.get("best_learning_rate"), rows)


def _count(data: FoundData, split: str) -> int | None:
    if data.dataset is None or split not in data.dataset.splits:
        return None
    return data.dataset.splits[split].count


def _printable(value: Any) -> Any:
    """Text with a visible sign in the place of unprintable ones."""
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


def _short(text: object, length: int = MAX_NAME) -> str:
    """A name that fits: a long one is cut in the middle."""
    whole = str(text)
    if len(whole) <= length:
        return whole
    half = (length - 1) // 2
    return f"{whole[:half]}…{whole[-half:]}"


def _percent(share: float, digits: int = 1) -> str:
    return f"{share:.{digits}%}"


def _figure(value: object) -> str:
    """A number as people read it; other things as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
