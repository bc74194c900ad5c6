"""Pictures as .npy arrays: the net's input as it is, looked at before it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import DataError
from checkpoints.progress import Progress
from finetune.preprocessing import Preprocessing

_SLACK = 1e-3
"""What rounding may add to a range, as a share of it."""

_UNUSED = 0.45
"""Values that leave so much of the range unused on one side are suspicious."""


def array_batches(
    file: Path, preprocessing: Preprocessing, batch_size: int, progress: Progress
) -> Iterator[tuple[list[str], NDArray[np.float32], int]]:
    """The pictures of one .npy file, in batches; values are passed on as they are.

    Args:
      file: [size, size, channels], or [count, size, size, channels]; any real dtype.
      preprocessing: whose range the values should be in.
      batch_size: pictures a batch.
      progress: warned where the values do not fit the range.

    Yields:
      Names (`x.npy`, of several pictures `x.npy[3]`), float32 [<= batch_size, size, size, channels],
      and 1 with the last batch, else 0.

    Raises:
      DataError: the file is no such array, or a value is no number.
    """
    array = _open(file)
    size, channels = preprocessing.image_size, preprocessing.channels
    images = array[None] if array.ndim == 3 else array
    is_input = images.shape[1:] == (size, size, channels) and images.dtype.kind in "fiu"
    if not is_input or not len(images):
        raise DataError(
            f"{file} is not the net's input.",
            expected=f"numbers [{size}, {size}, {channels}] or [count, {size}, {size}, {channels}]",
            received=f"{array.dtype} {list(array.shape)}",
        )
    _compare_range(file, images, preprocessing, batch_size, progress)
    for start in range(0, len(images), batch_size):
        batch = np.asarray(images[start : start + batch_size], np.float32)
        names = [
            str(file) if array.ndim == 3 else f"{file}[{start + place}]"
            for place in range(len(batch))
        ]
        yield names, batch, int(start + batch_size >= len(images))


def _open(file: Path) -> NDArray[Any]:
    """The array, mapped, never unpickled."""
    try:
        array = np.load(file, allow_pickle=False, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{file} is no array.", received=error) from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{file} holds several arrays.", expected="a .npy file with one")
    return array


def _compare_range(
    file: Path,
    images: NDArray[Any],
    preprocessing: Preprocessing,
    batch_size: int,
    progress: Progress,
) -> None:
    """Warns where values are not in the range of the preprocessing, or keep to a part of it."""
    extremes = []
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        if not np.isfinite(batch).all():
            raise DataError(
                f"{file} holds values that are no numbers.",
                expected="finite numbers",
                received="NaN or infinity",
            )
        extremes.append((float(batch.min()), float(batch.max())))
    found = min(low for low, _ in extremes), max(high for _, high in extremes)
    lowest, highest = preprocessing.value_range
    span = highest - lowest
    is_outside = found[0] < lowest - _SLACK * span or found[1] > highest + _SLACK * span
    darkest, brightest = preprocessing.shown_range
    unused = _UNUSED * (brightest - darkest)
    is_part = found[0] > darkest + unused or found[1] < brightest - unused
    if not is_outside and not is_part:
        return
    progress.say(
        f"Warning: {file} holds values from {found[0]:g} to {found[1]:g}; the model was trained "
        f"on {lowest:g} to {highest:g} (preprocessing {preprocessing.name}). "
        f"{_likely(found, is_outside)}"
    )


def _likely(found: tuple[float, float], is_outside: bool) -> str:
    """What the values look like, and what to do."""
    if found[0] >= 0 and found[1] <= 1:
        looks = "pictures from 0 to 1"
    elif found[0] >= 0 and 1 < found[1] <= 255:
        looks = "pixels from 0 to 255"
    elif found[0] >= -1 and found[1] <= 1:
        looks = "pictures from -1 to 1"
    else:
        return "Its answers are worthless; give the picture files."
    if is_outside:
        return f"They look like {looks}, and the answers are worthless: scale them, or give files."
    return f"If they are {looks}, the answers are worthless: scale them, or give picture files."
