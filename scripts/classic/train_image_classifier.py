"""train_image_classifier: TF-Slim's training script on slimtune's training."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import RunError, UnsupportedError
from scripts.classic import slim
from scripts.classic.flags import Flag, Idle, Refused, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from finetune.config import TrainConfig
    from finetune.datasets.dataset import Dataset
    from finetune.run import Run

OPTIMIZERS = ("adadelta", "adagrad", "adam", "ftrl", "momentum", "sgd", "rmsprop")
DECAYS = ("fixed", "exponential", "polynomial")
SETTINGS = {
    "adadelta": {"rho": "adadelta_rho", "epsilon": "opt_epsilon"},
    "adagrad": {"initial_accumulator_value": "adagrad_initial_accumulator_value"},
    "adam": {"beta1": "adam_beta1", "beta2": "adam_beta2", "epsilon": "opt_epsilon"},
    "ftrl": {
        "learning_rate_power": "ftrl_learning_rate_power",
        "initial_accumulator_value": "ftrl_initial_accumulator_value",
        "l1_regularization_strength": "ftrl_l1",
        "l2_regularization_strength": "ftrl_l2",
    },
    "momentum": {"momentum": "momentum"},
    "rmsprop": {
        "decay": "rmsprop_decay",
        "momentum": "rmsprop_momentum",
        "epsilon": "opt_epsilon",
    },
    "sgd": {},
}
"""Optimiser -> its setting for --optimizer-options -> the old flag."""

KEPT = 5
"""How many checkpoints TF-Slim's supervisor kept."""

_MOST_STEPS = 2**31 - 1
"""No decay takes longer, however many epochs are asked for."""

_PARALLEL = "Leave it out; slimtune train --hosts trains on several machines or GPUs."

FLAGS = (
    Flag(
        "train_dir",
        str,
        "/tmp/tfmodel/",  # noqa: S108 - the old default
        "Where checkpoints and event files go.",
        path="output directory",
    ),
    slim.DATASET_NAME,
    Flag("dataset_split_name", str, "train", "The split to train on: train."),
    slim.DATASET_DIR,
    slim.LABELS_OFFSET,
    slim.MODEL_NAME,
    slim.PREPROCESSING_NAME,
    Flag("batch_size", int, 32, "Pictures a step.", least=1),
    Flag("train_image_size", int, None, "Height and width in pixels; the net's own.", least=1),
    Flag(
        "max_number_of_steps", int, None, "Steps of the whole run; left out: ten epochs.", least=1
    ),
    Flag(
        "checkpoint_path",
        str,
        None,
        "What to start from: a file or a directory; nothing.",
        path="checkpoint",
    ),
    Flag("checkpoint_exclude_scopes", str, None, "Scopes not to restore, comma-separated."),
    Flag("trainable_scopes", str, None, "Scopes to train, comma-separated; the whole net."),
    Flag("ignore_missing_vars", bool, False, "Initialise what the checkpoint lacks."),
    Flag("optimizer", str, "rmsprop", "The optimiser.", choices=OPTIMIZERS),
    Flag("learning_rate", float, 0.01, "Of the first step."),
    Flag(*("learning_rate_decay_type", str, "exponential", "How the rate falls."), choices=DECAYS),
    Flag("learning_rate_decay_factor", float, 0.94, "Factor of one exponential decay."),
    Flag("num_epochs_per_decay", float, 2.0, "Epochs of one decay.", least=0),
    Flag("end_learning_rate", float, 0.0001, "What the polynomial decay falls to."),
    Flag("weight_decay", float, 0.00004, "L2 of the weights."),
    Flag("label_smoothing", float, 0.0, "Share of the label that goes to all classes."),
    Flag("moving_average_decay", float, None, "Of averages of the weights; none are kept."),
    Flag("adadelta_rho", float, 0.95, "Decay of adadelta."),
    Flag("adagrad_initial_accumulator_value", float, 0.1, "Start of adagrad's sums."),
    Flag("adam_beta1", float, 0.9, "Decay of adam's first moments."),
    Flag("adam_beta2", float, 0.999, "Decay of adam's second moments."),
    Flag("opt_epsilon", float, 1.0, "Epsilon of adadelta, adam and rmsprop."),
    Flag("ftrl_learning_rate_power", float, -0.5, "Power of ftrl's learning rate."),
    Flag("ftrl_initial_accumulator_value", float, 0.1, "Start of ftrl's sums."),
    Flag("ftrl_l1", float, 0.0, "L1 of ftrl."),
    Flag("ftrl_l2", float, 0.0, "L2 of ftrl."),
    Flag("momentum", float, 0.9, "Of momentum."),
    Flag("rmsprop_momentum", float, 0.9, "Momentum of rmsprop."),
    Flag("rmsprop_decay", float, 0.9, "Decay of rmsprop."),
    Flag("save_interval_secs", int, 600, "Seconds after which a checkpoint is written."),
    Idle("save_summaries_secs", int, 600, "figures are written as they come, every 2 s at most."),
    Idle("log_every_n_steps", int, 10, "progress is shown as it comes."),
    Idle("num_readers", int, 4, "files are read on all cores there are."),
    slim.PREPROCESSING_THREADS,
    slim.MASTER,
    Refused("num_clones", int, 1, "this script trains one copy of the net.", _PARALLEL),
    Refused("clone_on_cpu", bool, False, "there are no copies of the net to place.", _PARALLEL),
    Refused("worker_replicas", int, 1, "this script trains in one process.", _PARALLEL),
    Refused("num_ps_tasks", int, 0, "there are no parameter servers.", _PARALLEL),
    Refused("task", int, 0, "this script trains in one process.", _PARALLEL),
    Refused("sync_replicas", bool, False, "there are no replicas to wait for.", _PARALLEL),
    Refused("replicas_to_aggregate", int, 1, "there are no gradients of replicas.", _PARALLEL),
    Refused("quantize_delay", int, -1, slim.QUANTIZE.help, slim.QUANTIZE.instead),
    slim.GRAYSCALE,
)


