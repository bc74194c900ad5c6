"""What datasets are made of: IDX files, CIFAR-10 batches, CSV files, and dataset.json."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from random import Random

from checkpoints.progress import SILENT
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import DATASET_FILE, Dataset, read_dataset
from finetune.datasets.labels import LABELS_FILE, check_labels
from finetune.datasets.numeric_csv import read_numeric_csv
from finetune.datasets.sources import cifar, find_source, idx, read_item
from finetune.datasets.sources.manifest import read_manifest
from finetune.training.class_weights import find_class_weights
from fuzzing.mutation import mutate_bytes, mutate_json, mutate_text, one_of
from fuzzing.reader import Files, Reader
from fuzzing.readers.records import change_records, picture
from fuzzing.reading import refusals, written
from scripts.inspecting.others import dataset as inspect_dataset
from scripts.output import json_line, printable

_IMAGES, _LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
_BATCH = "data_batch_1.bin"
_MANIFEST, _TABLE, _WEIGHTS = "pictures.csv", "table.csv", "weights.csv"
_PICTURE = "a.png"
_WEIGHED = Dataset(Path(), "d", ("red", "blue"), {})


def _read_source(directory: Path) -> None:
    """As `slimtune data build` does: every picture of the source."""
    with refusals():
        source = find_source(directory)
        for item in source.items:
            with refusals():
                read_item(source.reader, source.root, item.path)


def _idx_seeds() -> list[Files]:
    images = struct.pack(">4B3I", 0, 0, 8, 3, 3, 2, 2) + bytes(range(12))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 3) + bytes((0, 1, 2))
    packed = {f"{_IMAGES}.gz": gzip.compress(images), f"{_LABELS}.gz": gzip.compress(labels)}
    return [
        {_IMAGES: images, _LABELS: labels},
        packed,
        {
            _IMAGES: images,
            f"{_LABELS}.gz": packed[f"{_LABELS}.gz"],
            LABELS_FILE: b"0:a\n1:b\n2:c\n",
        },
    ]


def _change_packed(data: bytes, random: Random) -> bytes:
    """Changes what is packed; gzip's own checksum is right."""
    return gzip.compress(mutate_bytes(gzip.decompress(data), random), 1)


def _read_idx(directory: Path) -> None:
    for name in (_IMAGES, _LABELS, f"{_IMAGES}.gz", f"{_LABELS}.gz"):
        with refusals():
            idx.read_idx(directory / name)


def _cifar_seeds() -> list[Files]:
    batch = b"".join(bytes([label]) + bytes(cifar.RECORD_BYTES - 1) for label in (0, 1))
    names = b"airplane\nautomobile\n\n"
    return [{_BATCH: batch, cifar.NAMES_FILE: names}, {_BATCH: batch, "test_batch.bin": batch}]


def _csv_seeds() -> list[Files]:
    boxes = "path,label,split,x0,y0,x1,y1\na.png,red,train,0,0,2,1\na.png,red,train,1,1,3,2\n"
    plain = "a.png,red\nb.png,blue|round\n\"c,d.png\",'x'\n"
    table = "x,y,famhist,chd\n1.5,2,Present,1\n,0.1,,0\n-3e2,7,Absent,1\n"
    weights = "class,weight\nred,1.5\nblue,0\n"
    seeds = [{_MANIFEST: text.encode(), _PICTURE: picture((1, 2, 3))} for text in (boxes, plain)]
    return [{**s, _TABLE: table.encode(), _WEIGHTS: weights.encode()} for s in seeds]


def _read_manifest(directory: Path) -> None:
    with refusals():
        source = read_manifest(directory, directory / _MANIFEST, SILENT)
        for item in source.items:
            with refusals():
                read_item(source.reader, source.root, item.path)


def _read_tables(directory: Path) -> None:
    with refusals():
        defaults = [0.0, None, "Absent", 0]
        read_numeric_csv(directory / _TABLE, defaults, categories={"Present": 1, "Absent": 0})
    with refusals():
        find_class_weights(str(directory / _WEIGHTS), _WEIGHED)


def _dataset_seeds() -> list[Files]:
    def write(folder: Path) -> None:
        pictures = folder / "pictures"
        for number, name in enumerate(("blue", "red")):
            (pictures / name).mkdir(parents=True)
            for shade in (0, 100):
                file = pictures / name / f"{shade}.png"
                file.write_bytes(picture((shade, number * 200, 9)))
        build(pictures, folder / "d", val=0.5, processes=1)

    built = {
        name.removeprefix("d/"): data
        for name, data in written(write).items()
        if name.startswith("d/")
    }
    slim = {name: data for name, data in built.items() if name != DATASET_FILE}
    slim[LABELS_FILE] = b"0:blue\n1:red\n"
    return [built, built, slim]


def _change_dataset(files: Files, random: Random) -> Files:
    """Changes a file; most often dataset.json."""
    shards = [name for name in files if name.endswith(".tfrecord")]
    texts = [name for name in (DATASET_FILE, DATASET_FILE, LABELS_FILE) if name in files]
    name = random.choice([*texts, random.choice(shards)])
    if name == DATASET_FILE:
        mutate = one_of(mutate_json, mutate_text, _change_counts, weights=(3, 1, 1))
    else:
        mutate = mutate_text if name == LABELS_FILE else change_records
    return {**files, name: mutate(files[name], random)}


def _change_counts(data: bytes, random: Random) -> bytes:
    """Another number, class or file, which the rest of the text may agree with."""
    said = json.loads(data)
    split = random.choice(list(said["splits"].values()))
    shard = random.choice(split["shards"])
    match random.randrange(4):
        case 0:
            shard["count"] = split["count"] = random.choice((0, 1, 2, -1, 2**40, 2**70))
        case 1:
            del shard["sha256"]
            said["classes"].append(random.choice(("x", "\ud800", "", "../x", "red")))
        case 2:
            shard["file"] = random.choice(("", ".", "..", "/", "\0", "x", DATASET_FILE, "a" * 300))
        case _:
            said["multi_label"] = True
    return json.dumps(said).encode()


def _read_dataset(directory: Path) -> None:
    """As `slimtune train` does before the first step."""
    with refusals():
        check_labels(read_dataset(directory))


def _inspect_dataset(directory: Path) -> None:
    with refusals():
        result, text = inspect_dataset(directory)
        json_line(result)
        printable(text)


def _check(directory: Path) -> None:
    """As `slimtune data check` does."""
    with refusals():
        check(directory)


READERS = (
    Reader(
        "idx",
        _idx_seeds,
        (_read_source, _read_idx),
        {
            f"{_IMAGES}.gz": _change_packed,
            f"{_LABELS}.gz": _change_packed,
            LABELS_FILE: mutate_text,
        },
    ),
    Reader("cifar", _cifar_seeds, (_read_source,), {cifar.NAMES_FILE: mutate_text}),
    Reader(
        "csv",
        _csv_seeds,
        (_read_manifest, _read_tables),
        {_MANIFEST: mutate_text, _TABLE: mutate_text, _WEIGHTS: mutate_text},
    ),
    Reader(
        "dataset",
        _dataset_seeds,
        (_read_dataset, _read_dataset, _inspect_dataset, _check),
        whole=_change_dataset,
    ),
)
