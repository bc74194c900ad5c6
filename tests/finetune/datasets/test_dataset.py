"""Dataset directories: ours, TF-Slim's, and what is wrong with either."""

from __future__ import annotations

import json

import pytest

from checkpoints.errors import DataError, NotFoundError, UnsupportedError
from finetune.datasets.dataset import (
    Shard,
    canonical_split,
    is_dataset_directory,
    read_dataset,
    write_dataset_file,
)
from finetune.datasets.labels import check_labels, parse_labels
from finetune.datasets.records import make_example, write_records


def record(label, text="", picture=b"\xff\xd8\xff picture"):
    features = {"image/encoded": picture, "image/class/label": label}
    return make_example(features | ({"image/class/text": text} if text else {}))


def write_slim(
    directory, labels=((0, 1, 2), (2, 1)), validation=(0,), names="0:daisy\n1:rose\n2:花\n"
):
    """A directory as TF-Slim's download_and_convert_data leaves it."""
    directory.mkdir(exist_ok=True)
    for index, shard in enumerate(labels):
        path = directory / f"flowers_train_{index:05d}-of-{len(labels):05d}.tfrecord"
        write_records(path, [record(label) for label in shard])
    path = directory / "flowers_validation_00000-of-00001.tfrecord"
    write_records(path, [record(label) for label in validation])
    (directory / "labels.txt").write_text(names, encoding="utf-8")
    return directory


def write_own(directory, labels=(0, 1, 1)):
    directory.mkdir(exist_ok=True)
    path = directory / "pets_train_00000-of-00001.tfrecord"
    write_records(path, [record(label) for label in labels])
    write_dataset_file(
        directory,
        name="pets",
        classes=["C#", "C++"],
        splits={"train": [Shard(path, len(labels))]},
        counts={"train": [labels.count(0), labels.count(1)], "val": [0, 0]},
        content_hash="sha256:00",
    )
    return directory


def test_our_own_directory(tmp_path):
    directory = write_own(tmp_path / "pets")
    dataset = read_dataset(directory)
    assert dataset.name == "pets"
    assert dataset.classes == ("C#", "C++")
    assert {name: split.count for name, split in dataset.splits.items()} == {"train": 3}
    assert dataset.counts == {"train": (1, 2)}
    assert dataset.content_hash == "sha256:00"
    assert (directory / "labels.txt").read_text() == "C#\nC++\n"
    assert json.loads((directory / "dataset.json").read_text()) == {
        "format": 1,
        "name": "pets",
        "classes": ["C#", "C++"],
        "splits": {
            "train": {
                "count": 3,
                "counts": {"C#": 1, "C++": 2},
                "shards": [{"file": "pets_train_00000-of-00001.tfrecord", "count": 3}],
            }
        },
        "hash": "sha256:00",
    }


@pytest.mark.parametrize("name", ["", "dataset.json", "pets_train_00000-of-00001.tfrecord"])
def test_a_directory_is_found_by_itself_and_by_its_files(tmp_path, name):
    directory = write_own(tmp_path / "pets")
    assert read_dataset(directory / name).path == directory


def test_slims_own_directory_is_counted_by_scanning(tmp_path):
    dataset = read_dataset(write_slim(tmp_path / "slim"))
    assert dataset.name == "flowers"
    assert dataset.classes == ("daisy", "rose", "花")
    assert [shard.count for shard in dataset.split("train").shards] == [3, 2]
    assert list(dataset.splits) == ["train", "val"]
    assert dataset.split("validation") is dataset.split("val")
    assert check_labels(dataset) == {"train": (1, 2, 2), "val": (1, 0, 0)}


def test_the_older_names_without_a_dataset_are_read(tmp_path):
    for index in range(2):
        write_records(tmp_path / f"train-{index:05d}-of-00002", [record(index)])
    write_records(tmp_path / "validation-00000-of-00001", [record(1)])
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    dataset = read_dataset(tmp_path)
    assert {name: split.count for name, split in dataset.splits.items()} == {"train": 2, "val": 1}
    assert dataset.name == tmp_path.name


