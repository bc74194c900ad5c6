"""What `train` and `evaluate` take as DATA: a dataset directory, or what one can be built of."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from checkpoints.errors import RunError
from checkpoints.progress import SILENT, Progress
from finetune.datasets.build import build
from finetune.datasets.dataset import Dataset, is_dataset_directory, read_dataset
from finetune.run import Run


def find_dataset(
    data: str | Path,
    built: Path,
    *,
    before_building: Callable[[], object] = lambda: None,
    progress: Progress = SILENT,
) -> Dataset:
    """Opens DATA; pictures of any other source are built into a dataset first.

    Args:
      data: a dataset directory (ours or TF-Slim's), class folders of pictures, or a directory
        of another source (finetune/datasets/sources/).
      built: where a dataset is built from pictures, or was built before.
      before_building: called before pictures are read, for what else may be found wrong.
      progress: where the building is told.
    """
    data = Path(data)
    if not data.is_dir() or is_dataset_directory(data):
        return _told(read_dataset(data), progress)
    if not is_dataset_directory(built):
        before_building()
        progress.say(f"{data} is no dataset yet: building {built} of it.")
        build(data, built, progress=progress)
    return read_dataset(built)


def find_pictures(
    data: str | Path, model: str | Path | None = None, *, progress: Progress = SILENT
) -> Dataset:
    """Opens DATA to evaluate on; a plain folder of pictures is one split, `test`, with all of them.

    Nothing is written beside the pictures: their dataset lies in a temporary directory and goes
    with the process. The folder that a run was trained on has the splits of its training.

    Args:
      data: as for `find_dataset`.
      model: what is evaluated; matters where it is a run that was trained on `data`.
      progress: where the building is told.
    """
    data = Path(data)
    trained_on = None if model is None else _trained_on(Path(model), data)
    if trained_on is not None:
        return read_dataset(trained_on)
    if not data.is_dir() or is_dataset_directory(data):
        return find_dataset(data, data, progress=progress)
    directory = Path(tempfile.mkdtemp(prefix="slimtune-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    built = directory / f"{data.resolve().name or 'pictures'}-data"
    build(data, built, val=0.0, progress=progress)
    dataset = read_dataset(built)
    if set(dataset.splits) != {"train"}:
        return dataset
    counts = {"test": dataset.counts["train"]}
    split = replace(dataset.splits["train"], name="test")
    return replace(dataset, splits={"test": split}, counts=counts)


def _trained_on(model: Path, data: Path) -> Path | None:
    """The dataset that a run built of these pictures, or None."""
    run = Run(model.parent if model.name == Run.BEST else model)
    if not run.exists():
        return None
    try:
        is_same = Path(run.read_config().data).resolve() == data.resolve()
    except RunError:
        return None
    built = built_beside(run.directory)
    return built if is_same and is_dataset_directory(built) else None


def _told(dataset: Dataset, progress: Progress) -> Dataset:
    if dataset.label_offset:
        progress.say(
            f"{dataset.path}: its labels count from {dataset.label_offset}, as the class names in "
            f"its records say: label {dataset.label_offset} is {dataset.classes[0]!r}, class 0 here."
        )
    if dataset.multi_label:
        progress.say(
            f"{dataset.path}: pictures may have several classes, and each class is learned for "
            "itself; where one is wanted, it is the first that was named."
        )
    return dataset


def built_beside(run: Path) -> Path:
    """Where the dataset of a run that was given pictures lies."""
    return run.with_name(f"{run.name}-data")
