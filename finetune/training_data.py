"""What `train` and `evaluate` take as DATA: a dataset directory, or what one can be built of."""

from __future__ import annotations

from pathlib import Path

from checkpoints.progress import SILENT, Progress
from finetune.dataset import Dataset, is_dataset_directory, read_dataset


def find_dataset(data: str | Path, built: Path, *, progress: Progress = SILENT) -> Dataset:
    """Opens DATA; pictures of any other source are built into a dataset first.

    Args:
      data: a dataset directory (ours or TF-Slim's), class folders of pictures, or a directory
        of another source (finetune/sources/).
      built: where a dataset is built from pictures, or was built before.
      progress: where the building is told.
    """
    data = Path(data)
    if not data.is_dir() or is_dataset_directory(data):
        return _told(read_dataset(data), progress)
    if not is_dataset_directory(built):
        from finetune.build import build

        progress.say(f"{data} is no dataset yet: building {built} of it.")
        build(data, built, progress=progress)
    return read_dataset(built)


def _told(dataset: Dataset, progress: Progress) -> Dataset:
    if dataset.label_offset:
        progress.say(
            f"{dataset.path}: its labels count from {dataset.label_offset}, as the class names in "
            f"its records say: label {dataset.label_offset} is {dataset.classes[0]!r}, class 0 here."
        )
    return dataset


def built_beside(run: Path) -> Path:
    """Where the dataset of a run that was given pictures lies."""
    return run.with_name(f"{run.name}-data")