@classic(
    "train_image_classifier",
    example="slimtune classic train_image_classifier --train_dir=/tmp/train_logs "
    "--dataset_dir=/tmp/flowers --dataset_name=flowers --model_name=inception_v3",
    flags=FLAGS,
    today="slimtune train",
    options={
        **slim.OPTIONS,
        "allow-missing": "ignore_missing_vars",
        "decay-rate": "learning_rate_decay_factor",
        "decay-steps": "num_epochs_per_decay",
        "ema": "moving_average_decay",
        "epochs": "max_number_of_steps",
        "exclude": "checkpoint_exclude_scopes",
        "image-size": "train_image_size",
        "overwrite": "another --train_dir",
        "resume": "the same line",
        "run": "train_dir",
        "save-seconds": "save_interval_secs",
        "schedule": "learning_rate_decay_type",
        "steps": "max_number_of_steps",
        "trainable": "trainable_scopes",
    },
)
def command(output: Output, **flags: Any) -> None:
    """Train a net on the split train of a dataset.

    Without --checkpoint_path everything is initialised; without --trainable_scopes the whole net
    trains. Where --train_dir holds a checkpoint, training goes on from it, --checkpoint_path and
    --checkpoint_exclude_scopes without effect. Scopes are whole parts of names.
    """
    from finetune.datasets.dataset import canonical_split, read_dataset
    from finetune.run import Run
    from finetune.training.training import train

    split = flags["dataset_split_name"]
    if canonical_split(split) != "train":
        raise UnsupportedError(
            "Training reads the split train.",
            expected="--dataset_split_name=train",
            received=f"--dataset_split_name={split}",
            next_step="Build a dataset whose split train holds these pictures: slimtune data build.",
        )
    dataset = read_dataset(Path(flags["dataset_dir"]))
    run = Run(Path(flags["train_dir"]))
    _refuse_other_checkpoints(run)
    config = make_config(flags, dataset)
    if run.exists():
        output.say(
            f"{run.directory} holds a run: it goes on, and --checkpoint_path and "
            "--checkpoint_exclude_scopes have no effect."
        )
        stored = run.read_config()
        config = dataclasses.replace(
            config, checkpoint=stored.checkpoint, exclude=stored.exclude, resume=True
        )
    elif flags["max_number_of_steps"] is None:
        output.say(
            f"No --max_number_of_steps: training ends after ten epochs, "
            f"{config.total_steps(dataset.split('train').count)} steps. The same line with more "
            "steps goes on."
        )
    result = train(config, progress=output)
    _write_graph(run)
    lines = [f"{run.directory}: step {result.step}."]
    if result.accuracy is not None:
        lines.append(f"Validation accuracy {result.accuracy:.1%}.")
    finish(output, result.as_json(), [" ".join(lines)], train_command(config))


