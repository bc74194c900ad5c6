"""The pictures on the page: found in the dataset or by their path, and made small."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import SlimtuneError
from finetune.datasets.dataset import Dataset, is_dataset_directory, read_dataset
from finetune.datasets.picture_formats import PictureError
from finetune.datasets.pictures import clean_bytes, read_picture_file
from finetune.datasets.record_index import RecordIndex, read_index
from finetune.datasets.records import mapped
from finetune.report.facts import Answer, Facts, Scores
from finetune.training_data import built_beside

THUMBNAIL_SIDE = 176
"""Pixels of the longer side: shown at about 128, with some to spare for fine screens."""

THUMBNAIL_QUALITY = 76

MISTAKES, RIGHT_ANSWERS = 12, 6


@dataclass(frozen=True)
class SplitPictures:
    """The pictures that were evaluated, in the order of the answers.

    Attributes:
      index: the records of the split.
    """

    index: RecordIndex

    def thumbnail(self, answer: Answer) -> str | None:
        """A data address of the picture, made small; None where it cannot be decoded."""
        try:
            return make_thumbnail(answer.name, self.index.picture(answer.position))
        except PictureError:
            return None


@dataclass(frozen=True)
class FoundData:
    """What of a run's data is still there.

    Attributes:
      dataset: the dataset, or None.
      pictures: the pictures of the evaluated split, or None.
      problem: why there are none, or None.
    """

    dataset: Dataset | None
    pictures: SplitPictures | None
    problem: str | None


def find_data(facts: Facts) -> FoundData:
    """Looks for the run's dataset, also beside the run, where both were moved."""
    given = Path(facts.config.data)
    directory = facts.run.directory.resolve()
    candidates = (given, built_beside(directory), directory.parent / given.name)
    dataset = None
    problem = f"The dataset {facts.config.data} is no longer there"
    for candidate in candidates:
        try:
            if is_dataset_directory(candidate):
                dataset = read_dataset(candidate)
                break
        except (SlimtuneError, OSError) as error:
            problem = _in_words(error)
            break
    if dataset is None or facts.scores is None or not facts.scores.answers:
        return FoundData(dataset, None, None if dataset else problem)
    try:
        index = read_index(dataset.split(facts.scores.split))
    except (SlimtuneError, OSError) as error:
        return FoundData(dataset, None, _in_words(error))
    if not are_the_evaluated(facts.scores, dataset.classes, index):
        return FoundData(
            dataset, None, f"The dataset {dataset.path} holds other pictures than were evaluated"
        )
    return FoundData(dataset, SplitPictures(index), None)


def _in_words(error: Exception) -> str:
    """What went wrong, to be followed by a colon."""
    message = error.message if isinstance(error, SlimtuneError) else str(error)
    return message.rstrip(".")


def are_the_evaluated(scores: Scores, classes: Sequence[str], index: RecordIndex) -> bool:
    """Whether the records are the pictures that were evaluated, by their names and classes.

    Args:
      scores: with the answers, which stand in the order of the records.
      classes: the dataset's class names, which its labels count.
      index: the records of the evaluated split.
    """
    if len(index) != len(scores.answers):
        return False
    for answer, name, label in zip(scores.answers, _names(index), index.labels, strict=True):
        if not 0 <= label < len(classes) or classes[label] != scores.classes[answer.label]:
            return False
        if name and name != answer.name:
            return False
    return True


def _names(index: RecordIndex) -> list[str]:
    """image/filename of every record; empty where a record has none."""
    names = []
    for shard, path in enumerate(index.paths):
        with mapped(path) as view:
            for place in (index.shards == shard).nonzero()[0]:
                start, length = int(index.name_starts[place]), int(index.name_lengths[place])
                names.append(bytes(view[start : start + length]).decode("utf-8", "replace"))
    return names


def surest_mistakes(scores: Scores) -> list[Answer]:
    """The wrong answers, most confident first."""
    wrong = [answer for answer in scores.answers if not answer.is_right]
    return sorted(wrong, key=_surest_first)[:MISTAKES]


def surest_right_answers(scores: Scores) -> list[Answer]:
    """The most confident right answer of each class, as many as are shown."""
    right = sorted((a for a in scores.answers if a.is_right), key=_surest_first)
    of_class: dict[int, Answer] = {}
    for answer in right:
        of_class.setdefault(answer.label, answer)
    return list(of_class.values())[:RIGHT_ANSWERS]


def _surest_first(answer: Answer) -> float:
    return -answer.probability


def thumbnail_of_file(path: str) -> str | None:
    """A data address of a picture file, made small; None where there is no such picture."""
    try:
        return make_thumbnail(path, read_picture_file(Path(path)))
    except (SlimtuneError, OSError, ValueError):
        # A name with a NUL in it is a ValueError.
        return None


def make_thumbnail(name: str, data: bytes) -> str:
    """Decodes a picture, turns it upright and makes it small.

    Args:
      name: of the picture, for messages.
      data: the bytes of its file.

    Returns:
      A data address of a JPEG without metadata, its longer side at most THUMBNAIL_SIDE.

    Raises:
      PictureError: it cannot be decoded.
    """
    from PIL import Image

    cleaned = clean_bytes(name, data, THUMBNAIL_SIDE)
    with Image.open(io.BytesIO(cleaned.encoded)) as image:
        # A new picture, so that no comment or profile of the source travels along.
        bare = Image.new("RGB", image.size)
        bare.paste(image.convert("RGB"))
    buffer = io.BytesIO()
    bare.save(buffer, "JPEG", quality=THUMBNAIL_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
