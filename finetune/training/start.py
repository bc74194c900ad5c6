"""What a run starts from, checked before anything is built: the net with its weights, and the data."""

from __future__ import annotations

from checkpoints.errors import DataError
from checkpoints.progress import Progress
from finetune.config import TrainConfig
from finetune.datasets.dataset import Dataset
from finetune.datasets.labels import check_labels, with_label_offset
from finetune.evaluating.multi_label import refuse_options
from finetune.planning import refuse_unknown_scopes
from finetune.training.graph import head_of
from finetune.training.phases import refuse_stages_outside
from finetune.weights import Weights, find_weights


def find_start(config: TrainConfig, progress: Progress) -> Weights:
    """The net and what it starts from, once the stages and scopes named are known to be there.

    Raises:
      PlanError: a scope or a stage names nothing.
      NotFoundError: there is no such net or checkpoint.
    """
    refuse_stages_outside(config)
    weights = find_weights(config.net, config.checkpoint, config.net_options, progress=progress)
    if not config.resume:
        refuse_unknown_scopes(
            weights,
            config.trainable,
            config.unfreeze_at,
            config.exclude,
            head_of(config),
            config.image_size,
            progress=progress,
        )
    return weights


def to_learn(dataset: Dataset, config: TrainConfig) -> Dataset:
    """The dataset with the labels that are to be learned.

    Raises:
      DataError: there is nothing to train on, nothing to tell apart, or labels and classes do not
        fit.
      UsageError: an option needs one class a picture, and pictures have several.
    """
    if config.label_offset is not None:
        dataset = with_label_offset(dataset, config.label_offset)
    training = dataset.splits.get("train")
    if training is None or training.count == 0:
        raise DataError(
            f"{config.data} has no training pictures.",
            expected="a split named train",
            received=", ".join(dataset.splits) or "no split",
            next_step="slimtune data build PICTURES OUT makes one.",
        )
    if len(dataset.classes) < 2:
        raise DataError(
            f"{config.data} has one class, {dataset.classes[0]!r}: there is nothing to tell apart.",
            expected="two classes or more",
            next_step="Add pictures of other classes.",
        )
    check_labels(dataset)
    refuse_options(config, dataset)
    return dataset