def test_the_names_of_splits():
    names = ["train", "training", "val", "valid", "Validation", "test", "extra"]
    assert [canonical_split(name) for name in names] == [
        "train", "train", "val", "val", "val", "test", "extra",
    ]  # fmt: skip


def test_a_split_that_is_not_there(tmp_path):
    dataset = read_dataset(write_own(tmp_path / "pets"))
    with pytest.raises(NotFoundError, match="no pictures in the split 'val'") as caught:
        dataset.split("val")
    assert caught.value.expected == "one of train"


def test_what_is_a_dataset_directory(tmp_path, shared):
    assert is_dataset_directory(write_own(tmp_path / "pets"))
    assert is_dataset_directory(write_slim(tmp_path / "slim"))
    assert not is_dataset_directory(shared / "data/flowers12")
    assert not is_dataset_directory(tmp_path / "gone")


def test_nothing_there_names_what_is_near(tmp_path):
    write_own(tmp_path / "pets")
    with pytest.raises(NotFoundError, match="pest is not there") as caught:
        read_dataset(tmp_path / "pest")
    assert caught.value.next_step == f"Did you mean {tmp_path / 'pets'}?"
    with pytest.raises(NotFoundError, match="holds no shards"):
        read_dataset(tmp_path)


def test_a_missing_shard(tmp_path):
    directory = write_slim(tmp_path / "slim")
    (directory / "flowers_train_00001-of-00002.tfrecord").unlink()
    with pytest.raises(DataError, match="lacks shards") as caught:
        read_dataset(directory)
    assert "flowers, train: 00001-of-00002" in caught.value.message
    own = write_own(tmp_path / "pets")
    (own / "pets_train_00000-of-00001.tfrecord").unlink()
    with pytest.raises(DataError, match=r"lacks shards that dataset\.json names") as caught:
        read_dataset(own)
    assert "pets_train_00000-of-00001.tfrecord" in caught.value.message


def test_shards_of_several_datasets(tmp_path):
    directory = write_slim(tmp_path / "slim")
    write_records(directory / "birds_train_00000-of-00001.tfrecord", [record(0)])
    with pytest.raises(DataError, match="several datasets: birds, flowers"):
        read_dataset(directory)


