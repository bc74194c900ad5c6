import gzip
import io
import tarfile
import zlib

import pytest

from checkpoints import archive as archive_module
from checkpoints.archive import is_complete, unpack_checkpoint
from checkpoints.errors import BrokenFileError

V1 = {"./": None, "./inception_v3.ckpt": b"the one file" * 100}
V2 = {
    "./mobilenet.ckpt.data-00000-of-00001": b"values" * 1000,
    "./mobilenet.ckpt.index": b"index",
    "./mobilenet.ckpt.meta": b"meta",
    "./mobilenet.tflite": b"another form",
    "./mobilenet_eval.pbtxt": b"graph",
}


def pack(path, members, mode="w:gz", tar_format=tarfile.PAX_FORMAT):
    """An archive of name -> bytes, None (a folder) or a TarInfo."""
    with tarfile.open(path, mode, format=tar_format) as tar:
        for name, content in members if isinstance(members, list) else members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            if content is None:
                info.type = tarfile.DIRTYPE
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                tar.addfile(info)
    return path


@pytest.fixture
def into(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def refused(archive, member, into, match):
    with pytest.raises(BrokenFileError, match=match) as caught:
        unpack_checkpoint(archive, member, into)
    assert str(archive) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize(
    "tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_a_v1_checkpoint_comes_out(tmp_path, into, mode, tar_format):
    archive = pack(tmp_path / "a", V1, mode, tar_format)
    assert unpack_checkpoint(archive, "inception_v3.ckpt", into) == ["inception_v3.ckpt"]
    assert (into / "inception_v3.ckpt").read_bytes() == V1["./inception_v3.ckpt"]


def test_of_a_v2_archive_only_the_checkpoint_comes_out(tmp_path, into):
    names = unpack_checkpoint(pack(tmp_path / "a.tgz", V2), "mobilenet.ckpt", into)
    assert names == [
        "mobilenet.ckpt.data-00000-of-00001",
        "mobilenet.ckpt.index",
        "mobilenet.ckpt.meta",
    ]
    assert {file.name: file.read_bytes() for file in into.iterdir()} == {
        name: V2[f"./{name}"] for name in names
    }


def test_folders_and_long_names_in_the_archive_are_no_matter(tmp_path, into):
    folder = "a/" + "long" * 60
    archive = pack(tmp_path / "a.tgz", {"a": None, folder: None, f"{folder}/m.ckpt": b"1"})
    assert unpack_checkpoint(archive, "m.ckpt", into) == ["m.ckpt"]
    assert [file.name for file in into.iterdir()] == ["m.ckpt"]


def special(type_, linkname=""):
    info = tarfile.TarInfo()
    info.type, info.linkname = type_, linkname
    return info


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("../m.ckpt", b"1", "'../m.ckpt' leads outside"),
        ("./a/../../m.ckpt", b"1", "'./a/../../m.ckpt' leads outside"),
        ("/etc/m.ckpt", b"1", "'/etc/m.ckpt' has an absolute name"),
        ("C:m.ckpt", b"1", "'C:m.ckpt' has an absolute name"),
        ("..\\m.ckpt", b"1", "has an absolute name"),
        ("..", None, "'..' leads outside"),
        ("link", special(tarfile.SYMTYPE, "/etc/passwd"), r"'link' is a link \(to '/etc/passwd'\)"),
        ("hard", special(tarfile.LNKTYPE, "m.ckpt"), r"'hard' is a link \(to 'm.ckpt'\)"),
        ("disk", special(tarfile.BLKTYPE), "'disk' is neither a plain file nor a folder"),
        ("tty", special(tarfile.CHRTYPE), "'tty' is neither a plain file nor a folder"),
        ("pipe", special(tarfile.FIFOTYPE), "'pipe' is neither a plain file nor a folder"),
        ("./m.ckpt", b"2", "'./m.ckpt' comes twice"),
        ("other/m.ckpt", b"2", "'other/m.ckpt' stands in another folder too"),
    ],
)
def test_members_that_are_refused_are_named(tmp_path, into, name, content, reason):
    archive = pack(tmp_path / "a.tgz", [("m.ckpt", b"good"), (name, content)])
    refused(archive, "m.ckpt", into, reason)
    assert {file.name for file in tmp_path.iterdir()} == {"a.tgz", "out"}


