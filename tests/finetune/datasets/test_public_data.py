"""Public pictures, fetched from a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DownloadError, NotFoundError, OutputExistsError
from checkpoints.fetch import RetryPolicy
from finetune.datasets import public_data
from finetune.datasets.build import build
from finetune.datasets.public_data import PUBLIC_DATA, download_data

ARCHIVE = "/example_images/flower_photos.tgz"


def jpeg(number):
    pixels = np.random.default_rng(number).integers(0, 256, (9, 12, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


FLOWERS = {
    "flower_photos/LICENSE.txt": b"CC-BY",
    **{f"flower_photos/{name}/{n}.jpg": jpeg(n) for n, name in enumerate(["daisy", "roses"] * 4)},
    "flower_photos/daisy/.hidden": b"x",
    "flower_photos/script.sh": b"x",
}


def idx(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


MNIST = {
    f"{part}-{what}-ubyte.gz": idx(array)
    for part, count in (("train", 24), ("t10k", 6))
    for what, array in (
        ("images-idx3", np.random.default_rng(count).integers(0, 256, (count, 4, 4), np.uint8)),
        ("labels-idx1", (np.arange(count) % 3).astype(np.uint8)),
    )
}


@pytest.fixture
def get(heard, tmp_path, monkeypatch):
    """download_data() without waiting, into a cache of the test's own."""
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))

    def run(name="flowers", out=None, **options):
        policy = RetryPolicy(sleep=lambda _seconds: None)
        return download_data(
            name, out or tmp_path / "out", progress=heard, policy=policy, **options
        )

    return run


