"""What a training run is told: one frozen record, checked as a whole, stored as config.json."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.errors import RunError, UsageError, listed
from finetune.nets.file_options import NetOptions
from finetune.training.optimizers import DEFAULT_LEARNING_RATES, SETTINGS
from finetune.training.option_checks import flag, typed, unknown_settings, wrong_options

DEFAULT_EPOCHS = 10
UNFREEZE_FACTOR = 0.01
"""The learning rate after unfreezing is this share of the first, unless another is given."""

RESUMABLE = (
    "steps",
    "epochs",
    "learning_rate",
    "unfreeze_learning_rate",
    "schedule",
    "decay_steps",
    "decay_rate",
    "staircase",
    "end_learning_rate",
    "warmup_steps",
    "eval_every",
    "patience",
    "keep",
    "save_seconds",
)
"""Options that a resumed run may change; all others stay what they were."""

NOT_STORED = ("resume", "overwrite", "device", "hosts")

BROKEN_FILE = (
    "Put the file back from a copy, or begin again: train with --overwrite or another --run."
)
"""What to do where a file of a run is not what train wrote."""


@dataclass(frozen=True)
class TrainConfig:
    """Everything `train` is told.

    Attributes:
      data: a dataset directory, or a folder of pictures in class folders.
      run: the run directory that is written.
      net: name of a net, a file (.pb, .pbtxt, .meta) or "module:function"; None: the one that goes with the checkpoint, else Inception-v3.
      checkpoint: a path, a published name, "sample" or "none"; None: the net's published one.
      bottleneck: of a net from a file: the tensor that feeds the head; None: as the file says, or
        what feeds its last layer.
      input: of a net from a file: the tensor that takes the pictures.
      preprocessing: how pictures become the net's input; None: as its weights want it, of a file as
        it says.
      trainable: scopes to train; empty: the main head.
      exclude: scopes not to restore; None: all heads; ("none",): none.
      allow_missing: regular expression of variables the checkpoint may lack.
      image_size: height and width in pixels; None: the net's own.
      label_offset: the label that the first class has in the shards; None: as the data say.
      steps: how many steps the run has in all; or
      epochs: how many times each training picture is shown. Neither: 10 epochs.
      batch_size: pictures a step.
      unfreeze_at: stages, as in ("1000:all",) or ("5e:Net/Block7", "Net/Block8"): from this step,
        or after so many epochs, these scopes train too.
      unfreeze_learning_rate: the rate from the first such stage on; None: a hundredth of the first.
      learning_rate_factors: as in ("Net/Logits=10",): factors of the rate by scope.
      layer_decay: factor of the rate for each block farther from the head; None: all alike.
      optimizer: adam, rmsprop, momentum, sgd, adagrad, adadelta or ftrl.
      optimizer_options: as in ("momentum=0.9", "epsilon=1"): settings of the optimiser, by
        TensorFlow's names.
      learning_rate: of the first step; None: one that suits the optimiser.
      schedule: fixed, exponential, polynomial or cosine.
      decay_steps: steps over which the rate is multiplied once by decay_rate (None: two epochs),
        or falls to its last value (None: all steps there are).
      decay_rate: the factor.
      staircase: whether the rate falls in steps instead of continuously.
      end_learning_rate: what polynomial and cosine fall to.
      warmup_steps: steps over which the rate rises to the first rate.
      clip_norm: gradients with a larger global norm are scaled down to it; None: never.
      weight_decay: factor of the L2 loss of each trained weight.
      label_smoothing: share of the label that is spread over all classes.
      class_weights: "balanced", or a CSV file of class,weight; None: all pictures count alike.
      loss: a loss of one's own, "module:function"; None: softmax cross entropy.
      hidden: widths of hidden layers before the logits; empty: a linear head.
      activation: of the hidden layers: relu or leaky-relu.
      dropout: share of activations dropped before the logits; None: the net's own.
      batch_norm_decay: share of its old value that an average of a trained batch norm keeps a
        step, 1: batch norms use and keep the averages they have; None: one that suits the number of
        steps, and 1 in scopes of unfreeze_at, where the net is restored.
      ema: share of its old value that a moving average of the weights keeps a step; None: none.
      precision: auto, fp32 or bf16.
      augment: none, fast or full; None: none where steps run on features of whole pictures,
        else full.
      init: how a new linear head starts on a frozen trunk: prototypes (ridge regression), default
        (its initialisers), or None: prototypes where it can.
      views: of each picture, where steps run on features: the plain one and others distorted by
        augment; None: the plain one alone.
      cache: whether features are stored: auto (where there is room), on or off.
      seed: of initialisers, order and augmentation.
      eval_every: steps between evaluations; None: five in a run, at most one an epoch.
      patience: evaluations without a better one after which training ends; None: never.
      keep: how many of the last checkpoints are kept, the best apart.
      save_seconds: a checkpoint is written after so many seconds without one, beside those at
        evaluations.
      device: cpu, gpu or gpu:N, the only one that is used; None: as TensorFlow chooses.
      hosts: host:port of all processes that train together, this one's too; empty: as TF_CONFIG
        says, else this one alone.
      resume: go on with the run in the directory.
      overwrite: replace the run in the directory.
    """

    data: str
    run: str
    net: str | None = None
    checkpoint: str | None = None
    bottleneck: str | None = None
    input: str | None = None
    preprocessing: str | None = None
    trainable: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    allow_missing: str | None = None
    image_size: int | None = None
    label_offset: int | None = None
    steps: int | None = None
    epochs: int | None = None
    batch_size: int = 32
    unfreeze_at: tuple[str, ...] = ()
    unfreeze_learning_rate: float | None = None
    learning_rate_factors: tuple[str, ...] = ()
    layer_decay: float | None = None
    optimizer: str = "adam"
    optimizer_options: tuple[str, ...] = ()
    learning_rate: float | None = None
    schedule: str = "fixed"
    decay_steps: int | None = None
    decay_rate: float = 0.94
    staircase: bool = False
    end_learning_rate: float = 0.0
    warmup_steps: int = 0
    clip_norm: float | None = None
    weight_decay: float = 0.00004
    label_smoothing: float = 0.0
    class_weights: str | None = None
    loss: str | None = None
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    dropout: float | None = None
    batch_norm_decay: float | None = None
    ema: float | None = None
    precision: str = "auto"
    augment: str | None = None
    init: str | None = None
    views: int | None = None
    cache: str = "auto"
    seed: int = 0
    eval_every: int | None = None
    patience: int | None = None
    keep: int = 3
    save_seconds: float = 600.0
    device: str | None = None
    hosts: tuple[str, ...] = ()
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError with every option that makes no sense."""
        problems, received = wrong_options(vars(self))
        if self.steps is not None and self.epochs is not None:
            problems.append("--steps and --epochs: expected one of them, received both")
            received.append(f"--steps {self.steps} --epochs {self.epochs}")
        if self.resume and self.overwrite:
            problems.append("--resume and --overwrite: expected one of them, received both")
            received.append("--resume --overwrite")
        strangers = unknown_settings(self.optimizer, self.optimizer_options)
        if strangers:
            expected = ", ".join(SETTINGS[self.optimizer]) or "none"
            problems.append(
                f"--optimizer-options: expected of {self.optimizer} {expected}, received "
                + ", ".join(strangers)
            )
            received.append(f"--optimizer-options {','.join(self.optimizer_options)}")
        if self.loss is not None and (self.label_smoothing or self.class_weights):
            problems.append(
                "--loss: expected neither --label-smoothing nor --class-weights with a loss of "
                "one's own"
            )
            received.append(f"--loss {self.loss} with one of them")
        if problems:
            raise UsageError(
                "The training options do not fit:\n" + listed(problems),
                received=", ".join(received),
                next_step="--help lists the options and their values.",
            )

    @property
    def net_options(self) -> NetOptions:
        """What was said of a net that is not registered."""
        return NetOptions(self.bottleneck, self.input, self.preprocessing, self.image_size)

    @property
    def first_learning_rate(self) -> float:
        """The rate given, else the optimiser's default."""
        if self.learning_rate is not None:
            return self.learning_rate
        return DEFAULT_LEARNING_RATES[self.optimizer]

    @property
    def later_learning_rate(self) -> float:
        """The rate after unfreezing."""
        if self.unfreeze_learning_rate is not None:
            return self.unfreeze_learning_rate
        return self.first_learning_rate * UNFREEZE_FACTOR

    def total_steps(self, pictures: int) -> int:
        """Steps of the whole run; the last partial batch of an epoch counts as a step."""
        if self.steps is not None:
            return self.steps
        return (self.epochs or DEFAULT_EPOCHS) * steps_an_epoch(pictures, self.batch_size)

    def as_json(self) -> dict[str, Any]:
        """What config.json holds."""
        stored = dataclasses.asdict(self)
        return {name: value for name, value in stored.items() if name not in NOT_STORED}

    @classmethod
    def from_json(cls, stored: Any, source: Path) -> TrainConfig:
        """Reads config.json.

        Raises:
          RunError: it is not what train writes.
        """
        names = {field.name for field in dataclasses.fields(cls)} - set(NOT_STORED)
        if not isinstance(stored, dict) or not {"data", "run"} <= set(stored) <= names:
            raise RunError(
                f"{source} is not what train writes.",
                expected=f"an object with some of {', '.join(sorted(names))}",
                received=", ".join(sorted(stored))
                if isinstance(stored, dict)
                else type(stored).__name__,
                next_step=BROKEN_FILE,
            )
        values: dict[str, Any] = {
            n: tuple(v) if isinstance(v, list) else v for n, v in stored.items()
        }
        try:
            return cls(**values)
        except (UsageError, TypeError) as error:
            raise RunError(
                f"{source} holds options that do not fit.", received=error, next_step=BROKEN_FILE
            ) from error

    def resumed(self, wanted: TrainConfig) -> TrainConfig:
        """This stored configuration with what a resumed run may change.

        Args:
          wanted: the options given now; those left at their defaults are not looked at.

        Raises:
          RunError: an option was given that a resumed run cannot change.
        """
        resumable = ("data", *RESUMABLE)
        changes: dict[str, Any] = {"run": wanted.run, "resume": True}
        for field in dataclasses.fields(self):
            given = getattr(wanted, field.name)
            if field.name in resumable and given != field.default:
                changes[field.name] = given
        refused = self.differing(wanted, besides=resumable)
        if refused:
            raise RunError(
                f"The run in {wanted.run} was begun with other options:\n{listed(refused)}",
                expected="on resuming, at most other " + ", ".join(map(flag, RESUMABLE)),
                next_step="Leave them out, or start again with --overwrite.",
            )
        if "steps" in changes:
            changes.setdefault("epochs", None)
        if "epochs" in changes:
            changes.setdefault("steps", None)
        return dataclasses.replace(self, **changes)

    def differing(self, wanted: TrainConfig, besides: Sequence[str] = ()) -> list[str]:
        """The options given now that this configuration has otherwise, both values named.

        Args:
          wanted: the options given now; those left at their defaults are not looked at.
          besides: options that may differ.
        """
        ignored = ("run", *NOT_STORED, *besides)
        return [
            f"{flag(field.name)}: the run has {typed(getattr(self, field.name))}, "
            f"received {typed(getattr(wanted, field.name))}"
            for field in dataclasses.fields(self)
            if field.name not in ignored
            and getattr(wanted, field.name) not in (field.default, getattr(self, field.name))
        ]

    def changes_from(self, before: TrainConfig) -> list[str]:
        """The options that differ, as in "--steps: 200, was 100"."""
        return [
            f"{flag(name)}: {typed(getattr(self, name))}, was {typed(getattr(before, name))}"
            for name in ("data", *RESUMABLE)
            if getattr(self, name) != getattr(before, name)
        ]


def steps_an_epoch(pictures: int, batch_size: int) -> int:
    """Steps in which every picture is shown once; at least one."""
    return max(1, math.ceil(pictures / batch_size))
