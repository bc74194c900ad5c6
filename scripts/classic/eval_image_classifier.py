"""eval_image_classifier: TF-Slim's evaluation script on slimtune's evaluation."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import NotFoundError, PlanError, UnsupportedError
from scripts.classic import slim
from scripts.classic.flags import Flag, Idle, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from finetune.evaluating.scores import Evaluation
    from finetune.model import Model
    from finetune.nets.file_options import NetOptions

DIRECTORY = "/tmp/tfmodel/"  # noqa: S108 - the old default

FLAGS = (
    Flag(
        "checkpoint_path",
        str,
        DIRECTORY,
        "A directory, of which the newest counts; or a file.",
        path="checkpoint",
    ),
    Flag(
        "eval_dir",
        str,
        DIRECTORY,
        "Where the event file with the figures goes.",
        path="output directory",
    ),
    slim.DATASET_NAME,
    Flag("dataset_split_name", str, "test", "The split to score: train, validation or test."),
    slim.DATASET_DIR,
    slim.LABELS_OFFSET,
    slim.MODEL_NAME,
    slim.PREPROCESSING_NAME,
    Flag(
        "eval_image_size", int, None, "Height and width in pixels; those of the training.", least=1
    ),
    Flag("batch_size", int, 100, "Pictures of a batch, which --max_num_batches counts.", least=1),
    Flag("max_num_batches", int, None, "Score so many batches; all.", least=1),
    Flag("moving_average_decay", float, None, "Score the averages of the weights."),
    Idle("restore_global_step", bool, True, "a checkpoint without a step is no error."),
    slim.PREPROCESSING_THREADS,
    slim.MASTER,
    slim.QUANTIZE,
    slim.GRAYSCALE,
)


@classic(
    "eval_image_classifier",
    example="slimtune classic eval_image_classifier --checkpoint_path=/tmp/train_logs "
    "--eval_dir=/tmp/train_logs --dataset_dir=/tmp/flowers --dataset_name=flowers "
    "--dataset_split_name=validation --model_name=inception_v3",
    flags=FLAGS,
    today="slimtune evaluate",
    options={
        **slim.OPTIONS,
        "image-size": "eval_image_size",
        "limit": "max_num_batches",
        "split": "dataset_split_name",
        "test": "slimtune data build --test",
        "val": "slimtune data build --val",
    },
)
def command(output: Output, **flags: Any) -> None:
    """Score a checkpoint on a split, each picture once.

    The figures are printed as TF-Slim printed them, and go to TensorBoard as eval/Accuracy and
    eval/Recall_5. Of a run that was trained with --moving_average_decay the averages are scored.
    """
    from checkpoints.family import resolve
    from finetune.datasets.dataset import canonical_split, read_dataset
    from finetune.evaluating.evaluation import evaluate
    from finetune.nets.file_options import NetOptions

    net = slim.net_name(flags["model_name"])
    path = Path(flags["checkpoint_path"])
    family = resolve(path)
    if flags["moving_average_decay"] is not None:
        _require_averages(family.prefix)
    dataset = read_dataset(Path(flags["dataset_dir"]))
    label_offset = slim.label_offset(dataset, flags["labels_offset"])
    limit = flags["max_num_batches"] and flags["max_num_batches"] * flags["batch_size"]
    is_run, kind, size = _run_of(family.prefix, net, flags)
    options = NetOptions(preprocessing=kind, image_size=size)
    averages = flags["moving_average_decay"] is not None
    model = _open(family.prefix, None if is_run else net, options, averages, output)
    if not model.classes:
        # --labels_offset alone says where the classes of the data begin.
        model = replace(model, metadata=replace(model.metadata, label_offset=0))
    output.say(f"Evaluating {family.prefix}")
    split = flags["dataset_split_name"]
    found = evaluate(
        *(model, dataset), split=split, limit=limit, label_offset=label_offset, progress=output
    )
    figures = {"eval/Accuracy": found.accuracy, "eval/Recall_5": _recall(found)}
    _write_events(Path(flags["eval_dir"]), figures, found.step or 0)
    words: list[str | Path] = ["slimtune", "evaluate", path, Path(flags["dataset_dir"])]
    words += ["--split", canonical_split(split)]
    if not is_run:
        words += ["--net", net]
        words += ["--preprocessing", kind] if kind else []
        words += ["--image-size", str(size)] if size else []
    words += ["--limit", str(limit)] if limit else []
    words += [] if label_offset is None else ["--label-offset", str(label_offset)]
    value = {"checkpoint": str(family.prefix), "data": flags["dataset_dir"], **found.as_json()}
    lines = [f"{name}[{_float32(share)}]" for name, share in figures.items()]
    finish(output, {**value, **figures}, lines, shell_words(*words))


def _require_averages(prefix: Path) -> None:
    import checkpoints
    from checkpoints.names import averaged_names

    with checkpoints.open(prefix) as saved:
        if not averaged_names(saved.variables):
            raise NotFoundError(
                f"{prefix} holds no moving averages.",
                expected="variables NAME/ExponentialMovingAverage",
                next_step="Leave --moving_average_decay out.",
            )


def _run_of(prefix: Path, net: str, flags: dict[str, Any]) -> tuple[bool, str | None, int | None]:
    """Whether the checkpoint is evaluated with what its run says; else preprocessing and size.

    Raises:
      PlanError: the run trained another net.
      UnsupportedError: it trained with another preprocessing or other hidden layers.
    """
    from finetune.run import Run, read_json

    name, size = flags["preprocessing_name"], flags["eval_image_size"]
    run = Run(prefix.parent.parent if prefix.parent.name == Run.BEST else prefix.parent)
    if not run.exists() or not run.signature_file.is_file():
        return False, slim.other_preprocessing(net, name), size
    says = read_json(run.signature_file)
    if says.get("net") != net:
        raise PlanError(
            f"{run.directory} is a run of another net.",
            expected=f"--model_name={says.get('net')}",
            received=f"--model_name={flags['model_name']}",
        )
    kind = says["preprocessing"]["name"]
    if name is not None and kind not in slim.preprocessing_kinds(name):
        raise UnsupportedError(
            f"{run.directory} was trained with the preprocessing {kind}.",
            expected=f"--preprocessing_name={kind}, or none",
            received=f"--preprocessing_name={name}",
            next_step="Leave it out.",
        )
    if size in (None, says.get("image_size")):
        return True, None, None
    return False, kind, size


def _open(
    prefix: Path, net: str | None, options: NetOptions, averages: bool, output: Output
) -> Model:
    """The model; of a checkpoint that is no run's with the averages in place of the weights."""
    import exporters
    from checkpoints.selection import Selection
    from finetune.model import open_model

    if net is None or not averages:
        return open_model(prefix, net=net, options=options, progress=output)
    with tempfile.TemporaryDirectory(prefix="slimtune-") as folder:
        averaged = Path(folder) / "averages.ckpt"
        exporters.convert(prefix, averaged, selection=Selection(weights="ema"), progress=output)
        return open_model(averaged, net=net, options=options, progress=output)


def _recall(found: Evaluation) -> float:
    """Share of pictures whose class is among the five most probable: all, of up to five classes."""
    return 1.0 if found.top5 is None else found.top5


def _float32(share: float) -> str:
    """A float32 as TensorFlow prints it."""
    import numpy as np

    return f"{np.float32(share):.8g}"


def _write_events(directory: Path, figures: dict[str, float], step: int) -> None:
    from contextlib import closing

    from exporters.runtime import load_tensorflow
    from finetune.training.event_file import EventFile

    v1 = load_tensorflow().compat.v1
    values = [v1.Summary.Value(tag=tag, simple_value=share) for tag, share in figures.items()]
    directory.mkdir(parents=True, exist_ok=True)
    with closing(EventFile(directory)) as file:
        file.write(v1.Summary(value=values), step)


if __name__ == "__main__":
    main(["classic", "eval_image_classifier", *sys.argv[1:]])
