from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import zipfile

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import CheckpointError, NotFoundError, UnsupportedError
from checkpoints.family import latest, read_state, resolve, write_state

VALUES = {"w": np.ones(3, np.float32)}


@pytest.fixture
def run(tmp_path):
    """A directory with three checkpoints of V2, a graph and a state file."""
    folder = tmp_path / "run"
    for step in (9, 10, 200):
        checkpoints.write(folder / f"m.ckpt-{step}", VALUES)
    (folder / "m.ckpt-10.meta").write_bytes(b"\x0a\x00")
    write_state(folder, folder / "m.ckpt-10", [folder / "m.ckpt-9", folder / "m.ckpt-10"])
    return folder


@pytest.mark.parametrize(
    ("spelling", "said"),
    [
        ("m.ckpt-10", None),
        ("./m.ckpt-10", None),
        ("../run/m.ckpt-10", None),
        ("m.ckpt-10/", "the slash at its end was left out"),
        ("m.ckpt-10.index", "is the index of"),
        ("m.ckpt-10.index/", "the slash at its end was left out"),
        ("m.ckpt-10.meta", "is the graph of"),
        ("m.ckpt-10.data-00000-of-00001", "is a file of"),
        ("m.ckpt-10.data-?????-of-00001", "is a pattern of the files of"),
        ("m.ckpt-10-?????-of-00001", "is a pattern of the files of"),
        ("m.ckpt-10-*-of-*", "is a pattern of the files of"),
        (".", "names m.ckpt-10"),
        ("./", "names m.ckpt-10"),
        ("checkpoint", "names m.ckpt-10"),
    ],
)
def test_every_spelling_leads_to_the_prefix(run, monkeypatch, spelling, said):
    monkeypatch.chdir(run)
    for path in (spelling, f"{run}/{spelling}"):
        family = resolve(path)
        assert family.prefix.resolve() == run / "m.ckpt-10"
        assert family.kind == "checkpoint-v2"
        assert [file.name for file in family.files] == [
            "m.ckpt-10.index",
            "m.ckpt-10.data-00000-of-00001",
        ]
        assert family.meta.resolve() == run / "m.ckpt-10.meta"
        assert family.step == 10
        assert (family.said is None) if said is None else (said in family.said)


@pytest.mark.parametrize(
    "spelling",
    ["m.ckpt", "./m.ckpt", "m.ckpt/", "m.ckpt.meta", "", "m.ckpt-?????-of-00002"],
)
def test_v1_shards_in_every_spelling(tmp_path, spelling):
    for number in range(2):
        checkpoints.write(
            tmp_path / f"m.ckpt-{number:05d}-of-00002", {f"v{number}": np.ones(1)}, version="v1"
        )
    (tmp_path / "m.ckpt.meta").write_bytes(b"\x0a\x00")
    for path in (f"{tmp_path}/{spelling}", f"{tmp_path}/m.ckpt-00001-of-00002"):
        family = resolve(path)
        assert family.kind == "checkpoint-v1"
        assert family.prefix == tmp_path / "m.ckpt"
        assert [file.name for file in family.files] == [
            "m.ckpt-00000-of-00002",
            "m.ckpt-00001-of-00002",
        ]
        assert family.meta == tmp_path / "m.ckpt.meta"


@pytest.mark.parametrize(
    "name", ["a b.ckpt", "模型-7", "a[1].ckpt", "w*.ckpt", "x.index", "é.data"]
)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_blanks_unicode_and_signs_in_names(tmp_path, name, version):
    folder = tmp_path / "eigener Ordner 花"
    written = checkpoints.write(folder / name, VALUES, version=version)
    for path in (folder / name, folder, written.files[0]):
        family = resolve(path)
        assert family.files == written.files
        if not (version == "v1" and name.endswith(".index")):
            assert family.prefix == folder / name
    write_state(folder, folder / name)
    assert resolve(folder).prefix == folder / name
    assert (folder / "checkpoint").read_bytes().isascii()


