"""TensorFlow Hub's retrain: a new layer on a net that stays as it is, from folders of pictures."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import DownloadError, OutputExistsError, RunError, UsageError
from scripts.classic.flags import Flag, Idle, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from checkpoints.progress import Progress
    from exporters.graph import Graph
    from finetune.config import TrainConfig
    from finetune.datasets.dataset import Dataset
    from finetune.evaluating.scores import Evaluation
    from finetune.run import Run
    from scripts.classic.retrain_trunk import Trunk

_TEMPORARY = "/tmp"  # noqa: S108 - where the old script put everything
_MODULE = "https://tfhub.dev/google/imagenet/inception_v3/feature_vector/1"
_EVAL_STEPS = 10
_WHOLE = "an evaluation takes every picture of its split, each once."
_DISTORTIONS = ("flip_left_right", "random_crop", "random_scale", "random_brightness")
_GROUPED = "_nohash_"

FLAGS = (
    Flag(
        "image_dir", str, "", "Folders of pictures, one a class.", required=True, path="directory"
    ),
    Flag(
        "output_graph",
        str,
        f"{_TEMPORARY}/output_graph.pb",
        "The frozen graph to write.",
        path="output",
    ),
    Flag(
        *("intermediate_output_graphs_dir", str, f"{_TEMPORARY}/intermediate_graph/"),
        "Where intermediate_STEP.pb are written, after training.",
        path="output directory",
    ),
    Flag("intermediate_store_frequency", int, 0, "Steps between these; 0: none."),
    Flag(
        "output_labels",
        str,
        f"{_TEMPORARY}/output_labels.txt",
        "The names of the classes to write.",
        path="output",
    ),
    Flag(
        *("summaries_dir", str, f"{_TEMPORARY}/retrain_logs"),
        "The run directory: events for TensorBoard, checkpoints, report.html. The dataset is built"
        " beside it, in SUMMARIES_DIR-data.",
        path="output directory",
    ),
    Flag("how_many_training_steps", int, 4000, "Steps.", least=1),
    Flag("learning_rate", float, 0.01, "Of gradient descent."),
    Flag("testing_percentage", int, 10, "Pictures that are kept for the test."),
    Flag("validation_percentage", int, 10, "Pictures that evaluations on the way take."),
    Flag(
        *("eval_step_interval", int, _EVAL_STEPS),
        "Steps between evaluations, each with a checkpoint; at the default five in a run.",
        least=1,
    ),
    Flag("train_batch_size", int, 100, "Pictures a step.", least=1),
    Idle("test_batch_size", int, -1, _WHOLE),
    Idle("validation_batch_size", int, 100, _WHOLE),
    Flag("print_misclassified_test_images", bool, False, "List them."),
    Idle(
        *("bottleneck_dir", str, f"{_TEMPORARY}/bottleneck"),
        "features are stored in the cache and shared by all runs; SLIMTUNE_CACHE names it.",
    ),
    Flag("final_tensor_name", str, "final_result", "Node of the probabilities."),
    Flag("flip_left_right", bool, False, "Distort the pictures of each step."),
    Flag("random_crop", int, 0, "Distort the pictures of each step, by train's own amounts."),
    Flag("random_scale", int, 0, "As --random_crop."),
    Flag("random_brightness", int, 0, "As --random_crop."),
    Flag(
        *("tfhub_module", str, _MODULE),
        "The net: the address of a module whose net slimtune has, a name from slimtune nets, a"
        " file with a graph (.pb, .pbtxt, .meta), or a checkpoint.",
        path="checkpoint",
    ),
    Flag(
        *("architecture", str, ""),
        "In the place of --tfhub_module, as before there was a Hub: inception_v3,"
        " mobilenet_1.0_224. The graph's input is Mul or input then, not Placeholder.",
    ),
    Idle("model_dir", str, f"{_TEMPORARY}/imagenet", "published weights are kept in the cache."),
    Flag("saved_model_dir", str, "", "Write a SavedModel too.", path="output directory"),
    Flag(
        *("logging_verbosity", str, "INFO"),
        "From WARN on nothing is said on the way.",
        choices=("DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
    ),
    Flag("checkpoint_path", str, "", "Write the last checkpoint here too.", path="checkpoint"),
)


@classic(
    "retrain",
    example="slimtune classic retrain --image_dir=flower_photos --how_many_training_steps=500"
    " --output_graph=output_graph.pb --output_labels=output_labels.txt",
    flags=FLAGS,
    today="slimtune train",
    options={
        "batch-size": "train_batch_size",
        "checkpoint": "tfhub_module",
        "classes": "slimtune convert --classes",
        "eval-every": "eval_step_interval",
        "graph": "slimtune convert --graph",
        "net": "tfhub_module",
        "overwrite": "another --summaries_dir",
        "resume": "slimtune train DATA --run RUN --resume",
        "run": "summaries_dir",
        "steps": "how_many_training_steps",
        "test": "testing_percentage",
        "val": "validation_percentage",
    },
)
def command(output: Output, **flags: Any) -> None:
    """Retrain a net's last layer on folders of pictures.

    The net's other layers run once a picture. OUTPUT_GRAPH takes whole pictures in [0, 1] at its
    node Placeholder, as label_image feeds them, and gives probabilities at final_result; class
    names and preprocessing travel inside, for slimtune predict.
    """
    from checkpoints.files import write_text
    from checkpoints.progress import SILENT
    from finetune.datasets.build import build
    from finetune.datasets.dataset import read_dataset
    from finetune.run import Run
    from finetune.training.training import train
    from finetune.training_data import built_beside
    from scripts.classic.retrain_graph import (
        HUB_INPUT,
        OLD_INPUTS,
        OldNames,
        check_names,
        with_old_names,
    )
    from scripts.classic.retrain_trunk import find_trunk

    _check(flags)
    progress: Progress = output if flags["logging_verbosity"] in ("DEBUG", "INFO") else SILENT
    run = Run(Path(flags["summaries_dir"]))
    _check_directories(flags, run)
    old = flags["architecture"]
    trunk = find_trunk(old or flags["tfhub_module"], "architecture" if old else "tfhub_module")
    names = OldNames(
        input=next(
            (name for begin, name in OLD_INPUTS.items() if old.startswith(begin)), HUB_INPUT
        ),
        final=flags["final_tensor_name"],
        in_unit_range=not old.startswith(tuple(OLD_INPUTS)),
    )
    check_names(names, trunk.net)
    _fetch(trunk, progress)
    data = built_beside(run.directory)
    config = _config(flags, trunk, run, data, progress)
    _warn_of_groups(Path(flags["image_dir"]), progress)
    build(
        flags["image_dir"],
        data,
        val=flags["validation_percentage"] / 100,
        test=flags["testing_percentage"] / 100,
        overwrite=True,
        progress=progress,
    )
    train(config, progress=progress)
    graph = with_old_names(run.graph_file, names)
    _write_models(flags, run, graph, names.final, progress)
    dataset = read_dataset(data)
    write_text(Path(flags["output_labels"]), "".join(f"{name}\n" for name in dataset.classes))
    scored = _final_test(flags["output_graph"], dataset, progress)
    progress.say(
        f"slimtune convert {run.directory} model.pb writes the net as it was trained, with the input"
        " and the answers that slimtune calls them by."
    )
    finish(
        output,
        {
            "output_graph": flags["output_graph"],
            "output_labels": flags["output_labels"],
            "run": str(run.directory),
            "input": names.input,
            "output": names.final,
            "classes": list(dataset.classes),
            "test_accuracy": None if scored is None else scored.accuracy,
            "test_count": 0 if scored is None else scored.count,
        },
        _final_lines(scored, flags["print_misclassified_test_images"]),
        *_same(flags, config, data),
    )


def _check(flags: Mapping[str, Any]) -> None:
    """Raises UsageError where the percentages or a number are out of range."""
    if flags["architecture"] and flags["tfhub_module"] != _MODULE:
        raise UsageError(
            "--architecture and --tfhub_module both name the net.",
            expected="one of them",
            received=" ".join(
                f"--{name}={flags[name]}" for name in ("architecture", "tfhub_module")
            ),
            next_step="Leave one out.",
        )
    shares = ("testing_percentage", "validation_percentage")
    from_zero = (*shares, "intermediate_store_frequency")
    wrong = [name for name in from_zero if flags[name] < 0]
    if sum(flags[name] for name in shares) >= 100:
        wrong += shares
    if wrong:
        raise UsageError(
            "The flags leave nothing to train on, or to count by.",
            expected="percentages from 0, together below 100; a frequency from 0",
            received=" ".join(f"--{name}={flags[name]}" for name in dict.fromkeys(wrong)),
            next_step="Lower the percentages." if wrong[0] in shares else "0 writes none.",
        )


def _check_directories(flags: Mapping[str, Any], run: Run) -> None:
    """Looks at what is in the directories that will be written.

    Raises:
      OutputExistsError: something is in the place of the SavedModel.
      RunError: --summaries_dir holds other files than a run.
    """
    from finetune.training.run_lock import LOCK

    saved_model = flags["saved_model_dir"]
    if saved_model and Path(saved_model).exists():
        raise OutputExistsError(
            f"{saved_model} is already there.",
            expected="a name that is free",
            received=f"--saved_model_dir={saved_model}",
            next_step="Name another directory, or remove it.",
        )
    if run.exists() or not run.directory.is_dir():
        return
    others = sorted(path.name for path in run.directory.iterdir() if path.name != LOCK)
    if others:
        raise RunError(
            f"{run.directory} is not empty and holds no run.",
            expected="a new or empty directory",
            received=f"--summaries_dir={run.directory} with {', '.join(others[:5])}",
            next_step="Name another --summaries_dir.",
        )


def _fetch(trunk: Trunk, progress: Progress) -> None:
    """Gets the weights before pictures are read.

    Raises:
      DownloadError: they cannot be had.
    """
    from finetune.weights import find_weights

    try:
        find_weights(trunk.net, trunk.checkpoint, progress=progress)
    except DownloadError as error:
        raise DownloadError(
            error.message,
            expected=error.expected,
            received=error.received,
            next_step=f"slimtune download {trunk.checkpoint or trunk.net} tells how else to get it."
            " The small base that ships with slimtune needs no download: --tfhub_module=sample.",
        ) from error


def _warn_of_groups(images: Path, progress: Progress) -> None:
    """The old script kept files that are alike up to `_nohash_` in one split."""
    if images.is_dir() and next(images.rglob(f"*{_GROUPED}*"), None) is not None:
        progress.say(
            f"Warning: names with {_GROUPED} are in {images}. Pictures are dealt to the splits by"
            " their content, so that likenesses of one thing come into several: the accuracy is"
            " told too high. A manifest with a column split keeps them together (slimtune data"
            " build --manifest)."
        )


def _config(
    flags: Mapping[str, Any], trunk: Trunk, run: Run, data: Path, progress: Progress
) -> TrainConfig:
    """What train is told."""
    from finetune.config import TrainConfig
    from finetune.training.recipes import with_recipe

    steps, interval = flags["how_many_training_steps"], flags["eval_step_interval"]
    frequency = flags["intermediate_store_frequency"]
    options: dict[str, Any] = {
        "data": str(data),
        "run": str(run.directory),
        "net": trunk.net,
        "checkpoint": trunk.checkpoint,
        "steps": steps,
        "batch_size": flags["train_batch_size"],
        "learning_rate": flags["learning_rate"],
        "overwrite": True,
    }
    if interval != _EVAL_STEPS:
        options["eval_every"] = interval
    if frequency > 0:
        # A checkpoint is written at each evaluation, and is what an intermediate graph is made of.
        every = math.gcd(frequency, options.get("eval_every", frequency))
        options |= {"eval_every": every, "keep": max(1, math.ceil(steps / every))}
    distorted = [f"--{name}" for name in _DISTORTIONS if flags[name]]
    if distorted:
        options["augment"] = "full"
        progress.say(
            f"{', '.join(distorted)}: each step's pictures are cropped, turned over and coloured as"
            " slimtune train --augment full does it, and run through the whole net."
        )
    return TrainConfig(**with_recipe("retrain", options))


def _write_models(
    flags: Mapping[str, Any], run: Run, graph: Graph, final: str, progress: Progress
) -> None:
    """The frozen graph of the last step and of steps before, the SavedModel, the checkpoint."""
    import exporters
    from checkpoints.progress import SILENT

    last, frequency = run.step(), flags["intermediate_store_frequency"]
    folder = Path(flags["intermediate_output_graphs_dir"])
    graphs = {last: Path(flags["output_graph"])}
    for step in range(frequency, last, frequency) if frequency > 0 else ():
        graphs[step] = folder / f"intermediate_{step}.pb"
    write = partial(exporters.convert, overwrite=True, progress=SILENT)
    for step, path in graphs.items():
        write(f"{run.prefix}-{step}", path, graph=graph, outputs=[final], to="pb")
        progress.say(f"Wrote {path}: step {step}.")
    newest = f"{run.prefix}-{last}"
    if flags["saved_model_dir"]:
        write(newest, flags["saved_model_dir"], graph=graph, outputs=[final], to="saved-model")
        progress.say(f"Wrote {flags['saved_model_dir']}.")
    if flags["checkpoint_path"]:
        write(newest, flags["checkpoint_path"], to="v2")
        progress.say(f"Wrote {flags['checkpoint_path']}.")


def _final_test(graph: str, dataset: Dataset, progress: Progress) -> Evaluation | None:
    """The written graph on the pictures that neither training nor choosing has seen."""
    from finetune.evaluating.evaluation import evaluate

    test = dataset.splits.get("test")
    if test is None or test.count == 0:
        return None
    return evaluate(graph, dataset, split="test", progress=progress)


def _final_lines(scored: Evaluation | None, lists_mistakes: bool) -> list[str]:
    if scored is None:
        return ["No test pictures: --testing_percentage left none."]
    lines = [f"Final test accuracy = {scored.accuracy:.1%} (N={scored.count})"]
    if lists_mistakes:
        lines.append("=== MISCLASSIFIED TEST IMAGES ===")
        for name, right, place in zip(scored.names, scored.right, scored.predicted, strict=True):
            if not right:
                lines.append(f"{scored.path_of(name):>70}  {scored.classes[place]}")
    return lines


def _same(flags: Mapping[str, Any], config: TrainConfig, data: Path) -> list[str]:
    """The commands of today, one after the other."""
    run, graph = Path(config.run), Path(flags["output_graph"])
    train: list[str | Path] = ["slimtune", "train", data, "--run", run, "--recipe", "retrain"]
    train += ["--net", config.net or ""]
    train += ["--checkpoint", config.checkpoint] if config.checkpoint else []
    train += ["--steps", str(config.steps), "--batch-size", str(config.batch_size)]
    train += ["--learning-rate", f"{config.first_learning_rate:g}"]
    train += ["--augment", "full"] if config.augment == "full" else []
    val, test = (flags[f"{name}_percentage"] / 100 for name in ("validation", "testing"))
    shares = ("--val", f"{val:g}", "--test", f"{test:g}")
    return [
        shell_words(
            *("slimtune", "data", "build", Path(flags["image_dir"]), data, *shares), "--overwrite"
        ),
        shell_words(*train, "--overwrite"),
        shell_words("slimtune", "evaluate", graph, data, "--split", "test"),
    ]


if __name__ == "__main__":
    main(["classic", "retrain", *sys.argv[1:]])
