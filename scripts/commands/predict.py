"""slimtune predict: what a model says of pictures."""

from __future__ import annotations

from pathlib import Path

import click

from scripts.output import Output
from scripts.verb import verb


@verb("predict", example="slimtune predict model.pb rose.jpg --top 3")
@click.argument("model", type=click.Path())
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Classes shown.")
@click.option("--csv", "csv_file", type=click.Path(), metavar="OUT", help="Write a CSV file too.")
@click.option("--net", metavar="NAME", help="The net of a checkpoint.")
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
@click.option("--overwrite", is_flag=True, help="Replace the CSV file.")
def command(
    output: Output,
    model: str,
    files: tuple[str, ...],
    top: int,
    csv_file: str | None,
    net: str | None,
    trust: bool,
    overwrite: bool,
) -> None:
    """Classify FILES (pictures, folders, .npy arrays) with MODEL.

    MODEL is a run, a .pb, .onnx or .tflite, a SavedModel, or a checkpoint with --net.

    Class names and preprocessing travel inside the model: nothing else is needed.
    """
    from checkpoints.files import refuse_existing
    from finetune.prediction import predict, write_csv

    if csv_file is not None:
        refuse_existing(Path(csv_file), overwrite)
        _refuse_own_input(csv_file, (model, *files))
    predictions = predict(model, files, top=top, net=net, trust=trust, progress=output)
    if csv_file is not None:
        write_csv(predictions, Path(csv_file))
        output.say(f"Wrote {csv_file}.")
    lines = []
    for prediction in predictions:
        answers = (f"{c['label']} {c['probability']:.1%}" for c in prediction.classes)
        lines.append(f"{prediction.path}: {', '.join(answers)}")
    output.result(
        {"model": model, "predictions": [p.as_json() for p in predictions]}, "\n".join(lines)
    )


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
