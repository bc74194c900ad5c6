"""Pictures that are files of their own, as in class folders and manifests."""

from __future__ import annotations

from finetune.cloud.paths import Place
from finetune.datasets.pictures import read_picture_file


def read_item(root: Place, path: str) -> bytes:
    """The bytes of the file.

    Raises:
      PictureError: it cannot be read or is too large.
    """
    return read_picture_file(root / path)
