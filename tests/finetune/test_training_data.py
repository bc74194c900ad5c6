"""What train, evaluate and predict make of data that slimtune did not write."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, RunError
from exporters.runtime import load_tensorflow
from finetune import TrainConfig, evaluate, predict, train
from finetune.data import load
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.records import make_example, write_records
from finetune.training_data import find_dataset, has_changed

pytestmark = pytest.mark.tensorflow

NAMES = ("cat", "dog", "花")


def config(data, run, **options):
    defaults = {"net": "tiny", "batch_size": 8, "steps": 2, "checkpoint": "none"}
    return TrainConfig(
        data=str(data), run=str(run), **{**defaults, "trainable": ("Tiny",), **options}
    )


def encode(number, kind="JPEG"):
    """A picture whose class shows as its brightest channel."""
    pixels = np.random.default_rng(number).integers(0, 120, (20, 20, 3), np.uint8)
    pixels[:, :, number % 3] += 130
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def write_inception(directory, texts=NAMES):
    """As build_image_data.py of the older Inception left it: labels from 1, no labels.txt."""
    directory.mkdir()
    for split, start in (("train", 0), ("validation", 24)):
        for index in range(2):
            records = []
            for number in range(start + index, start + 24, 2):
                label = 1 + number % 3
                features = {
                    "image/height": 20,
                    "image/width": 20,
                    "image/colorspace": "RGB",
                    "image/channels": 3,
                    "image/class/label": label,
                    "image/class/text": texts[label - 1] if texts else "",
                    "image/format": "JPEG",
                    "image/filename": f"{number}.jpg",
                    "image/encoded": encode(number),
                }
                records.append(make_example(features))
            write_records(directory / f"{split}-{index:05d}-of-00002", records)
    return directory


def test_the_older_inception_directories_train_evaluate_and_check_as_they_are(
    tmp_path, tiny_net, heard
):
    data = write_inception(tmp_path / "pets")
    result = train(config(data, tmp_path / "run"), progress=heard)
    assert result.step == 2
    assert (tmp_path / "run/labels.txt").read_text() == "cat\ndog\n花\n"
    assert any(line.startswith(f"{data}: its labels count from 1") for line in heard.said)
    scores = evaluate(tmp_path / "run", data, split="validation")
    assert scores.count == 24
    checked = check(data)
    assert checked.problems == []
    assert [note.kind for note in checked.notes] == ["label-offset"]
    for image, label in load(data, "val"):
        assert int(np.argmax(image.numpy().mean((0, 1)))) == int(label)


def test_labels_from_1_without_a_witness_are_found_before_step_0(tmp_path, tiny_net):
    data = write_inception(tmp_path / "pets", texts=None)
    (data / "labels.txt").write_text("cat\ndog\n花\n")
    with pytest.raises(DataError) as caught:
        train(config(data, tmp_path / "run"))
    assert caught.value.received == "labels 1 to 3, counted from 1"
    assert not list(tmp_path.glob("run/model.ckpt*"))
    problems = check(data).problems
    assert len(problems) == 16
    assert {(item.kind, item.detail) for item in problems} == {
        ("label", "label 3; 3 classes have labels 0 to 2")
    }


def write_digits(directory):
    """IDX files, packed: 60 pictures to train, 12 to test."""
    directory.mkdir()
    for part, count in (("train", 60), ("t10k", 12)):
        labels = (np.arange(count) % 3).astype(np.uint8)
        images = np.random.default_rng(count).integers(0, 40, (count, 18, 18), np.uint8)
        images += (labels * 100)[:, None, None]
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            path = directory / f"{part}-{what}-ubyte.gz"
            path.write_bytes(gzip.compress(head + array.tobytes(), mtime=0))
    return directory


@pytest.mark.long
def test_an_idx_directory_trains_and_its_test_files_are_the_test_split(tmp_path, tiny_net, heard):
    data = write_digits(tmp_path / "digits")
    result = train(config(data, tmp_path / "run"), progress=heard)
    assert result.step == 2
    assert (tmp_path / "run/labels.txt").read_text() == "0\n1\n2\n"
    assert f"{data} is no dataset yet: building {tmp_path / 'run-data'} of it." in heard.said
    counts = {
        split: evaluate(tmp_path / "run", data, split=split).count for split in ("val", "test")
    }
    assert counts == {"val": 5, "test": 12}


def test_a_picture_that_is_turned_by_exif_is_turned_for_predict_as_well(tmp_path, tiny_checkpoint):
    """8 x 12 with orientation 6, which people see as 12 x 8."""
    load_tensorflow()
    pixels = np.zeros((12, 8, 3), np.uint8)
    pixels[:6, :, 0] = pixels[:, 4:, 2] = 250
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", quality=100, subsampling=0, exif=exif)
    image.save(tmp_path / "lying.jpg", quality=100, subsampling=0)
    image.transpose(Image.Transpose.ROTATE_270).save(tmp_path / "upright.png")
    paths = [tmp_path / name for name in ("turned.jpg", "upright.png", "lying.jpg")]
    found = predict(tiny_checkpoint, paths, net="tiny", top=7)
    scores = [{entry["label"]: entry["probability"] for entry in f.classes} for f in found]
    turned, upright, lying = (np.array([s[name] for name in sorted(s)]) for s in scores)
    assert np.abs(turned - upright).max() < np.abs(lying - upright).max() / 5


def write_pictures(folder, numbers, classes=3):
    for number in numbers:
        directory = folder / NAMES[number % classes]
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}.jpg").write_bytes(encode(number))
    return folder


def counts(dataset):
    return sum(split.count for split in dataset.splits.values())


def test_pictures_that_are_what_they_were_are_not_built_again(tmp_path, heard):
    folder = write_pictures(tmp_path / "pictures", range(12))
    built = tmp_path / "run-data"
    first = find_dataset(folder, built, progress=heard)
    before = (built / "dataset.json").stat().st_mtime_ns
    (folder / ".DS_Store").write_text("no picture")
    heard.said.clear()
    assert find_dataset(folder, built, progress=heard) == first
    assert find_dataset(tmp_path / "." / "pictures", built, progress=heard) == first
    assert (built / "dataset.json").stat().st_mtime_ns == before
    assert heard.said == []
    assert json.loads((built / "origin.json").read_text())["files"] == 12


def test_a_changed_folder_is_built_again_and_that_is_said(tmp_path, heard):
    folder = write_pictures(tmp_path / "pictures", range(12))
    built = tmp_path / "run-data"
    first = find_dataset(folder, built)
    write_pictures(folder, range(12, 15))
    second = find_dataset(folder, built, progress=heard)
    assert (counts(first), counts(second)) == (12, 15)
    assert heard.said[0] == (
        f"{folder} is not what {built} was built of (12 files then, 15 now): building it again."
    )
    os.utime(folder / "cat" / "0.jpg", (1, 1))
    heard.said.clear()
    third = find_dataset(folder, built, progress=heard)
    assert "(files of other names, sizes or times)" in heard.said[0]
    assert third.content_hash == second.content_hash


def test_another_folder_is_built_in_the_place_of_the_first(tmp_path, heard):
    built = tmp_path / "run-data"
    find_dataset(write_pictures(tmp_path / "three", range(12)), built)
    two = find_dataset(write_pictures(tmp_path / "two", range(12), classes=2), built)
    assert two.classes == ("cat", "dog")
    assert (built / "labels.txt").read_text() == "cat\ndog\n"


def test_a_dataset_that_train_did_not_build_is_neither_used_nor_replaced(tmp_path):
    folder = write_pictures(tmp_path / "pictures", range(12))
    built = tmp_path / "run-data"
    build(folder, built)
    before = {path.name: path.read_bytes() for path in built.iterdir()}
    with pytest.raises(RunError, match="is a dataset that train did not build") as caught:
        find_dataset(folder, built)
    assert caught.value.next_step.startswith(f"Name {built} as DATA to train on it")
    assert {path.name: path.read_bytes() for path in built.iterdir()} == before


def test_folders_that_lead_into_one_another_are_counted_once(tmp_path):
    folder = write_pictures(tmp_path / "pictures", range(12))
    elsewhere = write_pictures(tmp_path / "elsewhere", range(12, 18), classes=1)
    (folder / "bird").symlink_to(elsewhere / "cat")
    (folder / "dog" / "up").symlink_to(folder)
    built = tmp_path / "run-data"
    find_dataset(folder, built)
    assert not has_changed(folder, built)
    (elsewhere / "cat" / "12.jpg").unlink()
    assert has_changed(folder, built)


def test_a_run_that_is_begun_again_with_other_pictures_sees_them(tmp_path, tiny_net, heard):
    folder = write_pictures(tmp_path / "pictures", range(24))
    run = tmp_path / "run"
    train(config(folder, run))
    assert train(config(folder, run)).finished_before
    write_pictures(folder, range(24, 30))
    with pytest.raises(RunError) as caught:
        train(config(folder, run))
    assert f"DATA: {folder} has changed since the run was trained on it" in caught.value.message
    evaluate(run, folder, split="train", progress=heard)
    warning = f"Warning: {folder} has changed since the run was trained on it"
    assert any(line.startswith(warning) for line in heard.said)
    heard.said.clear()
    train(config(folder, run, steps=3, resume=True), progress=heard)
    assert any("24 files then, 30 now" in line for line in heard.said)
    assert any("holds other pictures than the run was begun with" in line for line in heard.said)
