"""What labels mean: from labels.txt, from the records' own names, counted from 0 or from 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkpoints.errors import DataError
from finetune.datasets.dataset import is_dataset_directory, read_dataset
from finetune.datasets.labels import check_labels, with_label_offset
from finetune.datasets.record_index import read_index
from finetune.datasets.records import make_example, write_records
from finetune.training_data import find_dataset

NAMES = ("cat", "dog", "花")


def write(
    directory, labels, texts=NAMES, offset=1, names=None, files="{split}-{index:05d}-of-00002"
):
    """Older Inception records: two shards a split, labels and class names as told."""
    directory.mkdir()
    for split in ("train", "validation"):
        for index in range(2):
            records = [
                make_example(
                    {
                        "image/encoded": f"{split} {index} {place}",
                        "image/class/label": label,
                        "image/class/text": texts[label - offset] if texts else "",
                    }
                )
                for place, label in enumerate(labels)
            ]
            write_records(directory / files.format(split=split, index=index), records)
    if names is not None:
        (directory / "labels.txt").write_text("".join(f"{name}\n" for name in names))
    return directory


def test_the_older_records_name_their_classes_and_count_from_1(tmp_path, heard):
    directory = write(tmp_path / "imagenet", (1, 2, 3, 2))
    dataset = find_dataset(directory, tmp_path / "unused", progress=heard)
    assert (dataset.classes, dataset.label_offset) == (NAMES, 1)
    assert {name: split.count for name, split in dataset.splits.items()} == {"train": 8, "val": 8}
    assert read_index(dataset.split("validation")).labels.tolist() == [0, 1, 2, 1] * 2
    assert check_labels(dataset) == {"train": (2, 4, 2), "val": (2, 4, 2)}
    assert heard.said == [
        f"{directory}: its labels count from 1, as the class names in its records say: "
        "label 1 is 'cat', class 0 here."
    ]


def test_labels_txt_and_the_records_agree_on_1(tmp_path):
    dataset = read_dataset(write(tmp_path / "pets", (1, 2, 3), names=NAMES))
    assert (dataset.classes, dataset.label_offset) == (NAMES, 1)
    # Not from the numbers: here they would fit a count from 0, one class off.
    dataset = read_dataset(write(tmp_path / "two", (1, 2), names=NAMES))
    assert dataset.label_offset == 1
    assert check_labels(dataset)["train"] == (2, 2, 0)


def test_labels_from_0_stay(tmp_path, heard):
    dataset = read_dataset(write(tmp_path / "pets", (0, 1, 2), offset=0))
    assert (dataset.classes, dataset.label_offset) == (NAMES, 0)
    directory = write(tmp_path / "more", (1, 2), names=("background", *NAMES))
    dataset = find_dataset(directory, tmp_path / "unused", progress=heard)
    assert (dataset.classes[0], dataset.label_offset, heard.said) == ("background", 0, [])
    assert check_labels(dataset)["train"] == (0, 2, 2, 0)


def test_labels_from_1_are_never_moved_on_their_numbers_alone(tmp_path):
    for number, texts in enumerate((None, ("n01440764", "n01443537", "n01484850"))):
        directory = write(tmp_path / str(number), (1, 2, 3), texts=texts, names=NAMES)
        with pytest.raises(DataError) as caught:
            check_labels(read_dataset(directory))
        assert caught.value.received == "labels 1 to 3, counted from 1"
        assert caught.value.expected == "labels 0 to 2 for 3 classes"


def test_names_that_contradict_the_labels(tmp_path):
    directory = write(tmp_path / "pets", (0, 1, 2), offset=0, names=("dog", "cat", "花"))
    with pytest.raises(DataError, match="labels and class names do not fit") as caught:
        check_labels(read_dataset(directory))
    assert caught.value.message.split("\n")[1:] == [
        "  label 0: the records say 'cat', labels.txt says 'dog'",
        "  label 1: the records say 'dog', labels.txt says 'cat'",
    ]


def test_splits_that_contradict_each_other(tmp_path):
    directory = write(tmp_path / "pets", (0, 1, 2), offset=0, names=NAMES)
    other = write(tmp_path / "other", (0, 1, 2), texts=("dog", "cat", "花"), offset=0)
    for index in range(2):
        name = f"validation-{index:05d}-of-00002"
        (other / name).replace(directory / name)
    with pytest.raises(DataError, match=r"label 0: the records say 'dog', labels\.txt says 'cat'"):
        check_labels(read_dataset(directory))


def test_a_broken_split_hides_nothing_of_the_other(tmp_path):
    directory = write(tmp_path / "pets", (1, 2, 3), names=NAMES)
    record = make_example({"image/encoded": b"x"})
    write_records(directory / "train-00000-of-00002", [record])
    assert read_dataset(directory).label_offset == 1
    (directory / "labels.txt").unlink()
    with pytest.raises(DataError, match="lacks image/class/label"):
        read_dataset(directory)


@pytest.mark.parametrize(
    ("labels", "texts", "offset", "said"),
    [
        ((1, 2, 3), None, 1, "its records do not name their classes"),
        ((1, 3), NAMES, 1, "name the classes of the labels 1, 3 only"),
        ((1, 2, 3), ("cat", "dog", ""), 1, "name the classes of the labels 1, 2 only"),
        ((2, 3), NAMES, 1, "name the classes of the labels 2, 3 only"),
        ((1, 2), ("cat", "cat"), 1, "its records call several labels by one name"),
    ],
)
def test_records_that_do_not_name_all_classes(tmp_path, labels, texts, offset, said):
    directory = write(tmp_path / "pets", labels, texts=texts, offset=offset)
    with pytest.raises(DataError, match=r"has shards but no labels\.txt") as caught:
        read_dataset(directory)
    assert said in caught.value.message


def test_a_split_in_one_file_as_slim_writes_mnist(tmp_path):
    directory = tmp_path / "mnist"
    directory.mkdir()
    for split, count in (("train", 6), ("test", 3)):
        records = [
            make_example({"image/encoded": b"x", "image/class/label": n % 3}) for n in range(count)
        ]
        write_records(directory / f"mnist_{split}.tfrecord", records)
    assert not is_dataset_directory(directory)
    (directory / "labels.txt").write_text("0:zero\n1:one\n2:two\n")
    assert is_dataset_directory(directory)
    dataset = read_dataset(directory)
    assert (dataset.name, dataset.classes) == ("mnist", ("zero", "one", "two"))
    assert {name: split.count for name, split in dataset.splits.items()} == {"train": 6, "test": 3}


def test_a_background_is_left_out_or_put_in(tmp_path):
    counted = write(tmp_path / "counted", (1, 2, 3), names=("background", *NAMES), texts=None)
    dataset = read_dataset(counted)
    without = with_label_offset(dataset, 1)
    assert (without.classes, without.label_offset) == (NAMES, 1)
    assert check_labels(without)["train"] == check_labels(dataset)["train"][1:]
    assert with_label_offset(without, 0).classes == ("background", *NAMES)
    assert with_label_offset(without, 1) is without
    with pytest.raises(DataError, match="labels from 2 on leave out classes that have pictures"):
        with_label_offset(dataset, 2)
    with pytest.raises(DataError, match="labels cannot begin at 0"):
        with_label_offset(replace(without, classes=("background", "a", "b")), 0)
