"""The text of the `checkpoint` file, in which a directory notes its latest checkpoints.

Source:
  CheckpointState in TensorFlow's checkpoint_state.proto, written as protobuf text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from google.protobuf import text_format

from checkpoints.errors import BrokenFileError
from checkpoints.files import reading
from checkpoints.messages import CheckpointState
from checkpoints.text_messages import fill_from_text

_BEGINNING = b"model_checkpoint_path"
_MAX_BYTES = 1 << 24
_SHOWN_BYTES = 40


def is_state(path: Path) -> bool:
    """Whether a file begins as a `checkpoint` file does."""
    with reading(path), path.open("rb") as file:
        return file.read(len(_BEGINNING) + 3).removeprefix(b"\xef\xbb\xbf").startswith(_BEGINNING)


def parse_state(path: Path) -> tuple[str, tuple[str, ...]]:
    """The latest name and all names, oldest first, as they stand in the file.

    Raises:
      BrokenFileError: it is no such text.
    """
    with reading(path), path.open("rb") as file:
        data = file.read(_MAX_BYTES)
    state = CheckpointState()
    try:
        # Later writers may have added fields.
        damage = fill_from_text(state, data.decode("utf-8-sig"), allow_unknown_fields=True)
    except UnicodeDecodeError as error:
        damage = str(error)
    if damage is not None:
        raise BrokenFileError(
            f"{path} is not the text that names the latest checkpoint: {damage}.",
            expected='model_checkpoint_path: "model.ckpt-1000"',
            received=f"a file that begins with {data[:_SHOWN_BYTES]!r}",
            next_step="Name a checkpoint itself instead of the directory.",
        )
    return state.model_checkpoint_path, tuple(state.all_model_checkpoint_paths)


def format_state(latest: str, all_names: Sequence[str]) -> str:
    """The text for these names; pure ASCII, other characters are escaped."""
    state = CheckpointState(
        model_checkpoint_path=latest, all_model_checkpoint_paths=list(all_names)
    )
    return text_format.MessageToString(state, as_utf8=False)
