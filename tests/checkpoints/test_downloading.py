import hashlib
import json
import os
import random
import stat
import subprocess
import sys

import pytest

from checkpoints import published
from checkpoints.downloading import download
from checkpoints.errors import (
    BrokenFileError,
    DownloadError,
    NotFoundError,
    OutputExistsError,
    UsageError,
)
from checkpoints.fetch import RetryPolicy
from checkpoints.table import MAGIC

V1 = random.Random(1).randbytes(200_000)
V2 = {
    "mobilenet_v1_1.0_224.ckpt.data-00000-of-00001": random.Random(2).randbytes(90_000),
    "mobilenet_v1_1.0_224.ckpt.index": b"the index",
    "mobilenet_v1_1.0_224.ckpt.meta": b"the graph",
}
V1_PATH = "/inception_v3_2016_08_28.tar.gz"
V2_PATH = "/mobilenet_v1_2018_08_02/mobilenet_v1_1.0_224.tgz"
V1_ARCHIVE = "inception_v3_2016_08_28.tar.gz"


@pytest.fixture
def mirror(http_server, monkeypatch):
    """A mirror with an archive of each kind, the only address anything is fetched from."""
    http_server.add_archive(V1_PATH, {"./inception_v3.ckpt": V1})
    http_server.add_archive(V2_PATH, {**{f"./{n}": d for n, d in V2.items()}, "./info.txt": b"i"})
    monkeypatch.setenv("SLIMTUNE_MIRROR", http_server.url("/"))
    return http_server


@pytest.fixture
def get(heard, tmp_path):
    """download() into tmp_path/"to", without waiting."""

    def run(name="inception_v3", **options):
        options.setdefault("to", tmp_path / "to")
        policy = RetryPolicy(sleep=lambda _seconds: None)
        return download(name, progress=heard, policy=policy, **options)

    return run


def files_in(directory):
    return {file.name for file in directory.iterdir()}


def test_a_v1_checkpoint(mirror, get, heard, tmp_path):
    got = get()
    archive = mirror.files[V1_PATH]
    assert got.path == tmp_path / "to/inception_v3.ckpt"
    assert got.path.read_bytes() == V1
    assert got.files == (got.path,)
    assert (got.status, got.resumed, got.size) == ("downloaded", 0, len(archive))
    assert got.archive == tmp_path / "to" / V1_ARCHIVE
    assert got.archive.read_bytes() == archive
    assert got.sha256 == hashlib.sha256(archive).hexdigest()
    assert got.url == published.PUBLISHED_AT + V1_PATH
    assert files_in(tmp_path / "to") == {V1_ARCHIVE, f"{V1_ARCHIVE}.json", "inception_v3.ckpt"}
    assert json.loads((tmp_path / "to" / f"{V1_ARCHIVE}.json").read_text()) == {
        "source": got.url,
        "sha256": got.sha256,
        "size": len(archive),
        "files": {"inception_v3.ckpt": len(V1)},
    }
    assert not stat.S_IMODE(got.path.stat().st_mode) & 0o111
    assert heard.said == [
        f"inception_v3: fetching {mirror.url(V1_PATH)} into {tmp_path / 'to'}.",
        "inception_v3: unpacking 0.2 MB.",
    ]


def test_a_v2_checkpoint(mirror, get, tmp_path):
    got = get("mobilenet_v1_1.0_224")
    assert got.path == tmp_path / "to/mobilenet_v1_1.0_224.ckpt"
    assert {file.name: file.read_bytes() for file in got.files} == V2
    archive = "mobilenet_v1_1.0_224.tgz"
    assert files_in(tmp_path / "to") == {*V2, archive, f"{archive}.json"}


def test_the_second_time_nothing_is_fetched(mirror, get, heard):
    first = get()
    second = get()
    assert (second.status, second.path, second.sha256) == ("present", first.path, first.sha256)
    assert len(mirror.requests) == 1
    assert (
        heard.said[-1] == f"inception_v3 is already there: {first.path}; it came from {first.url}."
    )


def test_a_directory_that_may_only_be_read_is_enough_the_second_time(mirror, get, monkeypatch):
    get()
    monkeypatch.setattr("checkpoints.downloading.locked", None)
    monkeypatch.setattr("checkpoints.downloading.write_json", None)
    assert get().status == "present"


