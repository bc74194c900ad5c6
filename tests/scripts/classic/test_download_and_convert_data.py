"""Public pictures in TF-Slim's files: names, labels, counts, and what is done only once."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import struct
import tarfile

import numpy as np
import pytest

from exporters.runtime import load_tensorflow
from finetune.datasets.dataset import read_dataset
from finetune.datasets.public_data import PUBLIC_DATA


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path, http_server):
    """A cache of the test's own, and addresses that lead to this machine."""
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    for name, record in list(PUBLIC_DATA.items()):
        here = dataclasses.replace(record, addresses=(http_server.url("/data"),))
        monkeypatch.setitem(PUBLIC_DATA, name, here)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_flowers_are_fetched_and_split(slimtune, http_server, flowers_archive, tmp_path):
    http_server.files["/data/flower_photos.tgz"] = flowers_archive
    folder = tmp_path / "flowers"
    words = ("classic", "download_and_convert_data", "--dataset_name=flowers")
    code, out, err = slimtune(*words, f"--dataset_dir={folder}")
    assert code == 0
    dataset = read_dataset(folder)
    train, validation = dataset.split("train"), dataset.split("validation")
    assert train.count + validation.count == 80
    shards = len(validation.shards)
    assert names_in(folder) == [
        *(f"flowers_train_{n:05d}-of-00005.tfrecord" for n in range(5)),
        *(f"flowers_validation_{n:05d}-of-{shards:05d}.tfrecord" for n in range(shards)),
        "labels.txt",
    ]
    assert (folder / "labels.txt").read_text() == (
        "0:daisy\n1:dandelion\n2:roses\n3:sunflowers\n4:tulips\n"
    )
    assert out == (
        f"Finished converting the Flowers dataset! {folder}: {train.count} in train, "
        f"{validation.count} in validation; 5 classes.\n"
    )
    assert err.endswith(
        "The same with slimtune:\n"
        "  slimtune data download flowers flowers-pictures\n"
        "  slimtune data build flowers-pictures flowers-data\n"
    )
    assert f"{folder / 'flowers'}: 80 pictures in 5 classes" in err and ".partial" not in err

    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    http_server.requests.clear()
    code, out, err = slimtune(*words, "--dataset_dir", folder, "--json")
    assert code == 0 and json.loads(out)["already_there"] is True
    assert "Dataset files already exist. Exiting without re-creating them." in err
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert http_server.requests == []

    (folder / "flowers_train_00003-of-00005.tfrecord").unlink()
    assert slimtune(*words, f"--dataset_dir={folder}")[0] == 0
    assert set(names_in(folder)) == set(before)


def test_an_archive_that_lies_there_is_used_and_stays(
    slimtune, http_server, flowers_archive, tmp_path
):
    archive = tmp_path / "flowers" / "flower_photos.tgz"
    archive.parent.mkdir()
    archive.write_bytes(flowers_archive)
    code, _, err = slimtune(
        *("classic", "download_and_convert_data", "--dataset_name", "flowers"),
        *("--dataset_dir", archive.parent),
    )
    assert code == 0 and f"{archive} is there; it is not fetched." in err
    assert http_server.requests == []
    assert archive.read_bytes() == flowers_archive
    assert not (tmp_path / "cache/data/flowers/flower_photos.tgz").exists()


def idx(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


def labels_of(path):
    tf = load_tensorflow()
    labels, texts = [], []
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        feature = tf.train.Example.FromString(record).features.feature
        labels.append(feature["image/class/label"].int64_list.value[0])
        texts.append(feature["image/class/text"].bytes_list.value[0].decode())
    return labels, texts


@pytest.mark.tensorflow
def test_mnist_is_two_files_and_trains_on_all_of_its_training_pictures(
    slimtune, http_server, tmp_path
):
    random = np.random.default_rng(0)
    for part, count in (("train", 48), ("t10k", 20)):
        pixels = random.integers(0, 256, (count, 6, 6), np.uint8)
        http_server.files[f"/data/{part}-images-idx3-ubyte.gz"] = idx(pixels)
        labels = (np.arange(count) % 10).astype(np.uint8)
        http_server.files[f"/data/{part}-labels-idx1-ubyte.gz"] = idx(labels)
    folder = tmp_path / "mnist"
    code, _, _ = slimtune(
        *("classic", "download_and_convert_data", "--dataset_name=mnist"),
        f"--dataset_dir={folder}",
    )
    assert code == 0
    assert names_in(folder) == ["labels.txt", "mnist_test.tfrecord", "mnist_train.tfrecord"]
    assert (folder / "labels.txt").read_text().split() == [
        *["0:zero", "1:one", "2:two", "3:three", "4:four"],
        *["5:five", "6:six", "7:seven", "8:eight", "9:nine"],
    ]
    labels, texts = labels_of(folder / "mnist_train.tfrecord")
    assert sorted(labels) == sorted(np.arange(48) % 10)
    assert texts[labels.index(7)] == "seven"
    assert read_dataset(folder).split("test").count == 20


@pytest.mark.tensorflow
def test_cifar10_comes_from_its_binary_version_and_no_pickle_is_loaded(
    slimtune, http_server, tmp_path
):
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship"]
    members = {"batches.meta.txt": "\n".join([*names, "truck", ""]).encode()}
    random = np.random.default_rng(0)
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        records = random.integers(0, 256, (10, 3073), np.uint8)
        records[:, 0] = np.roll(np.arange(10), 1)
        members[f"{name}.bin"] = records.tobytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    http_server.files["/data/cifar-10-binary.tar.gz"] = buffer.getvalue()
    folder = tmp_path / "cifar10"
    folder.mkdir()
    (folder / "cifar-10-python.tar.gz").write_bytes(b"pickled")
    code, _, err = slimtune(
        *("classic", "download_and_convert_data", "--dataset_name=cifar10"),
        f"--dataset_dir={folder}",
    )
    assert code == 0 and "which are never loaded" in err
    assert names_in(folder) == [
        *["cifar-10-python.tar.gz", "cifar10_test.tfrecord", "cifar10_train.tfrecord"],
        "labels.txt",
    ]
    assert (folder / "labels.txt").read_text().startswith("0:airplane\n1:automobile\n")
    labels, texts = labels_of(folder / "cifar10_train.tfrecord")
    assert (len(labels), texts[labels.index(9)]) == (50, "truck")


def test_without_a_network_it_says_where_the_archive_may_lie(slimtune, tmp_path):
    code, out, err = slimtune(
        *("classic", "download_and_convert_data", "--dataset_name=flowers"),
        f"--dataset_dir={tmp_path / 'flowers'}",
    )
    assert (code, out) == (1, "")
    assert "flower_photos.tgz" in err and "Traceback" not in err
    assert "slimtune data download --url" in err
    assert not (tmp_path / "flowers").exists()


@pytest.mark.parametrize(
    "words", [["--dataset_name=roses", "--dataset_dir=x"], ["--dataset_name=flowers"]]
)
def test_wrong_usage(slimtune, words):
    code, _, err = slimtune("classic", "download_and_convert_data", *words)
    assert code == 2 and "download_and_convert_data --help" in err and "\\t" not in err
