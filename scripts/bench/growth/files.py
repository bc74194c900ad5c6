"""Makes the files of one size. Run as a program: KIND DIRECTORY SIZE. None of it is timed."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import checkpoints
from checkpoints.messages import BundleEntryProto, BundleHeaderProto, GraphDef
from checkpoints.table import TableWriter

_VALUES = 16
"""float32 of a small variable."""

_LARGE_VARIABLES = 10
_SPARSE = 2 * 10**9
"""A checkpoint of more bytes than this is a hole: only headers of it are read."""

_CHANNELS = 4
_PICTURE_CLASSES = 10
_DIFFERENT = 256
"""Pictures are drawn so many times; a comment in the JPEG makes each its own."""


def variables(directory: Path, size: int) -> None:
    """v2.ckpt: so many small variables, their names nested as a net's."""
    values = np.arange(_VALUES, dtype=np.float32)
    checkpoints.write(
        directory / "v2.ckpt",
        {f"net/block_{n // 100}/unit_{n}/weights": values + n for n in range(size)},
        version="v2",
    )


def bytes_(directory: Path, size: int) -> None:
    """large.ckpt: ten variables that make so many bytes; beyond two gigabytes sparse."""
    length = size // 4 // _LARGE_VARIABLES
    prefix = directory / "large.ckpt"
    names = [f"layer_{number}/weights" for number in range(_LARGE_VARIABLES)]
    if size <= _SPARSE:
        values = np.random.default_rng(0).normal(size=length).astype(np.float32)
        checkpoints.write(prefix, dict.fromkeys(names, values), version="v2")
        return
    with prefix.with_name(f"{prefix.name}.index").open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [BundleHeaderProto(num_shards=1).SerializeToString()])
        for number, name in enumerate(names):
            entry = BundleEntryProto(dtype=1, offset=number * 4 * length, size=4 * length)
            entry.shape.dim.add(size=length)
            table.add(name.encode(), [entry.SerializeToString()])
        table.finish()
    with prefix.with_name(f"{prefix.name}.data-00000-of-00001").open("wb") as file:
        file.truncate(_LARGE_VARIABLES * 4 * length)


def nodes(directory: Path, size: int) -> None:
    """graph.pb: so many nodes, layers of a convolution with its batch norm and a ReLU."""
    graph = GraphDef()
    random = np.random.default_rng(0)

    def add(name: str, op: str, *inputs: str) -> Any:
        node = graph.node.add(name=name, op=op, input=inputs)
        if op != "Const":
            node.attr["T" if op != "Placeholder" else "dtype"].type = 1
        return node

    def add_variable(name: str, *shape: int) -> str:
        node = add(name, "Const")
        node.attr["dtype"].type = 1
        tensor = node.attr["value"].tensor
        tensor.dtype = 1
        for length in shape:
            tensor.tensor_shape.dim.add(size=length)
        tensor.tensor_content = random.uniform(0.5, 1, shape).astype("<f4").tobytes()
        add(f"{name}/read", "Identity", name)
        return f"{name}/read"

    shape = add("input", "Placeholder").attr["shape"].shape
    for length in (-1, 8, 8, _CHANNELS):
        shape.dim.add(size=length)
    at = "input"
    # A layer is thirteen nodes; the first and the last node are two more.
    for number in range((size - 2) // 13):
        layer = f"net/layer_{number}"
        weights = add_variable(f"{layer}/weights", 1, 1, _CHANNELS, _CHANNELS)
        convolution = add(f"{layer}/Conv2D", "Conv2D", at, weights)
        convolution.attr["strides"].list.i.extend([1, 1, 1, 1])
        convolution.attr["padding"].s = b"SAME"
        norms = [
            add_variable(f"{layer}/BatchNorm/{name}", _CHANNELS)
            for name in ("gamma", "beta", "moving_mean", "moving_variance")
        ]
        norm = add(f"{layer}/BatchNorm", "FusedBatchNormV3", convolution.name, *norms)
        norm.attr["U"].type = 1
        norm.attr["epsilon"].f = 1e-3
        norm.attr["is_training"].b = False
        at = add(f"{layer}/Relu", "Relu", norm.name).name
    add("out", "Identity", at)
    (directory / "graph.pb").write_bytes(graph.SerializeToString())


def pictures(directory: Path, size: int) -> None:
    """pictures/: so many JPEGs of 8x8 pixels in ten classes."""
    _write_pictures(directory / "pictures", size, _PICTURE_CLASSES)


def classes(directory: Path, size: int) -> None:
    """pictures/: so many classes of two JPEGs each."""
    _write_pictures(directory / "pictures", 2 * size, size)


def _write_pictures(directory: Path, count: int, num_classes: int) -> None:
    from PIL import Image

    random = np.random.default_rng(0)
    drawn = []
    for _ in range(_DIFFERENT):
        stream = io.BytesIO()
        pixels = random.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(stream, "JPEG")
        drawn.append(stream.getvalue())
    for number in range(num_classes):
        (directory / f"class_{number:05d}").mkdir(parents=True)
    for number in range(count):
        jpeg = drawn[number % _DIFFERENT]
        # A comment's marker and its length, behind the two bytes that begin every JPEG.
        comment = b"\xff\xfe\x00\x0a" + b"%08d" % number
        path = directory / f"class_{number % num_classes:05d}" / f"{number:06d}.jpg"
        path.write_bytes(jpeg[:2] + comment + jpeg[2:])


def evaluate(dataset: str, size: str, count: str) -> Callable[[], int]:
    """The step: the evaluation pipeline to its end, in batches of 32; returns how many came."""
    from finetune.datasets.dataset import read_dataset
    from finetune.input_pipeline import evaluation_dataset
    from finetune.preprocessing import Preprocessing

    read, net_input = read_dataset(Path(dataset)), Preprocessing("inception", int(size))

    def step() -> int:
        taken = sum(
            len(labels) for _, labels, *_ in evaluation_dataset(read, "train", net_input, 32)
        )
        if taken != int(count):
            raise ValueError(f"{taken} pictures came, not {count}")
        return taken

    return step


KINDS: dict[str, Callable[[Path, int], None]] = {
    "variables": variables,
    "bytes": bytes_,
    "nodes": nodes,
    "pictures": pictures,
    "classes": classes,
}


def main() -> None:
    """Writes the files of one kind."""
    kind, directory, size = sys.argv[1:]
    KINDS[kind](Path(directory), int(size))


if __name__ == "__main__":
    main()