def test_the_cache_is_the_default_place(mirror, get, tmp_path, monkeypatch):
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    assert get(to=None).path == tmp_path / "cache/checkpoints/inception_v3.ckpt"


def test_the_first_connection_cut_half_way(mirror, get):
    half = len(mirror.files[V1_PATH]) // 2
    mirror.faults[V1_PATH] = [mirror.Fault(cut_at=half)]
    got = get()
    assert got.path.read_bytes() == V1
    assert got.resumed == half
    assert mirror.ranges_asked() == [None, f"bytes={half}-"]


def test_a_call_that_was_stopped_goes_on(mirror, get, tmp_path):
    half = len(mirror.files[V1_PATH]) // 2
    mirror.faults[V1_PATH] = [mirror.Fault(cut_at=half), *[mirror.Fault(status=500)] * 4]
    with pytest.raises(DownloadError, match="answered 500"):
        get()
    assert files_in(tmp_path / "to") == {f"{V1_ARCHIVE}.partial", f"{V1_ARCHIVE}.partial.json"}
    got = get()
    assert got.resumed == half
    assert got.path.read_bytes() == V1
    assert files_in(tmp_path / "to") == {V1_ARCHIVE, f"{V1_ARCHIVE}.json", "inception_v3.ckpt"}


def test_a_length_that_is_too_short_leaves_a_broken_archive_that_is_refused(mirror, get, tmp_path):
    mirror.faults[V1_PATH] = [mirror.Fault(headers={"Content-Length": "1000"})]
    with pytest.raises(DownloadError, match=r"cannot be used: .*is cut or damaged"):
        get()
    assert files_in(tmp_path / "to") == set()
    assert get().path.read_bytes() == V1


def test_a_length_that_is_too_long_is_a_cut_connection(mirror, get):
    size = len(mirror.files[V1_PATH])
    mirror.faults[V1_PATH] = [mirror.Fault(headers={"Content-Length": str(size + 10)})]
    assert get().path.read_bytes() == V1


def test_another_sum_than_the_first_time(mirror, get, tmp_path):
    first = get()
    mirror.add_archive(V1_PATH, {"inception_v3.ckpt": b"forged"})
    with pytest.raises(DownloadError, match="not the file that came from") as caught:
        get(overwrite=True)
    forged = hashlib.sha256(mirror.files[V1_PATH]).hexdigest()
    assert first.sha256 in caught.value.expected
    assert forged in caught.value.received
    assert first.path.read_bytes() == V1
    assert not (tmp_path / "to" / f"{V1_ARCHIVE}.partial").exists()

    (tmp_path / "to" / f"{V1_ARCHIVE}.json").unlink()
    assert get(overwrite=True).sha256 == forged
    assert first.path.read_bytes() == b"forged"


def test_the_sum_is_compared_when_everything_else_was_removed(mirror, get):
    first = get()
    first.path.unlink()
    first.archive.unlink()
    mirror.add_archive(V1_PATH, {"inception_v3.ckpt": b"forged"})
    with pytest.raises(DownloadError, match="not the file that came from"):
        get()


def test_overwrite_fetches_again(mirror, get):
    got = get()
    got.path.write_bytes(b"spoilt")
    assert get(overwrite=True).status == "downloaded"
    assert got.path.read_bytes() == V1
    assert len(mirror.requests) == 2


def test_a_checkpoint_that_was_changed_is_not_used_in_silence(mirror, get):
    got = get()
    got.path.write_bytes(b"spoilt")
    with pytest.raises(OutputExistsError, match="is not what was unpacked there") as caught:
        get()
    assert caught.value.received == "inception_v3.ckpt (6 bytes)"
    assert "--overwrite" in caught.value.next_step


def test_a_checkpoint_that_was_removed_is_unpacked_again(mirror, get):
    get().path.unlink()
    got = get()
    assert (got.status, got.path.read_bytes()) == ("unpacked", V1)
    assert len(mirror.requests) == 1


def test_a_shard_that_was_removed_is_unpacked_again(mirror, get):
    got = get("mobilenet_v1_1.0_224")
    got.files[0].unlink()
    got = get("mobilenet_v1_1.0_224")
    assert {file.name: file.read_bytes() for file in got.files} == V2


