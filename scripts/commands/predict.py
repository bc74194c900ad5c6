"""slimtune predict: what a model says of pictures."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scripts.foreign import describe, foreign_options
from scripts.output import Output, one_line
from scripts.verb import verb

if TYPE_CHECKING:
    from finetune.datasets.picture_formats import PictureError
    from finetune.prediction import Prediction


@verb(
    "predict",
    example="slimtune predict model.pb rose.jpg --top 3\n"
    "find pictures -name '*.jpg' | slimtune predict model.pb - --csv answers.csv",
)
@click.argument("model", type=click.Path())
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Classes shown.")
@click.option("--csv", "csv_file", type=click.Path(), metavar="OUT", help="Write a CSV file too.")
@click.option("--net", metavar="NAME", help="The net of a checkpoint.")
@foreign_options
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
@click.option("--overwrite", is_flag=True, help="Replace the CSV file.")
def command(
    output: Output,
    model: str,
    files: tuple[str, ...],
    top: int,
    csv_file: str | None,
    net: str | None,
    preprocessing: str | None,
    labels: str | None,
    trust: bool,
    overwrite: bool,
) -> None:
    """Classify FILES (pictures, folders, .npy arrays) with MODEL.

    MODEL is a run, a .pb, .onnx or .tflite, a SavedModel, or a checkpoint with --net. In the
    place of FILES, - reads their paths from stdin, one a line.

    Class names and preprocessing travel inside the model: nothing else is needed. An array is
    the net's input as it is, [height, width, 3] or [count, height, width, 3]; values that do not
    fit the stored preprocessing get a warning. Where pictures may have several classes, each
    probability stands for itself, and those below one half are listed as such.

    Files that are no pictures, and paths of several that are not there, are named and left out;
    the command then ends with 1. In folders pictures are looked for, not arrays.
    """
    from checkpoints.errors import counted
    from checkpoints.files import refuse_existing
    from finetune.prediction import predict, write_csv

    files = _with_listed(files)
    if csv_file is not None:
        refuse_existing(Path(csv_file), overwrite)
        _refuse_own_input(csv_file, (model, *files))
    broken: list[PictureError] = []

    def leave_out(error: PictureError) -> None:
        broken.append(error)
        output.say(f"Skipped {one_line(error.message)}")

    predictions = predict(
        model,
        files,
        top=top,
        net=net,
        description=describe(preprocessing, labels),
        trust=trust,
        on_broken=leave_out,
        progress=output,
    )
    if csv_file is not None:
        write_csv(predictions, Path(csv_file))
        output.say(f"Wrote {one_line(csv_file)}.")
    lines = []
    for prediction in predictions:
        lines.append(f"{one_line(prediction.path)}: {_answers(prediction)}")
    skipped = [{"path": e.name, "kind": e.kind, "detail": e.detail} for e in broken]
    output.result(
        {"model": model, "predictions": [p.as_json() for p in predictions], "skipped": skipped},
        *filter(None, ["\n".join(lines)]),
    )
    if broken:
        output.say(f"{counted(len(broken), 'path')} could not be read as pictures.")
        raise click.exceptions.Exit(1)


def _answers(prediction: Prediction) -> str:
    """The classes with their probabilities; of several a picture, those below the threshold last."""
    threshold = prediction.threshold or 0.0
    said: list[str] = []
    others: list[str] = []
    for one in prediction.classes:
        text = f"{one['label']} {one['probability']:.1%}"
        (said if one["probability"] >= threshold else others).append(text)
    below = [f"below {threshold:.0%}: {', '.join(others)}"] if others else []
    return "; ".join([*([", ".join(said)] if said else []), *below])


def _with_listed(files: tuple[str, ...]) -> tuple[str, ...]:
    """The files, with those that stdin lists in the place of `-`."""
    if "-" not in files:
        return files
    from finetune.prediction import read_listed_paths

    if files.count("-") > 1:
        raise click.UsageError("stdin, as -, can be read once.")
    place = files.index("-")
    # File names are bytes: those that are no UTF-8 must come out as they were.
    stdin = io.TextIOWrapper(sys.stdin.buffer, "utf-8", "surrogateescape")
    return (*files[:place], *read_listed_paths(stdin), *files[place + 1 :])


def _refuse_own_input(csv_file: str, inputs: tuple[str, ...]) -> None:
    """Raises UsageError where the table would replace a picture or the model."""
    from checkpoints.errors import UsageError

    place = Path(csv_file).resolve()
    for name in inputs:
        source = Path(name).resolve()
        if place == source or (source.is_dir() and place.is_file() and source in place.parents):
            raise UsageError(
                f"--csv {csv_file} would replace what is read.",
                received=name,
                next_step="Name another file.",
            )