def test_no_labels_file(tmp_path):
    directory = write_slim(tmp_path / "slim")
    (directory / "labels.txt").unlink()
    with pytest.raises(DataError, match=r"has shards but no labels\.txt"):
        read_dataset(directory)


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("0:daisy\n1:rose\n", ("daisy", "rose")),
        ("1:rose\r\n0:daisy\r\n", ("daisy", "rose")),
        ("daisy\n rose \n花", ("daisy", " rose ", "花")),
        ("0:daisy\nrose\n", ("0:daisy", "rose")),
        ("0:a:b\n", ("a:b",)),
    ],
)
def test_labels_files(tmp_path, text, classes):
    assert parse_labels(text, tmp_path) == classes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1:daisy\n2:rose\n", "does not number its 2 classes from 0 without gaps"),
        ("0:daisy\n2:rose\n", "does not number its 2 classes from 0 without gaps"),
        ("0:daisy\n0:rose\n2:tulip\n", "gives the number 0 to several classes"),
        ("daisy\nrose\ndaisy\n", "names a class twice: daisy"),
        ("\n", "is empty"),
    ],
)
def test_labels_files_that_do_not_fit(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        parse_labels(text, tmp_path)


def test_labels_from_1_are_found_before_training(tmp_path):
    dataset = read_dataset(write_slim(tmp_path / "slim", labels=((1, 2), (3, 1)), validation=(2,)))
    with pytest.raises(DataError) as caught:
        check_labels(dataset)
    path = dataset.split("train").shards[1].path
    assert f"{path}: record 0 (offset 0): label 3" in caught.value.message
    assert caught.value.expected == "labels 0 to 2 for 3 classes"
    assert caught.value.received == "labels 1 to 3, counted from 1"


@pytest.mark.parametrize("label", [-1, 3, 1 << 40])
def test_labels_out_of_range(tmp_path, label):
    labels = ((0, 1), (2, label))
    dataset = read_dataset(write_slim(tmp_path / "slim", labels=labels))
    with pytest.raises(DataError) as caught:
        check_labels(dataset)
    assert "1 labels do not name a class" in caught.value.message
    assert f"record 1 (offset 80): label {label}" in caught.value.message.replace(
        str(dataset.split("train").shards[1].path) + ": ", ""
    )
    assert "counted from 1" not in caught.value.received


def test_a_record_without_a_label(tmp_path):
    directory = write_slim(tmp_path / "slim")
    example = make_example({"image/encoded": b"x", "label": b"1"})
    write_records(directory / "flowers_validation_00000-of-00001.tfrecord", [record(0), example])
    with pytest.raises(DataError) as caught:
        check_labels(read_dataset(directory))
    assert "record 1 (offset" in caught.value.message
    assert "lacks image/class/label" in caught.value.message
    assert caught.value.received == "image/encoded, label"


def test_a_record_that_is_no_example(tmp_path):
    directory = write_slim(tmp_path / "slim")
    write_records(directory / "flowers_validation_00000-of-00001.tfrecord", [b"\xff\xff\xff\xff"])
    with pytest.raises(DataError, match=r"record 0 \(offset 0\) is no tf\.train\.Example"):
        check_labels(read_dataset(directory))


def test_a_shard_with_another_number_of_records_than_dataset_json_says(tmp_path):
    directory = write_own(tmp_path / "pets")
    path = directory / "pets_train_00000-of-00001.tfrecord"
    write_records(path, [record(0)])
    with pytest.raises(DataError, match="ends after record 0") as caught:
        check_labels(read_dataset(directory))
    assert caught.value.expected == "3 records, as dataset.json says"


def test_a_broken_dataset_json(tmp_path):
    directory = write_own(tmp_path / "pets")
    path = directory / "dataset.json"
    value = json.loads(path.read_text())
    path.write_text("{")
    with pytest.raises(DataError, match="is no JSON"):
        read_dataset(directory)
    for changed in (
        {"classes": ["a", "a"]},
        {"splits": {"train": {}}},
        {"splits": 7},
        {"classes": None},
    ):
        path.write_text(json.dumps(value | changed))
        with pytest.raises(DataError, match="is not what data build writes"):
            read_dataset(directory)
    path.write_text(json.dumps([1]))
    with pytest.raises(DataError, match="is not what data build writes"):
        read_dataset(directory)
    path.write_text(json.dumps(value | {"format": 2}))
    with pytest.raises(UnsupportedError, match="a later version"):
        read_dataset(directory)


def test_dataset_json_cannot_point_out_of_its_directory(tmp_path):
    directory = write_own(tmp_path / "pets")
    path = directory / "dataset.json"
    text = path.read_text().replace('"file": "', '"file": "../../')
    path.write_text(text)
    shard = read_dataset(directory).split("train").shards[0]
    assert shard.path.parent == directory


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\0b", "\ud800"])
def test_a_class_name_that_no_line_can_hold(tmp_path, name):
    directory = write_own(tmp_path)
    file = directory / "dataset.json"
    value = json.loads(file.read_text())
    value["classes"] = [name, *value["classes"][1:]]
    for part in value["splits"].values():
        part["counts"] = {name: 1} | part["counts"]
    file.write_text(json.dumps(value))
    with pytest.raises(DataError, match="cannot stand in a line of UTF-8 text"):
        read_dataset(directory)


@pytest.mark.parametrize(
    ("splits", "received"),
    [({}, "no splits"), ({"train": {"count": 0, "counts": {}, "shards": []}}, "train: 0")],
)
def test_a_dataset_json_that_names_no_pictures(tmp_path, splits, received):
    directory = write_own(tmp_path)
    path = directory / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"splits": splits}))
    with pytest.raises(DataError) as caught:
        read_dataset(directory)
    assert caught.value.message == f"{path} names no pictures."
    assert caught.value.received == received