def test_v2_goes_before_v1_where_both_have_one_name(tmp_path):
    checkpoints.write(tmp_path / "m", {"one": np.ones(1)}, version="v1")
    first = (tmp_path / "m").read_bytes()
    (tmp_path / "m").unlink()
    checkpoints.write(tmp_path / "m", {"two": np.ones(1)})
    (tmp_path / "m").write_bytes(first)
    assert list(checkpoints.open(tmp_path / "m")) == ["two"]


def test_files_of_an_older_save_with_more_shards_are_not_counted(tmp_path):
    checkpoints.write(tmp_path / "m", VALUES)
    for number in range(2):
        (tmp_path / f"m.data-{number:05d}-of-00002").write_bytes(b"old")
    assert [file.name for file in resolve(tmp_path / "m").files] == [
        "m.index",
        "m.data-00000-of-00001",
    ]


def test_a_saved_model_leads_to_its_variables(shared):
    folder = shared / "data" / "models" / "half_plus_two_saved_model"
    for path in (folder, folder / "variables", folder / "variables" / "variables"):
        assert resolve(path).prefix == folder / "variables" / "variables"
    assert "is a SavedModel" in resolve(folder).said


# The `checkpoint` file.


def test_names_in_the_state_file_are_relative(run):
    assert (run / "checkpoint").read_text() == (
        'model_checkpoint_path: "m.ckpt-10"\n'
        'all_model_checkpoint_paths: "m.ckpt-9"\n'
        'all_model_checkpoint_paths: "m.ckpt-10"\n'
    )
    state = read_state(run)
    assert state.latest == run / "m.ckpt-10"
    assert state.all_paths == (run / "m.ckpt-9", run / "m.ckpt-10")
    assert read_state(run.parent) is None


def test_names_are_relative_to_the_directory_however_they_are_given(run, monkeypatch):
    monkeypatch.chdir(run.parent)
    expected = (run / "checkpoint").read_bytes()
    write_state("run", "run/m.ckpt-10", ["run/m.ckpt-9", "run/m.ckpt-10"])
    assert (run / "checkpoint").read_bytes() == expected
    write_state("run", "m.ckpt-10", ["m.ckpt-9"])
    assert (run / "checkpoint").read_bytes() == expected
    write_state(run, run / "best" / "m.ckpt-9")
    assert 'model_checkpoint_path: "best/m.ckpt-9"' in (run / "checkpoint").read_text()


@pytest.mark.tensorflow
def test_tensorflow_reads_our_state_file_and_we_read_its(run, tensorflow):
    theirs = tensorflow.train.get_checkpoint_state(str(run))
    assert theirs.model_checkpoint_path == str(run / "m.ckpt-10")
    assert list(theirs.all_model_checkpoint_paths) == [
        str(run / "m.ckpt-9"),
        str(run / "m.ckpt-10"),
    ]
    assert tensorflow.train.latest_checkpoint(str(run)) == str(run / "m.ckpt-10")

    from tensorflow.python.checkpoint import checkpoint_management

    checkpoints.write(run / "模型-3", VALUES)
    for relative in (True, False):
        checkpoint_management.update_checkpoint_state_internal(
            str(run),
            str(run / "模型-3"),
            [str(run / "m.ckpt-9"), str(run / "模型-3")],
            save_relative_paths=relative,
            all_model_checkpoint_timestamps=[1.5, 2.5],
            last_preserved_timestamp=0.5,
        )
        assert resolve(run).prefix == run / "模型-3"
        assert read_state(run).all_paths == (run / "m.ckpt-9", run / "模型-3")


