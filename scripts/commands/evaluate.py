"""slimtune evaluate: how good a model is on a split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from scripts.foreign import describe, foreign_options
from scripts.output import Output, one_line
from scripts.rows import Rows
from scripts.verb import verb

if TYPE_CHECKING:
    from finetune.evaluating.scores import Evaluation

MISTAKES_SHOWN = 5
CONFUSIONS_SHOWN = 5


@verb(
    "evaluate",
    example="slimtune evaluate runs/flowers flowers-data --split val\n"
    "slimtune evaluate runs/flowers flowers-data --watch --timeout 600",
)
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path())
@click.option("--split", metavar="train|val|test", help="Default: val, else test.")
@click.option("--net", metavar="NAME", help="The net of a checkpoint; --preprocessing is then its.")
@click.option(
    "--image-size", type=click.IntRange(1), metavar="PX", help="With --net: height and width."
)
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Score the first N pictures alone."
)
@click.option(
    "--label-offset",
    type=click.IntRange(0),
    metavar="N",
    help="The label of the first class, where the data do not say it: 1 leaves a background out.",
)
@foreign_options
@click.option(
    "--watch",
    "is_watching",
    is_flag=True,
    help="Evaluate each checkpoint of a training, as it comes, until the training ends.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --watch: end after so long without a sign of training; 1800.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --watch: time between two looks; 5.",
)
@click.option(
    "--batch-statistics",
    is_flag=True,
    help="A diagnostic: batch norm by the statistics of each batch, held against its averages.",
)
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
def command(
    output: Output,
    model: str,
    data: str,
    split: str | None,
    net: str | None,
    image_size: int | None,
    limit: int | None,
    label_offset: int | None,
    preprocessing: str | None,
    labels: str | None,
    is_watching: bool,
    timeout: float | None,
    interval: float | None,
    batch_statistics: bool,
    trust: bool,
) -> None:
    """Score MODEL on DATA, each picture once.

    MODEL is a run, a .pb, .onnx or .tflite, a SavedModel, or a checkpoint with --net. RUN is its
    newest checkpoint, RUN/best its best one, RUN/model.ckpt-N any. No file of it is changed.

    Intervals are of 95 % (Wilson). The calibration error compares the confidence of answers with
    their accuracy, in 15 bins. A sure mistake is often a wrong label.

    Where pictures may have several classes, each counts from a probability of one half on, and a
    picture is right with exactly its classes; average precision stands beside.
    """
    if net is None and image_size is not None:
        raise click.UsageError("--image-size goes with --net.")
    if is_watching:
        if (image_size, limit, label_offset) != (None, None, None):
            raise click.UsageError("--watch takes no --image-size, --limit or --label-offset.")
        _watch(output, model, data, split, net, timeout, interval, batch_statistics, trust)
        return
    if timeout is not None or interval is not None:
        raise click.UsageError("--timeout and --interval go with --watch.")
    from finetune.evaluating.evaluation import evaluate
    from finetune.nets.file_options import NetOptions

    found = evaluate(
        model,
        data,
        split=split,
        net=net,
        options=NetOptions(preprocessing=preprocessing if net else None, image_size=image_size),
        limit=limit,
        label_offset=label_offset,
        description=describe(None if net else preprocessing, labels),
        batch_statistics=batch_statistics,
        trust=trust,
        progress=output,
    )
    output.result(
        # Of thousands of classes the matrix in it takes gigabytes.
        {"model": model, "data": data, **found.as_json()} if output.as_json else {},
        class_table(found),
        *_notes(found),
        f"{one_line(model)}{_step(found)}: {summary(found)}.",
    )
    if Path(model).is_file():
        output.next(shell_words("slimtune", "predict", Path(model), "PICTURE.jpg"))
    else:
        output.next(shell_words("slimtune", "convert", Path(model), "model.pb"))


def _watch(
    output: Output,
    model: str,
    data: str,
    split: str | None,
    net: str | None,
    timeout: float | None,
    interval: float | None,
    batch_statistics: bool,
    trust: bool,
) -> None:
    from finetune.evaluating.watching import INTERVAL, TIMED_OUT, TIMEOUT, watch

    def tell(found: Evaluation) -> None:
        line = f"{one_line(model)}{_step(found)}: {summary(found)}."
        if output.as_json:
            output.say(line)
        else:
            output.result({}, line)

    watched = watch(
        model,
        data,
        split=split,
        net=net,
        batch_statistics=batch_statistics,
        interval=INTERVAL if interval is None else interval,
        timeout=TIMEOUT if timeout is None else timeout,
        trust=trust,
        each=tell,
        progress=output,
    )
    best = max(watched.results, key=lambda found: found.accuracy)
    how = "The watch ended" if watched.ended == TIMED_OUT else "The training is finished"
    output.result(
        {
            "model": model,
            "data": data,
            "results": [found.as_json() for found in watched.results] if output.as_json else [],
            "skipped": watched.skipped,
            "ended": watched.ended,
        },
        f"{how}; best{_step(best)}: {best.accuracy:.1%}.",
    )


def summary(found: Evaluation) -> str:
    """The figures of the whole split, in one line."""
    from finetune.evaluating.multi_label import MultiLabelEvaluation

    low, high = found.accuracy_interval
    if isinstance(found, MultiLabelEvaluation):
        mean = found.mean_average_precision
        return (
            f"all classes right {found.accuracy:.1%} ({low:.1%} to {high:.1%})"
            + ("" if mean is None else f", mean average precision {mean:.1%}")
            + f", on {found.count} pictures of {found.split}"
        )
    top5 = "" if found.top5 is None else f", top-5 {found.top5:.1%}"
    return (
        f"accuracy {found.accuracy:.1%} ({low:.1%} to {high:.1%}){top5}, calibration error "
        f"{found.calibration().ece:.3f}, on {found.count} pictures of {found.split}"
    )


def class_table(found: Evaluation) -> Rows:
    """The classes, one a row."""
    rows = found.per_class()
    headings = ["class", "pictures", "precision", "recall", "95 % interval", "F1"]
    if any("average_precision" in row for row in rows):
        headings.append("average precision")
    table = Rows(*headings, texts=("class",))
    for row in rows:
        interval = row["recall_interval"]
        table.add(
            row["class"],
            f"{row['count']:,}",
            _share(row["precision"]),
            _share(row["recall"]),
            "-" if interval is None else f"{interval[0]:.0%} to {interval[1]:.0%}",
            "-" if row["f1"] is None else f"{row['f1']:.3f}",
            *([_share(row["average_precision"])] if "average_precision" in row else []),
        )
    return table


def _notes(found: Evaluation) -> list[str]:
    """The commonest confusions and the surest mistakes."""
    lines = []
    confusions = found.confusions(CONFUSIONS_SHOWN)
    if confusions:
        lines.append("")
        lines.append("Commonest confusions:")
        lines += [f"  {n} of {of} {true} called {said}" for true, said, n, of in confusions]
    mistakes = found.mistakes(MISTAKES_SHOWN)
    if mistakes:
        lines.append("")
        lines.append("Surest mistakes (odd pictures, or wrong labels):")
        lines += [f"  {one_line(wrong['path'])}: {_mistake(wrong)}" for wrong in mistakes]
    return [*lines, ""]


def _mistake(wrong: Mapping[str, Any]) -> str:
    """What was said and what the label is; of several classes a picture, of one of them."""
    if "labelled" not in wrong:
        return f"{wrong['predicted']} {wrong['probability']:.1%}, labelled {wrong['label']}"
    label = "labelled so" if wrong["labelled"] else "not labelled so"
    return f"{wrong['class']} {wrong['probability']:.1%}, {label}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _step(found: Evaluation) -> str:
    return "" if found.step is None else f" at step {found.step}"
