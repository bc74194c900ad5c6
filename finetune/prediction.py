"""What a model says of pictures: files, folders of them, and arrays."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import DataError, NotFoundError, UsageError, counted, listed
from checkpoints.files import atomic_file
from checkpoints.progress import SILENT, Progress
from exporters.runtime import load_tensorflow, session_config
from finetune.arrays import array_batches
from finetune.datasets.picture_formats import PICTURE_SUFFIXES, PictureError
from finetune.datasets.pictures import clean
from finetune.evaluating.evaluation import is_model
from finetune.evaluating.multi_label import THRESHOLD
from finetune.evaluating.scores import top_classes
from finetune.foreign_graph import Description
from finetune.model import Model, open_model
from finetune.preprocessing import Preprocessing

BATCH_SIZE = 32


@dataclass(frozen=True)
class Prediction:
    """The most probable classes of one picture.

    Attributes:
      path: the file; for one of several pictures in an array, with its number: `x.npy[3]`.
      classes: [{label, probability}], best first.
      threshold: from which probability on a class counts as said, where a picture may have
        several; else None.
    """

    path: str
    classes: list[dict[str, Any]]
    threshold: float | None = None

    def as_json(self) -> dict[str, Any]:
        """What `predict --json` prints."""
        value = {"path": self.path, "classes": self.classes}
        return value if self.threshold is None else {**value, "threshold": self.threshold}


def predict(
    model: str | Path | Model,
    paths: Sequence[str | Path],
    *,
    top: int = 5,
    net: str | None = None,
    description: Description | None = None,
    trust: bool = False,
    on_broken: Callable[[PictureError], object] | None = None,
    progress: Progress = SILENT,
) -> list[Prediction]:
    """Classifies pictures.

    Args:
      model: a run, a .pb, a checkpoint with `net`, or an opened model.
      paths: picture files; folders, searched for pictures; .npy arrays [height, width, 3] or
        [count, height, width, 3] that are the net's input already, in its range.
      top: how many classes are given at most.
      net: the net of a checkpoint.
      description: what a graph of another program does not say itself.
      trust: whether ops that reach files, the network or Python may run.
      on_broken: called with the fault of each file that is no picture, and, of several paths, of
        each that is not there or holds none; they are left out. None: all files that are no
        pictures are one error in the end, and a path that is not there is one at once.
      progress: where it tells how far it is, and warns.

    Returns:
      A prediction a picture, in the order given.

    Raises:
      UsageError: model and pictures are swapped.
      NotFoundError: a path is not there, or a folder holds no picture, where on_broken is not told.
      DataError: an array is not the net's input; or, without on_broken, files are no pictures:
        all are named.
    """
    _refuse_swapped(model, paths)
    opened = (
        model
        if isinstance(model, Model)
        else open_model(model, net=net, description=description, progress=progress)
    )
    # One path alone that is not there is a slip of the hand, several are a job to finish.
    on_missing = on_broken if len(paths) > 1 else None
    files = list(picture_files(paths, on_missing, progress))
    threshold = THRESHOLD if opened.metadata.multi_label else None
    predictions: list[Prediction] = []
    broken: list[PictureError] = []
    with (
        opened.runner(trust) as runner,
        progress.task("Predicting", len(files), "files") as task,
    ):
        for names, images, advanced in _batches(
            opened, files, on_broken or broken.append, progress
        ):
            probabilities = opened.probabilities(runner.run(images)[0])
            classes = opened.classes or tuple(map(str, range(probabilities.shape[1])))
            predictions += [
                Prediction(name, top_classes(row, classes, top), threshold)
                for name, row in zip(names, probabilities, strict=True)
            ]
            task.advance(advanced)
    if broken:
        raise DataError(
            f"{len(broken)} files cannot be read as pictures:\n"
            + listed(error.message for error in broken),
            expected="JPEG, PNG, GIF, BMP, WebP or TIFF",
            next_step="Leave them out.",
        )
    return predictions


def write_csv(predictions: Sequence[Prediction], path: Path) -> None:
    """A line a picture: its path, then label and probability of each class given."""
    most = max((len(prediction.classes) for prediction in predictions), default=0)
    text = io.StringIO()
    writer = csv.writer(text)
    numbered = [(f"label_{rank}", f"probability_{rank}") for rank in range(1, most + 1)]
    writer.writerow(["path", *(name for pair in numbered for name in pair)])
    for prediction in predictions:
        answers = [(c["label"], f"{c['probability']:.6f}") for c in prediction.classes]
        writer.writerow([prediction.path, *(cell for pair in answers for cell in pair)])
    with atomic_file(path) as file:
        # Names of files that are no UTF-8 come out as they are.
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))


def read_listed_paths(lines: Iterable[str]) -> list[str]:
    """Paths from a list of them, one a line, as `find` writes it; blank lines do not count.

    Raises:
      NotFoundError: there is none.
    """
    paths = [path for line in lines if (path := line.rstrip("\r\n")).strip()]
    if not paths:
        raise NotFoundError("The list names no picture.", expected="a path a line")
    return paths


def picture_files(
    paths: Iterable[str | Path],
    on_missing: Callable[[PictureError], object] | None = None,
    progress: Progress = SILENT,
) -> Iterator[Path]:
    """The files that were named, and the pictures in the folders that were.

    A link that leads nowhere counts by its name: reading it tells what is wrong.

    Args:
      paths: files and folders.
      on_missing: called with the fault of each path that gives no file; None: the first one ends it.
      progress: told of arrays in folders, which are left out.

    Raises:
      NotFoundError: without on_missing: a path is not there, or a folder holds no picture.
    """
    for path in map(Path, paths):
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() or file.is_symlink())
            arrays = [file for file in files if file.suffix == ".npy"]
            found = [f for f in files if f.suffix.lower() in PICTURE_SUFFIXES and not f.is_dir()]
            if arrays:
                progress.say(
                    f"Note: {counted(len(arrays), 'array')} in {path} left out, as {arrays[0].name}: "
                    "a .npy file is classified where it is named itself."
                )
            yield from found
            said, expected = "holds no pictures", "files as in rose.jpg"
        else:
            found = [path] if path.is_file() else []
            yield from found
            said, expected = "is not there", "a picture, a folder of pictures or a .npy array"
        if found:
            continue
        if on_missing is None:
            raise NotFoundError(f"{path} {said}.", expected=expected)
        on_missing(PictureError(str(path), "unreadable", said))


def _refuse_swapped(model: str | Path | Model, paths: Sequence[str | Path]) -> None:
    if isinstance(model, Model) or Path(model).suffix.lower() not in PICTURE_SUFFIXES:
        return
    other = next((path for path in paths if is_model(Path(path))), None)
    raise UsageError(
        f"{model} is a picture, not a model.",
        expected="the model first, then pictures",
        received=model,
        next_step=f"Name {other or 'the model'} first.",
    )


def _batches(
    model: Model,
    files: Sequence[Path],
    on_broken: Callable[[PictureError], object],
    progress: Progress,
) -> Iterator[tuple[list[str], NDArray[np.float32], int]]:
    """Names and images float32 [batch, size, size, channels], and how many files they finish."""
    preprocess = Preprocessor(model.preprocessing)
    names: list[str] = []
    images: list[NDArray[np.float32]] = []
    for file in files:
        if file.suffix == ".npy":
            if images:
                yield names, np.stack(images), len(images)
                names, images = [], []
            yield from array_batches(file, model.preprocessing, BATCH_SIZE, progress)
            continue
        try:
            images.append(preprocess(file))
            names.append(str(file))
        except PictureError as error:
            on_broken(error)
        if len(images) == BATCH_SIZE:
            yield names, np.stack(images), len(images)
            names, images = [], []
    if images:
        yield names, np.stack(images), len(images)


class Preprocessor:
    """Picture files to the net's input, in a graph of its own."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        """Builds the graph; pictures are decoded and cut as in evaluation."""
        tf = load_tensorflow()
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            self._encoded = v1.placeholder(tf.string, [])
            self._image = preprocessing.evaluation(self._encoded)
        self._session = v1.Session(graph=graph, config=session_config())
        self._undecodable = tf.errors.InvalidArgumentError

    def __call__(self, file: Path) -> NDArray[np.float32]:
        """float32 [size, size, channels].

        Raises:
          PictureError: the file is no picture that can be decoded.
        """
        data = clean(file).encoded
        try:
            image: NDArray[np.float32] = self._session.run(self._image, {self._encoded: data})
        except self._undecodable as error:
            raise PictureError(str(file), "damaged", "cannot be decoded by TensorFlow") from error
        return image