def absolute_state(run, names, latest_name):
    lines = [f'model_checkpoint_path: "{latest_name}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    (run / "checkpoint").write_text("\n".join(lines))


def test_a_moved_directory_is_found_by_base_name(run):
    absolute_state(run, ["/home/a/m.ckpt-9"], "/home/a/m.ckpt-9")
    moved = run.parent / "moved"
    run.rename(moved)
    assert latest(moved).prefix == moved / "m.ckpt-9"
    assert latest(moved).said == (
        f"{moved / 'checkpoint'} names /home/a/m.ckpt-9, which lies in {moved} now"
    )
    assert read_state(moved).latest == moved / "m.ckpt-9"
    absolute_state(moved, [], "C:\\\\runs\\\\m.ckpt-9")
    assert latest(moved).prefix == moved / "m.ckpt-9"


def test_a_copied_directory_means_its_own_checkpoint(run):
    absolute_state(run, [], str(run / "m.ckpt-9"))
    copy = run.parent / "copy"
    shutil.copytree(run, copy)
    assert latest(copy).prefix == copy / "m.ckpt-9"


def test_a_state_file_may_name_a_checkpoint_elsewhere(run):
    other = run.parent / "other"
    other.mkdir()
    absolute_state(other, [], str(run / "m.ckpt-9"))
    assert latest(other).prefix == run / "m.ckpt-9"


def test_a_relative_name_is_taken_as_it_is_written(run, monkeypatch):
    monkeypatch.chdir(run)
    checkpoints.write(run / "best" / "m.ckpt-9", VALUES)
    write_state(run, run / "best" / "m.ckpt-9")
    assert latest(run).prefix == run / "best" / "m.ckpt-9"
    assert latest(".").prefix.as_posix() == "best/m.ckpt-9"
    assert read_state(run).latest == run / "best" / "m.ckpt-9"
    shutil.rmtree(run / "best")
    assert latest(run).prefix == run / "m.ckpt-9"


def test_where_the_named_one_is_gone_the_highest_step_is_taken(run):
    absolute_state(run, [], "/home/a/m.ckpt-7")
    family = latest(run)
    assert family.prefix == run / "m.ckpt-200"
    assert family.said == (
        f"{run / 'checkpoint'} names /home/a/m.ckpt-7, which is not there;"
        f" m.ckpt-200 has the highest step in {run}"
    )
    (run / "checkpoint").unlink()
    assert latest(run).prefix == run / "m.ckpt-200"


def test_there_may_be_none(tmp_path):
    assert latest(tmp_path) is None
    assert latest(tmp_path / "nowhere") is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "m.ckpt-7"')
    assert latest(tmp_path) is None
    with pytest.raises(NotFoundError, match="names a checkpoint that is not there"):
        resolve(tmp_path / "checkpoint")


def test_a_state_file_under_another_name_and_with_later_fields(run):
    (run / "best.txt").write_text('model_checkpoint_path: "m.ckpt-9"\nlater_field: 3\n')
    assert resolve(run / "best.txt").prefix == run / "m.ckpt-9"


@pytest.mark.parametrize("text", ["model_checkpoint_path: ", "model_checkpoint_path", "x" * 99])
def test_a_broken_state_file_is_named(run, text):
    (run / "checkpoint").write_text(text)
    with pytest.raises(CheckpointError.__mro__[1], match="is not the text that names"):
        resolve(run)


def test_several_without_a_step_are_not_guessed(tmp_path):
    for name in ("a", "b"):
        checkpoints.write(tmp_path / name, VALUES)
    with pytest.raises(NotFoundError, match="several checkpoints and nothing says") as caught:
        resolve(tmp_path)
    assert f"{tmp_path / 'a'}\n" in str(caught.value)
    assert "Name one of them" in str(caught.value)


# What is not there, and what is something else.


def test_near_names_are_told_and_not_what_else_is_there(run):
    with pytest.raises(NotFoundError) as caught:
        resolve(run / "m.ckpt-20")
    message = str(caught.value)
    assert f"There is no checkpoint {run / 'm.ckpt-20'}" in message
    assert f"Did you mean {run / 'm.ckpt-200'}" in message
    assert message.splitlines()[1] == f"Received: no file or checkpoint of this name in {run}"
    with pytest.raises(NotFoundError, match=r"m\.ckpt-200\?"):
        resolve(run / "model")
    with pytest.raises(NotFoundError, match=f"the directory {run / 'no'} is not there"):
        resolve(run / "no" / "such" / "folder" / "m")
    with pytest.raises(NotFoundError, match="There is no checkpoint nowhere"):
        resolve("nowhere/at/all")


def test_an_empty_directory_and_one_above(run):
    empty = run / "empty"
    empty.mkdir()
    with pytest.raises(NotFoundError, match=f"The directory {empty} holds no checkpoint") as caught:
        resolve(empty)
    assert f"{empty} is empty" in str(caught.value)
    with pytest.raises(NotFoundError, match="Did you mean one of these") as caught:
        resolve(run.parent)
    assert str(run / "m.ckpt-200") in str(caught.value)


def test_values_without_an_index(run):
    (run / "m.ckpt-9.index").unlink()
    for path in ("m.ckpt-9", "m.ckpt-9.index", "m.ckpt-9.data-00000-of-00001"):
        with pytest.raises(CheckpointError, match=r"m\.ckpt-9: the index is missing"):
            resolve(run / path)


def test_a_graph_without_values(run):
    for path in run.glob("m.ckpt-10.[id]*"):
        path.unlink()
    with pytest.raises(NotFoundError, match="is the graph of a checkpoint whose variables"):
        resolve(run / "m.ckpt-10.meta")


def tar(path):
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("inception_v3.ckpt"), io.BytesIO())


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model.ckpt.index", b"")


