"""The small cases of `slimtune mnist`: a net for digits, trained, frozen, scored and tried.

Each is a preset of `train`; nothing here trains by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkpoints.errors import UsageError
from checkpoints.files import atomic_file
from checkpoints.progress import SILENT, Progress
from finetune.config import TrainConfig
from finetune.datasets.dataset import Dataset
from finetune.datasets.record_index import read_index
from finetune.datasets.sources import idx
from finetune.evaluating.evaluation import default_split, evaluate
from finetune.input_pipeline import PictureReader
from finetune.prediction import predict
from finetune.report import write_report
from finetune.run import Run
from finetune.training.training import train
from finetune.training_data import built_beside, find_dataset

MODEL = "model.pb"
"""The frozen graph, in the run directory."""

PICTURES = "digits"
"""The folder of the run directory with a few pictures that were not trained on."""

CASES: Mapping[str, Mapping[str, Any]] = {
    # Steps of the small two take less than a millisecond: there is no precision to choose.
    "softmax": {
        "precision": "fp32",
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "batch_size": 100,
        "steps": 5_000,
    },
    "mlp": {
        "precision": "fp32",
        "optimizer": "adam",
        "learning_rate": 0.001,
        "batch_size": 100,
        "steps": 30_000,
        "eval_every": 1_000,
    },
    "lenet": {
        "optimizer": "adam",
        "learning_rate": 0.0001,
        "batch_size": 50,
        "steps": 20_000,
        "dropout": 0.5,
        # At a rate that does not fall, what is averaged reads some 15 more of 10,000 digits.
        "ema": 0.999,
    },
}
"""Case -> its options, under the names of TrainConfig. Losses are means over the batch; the L2
losses of `mlp` are the net's own."""

COMMON: Mapping[str, Any] = {
    "trainable": ("all",),
    "weight_decay": 0.0,
    "augment": "none",
    "init": "default",
}
"""What all cases have."""


@dataclass(frozen=True)
class MnistResult:
    """What a case came to.

    Attributes:
      case: softmax, mlp or lenet.
      run: the run directory.
      data: the dataset it was trained on.
      step: steps done in all.
      validation_accuracy: of the last checkpoint, a share; None without such a split.
      accuracy: of the frozen graph on the test pictures, a share.
      split: whose pictures these are: test, or val where there are none.
      count: how many.
      model: the frozen graph.
      verification: how that was compared with the checkpoint, and what came out.
      predictions: of a picture of each digit, by the frozen graph alone: {path, classes}.
      report: the page about the run.
    """

    case: str
    run: str
    data: str
    step: int
    validation_accuracy: float | None
    accuracy: float
    split: str
    count: int
    model: str
    verification: dict[str, Any]
    predictions: list[dict[str, Any]]
    report: str

    def as_json(self) -> dict[str, Any]:
        """What `mnist --json` prints."""
        return asdict(self)


def mnist(
    case: str,
    run: str | Path,
    *,
    data: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
    **options: Any,
) -> MnistResult:
    """Trains a small net on digits, freezes it, scores it and tries it.

    Args:
      case: softmax, mlp or lenet.
      run: the run directory that is written; model.pb and digits/ go into it too.
      data: a directory of IDX files, or a dataset built of one; None: those of the run, and of a
        new one digits that are drawn beside it.
      resume: go on with the run in the directory.
      overwrite: replace the run in the directory.
      progress: where it tells how far it is.
      **options: options of TrainConfig that go before the case's own.

    Raises:
      UsageError: there is no such case, or an option makes no sense.
      RunError, DataError, NotFoundError: as `train`.
    """
    if case not in CASES:
        raise UsageError(
            f"There is no case {case!r}.", expected=f"one of {', '.join(CASES)}", received=case
        )
    files = Run(Path(run))
    # A run that is there has its options; what is given now may differ, and train says so.
    is_new = overwrite or not files.exists()
    own = {**COMMON, **CASES[case]} if is_new else {}
    given = {name: value for name, value in options.items() if value is not None}
    drawn = files.directory.with_name(f"{files.directory.name}-{PICTURES}")
    is_drawn = data is None and is_new
    if data is None:
        data = drawn if is_new else files.read_config().data
    config = TrainConfig(
        data=str(data),
        run=str(run),
        net=f"mnist_{case}",
        checkpoint="none",
        resume=resume,
        overwrite=overwrite,
        **{**own, **given},
    )
    if is_drawn and not resume:
        _draw(drawn, progress)
    if overwrite and files.exists():
        # It is of the run that goes.
        (files.directory / MODEL).unlink(missing_ok=True)
    trained = train(config, progress=progress)
    dataset = find_dataset(data, built_beside(files.directory), progress=progress)
    return _tried(case, files, dataset, trained.accuracy, progress)


def _draw(drawn: Path, progress: Progress) -> None:
    """Draws digits as IDX files; they are the same each time, so those that are there will do."""
    from finetune.sample import write_digits

    progress.say(
        f"No --data: digits are drawn, offline, into {drawn}. For MNIST itself: slimtune data "
        "download mnist mnist, then --data mnist."
    )
    if not idx.recognises(drawn):
        write_digits(drawn, progress=progress)


def _tried(
    case: str,
    run: Run,
    dataset: Dataset,
    validation_accuracy: float | None,
    progress: Progress,
) -> MnistResult:
    """Freezes the newest checkpoint of a run, and looks at what the frozen graph says."""
    from exporters import convert

    model = run.directory / MODEL
    done = convert(run.directory, model, overwrite=True, progress=progress)
    split = "test" if "test" in dataset.splits else default_split(dataset, dataset)
    found = evaluate(model, dataset, split=split, progress=progress)
    files = _write_pictures(run, dataset, split)
    predictions = [one.as_json() for one in predict(model, files, top=3, progress=progress)]
    verification = done.verification.as_json()
    report = write_report(
        run.directory,
        model_verification={**verification, "path": str(model)},
        predictions=predictions,
        progress=progress,
    )
    return MnistResult(
        case=case,
        run=str(run.directory),
        data=str(dataset.path),
        step=run.step(),
        validation_accuracy=validation_accuracy,
        accuracy=found.accuracy,
        split=split,
        count=found.count,
        model=str(model),
        verification=verification,
        predictions=predictions,
        report=str(report),
    )


def _write_pictures(run: Run, dataset: Dataset, split: str) -> Sequence[Path]:
    """The first picture of each class in a split, as a file named by its label."""
    reader = PictureReader(read_index(dataset.split(split)), 0)
    labels = reader.labels.tolist()
    folder = run.directory / PICTURES
    folder.mkdir(exist_ok=True)
    files = []
    for label in range(len(dataset.classes)):
        if label in labels:
            file = folder / f"{label}.png"
            with atomic_file(file, overwrite=True) as opened:
                opened.write(reader.picture(labels.index(label)))
            files.append(file)
    return files
