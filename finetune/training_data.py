"""What `train` and `evaluate` take as DATA: a dataset directory, or simply a folder of pictures."""

from __future__ import annotations

from pathlib import Path

from checkpoints.progress import SILENT, Progress
from finetune.dataset import Dataset, is_dataset_directory, read_dataset


def find_dataset(data: str | Path, built: Path, *, progress: Progress = SILENT) -> Dataset:
    """Opens DATA; a folder of pictures is built into a dataset first.

    Args:
      data: a dataset directory (ours or TF-Slim's), or class folders of pictures.
      built: where a dataset is built from pictures, or was built before.
      progress: where the building is told.
    """
    data = Path(data)
    if not data.is_dir() or is_dataset_directory(data):
        return read_dataset(data)
    if not is_dataset_directory(built):
        from finetune.build import build

        progress.say(f"{data} is a folder of pictures: building the dataset {built} of it.")
        build(data, built, progress=progress)
    return read_dataset(built)


def built_beside(run: Path) -> Path:
    """Where the dataset of a run that was given pictures lies."""
    return run.with_name(f"{run.name}-data")
