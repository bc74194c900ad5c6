"""CIFAR-10's binary batches."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.sources import find_source

NAMES = ["airplane", "automobile", "bird"]


def write(directory, counts=(4, 5), test=3, names="airplane\nautomobile\nbird\n\n"):
    """Batches of random pictures; gives [n, 32, 32, 3] by file."""
    directory.mkdir()
    given = {}
    files = {f"data_batch_{place + 1}.bin": count for place, count in enumerate(counts)}
    for seed, (name, count) in enumerate((files | {"test_batch.bin": test}).items()):
        images = np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 3
        planes = images.transpose(0, 3, 1, 2).reshape(count, 3072)
        rows = np.concatenate([labels[:, None], planes], axis=1)
        (directory / name).write_bytes(rows.tobytes())
        given[name] = images
    if names is not None:
        (directory / "batches.meta.txt").write_text(names)
    return given


def test_every_picture_is_stored_without_loss(tmp_path, examples):
    given = write(tmp_path / "cifar-10-batches-bin")
    result = build(tmp_path / "cifar-10-batches-bin", tmp_path / "out", val=0)
    assert result.classes == tuple(NAMES)
    assert result.counts == {"train": (4, 3, 2), "val": (0, 0, 0), "test": (1, 1, 1)}
    found = examples(tmp_path / "out")
    assert len(found) == 12
    for name, features in found.items():
        file, _, number = name.partition(":")
        with Image.open(io.BytesIO(features["image/encoded"][0])) as image:
            assert (image.format, image.mode) == ("PNG", "RGB")
            np.testing.assert_array_equal(np.asarray(image), given[file][int(number)])
        assert features["image/class/label"] == [int(number) % 3]
        assert features["image/class/text"] == [NAMES[int(number) % 3].encode()]
        assert features["split"] == ("test" if file.startswith("test") else "train")


def test_part_of_training_validates_and_ten_batches_come_in_order(tmp_path):
    write(tmp_path / "cifar", counts=(10,) * 10)
    result = build(tmp_path / "cifar", tmp_path / "out", val=0.3)
    assert 10 < sum(result.counts["val"]) < 50
    assert sum(result.counts["train"]) + sum(result.counts["val"]) == 100
    assert sum(result.counts["test"]) == 3
    files = list(dict.fromkeys(i.path.split(":")[0] for i in find_source(tmp_path / "cifar").items))
    assert files == [*(f"data_batch_{number}.bin" for number in range(1, 11)), "test_batch.bin"]


def test_without_names_classes_are_numbers(tmp_path):
    write(tmp_path / "cifar", names=None)
    assert find_source(tmp_path / "cifar").classes == ("0", "1", "2")


@pytest.mark.parametrize("extra", [b"x", b"x" * 3072])
def test_a_size_that_does_not_divide(tmp_path, extra):
    write(tmp_path / "cifar")
    path = tmp_path / "cifar/data_batch_2.bin"
    path.write_bytes(path.read_bytes() + extra)
    with pytest.raises(DataError, match=r"data_batch_2\.bin is no whole number") as caught:
        build(tmp_path / "cifar", tmp_path / "out")
    assert caught.value.expected == "a multiple of 3073 bytes"
    size = 5 * 3073 + len(extra)
    assert caught.value.received == f"{size} bytes, {len(extra)} after record 4"
    assert [problem.kind for problem in check(tmp_path / "cifar").problems] == ["layout"]


def test_an_empty_batch(tmp_path):
    write(tmp_path / "cifar")
    (tmp_path / "cifar/test_batch.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"test_batch\.bin is no whole number"):
        find_source(tmp_path / "cifar")


def test_a_label_without_a_name(tmp_path):
    write(tmp_path / "cifar", names="airplane\nautomobile\n")
    with pytest.raises(DataError, match=r"data_batch_1\.bin:2: label 2"):
        find_source(tmp_path / "cifar")


def test_names_that_come_twice(tmp_path):
    write(tmp_path / "cifar", names="a\nb\na\n")
    with pytest.raises(DataError, match="names a class twice"):
        find_source(tmp_path / "cifar")


def test_names_that_are_no_utf_8(tmp_path):
    write(tmp_path / "cifar")
    (tmp_path / "cifar/batches.meta.txt").write_bytes("a\nb\n\xe9\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"batches\.meta\.txt is not UTF-8 text: line 3"):
        find_source(tmp_path / "cifar")


def test_sound_batches_have_no_problems(tmp_path):
    write(tmp_path / "cifar", counts=(30,))
    result = check(tmp_path / "cifar")
    assert (result.problems, result.num_pictures) == ([], 33)
