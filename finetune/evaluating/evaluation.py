"""How good a model is on a split: each picture once, nothing of the run changed."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import DataError, NotFoundError, UnsupportedError, UsageError, listed
from checkpoints.progress import SILENT, Progress
from finetune.datasets.dataset import Dataset, is_dataset_directory
from finetune.datasets.labels import BACKGROUND, check_labels, with_label_offset
from finetune.datasets.record_index import read_index
from finetune.datasets.sources import idx
from finetune.evaluating.averages_lag import Lag, measure_lag
from finetune.evaluating.batch_statistics import equal_batches, with_batch_statistics
from finetune.evaluating.multi_label import MultiLabelEvaluation
from finetune.evaluating.scores import BATCH, Evaluation
from finetune.foreign_graph import Description
from finetune.input_pipeline import evaluation_dataset
from finetune.model import GRAPH_SUFFIXES, OTHER_SUFFIXES, SAVED_MODEL, Model, open_model
from finetune.nets.file_options import NetOptions
from finetune.pipeline_errors import data_errors
from finetune.run import Run
from finetune.training_data import find_pictures
from finetune.weights import NO_OPTIONS

BATCH_SIZE = 32

LAG_PICTURES = 128
"""How many pictures tell whether the moving averages of a run lag."""


def evaluate(
    model: str | Path | Model,
    data: str | Path | Dataset,
    *,
    split: str | None = None,
    net: str | None = None,
    options: NetOptions = NO_OPTIONS,
    limit: int | None = None,
    label_offset: int | None = None,
    description: Description | None = None,
    batch_statistics: bool = False,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Evaluation:
    """Scores a model on one split: each picture once; no variable and no file is changed.

    Args:
      model: a run, a model file of any form that runs, a checkpoint with `net`, or an opened one.
      data: a dataset directory, or pictures that one is built of.
      split: train, val or test; left out: val, else test; of an IDX directory test.
      net: the net of a checkpoint.
      options: with net, the preprocessing and the image size, where they are not the usual ones.
      limit: how many pictures of the split at most, from its first; None: all.
      label_offset: the label that the first class has in the shards; None: as the data say.
      description: what a graph of another program does not say itself.
      batch_statistics: a diagnostic: batch norm by the statistics of each batch in place of its
        moving averages. The result's `lag` compares the two.
      trust: whether ops that reach files, the network or Python may run.
      progress: where it tells how far it is, and warns where moving averages lag.

    Raises:
      UsageError: model and data are swapped.
      DataError: the classes of model and data do not fit.
      NotFoundError: there is no such model, data or split.
      UnsupportedError: batch statistics are asked of a model without batch norms.
    """
    refuse_swapped(model, data)
    opened = (
        model
        if isinstance(model, Model)
        else open_model(model, net=net, options=options, description=description, progress=progress)
    )
    diagnosed = with_batch_statistics(opened) if batch_statistics else None
    dataset = data if isinstance(data, Dataset) else open_data(data, progress, model)
    if label_offset is not None:
        dataset = with_label_offset(dataset, label_offset)
    split = split or default_split(data, dataset)
    count = min(dataset.split(split).count, limit or sys.maxsize)
    check_labels(dataset)
    scored = _score(opened, dataset, split, BATCH_SIZE, count, trust, progress)
    scored = replace(scored, folder=_folder_of_pictures(data, scored.names[0]))
    if diagnosed is not None:
        size = equal_batches(count, BATCH_SIZE)
        by_batch = _score(diagnosed, dataset, split, size, count, trust, progress)
        lag = measure_lag(scored.right, by_batch.right)
        progress.say(f"{lag}, over {size} pictures a batch.")
        return replace(by_batch, statistics=BATCH, lag=lag, folder=scored.folder)
    if opened.averages_moved:
        scored = replace(scored, lag=_find_lag(opened, dataset, scored, trust, progress))
    return scored


def _score(
    model: Model,
    dataset: Dataset,
    split: str,
    batch_size: int,
    count: int,
    trust: bool,
    progress: Progress,
) -> Evaluation:
    """The answers for the first `count` pictures of a split."""
    places = class_places(model, dataset)
    names: list[str] = []
    labels, probabilities = [], []
    several = model.metadata.multi_label
    with (
        model.runner(trust) as runner,
        progress.task(f"Evaluating {split}", count, "pictures") as task,
    ):
        batches = runner.run_dataset(
            lambda: evaluation_dataset(dataset, split, model.preprocessing, batch_size).take(
                math.ceil(count / batch_size)
            )
        )
        with data_errors(dataset, progress):
            for (answers,), (batch_labels, batch_names) in batches:
                if not model.classes:
                    _refuse_other_count(model, dataset, answers.shape[1])
                probabilities.append(model.probabilities(answers))
                labels.append(batch_labels)
                names += [name.decode("utf-8", "replace") for name in batch_names]
                task.advance(len(batch_labels))
    # The last batch may have more pictures than were asked for.
    answered = np.concatenate(probabilities)[:count]
    return (MultiLabelEvaluation if several else Evaluation)(
        classes=model.classes or (BACKGROUND,) * model.metadata.label_offset + dataset.classes,
        names=tuple(names[:count]),
        labels=_indicators(dataset, split, places, answered.shape)
        if several
        else places[np.concatenate(labels)[:count]],
        probabilities=answered,
        split=split,
        step=model.metadata.step,
    )


def _indicators(
    dataset: Dataset, split: str, places: NDArray[np.int64], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Which classes of the model the first pictures of a split show: 0 or 1, of this shape."""
    found = np.zeros(shape, np.int64)
    shown = read_index(dataset.split(split)).indicators(len(dataset.classes))
    found[:, places] = shown[: shape[0]]
    return found


