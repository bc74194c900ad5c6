"""How good a model is on a split: each picture once, nothing of the run changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from checkpoints.errors import DataError, GraphError, listed
from checkpoints.progress import SILENT, Progress
from finetune.dataset import Dataset, check_labels
from finetune.input_pipeline import evaluation_dataset, find_data_error
from finetune.model import Model, open_model
from finetune.scores import Evaluation
from finetune.training_data import built_beside, find_dataset

BATCH_SIZE = 32


def evaluate(
    model: str | Path | Model,
    data: str | Path | Dataset,
    *,
    split: str | None = None,
    net: str | None = None,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Evaluation:
    """Scores a model on one split.

    Args:
      model: a run, a model file of any form that runs, a checkpoint with `net`, or an opened one.
      data: a dataset directory or a folder of pictures.
      split: train, val or test; left out: val, else test.
      net: the net of a checkpoint.
      trust: whether ops that reach files, the network or Python may run.
      progress: where it tells how far it is.

    Raises:
      DataError: the classes of model and data do not fit.
      NotFoundError: there is no such model, data or split.
    """
    opened = model if isinstance(model, Model) else open_model(model, net=net, progress=progress)
    dataset = data if isinstance(data, Dataset) else open_data(data, progress)
    split = split or ("val" if "val" in dataset.splits else "test")
    count = dataset.split(split).count
    check_labels(dataset)
    places = class_places(opened, dataset)
    names: list[str] = []
    labels, probabilities = [], []
    with (
        opened.runner(trust) as runner,
        progress.task(f"Evaluating {split}", count, "pictures") as task,
    ):
        batches = runner.run_dataset(
            lambda: evaluation_dataset(dataset, split, opened.preprocessing, BATCH_SIZE)
        )
        try:
            for (answers,), (batch_labels, batch_names) in batches:
                if not opened.classes:
                    _refuse_other_count(opened, dataset, answers.shape[1])
                probabilities.append(opened.probabilities(answers))
                labels.append(batch_labels)
                names += [name.decode("utf-8", "replace") for name in batch_names]
                task.advance(len(batch_labels))
        except GraphError as error:
            raise find_data_error(error.__cause__) or error from error.__cause__
    return Evaluation(
        classes=opened.classes or dataset.classes,
        names=tuple(names),
        labels=places[np.concatenate(labels)],
        probabilities=np.concatenate(probabilities),
        split=split,
        step=opened.metadata.step,
    )


def open_data(data: str | Path, progress: Progress) -> Dataset:
    """A dataset directory; of a folder of pictures the one built beside it."""
    return find_dataset(data, built_beside(Path(data)), progress=progress)


def class_places(model: Model, dataset: Dataset) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Label of the data -> class of the model, int64 [classes of the data].

    Raises:
      DataError: a class of the data is not one of the model's.
    """
    if not model.classes:
        return np.arange(len(dataset.classes)) + model.metadata.label_offset
    strangers = [name for name in dataset.classes if name not in model.classes]
    if strangers:
        raise DataError(
            f"{model.source} does not know {len(strangers)} classes of {dataset.path}:\n"
            + listed(strangers),
            expected="classes among: " + _shortened(model.classes),
            received=_shortened(dataset.classes),
            next_step="Evaluate on the data the model was trained for.",
        )
    return np.array([model.classes.index(name) for name in dataset.classes], np.int64)


def _refuse_other_count(model: Model, dataset: Dataset, classes: int) -> None:
    """Without class names, the number of classes is all there is to compare."""
    before = model.metadata.label_offset
    expected = len(dataset.classes) + before
    if classes != expected:
        offset = f" and {before} before them" if before else ""
        raise DataError(
            f"{model.source} and {dataset.path} have different numbers of classes.",
            expected=f"{expected}: the data's {len(dataset.classes)}{offset}",
            received=f"{classes} in the model",
            next_step="Evaluate on the data the model was trained for.",
        )


def _shortened(names: Sequence[str], limit: int = 10) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