def files_in(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_flowers(http_server, get, tmp_path):
    data = http_server.add_archive(ARCHIVE, FLOWERS)
    got = get(url=http_server.url(ARCHIVE))
    assert files_in(tmp_path / "out") == sorted(
        name.removeprefix("flower_photos/") for name in FLOWERS
        if name.endswith((".jpg", ".txt"))
    )  # fmt: skip
    assert (tmp_path / "out/roses/1.jpg").read_bytes() == jpeg(1)
    assert (got.classes, got.num_pictures) == (("daisy", "roses"), 8)
    (file,) = got.files
    assert file.sha256 == hashlib.sha256(data).hexdigest()
    assert (file.size, file.url, file.fetched) == (len(data), http_server.url(ARCHIVE), True)
    assert file.path == tmp_path / "cache/data/flowers/flower_photos.tgz"
    assert build(tmp_path / "out", tmp_path / "shards", val=0).num_pictures == 8


def test_mnist(http_server, get, tmp_path):
    for name, data in MNIST.items():
        http_server.files[f"/mnist/{name}"] = data
    got = get("mnist", url=http_server.url("/mnist/"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == MNIST
    assert (got.classes, got.num_pictures) == (("0", "1", "2"), 30)
    assert build(tmp_path / "out", tmp_path / "shards").counts["test"] == (2, 2, 2)


def test_the_public_addresses_are_tried_in_turn(http_server, get, heard, monkeypatch):
    http_server.add_archive("/second" + ARCHIVE, FLOWERS)
    record = PUBLIC_DATA["flowers"]
    addresses = tuple(http_server.url(f"/{place}/example_images") for place in ("first", "second"))
    changed = public_data.PublicData(**(vars(record) | {"addresses": addresses}))
    monkeypatch.setitem(PUBLIC_DATA, "flowers", changed)
    got = get()
    assert got.files[0].url == http_server.url("/second" + ARCHIVE)
    assert any("404" in line for line in heard.said)


def test_what_is_in_the_cache_is_not_fetched_again(http_server, get, tmp_path, heard):
    http_server.add_archive(ARCHIVE, FLOWERS)
    get(url=http_server.url(ARCHIVE))
    asked = len(http_server.requests)
    for number, url in enumerate((None, http_server.url(ARCHIVE))):
        got = get(out=tmp_path / f"again {number}", url=url)
        assert (got.num_pictures, got.files[0].fetched) == (8, False)
    assert len(http_server.requests) == asked
    assert heard.said[-2].endswith("is there; it is not fetched again.")
    http_server.add_archive("/other.tgz", FLOWERS)
    assert get(out=tmp_path / "other", url=http_server.url("/other.tgz")).files[0].fetched


def test_a_file_put_there_by_hand_is_used(get, http_server, tmp_path):
    folder = tmp_path / "cache/data/flowers"
    folder.mkdir(parents=True)
    (folder / "flower_photos.tgz").write_bytes(http_server.add_archive(ARCHIVE, FLOWERS))
    assert get().num_pictures == 8
    assert http_server.requests == []


def test_a_file_put_there_by_hand_that_cannot_be_used_is_left_there(get, tmp_path):
    folder = tmp_path / "cache/data/flowers"
    folder.mkdir(parents=True)
    (folder / "flower_photos.tgz").write_bytes(b"a web page")
    with pytest.raises(
        DownloadError, match=f"what is in {folder}/flower_photos.tgz cannot be used"
    ):
        get()
    assert (folder / "flower_photos.tgz").read_bytes() == b"a web page"


def test_a_cut_connection_goes_on_where_it_stopped(http_server, get):
    data = http_server.add_archive(ARCHIVE, FLOWERS)
    http_server.faults[ARCHIVE] = [http_server.Fault(cut_at=500)]
    got = get(url=http_server.url(ARCHIVE))
    assert (got.files[0].resumed, got.files[0].size) == (500, len(data))
    assert http_server.ranges_asked() == [None, "bytes=500-"]


def test_another_file_than_the_first_time(http_server, get, tmp_path):
    http_server.add_archive(ARCHIVE, FLOWERS)
    get(url=http_server.url(ARCHIVE))
    http_server.add_archive(ARCHIVE, FLOWERS | {"flower_photos/daisy/99.jpg": jpeg(99)})
    with pytest.raises(DownloadError, match="not the file that came from") as caught:
        get(url=http_server.url(ARCHIVE), overwrite=True)
    assert "flower_photos.tgz.json" in caught.value.expected
    assert len(files_in(tmp_path / "out")) == 9


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>login</html>", "is not an archive"),
        (gzip.compress(b"x" * 2000), "is not an archive|cut or damaged"),
        (None, "holds no pictures"),
    ],
    ids=["html", "gzip of no archive", "no pictures"],
)
def test_what_came_is_no_archive_of_flowers(http_server, get, tmp_path, body, said):
    http_server.add_archive(ARCHIVE, {"other/readme.txt": b"x"})
    if body is not None:
        http_server.files[ARCHIVE] = body
    with pytest.raises(DownloadError, match=said) as caught:
        get(url=http_server.url(ARCHIVE))
    assert f"put it into {tmp_path / 'cache/data/flowers'}" in caught.value.next_step
    assert not (tmp_path / "out").exists()
    http_server.add_archive(ARCHIVE, FLOWERS)
    assert get(url=http_server.url(ARCHIVE)).num_pictures == 8


def test_a_hostile_archive(http_server, get, tmp_path):
    for name in ("flower_photos/../../daisy/1.jpg", "/flower_photos/daisy/1.jpg"):
        http_server.add_archive(ARCHIVE, FLOWERS | {name: b"x"})
        with pytest.raises(DownloadError, match="holds what is not unpacked"):
            get(url=http_server.url(ARCHIVE))
    assert not (tmp_path / "out").exists()


def test_mnist_that_is_broken(http_server, get, tmp_path):
    for name, data in MNIST.items():
        http_server.files[f"/mnist/{name}"] = data
    http_server.files["/mnist/train-images-idx3-ubyte.gz"] = MNIST["train-images-idx3-ubyte.gz"][
        :-9
    ]
    with pytest.raises(DownloadError, match="is cut") as caught:
        get("mnist", url=http_server.url("/mnist"))
    path = tmp_path / "cache/data/mnist/train-images-idx3-ubyte.gz"
    url = http_server.url("/mnist/train-images-idx3-ubyte.gz")
    assert caught.value.message.startswith(
        f"mnist: what came from {url} cannot be used: {path} is cut"
    )
    assert not (tmp_path / "out").exists()


def test_a_web_page_in_place_of_a_file_of_mnist(http_server, get):
    for name, data in MNIST.items():
        http_server.files[f"/mnist/{name}"] = data
    http_server.files["/mnist/train-labels-idx1-ubyte.gz"] = b"<html>login</html>"
    with pytest.raises(DownloadError, match="is cut or damaged") as caught:
        get("mnist", url=http_server.url("/mnist"))
    assert http_server.url("/mnist/train-labels-idx1-ubyte.gz") in caught.value.message
    assert caught.value.received == "a web page (HTML), as of a login"


def test_a_file_in_the_cache_that_has_changed(http_server, get, tmp_path):
    data = http_server.add_archive(ARCHIVE, FLOWERS)
    get(url=http_server.url(ARCHIVE))
    path = tmp_path / "cache/data/flowers/flower_photos.tgz"
    path.write_bytes(data[:100])
    with pytest.raises(DownloadError, match="it has changed since") as caught:
        get(out=tmp_path / "again", url=http_server.url(ARCHIVE))
    assert f"SHA-256 {hashlib.sha256(data).hexdigest()}, {len(data)} bytes" in caught.value.expected
    assert caught.value.next_step.startswith("Fetch it again with --overwrite")
    got = get(out=tmp_path / "again", url=http_server.url(ARCHIVE), overwrite=True)
    assert got.files[0].path == path
    assert path.read_bytes() == data


@pytest.mark.parametrize("body", [b"<html>login</html>", None])
def test_what_is_in_the_cache_outlives_a_fetch_that_failed(http_server, get, tmp_path, body):
    data = http_server.add_archive(ARCHIVE, FLOWERS)
    get(url=http_server.url(ARCHIVE))
    path = tmp_path / "cache/data/flowers/flower_photos.tgz"
    path.with_name(path.name + ".json").unlink()
    http_server.add_archive(ARCHIVE, {"other/readme.txt": b"x"})
    if body is not None:
        http_server.files[ARCHIVE] = body
    with pytest.raises(DownloadError):
        get(url=http_server.url(ARCHIVE), overwrite=True)
    assert path.read_bytes() == data
    assert len(files_in(tmp_path / "out")) == 9


def test_nothing_there(http_server, get, tmp_path):
    with pytest.raises(DownloadError, match="404") as caught:
        get(url=http_server.url("/gone.tgz"))
    assert "by other means" in caught.value.next_step
    with pytest.raises(DownloadError, match="no address that can be downloaded"):
        get(url="ftp://somewhere/a.tgz")
    with pytest.raises(NotFoundError, match="no public set 'cats'"):
        get("cats")


def test_what_is_there_is_replaced_only_when_asked_for(http_server, get, tmp_path):
    http_server.add_archive(ARCHIVE, FLOWERS)
    get(url=http_server.url(ARCHIVE))
    with pytest.raises(OutputExistsError, match="is already there"):
        get(url=http_server.url(ARCHIVE))
    get(url=http_server.url(ARCHIVE), overwrite=True)
    (tmp_path / "out/diary.txt").write_text("me")
    with pytest.raises(OutputExistsError, match="holds other files"):
        get(url=http_server.url(ARCHIVE), overwrite=True)


def test_the_public_addresses_are_the_known_ones():
    assert [f"{a}/{f}" for a in PUBLIC_DATA["flowers"].addresses for f in PUBLIC_DATA["flowers"].files] == [
        "https://storage.googleapis.com/download.tensorflow.org/example_images/flower_photos.tgz",
        "http://download.tensorflow.org/example_images/flower_photos.tgz",
    ]  # fmt: skip
    assert PUBLIC_DATA["mnist"].addresses == (
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
    )