def _find_lag(
    model: Model, dataset: Dataset, scored: Evaluation, trust: bool, progress: Progress
) -> Lag | None:
    """Warns where training moved averages of batch norm and they fall short; else None."""
    try:
        diagnosed = with_batch_statistics(model)
    except UnsupportedError:
        return None
    count = min(scored.count, LAG_PICTURES)
    size = equal_batches(count, BATCH_SIZE)
    by_batch = _score(diagnosed, dataset, scored.split, size, count, trust, SILENT)
    lag = measure_lag(scored.right[: by_batch.count], by_batch.right)
    if not lag.is_plain:
        return None
    progress.say(
        f"Warning: the moving averages of batch norm lag behind: of {lag.count} pictures {lag}. "
        "Train for more steps, or with a lower --batch-norm-decay; --batch-statistics scores the "
        "whole split without them."
    )
    return lag


def refuse_swapped(model: str | Path | Model, data: str | Path | Dataset) -> None:
    """Raises UsageError where MODEL is data and DATA a model."""
    if isinstance(model, Model) or isinstance(data, Dataset):
        return
    holds_data = is_dataset_directory(Path(model)) or not is_model(Path(model))
    if holds_data and Path(model).is_dir() and is_model(Path(data)):
        raise UsageError(
            "MODEL and DATA are swapped.",
            expected="the model first, then the data",
            received=f"{model}, which is data, and {data}, which is a model",
            next_step=f"Name {data} first, then {model}.",
        )


def is_model(path: Path) -> bool:
    """Whether a path is a run or a model file, by names alone; a checkpoint is not looked for."""
    is_file = path.is_file() and path.suffix in (*GRAPH_SUFFIXES, *OTHER_SUFFIXES)
    is_run = Run(path).exists() or (path.name == Run.BEST and Run(path.parent).exists())
    return is_file or is_run or (path / SAVED_MODEL).is_file()


def default_split(data: str | Path | Dataset, dataset: Dataset) -> str:
    """The pictures held out: val, else test; an IDX directory brings its own test.

    Raises:
      NotFoundError: there are neither; names the splits there are.
    """
    if not {"val", "test"} & set(dataset.splits):
        splits = ", ".join(dataset.splits)
        raise NotFoundError(
            f"{dataset.path} has no pictures held out for an evaluation.",
            expected="a split val or test",
            received=splits or "no split",
            next_step=f"Name the split with --split ({splits}), or build the dataset with --val "
            "or --test.",
        )
    is_idx = not isinstance(data, Dataset) and idx.recognises(Path(data))
    return "test" if is_idx or "val" not in dataset.splits else "val"


def _folder_of_pictures(data: str | Path | Dataset, name: str) -> Path | None:
    """What the names of pictures are relative to: known where DATA is the folder itself."""
    if isinstance(data, Dataset) or not (Path(data) / name).is_file():
        return None
    return Path(data)


def open_data(data: str | Path, progress: Progress, model: object = None) -> Dataset:
    """A dataset directory; of a folder of pictures a temporary one."""
    run = model if isinstance(model, (str, Path)) else None
    return find_pictures(data, run, progress=progress)


def class_places(model: Model, dataset: Dataset) -> NDArray[np.int64]:
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
