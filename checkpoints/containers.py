"""What a file that is no checkpoint is, told from its first bytes, and what to do with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from checkpoints.checksum import crc32c, mask
from checkpoints.files import reading


class Container(NamedTuple):
    """What a file was recognised as.

    Attributes:
      name: for people, with its article, as in "a gzip archive".
      next_step: what makes a checkpoint of it, or None.
      kind: "npz" or "safetensors" where its variables can be read as they are; else empty.
    """

    name: str
    next_step: str | None
    kind: Literal["", "npz", "safetensors"] = ""


TFRECORD = Container("a TFRecord file", None)

MAY_BE_GRAPHS = (
    "a SavedModel's graph",
    "a file of unknown kind",
    "a graph (GraphDef or MetaGraphDef)",
    "a graph as text (.pbtxt)",
    "an empty file",
)
"""Names of containers that a damaged graph may be taken for."""

_HEAD_BYTES = 1024
_UNPACK = "Unpack it and name the checkpoint inside."
_GRAPH = "Name the checkpoint with the variables; a graph has none, or has them as constants."
_KERAS = "Load it with Keras and save its weights in TensorFlow's checkpoint format."
_AGAIN = "Download it again: what came is not the file."

_MAGICS: tuple[tuple[int, bytes, Container], ...] = (
    (0, b"\x1f\x8b", Container("a gzip archive", _UNPACK)),
    (0, b"BZh", Container("a bzip2 archive", _UNPACK)),
    (0, b"\xfd7zXZ\x00", Container("an xz archive", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", Container("a 7-Zip archive", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", Container("a Zstandard archive", _UNPACK)),
    (0, b"Rar!", Container("a RAR archive", _UNPACK)),
    (257, b"ustar", Container("a tar archive", _UNPACK)),
    (0, b"\x89HDF\r\n\x1a\n", Container("an HDF5 file, as Keras writes them", _KERAS)),
    (0, b"\x93NUMPY", Container("a numpy array (.npy)", None)),
    (4, b"TFL3", Container("a TFLite model", _GRAPH)),
    (0, b"version https://git-lfs", Container("a pointer of Git LFS", "Run: git lfs pull")),
    (0, b"\x89PNG", Container("a PNG picture", None)),
    (0, b"\xff\xd8\xff", Container("a JPEG picture", None)),
    (0, b"%PDF", Container("a PDF document", None)),
)
_NPZ = Container("numpy arrays (.npz)", None, "npz")
_SAFETENSORS = Container("a safetensors file", None, "safetensors")
# What a file that is empty, cut or damaged is by its name.
_BY_NAME = {".npz": _NPZ, ".safetensors": _SAFETENSORS}
# Names of members, which stand uncompressed near the beginning of a zip archive.
_ZIP_MEMBERS: tuple[tuple[bytes, Container], ...] = (
    (b"data.pkl", Container("a PyTorch file (a zip archive of pickles)", None)),
    (b"metadata.json", Container("a Keras file (.keras)", _KERAS)),
    (b".npy", _NPZ),
)
_UNKNOWN = Container("a file of unknown kind", None)
_PICKLE = Container(
    "a pickle", "A pickle can run any code and is never opened. Export its values to .npz."
)


def recognise(path: Path) -> Container:
    """Tells what a file is. Reads its first kilobyte.

    Raises:
      OSError: the file cannot be read.
    """
    with reading(path), path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        num_bytes = file.seek(0, 2)
    by_name = _BY_NAME.get(path.suffix)
    if not head:
        return by_name or Container("an empty file", _AGAIN)
    for offset, magic, container in _MAGICS:
        if head.startswith(magic, offset):
            return container
    if head.startswith(b"PK\x03\x04"):
        return next(
            (container for member, container in _ZIP_MEMBERS if member in head),
            by_name if by_name == _NPZ else Container("a zip archive", _UNPACK),
        )
    if head.startswith(b"PK\x05\x06") and by_name == _NPZ:
        return _NPZ
    if head[0] == 0x80 and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _PICKLE
    if head[8:9] == b"{" and (
        int.from_bytes(head[:8], "little") <= num_bytes or by_name == _SAFETENSORS
    ):
        return _SAFETENSORS
    if len(head) >= 12 and head[8:12] == mask(crc32c(head[:8])).to_bytes(4, "little"):
        return TFRECORD
    container = _by_content(head)
    return by_name if by_name is not None and container == _UNKNOWN else container


def _by_content(head: bytes) -> Container:
    """Formats without a magic number: text, and protobuf by the tag of its first fields."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    # A graph may begin so as well: the tag of its first node, whose 60 bytes begin with another tag.
    if re.match(rb"<[!?/A-Za-z]", text):
        return Container("a web page or XML", _AGAIN)
    if re.match(rb"(node|meta_info_def|graph_def|versions|library|saved_model\w*)\s*[:{]", text):
        return Container("a graph as text (.pbtxt)", _GRAPH)
    # saved_model_schema_version = 1, then a meta graph.
    if head.startswith(b"\x08\x01\x12"):
        return Container("a SavedModel's graph", "Name the SavedModel's directory.")
    # ir_version, then producer_name or opset_import.
    if head.startswith(b"\x08") and head[2:3] in (b"\x12", b"\x42"):
        return Container("an ONNX model", _GRAPH)
    # GraphDef.node or MetaGraphDef.meta_info_def.
    if head.startswith(b"\x0a"):
        return Container("a graph (GraphDef or MetaGraphDef)", _GRAPH)
    if b"\0" not in head and head.isascii():
        return Container("a text file", None)
    return _UNKNOWN