def test_all_bad_members_are_listed_at_once(tmp_path, into):
    members = [("m.ckpt", b"1"), *((f"../{number}", b"") for number in range(12))]
    error = refused(pack(tmp_path / "a.tgz", members), "m.ckpt", into, r"'\.\./0' leads outside")
    assert error.message.count("leads outside") == 10
    assert "and 2 more" in error.message


def test_what_unpacks_to_too_much_is_refused_before_it_is_written(tmp_path, into, monkeypatch):
    monkeypatch.setattr(archive_module, "LARGEST_CONTENT", 1 << 20)
    archive = pack(tmp_path / "a.tgz", {"m.ckpt": b"", "zeros": bytes(2 << 20)})
    refused(archive, "m.ckpt", into, "unpacks to more than")
    archive = pack(tmp_path / "b.tgz", {"m.ckpt": bytes(2 << 20)})
    refused(archive, "m.ckpt", into, "unpacks to more than")
    assert (into / "m.ckpt").stat().st_size == 0


def test_zeros_after_the_last_member_count_too(tmp_path, into, monkeypatch):
    monkeypatch.setattr(archive_module, "LARGEST_CONTENT", 1 << 20)
    pack(tmp_path / "a.tar", {"m.ckpt": b"1"}, "w")
    archive = tmp_path / "a.tgz"
    archive.write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes() + bytes(2 << 20)))
    refused(archive, "m.ckpt", into, "unpacks to more than")


def test_a_header_of_many_bytes_is_not_read(tmp_path, into):
    header = special(tarfile.GNUTYPE_LONGNAME)
    header.name, header.size = "././@LongLink", 64 << 20
    archive = tmp_path / "a.tar"
    archive.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    refused(archive, "m.ckpt", into, "has a header of 67108864 bytes")


def test_a_declared_size_beyond_the_archive_is_refused(tmp_path, into):
    header = tarfile.TarInfo("m.ckpt")
    header.size = 5000
    archive = tmp_path / "a.tar"
    archive.write_bytes(header.tobuf() + b"only this")
    refused(archive, "m.ckpt", into, "is cut or damaged")


def test_too_many_members(tmp_path, into):
    members = {str(number): b"" for number in range(archive_module.MOST_MEMBERS + 1)}
    refused(pack(tmp_path / "a.tgz", members), "m.ckpt", into, "more than 1000 members")


@pytest.mark.parametrize("left", [0.1, 0.5, 0.99])
def test_a_cut_archive(tmp_path, into, left):
    archive = pack(tmp_path / "a.tgz", {"m.ckpt": b"0123456789" * 5000})
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * left)])
    refused(archive, "m.ckpt", into, "is cut or damaged")


def test_a_flipped_byte_is_found_by_gzips_checksum(tmp_path, into):
    tar = pack(tmp_path / "a.tar", {"m.ckpt": b"0123456789"}, "w").read_bytes()
    packed = zlib.compressobj(0, wbits=31)
    stored = bytearray(packed.compress(tar) + packed.flush())
    stored[stored.index(b"0123456789")] ^= 1
    archive = tmp_path / "a.tgz"
    archive.write_bytes(stored)
    refused(archive, "m.ckpt", into, "is cut or damaged .*CRC")


def test_what_is_no_archive_is_named(tmp_path, into):
    page = tmp_path / "a.tgz"
    page.write_bytes(b"\n<!DOCTYPE html>\n<html><title>Log in</title>")
    assert "a web page" in refused(page, "m.ckpt", into, "is not an archive").received
    page.write_bytes(b"PK\x03\x04")
    assert r"b'PK\x03\x04'" in refused(page, "m.ckpt", into, "is not an archive").received
    page.write_bytes(b"")
    assert refused(page, "m.ckpt", into, "is not an archive").received == "an empty file"


def test_an_archive_of_something_else_says_what_it_holds(tmp_path, into):
    archive = pack(tmp_path / "a.tgz", {"other.ckpt": b"1", "m.ckpt.index": b"1"})
    error = refused(archive, "m.ckpt", into, "does not hold the checkpoint 'm.ckpt'")
    assert error.received == "'m.ckpt.index', 'other.ckpt'"


def test_completeness():
    assert is_complete(["m.ckpt"], "m.ckpt")
    assert is_complete(["m.index", "m.data-00000-of-00002", "m.data-00001-of-00002"], "m")
    assert not is_complete(["m.index", "m.data-00001-of-00002"], "m")
    assert not is_complete(["m.index"], "m")
    assert not is_complete(["m.data-00000-of-00001"], "m")
