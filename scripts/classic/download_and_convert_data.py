"""download_and_convert_data: public pictures as TF-Slim's TFRecord files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints.command_lines import shell_words
from checkpoints.errors import DataError, NotFoundError
from checkpoints.files import atomic_file, directory_beside, write_text
from scripts.classic.flags import Flag, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from finetune.datasets.dataset import Dataset

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LABELS = "labels.txt"
PICKLED = "cifar-10-python.tar.gz"
SHARDS = 5


@dataclass(frozen=True)
class OldDataset:
    """How TF-Slim lays a dataset out.

    Attributes:
      title: as its last line calls it.
      splits: the split in the files' names -> the splits of ours whose pictures it holds.
      sharded: whether a split is several files, name_split_00000-of-00005.tfrecord, or one.
      validation: share of the pictures that are held out, where the source does not say which.
      classes: class names where the source has numbers; empty: as the source calls them.
    """

    title: str
    splits: dict[str, tuple[str, ...]]
    sharded: bool
    validation: float = 0.0
    classes: tuple[str, ...] = ()


DATASETS = {
    "cifar10": OldDataset("Cifar10", {"train": ("train",), "test": ("test",)}, sharded=False),
    "flowers": OldDataset(
        "Flowers",
        {"train": ("train",), "validation": ("val",)},
        sharded=True,
        # 350 of 3,670 photographs; here by their content, so that each stays in its split.
        validation=350 / 3670,
    ),
    # Of the 60,000 for training ours hold 5,000 back; TF-Slim trains on all.
    "mnist": OldDataset(
        "MNIST", {"train": ("val", "train"), "test": ("test",)}, sharded=False, classes=DIGITS
    ),
}


FLAGS = (
    Flag(
        *("dataset_name", str, None, "What to fetch and convert."),
        choices=tuple(DATASETS),
        required=True,
    ),
    Flag(
        "dataset_dir",
        str,
        None,
        "Where the TFRecord files go.",
        required=True,
        path="output directory",
    ),
)


@classic(
    "download_and_convert_data",
    example="slimtune classic download_and_convert_data --dataset_name=flowers "
    "--dataset_dir=/tmp/flowers",
    flags=FLAGS,
    today="slimtune data download",
)
def command(output: Output, dataset_name: str, dataset_dir: str) -> None:
    """Fetch public pictures and convert them to TF-Slim's TFRecord files and labels.txt.

    An archive that lies in --dataset_dir already is used, and left there; what was fetched stays
    in the cache. CIFAR-10 comes from its binary version.
    """
    folder = Path(dataset_dir)
    with _made(folder):
        _convert(output, folder, dataset_name)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Makes a directory; where what follows fails, what was made is removed again if it is empty."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):
                place.rmdir()
        raise


def _convert(output: Output, folder: Path, dataset_name: str) -> None:
    from finetune.datasets.build import build
    from finetune.datasets.public_data import download_data

    old = DATASETS[dataset_name]
    is_there = _holds(folder, old)
    if is_there:
        output.say("Dataset files already exist. Exiting without re-creating them.")
    else:
        if dataset_name == "cifar10" and (folder / PICKLED).is_file():
            output.say(
                f"{folder / PICKLED} holds pickled Python objects, which are never loaded: the "
                "binary version is taken."
            )
        with directory_beside(folder / dataset_name) as work:
            pictures, built = work / dataset_name, work / "built"
            download_data(dataset_name, pictures, at_hand=folder, progress=output)
            if old.classes:
                write_text(pictures / LABELS, "".join(f"{name}\n" for name in old.classes))
            build(pictures, built, val=old.validation, shards=SHARDS, progress=output)
            _place(built, folder, dataset_name, old)
    _finish(output, folder, dataset_name, old, is_there)


def _holds(folder: Path, old: OldDataset) -> bool:
    """Whether the files are all there, as after an earlier run; one that was cut is done again."""
    from finetune.datasets.dataset import read_dataset

    with suppress(NotFoundError, DataError):
        found = read_dataset(folder)
        return all(splits[-1] in found.splits for splits in old.splits.values())
    return False


def _place(built: Path, folder: Path, name: str, old: OldDataset) -> None:
    """Gives the shards their old names and places; labels.txt comes last."""
    from finetune.datasets.dataset import read_dataset

    dataset = read_dataset(built)
    (folder / LABELS).unlink(missing_ok=True)
    for path, shards in _files(dataset, folder, name, old):
        with atomic_file(path) as file:
            for shard in shards:
                with shard.open("rb") as part:
                    shutil.copyfileobj(part, file)
    lines = [f"{label}:{text}\n" for label, text in enumerate(dataset.classes)]
    write_text(folder / LABELS, "".join(lines))


def _files(
    dataset: Dataset, folder: Path, name: str, old: OldDataset
) -> Iterator[tuple[Path, list[Path]]]:
    """Each file to write, and the shards that follow one another in it."""
    from finetune.datasets.dataset import shard_name

    for split, ours in old.splits.items():
        shards = [
            shard.path
            for one in ours
            if one in dataset.splits
            for shard in dataset.splits[one].shards
        ]
        if not old.sharded:
            yield folder / f"{name}_{split}.tfrecord", shards
            continue
        for index, shard in enumerate(shards):
            yield folder / shard_name(name, split, index, len(shards)), [shard]


def _finish(output: Output, folder: Path, name: str, old: OldDataset, is_there: bool) -> None:
    from finetune.datasets.dataset import read_dataset

    dataset = read_dataset(folder)
    counts = {split: dataset.splits[ours[-1]].count for split, ours in old.splits.items()}
    pictures = Path(f"{name}-pictures")
    value = {
        "path": folder,
        "classes": list(dataset.classes),
        "counts": counts,
        "already_there": is_there,
    }
    shown = ", ".join(f"{count} in {split}" for split, count in counts.items())
    done = (
        f"The {old.title} dataset" if is_there else f"Finished converting the {old.title} dataset!"
    )
    finish(
        output,
        value,
        [f"{done} {folder}: {shown}; {len(dataset.classes)} classes."],
        shell_words("slimtune", "data", "download", name, pictures),
        shell_words("slimtune", "data", "build", pictures, Path(f"{name}-data")),
    )


if __name__ == "__main__":
    main(["classic", "download_and_convert_data", *sys.argv[1:]])
