"""What outputs may replace, and what is said where they cannot be written."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from checkpoints.errors import OutputError, OutputExistsError
from checkpoints.files import (
    atomic_directory,
    atomic_file,
    is_same_place,
    placing,
    refuse_existing,
)


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def refused(path, overwrite=True, **options):
    with pytest.raises(OutputExistsError) as caught:
        refuse_existing(path, overwrite, **options)
    return caught.value


def write(path, data=b"new", **options):
    with atomic_file(path, **options) as file:
        file.write(data)


def test_pipes_devices_and_directories_are_never_replaced_by_a_file(tmp_path, pipe):
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / "folder").mkdir()
    for name, kind in (("pipe", "a pipe"), ("null", "a device"), ("folder", "a directory")):
        error = refused(tmp_path / name)
        assert error.message == f"{tmp_path / name} is {kind} and is not replaced."
        assert "--overwrite" not in str(error)
        with pytest.raises(OutputExistsError):
            write(tmp_path / name)
    assert pipe.is_fifo() and (tmp_path / "null").is_symlink() and (tmp_path / "folder").is_dir()


def test_a_directory_replaces_no_file(tmp_path, pipe):
    (tmp_path / "file").write_bytes(b"mine")
    for path in (tmp_path / "file", pipe):
        assert "is not replaced" in refused(path, is_directory=True).message
        with pytest.raises(OutputExistsError), atomic_directory(path, overwrite=True):
            pass
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("target", ["link", "nowhere", "file"])
def test_a_link_is_replaced_only_when_asked_and_what_it_leads_to_stays(tmp_path, target):
    """`link` leads to itself."""
    (tmp_path / "file").write_bytes(b"mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    assert refused(link, overwrite=False).message == f"{link} is already there."
    with pytest.raises(OutputExistsError):
        write(link, overwrite=False)
    write(link)
    assert not link.is_symlink() and link.read_bytes() == b"new"
    assert (tmp_path / "file").read_bytes() == b"mine" and not (tmp_path / "nowhere").exists()


def test_links_that_lead_in_a_circle_are_a_place_too(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "a")
    assert is_same_place(tmp_path / "a", tmp_path / "x" / ".." / "a")
    assert not is_same_place(tmp_path / "a", tmp_path / "b")


def test_of_two_that_write_one_file_the_second_is_refused(tmp_path):
    with (
        pytest.raises(OutputExistsError, match="already there"),
        atomic_file(tmp_path / "x", overwrite=False) as file,
    ):
        write(tmp_path / "x", b"first", overwrite=False)
        file.write(b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    with (
        pytest.raises(OutputExistsError, match="already there"),
        atomic_directory(tmp_path / "d") as folder,
    ):
        (tmp_path / "d").mkdir()
        (folder / "second").write_bytes(b"")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["d"]


def test_one_at_a_time_gives_names(tmp_path):
    order = []

    def second():
        with placing(tmp_path / "b"):
            order.append("second")

    with placing(tmp_path / "a"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_full_disk_names_the_output_and_the_next_step(tmp_path):
    with pytest.raises(OutputError) as caught, atomic_file(tmp_path / "x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    error = caught.value
    assert error.message == f"{tmp_path / 'x'} cannot be written: No space left on device."
    assert error.received == "No space left on device" and error.errno == errno.ENOSPC
    assert error.expected and error.next_step
    assert isinstance(error, OSError)
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_a_directory(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "x", tmp_path / "file" / "y" / "x"):
        with pytest.raises(OutputError, match="Not a directory"):
            write(path)


def test_what_is_said_of_other_files_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_file(tmp_path / "x"):
        (tmp_path / "input").read_bytes()
    assert not isinstance(caught.value, OutputError)