def test_a_kill_before_the_files_are_in_their_place_is_made_good(mirror, get, tmp_path):
    got = get("mobilenet_v1_1.0_224")
    note = tmp_path / "to/mobilenet_v1_1.0_224.tgz.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "files": {}}))
    got.files[0].write_bytes(b"half")
    (tmp_path / "to/.mobilenet_v1_1.0_224.unpacking").mkdir()
    (tmp_path / "to/.mobilenet_v1_1.0_224.unpacking/half").write_bytes(b"half")
    got = get("mobilenet_v1_1.0_224")
    assert {file.name: file.read_bytes() for file in got.files} == V2
    assert not (tmp_path / "to/.mobilenet_v1_1.0_224.unpacking").exists()


def test_offline_it_says_what_to_do_and_that_works(mirror, get, tmp_path, monkeypatch):
    monkeypatch.setenv("SLIMTUNE_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="cannot be reached") as caught:
        get()
    place = tmp_path / "to" / V1_ARCHIVE
    assert caught.value.next_step.startswith(
        f"Fetch {published.PUBLISHED_AT}{V1_PATH} by other means and put it at {place}: "
    )
    place.write_bytes(mirror.files[V1_PATH])
    got = get()
    assert (got.status, got.path.read_bytes()) == ("unpacked", V1)
    assert got.sha256 == hashlib.sha256(mirror.files[V1_PATH]).hexdigest()
    assert mirror.requests == []


def test_a_checkpoint_put_there_by_hand_is_used(get, heard, tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "to/inception_v3.ckpt").write_bytes(V1)
    got = get()
    assert (got.status, got.sha256, got.url, got.archive) == ("present", None, None, None)
    assert heard.said == [f"inception_v3 is already there: {got.path}."]


def test_an_archive_put_there_by_hand_that_is_cut(get, mirror, tmp_path):
    (tmp_path / "to").mkdir()
    place = tmp_path / "to" / V1_ARCHIVE
    place.write_bytes(mirror.files[V1_PATH][:1000])
    with pytest.raises(BrokenFileError, match="is cut or damaged") as caught:
        get()
    assert str(place) in caught.value.message
    assert f"Remove {place}, or add --overwrite" in caught.value.next_step
    assert get(overwrite=True).path.read_bytes() == V1


def test_another_archive_put_there_by_hand(get, mirror, tmp_path):
    got = get()
    got.path.unlink()
    mirror.add_archive("/b", {"inception_v3.ckpt": b"other"})
    got.archive.write_bytes(mirror.files["/b"])
    with pytest.raises(DownloadError, match=r"not the file that came from .* before"):
        get()


def test_an_address_of_ones_own(mirror, get):
    mirror.add_archive("/mine.tgz", {"deep/in/inception_v3.ckpt": b"mine"})
    got = get(url=mirror.url("/mine.tgz"))
    assert (got.path.read_bytes(), got.url) == (b"mine", mirror.url("/mine.tgz"))
    assert get(url=mirror.url("/mine.tgz")).status == "present"
    assert get().url == mirror.url("/mine.tgz")


def test_another_address_does_not_replace_what_is_there(mirror, get):
    get()
    mirror.add_archive("/mine.tgz", {"inception_v3.ckpt": b"mine"})
    with pytest.raises(OutputExistsError, match=r"is not known to come from .*/mine\.tgz"):
        get(url=mirror.url("/mine.tgz"))
    assert get(url=mirror.url("/mine.tgz"), overwrite=True).path.read_bytes() == b"mine"


def test_the_checkpoint_file_itself(mirror, get, tmp_path):
    mirror.files["/inception_v3.ckpt"] = b"tables and tables" + MAGIC
    got = get(url=mirror.url("/inception_v3.ckpt"))
    assert got.path.read_bytes() == b"tables and tables" + MAGIC
    assert (got.status, got.archive) == ("downloaded", None)
    assert files_in(tmp_path / "to") == {"inception_v3.ckpt", f"{V1_ARCHIVE}.json"}
    assert get(url=mirror.url("/inception_v3.ckpt")).status == "present"


def test_a_v1_file_takes_the_place_of_a_v2_family(mirror, get, tmp_path):
    get("mobilenet_v1_1.0_224")
    mirror.add_archive("/mine.tgz", {"mobilenet_v1_1.0_224.ckpt": b"one file"})
    got = get("mobilenet_v1_1.0_224", url=mirror.url("/mine.tgz"), overwrite=True)
    assert got.files == (got.path,)
    mirror.add_archive("/two.tgz", V2)
    got = get("mobilenet_v1_1.0_224", url=mirror.url("/two.tgz"), overwrite=True)
    assert {file.name for file in got.files} == set(V2)


@pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream"])
def test_a_web_page_instead_of_an_archive(mirror, get, tmp_path, content_type):
    page = b"<!DOCTYPE html><html><head><title>Please log in</title></head></html>"
    mirror.faults[V1_PATH] = [
        mirror.Fault(body=page, headers={"Content-Type": content_type}),
    ]
    with pytest.raises(DownloadError, match="is not an archive") as caught:
        get()
    assert mirror.url(V1_PATH) in caught.value.message
    assert caught.value.received.startswith("a web page")
    assert "by other means" in caught.value.next_step
    assert files_in(tmp_path / "to") == set()


def test_a_hostile_archive_leaves_nothing(mirror, get, tmp_path):
    mirror.add_archive(V1_PATH, {"inception_v3.ckpt": V1, "../escaped": b"1"})
    with pytest.raises(DownloadError, match=r"'\.\./escaped' leads outside"):
        get()
    assert files_in(tmp_path / "to") == set()
    assert files_in(tmp_path) == {"to"}


def test_what_is_there_survives_a_failed_overwrite(mirror, get):
    got = get()
    mirror.faults[V1_PATH] = [mirror.Fault(status=404)]
    with pytest.raises(DownloadError, match="404"):
        get(overwrite=True)
    assert got.path.read_bytes() == V1
    assert get().status == "present"


def test_two_processes_fetch_it_once(mirror, tmp_path):
    code = (
        "import sys; from checkpoints.downloading import download; "
        "print(download('inception_v3', to=sys.argv[1]).status)"
    )
    mirror.faults[V1_PATH] = [mirror.Fault(cut_at=1000)]
    command = [sys.executable, "-c", code, str(tmp_path / "to")]
    environment = dict(os.environ)
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    said = sorted(process.communicate()[0].strip() for process in processes)
    assert said == ["downloaded", "present"]
    assert (tmp_path / "to/inception_v3.ckpt").read_bytes() == V1
    assert len(mirror.requests) == 2
    assert files_in(tmp_path / "to") == {V1_ARCHIVE, f"{V1_ARCHIVE}.json", "inception_v3.ckpt"}


def test_a_place_that_is_none(get, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"cannot be put into .*file/x: Not a directory"):
        get(to=tmp_path / "file/x")


def test_a_note_that_is_none(mirror, get, tmp_path):
    get()
    (tmp_path / "to" / f"{V1_ARCHIVE}.json").write_text("[]")
    with pytest.raises(BrokenFileError, match="is not a note of a download"):
        get()


def test_wrong_words(get):
    with pytest.raises(NotFoundError, match="inception_v3"):
        get("inceptionv3")
    with pytest.raises(DownloadError, match="no address") as caught:
        get(url="models/inception_v3.tar.gz")
    assert V1_ARCHIVE in caught.value.next_step


@pytest.fixture
def bundled(tmp_path, monkeypatch):
    """A sample base of two files where the real one would be."""
    folder = tmp_path / "package"
    folder.mkdir()
    for name in ("model.ckpt.index", "model.ckpt.data-00000-of-00001"):
        (folder / name).write_bytes(b"1")
    record = published.PublishedCheckpoint(
        **{**vars(published.CHECKPOINTS["sample"]), "bundled": str(folder / "model.ckpt")}
    )
    monkeypatch.setitem(published.CHECKPOINTS, "sample", record)
    return folder / "model.ckpt"


def test_the_sample_is_where_slimtune_is(get, bundled, tmp_path):
    got = get("sample", to=None)
    assert (got.status, got.path, got.url) == ("bundled", bundled, None)
    assert [file.name[10:] for file in got.files] == [".data-00000-of-00001", ".index"]
    with pytest.raises(UsageError, match="ships with slimtune") as caught:
        get("sample", to=tmp_path)
    assert str(bundled) in caught.value.message


def test_an_installation_without_the_sample_says_so(get, bundled):
    bundled.with_name("model.ckpt.index").unlink()
    with pytest.raises(NotFoundError, match="which ships with slimtune, is not there"):
        get("sample", to=None)