def make_config(flags: dict[str, Any], dataset: Dataset) -> TrainConfig:
    """The options of `slimtune train` that do what the flags say."""
    from finetune.config import TrainConfig
    from finetune.weights import NONE

    net = slim.net_name(flags["model_name"])
    decay = flags["learning_rate_decay_type"]
    epochs, pictures = flags["num_epochs_per_decay"], dataset.split("train").count
    is_restored = flags["checkpoint_path"] is not None
    optimizer = flags["optimizer"]
    more: dict[str, Any] = {}
    if decay != "fixed":
        wanted = pictures / flags["batch_size"] * epochs
        more["decay_steps"] = max(1, int(min(wanted, _MOST_STEPS)))
    if decay == "exponential":
        more |= {"decay_rate": flags["learning_rate_decay_factor"], "staircase": True}
    if decay == "polynomial":
        more["end_learning_rate"] = flags["end_learning_rate"]
    return TrainConfig(
        data=flags["dataset_dir"],
        run=flags["train_dir"],
        net=net,
        checkpoint=flags["checkpoint_path"] if is_restored else NONE,
        trainable=_scopes(flags["trainable_scopes"]) or ("all",),
        exclude=_scopes(flags["checkpoint_exclude_scopes"]) or (NONE,),
        allow_missing=".*" if is_restored and flags["ignore_missing_vars"] else None,
        preprocessing=slim.other_preprocessing(net, flags["preprocessing_name"]),
        image_size=flags["train_image_size"],
        label_offset=slim.label_offset(dataset, flags["labels_offset"]),
        steps=flags["max_number_of_steps"],
        batch_size=flags["batch_size"],
        optimizer=optimizer,
        optimizer_options=tuple(
            f"{setting}={flags[flag]}" for setting, flag in SETTINGS[optimizer].items()
        ),
        learning_rate=flags["learning_rate"],
        schedule=decay,
        weight_decay=flags["weight_decay"],
        label_smoothing=flags["label_smoothing"],
        ema=flags["moving_average_decay"] or None,
        augment="full",
        init="default",
        save_seconds=flags["save_interval_secs"],
        keep=KEPT,
        **more,
    )


def train_command(config: TrainConfig) -> str:
    """The command line of `slimtune train` with these options."""
    words: list[str | Path] = ["slimtune", "train", Path(config.data), "--run", Path(config.run)]
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in ("data", "run") or value == field.default:
            continue
        words.append("--" + field.name.replace("_", "-"))
        if value is True:
            continue
        words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return shell_words(*words)


def _scopes(text: str | None) -> tuple[str, ...]:
    return tuple(scope.strip() for scope in (text or "").split(",") if scope.strip())


def _refuse_other_checkpoints(run: Run) -> None:
    """Raises RunError where checkpoints of another trainer lie; what they leave out is not known."""
    from checkpoints.family import latest

    found = None if run.exists() else latest(run.directory)
    if found is not None:
        raise RunError(
            f"{run.directory} holds checkpoints of another trainer, as {found.prefix.name}.",
            expected="a new or empty directory, or one that train wrote",
            next_step=f"--train_dir=ANOTHER --checkpoint_path={run.directory} starts from them.",
        )


def _write_graph(run: Run) -> None:
    """Writes graph.pbtxt, the graph that was trained, as TensorFlow's supervisor did."""
    from google.protobuf import text_format

    from checkpoints.files import write_text
    from exporters.graph import read_graph

    latest = run.latest()
    if latest is not None:
        graph = read_graph(latest.with_name(f"{latest.name}.meta"))
        write_text(run.directory / "graph.pbtxt", text_format.MessageToString(graph.graph_def))


if __name__ == "__main__":
    main(["classic", "train_image_classifier", *sys.argv[1:]])