def numpy_arrays(path):
    with path.open("wb") as file:
        np.savez(file, a=np.ones(1))


def safetensors(path):
    header = json.dumps({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))


OTHERS = {
    "gzip": (lambda path: path.write_bytes(gzip.compress(b"x")), "a gzip archive", "Unpack it"),
    "tar": (tar, "a tar archive", "Unpack it"),
    "zip": (archive, "a zip archive", "Unpack it"),
    "npy": (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"), "a numpy array (.npy)", None),
    "hdf5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50)), "an HDF5 file", "Keras"),
    "pickle": (lambda path: path.write_bytes(b"\x80\x04\x95\x00"), "a pickle", "never opened"),
    "tflite": (lambda path: path.write_bytes(b"\x1c\0\0\0TFL3"), "a TFLite model", None),
    "html": (lambda path: path.write_bytes(b"<!DOCTYPE html>"), "a web page", "Download it again"),
    "graph": (
        # A first node of 60 bytes, whose length is the character of a tag.
        lambda path: path.write_bytes(b"\n<\n\x05input\x12\x0bPlaceholder" + bytes(40)),
        "a graph (GraphDef",
        "Name the checkpoint",
    ),
    "empty": (lambda path: path.write_bytes(b""), "an empty file", "Download it again"),
    "text": (lambda path: path.write_bytes(b"some words"), "a text file", None),
    "lfs": (
        lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"),
        "a pointer of Git LFS",
        "git lfs pull",
    ),
    "graph text": (lambda path: path.write_bytes(b'node {\n name: "a"'), "a graph as text", None),
    "unknown": (lambda path: path.write_bytes(b"\xfe\x00\x01\x99" * 9), "of unknown kind", None),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_named_for_what_they_are(tmp_path, kind):
    make, name, next_step = OTHERS[kind]
    path = tmp_path / "inception_v3.ckpt"
    make(path)
    with pytest.raises(UnsupportedError, match="is no checkpoint") as caught:
        resolve(path)
    assert name in caught.value.received
    assert (next_step or "Name the ") in caught.value.next_step


def test_real_files_of_other_kinds(shared):
    models = shared / "data" / "models"
    for name, kind in {
        "mnist_mlp/mnist_frozen.pb": "a graph (GraphDef or MetaGraphDef)",
        "half_plus_two_saved_model/saved_model.pb": "a SavedModel's graph",
    }.items():
        with pytest.raises(UnsupportedError) as caught:
            resolve(models / name)
        assert caught.value.received == kind


def test_a_v1_file_that_was_cut_is_known_as_one(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", {"w": np.ones(1000)}, version="v1")
    data = (tmp_path / "m.ckpt").read_bytes()
    (tmp_path / "m.ckpt").write_bytes(data[:3000])
    with pytest.raises(CheckpointError, match="the end is not that of a sorted string table"):
        checkpoints.open(tmp_path / "m.ckpt")


@pytest.mark.parametrize(("make", "kind"), [(numpy_arrays, "npz"), (safetensors, "safetensors")])
def test_files_of_arrays_are_told_by_their_content(tmp_path, make, kind):
    path = tmp_path / "inception_v3.ckpt"
    make(path)
    family = resolve(path)
    assert (family.kind, family.prefix, family.files) == (kind, path, (path,))
    assert (family.meta, family.said) == (None, None)
