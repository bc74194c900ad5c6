"""What cannot be written: forms that are none, what a form has no place for, names that are none."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from checkpoints.errors import CheckpointError, UsageError
from checkpoints.slicing import Slicing

_ARRAYS = ("npz", "safetensors")
# No surrogates, which UTF-8 does not have.
_NAME = re.compile(r"[^\0\ud800-\udfff][^\ud800-\udfff]*")
_VERSIONS = ("v1", "v2", *_ARRAYS)


def refuse_words(
    path: str | os.PathLike[str],
    version: str,
    metadata: Mapping[str, str] | None,
    slicing: Slicing | None,
) -> None:
    """Raises UsageError where there is no such form, or it has no place for what is said."""
    if version not in _VERSIONS:
        raise UsageError(
            "There is no such version.", expected=", ".join(_VERSIONS), received=version
        )
    is_file_of_arrays = version in _ARRAYS
    if slicing is not None and is_file_of_arrays:
        raise UsageError(
            f"{path}: {version} has no slices.",
            expected="V1 or V2",
            next_step="Leave --partition out, or write a checkpoint: x.ckpt",
        )
    if not metadata:
        return
    if not is_file_of_arrays:
        raise UsageError(
            f"{path}: a {version.upper()} checkpoint has no place for metadata.",
            received=", ".join(map(str, metadata)),
            next_step="Leave it out, or write .npz or .safetensors.",
        )
    for key, text in metadata.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise UsageError(
                f"{path}: metadata is text by key.",
                expected="strings",
                received=f"{key!r}: {text!r}",
                next_step="Make text of it: json.dumps(...)",
            )


def refuse_name(name: object, seen: Collection[str] = ()) -> None:
    """Refuses a name that no index can hold."""
    is_name = isinstance(name, str) and re.fullmatch(_NAME, name) is not None
    if not is_name or name in seen:
        raise CheckpointError(
            f"A variable cannot be written under the name {name!r}.",
            expected="a name of Unicode text, and each name once",
            received=repr(name),
        )
