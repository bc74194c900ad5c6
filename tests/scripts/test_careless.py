"""What careless commands may not do: destroy, mislead, or end in a traceback."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scripts.main import main


@pytest.fixture
def slimtune(capsys):
    """Runs the command in this process; gives exit code and the JSON on stdout."""

    def run(*words):
        with pytest.raises(SystemExit) as stop:
            main([*map(str, words), "--json"])
        return stop.value.code, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("kind", ["flowers", "digits"])
def test_drawing_does_not_replace_a_directory_of_other_files(slimtune, tmp_path, kind):
    kept = tmp_path / "keep" / "daisy" / "mine.jpg"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    code, value = slimtune("data", "sample", kind, tmp_path / "keep", "--overwrite")
    assert code == 1
    assert value["error"]["received"] == "daisy/mine.jpg"
    assert kept.read_text() == "mine"


def test_drawing_replaces_what_it_drew(slimtune, tmp_path):
    words = ("data", "sample", "flowers", tmp_path / "f", "--per-class", 1)
    assert slimtune(*words)[0] == 0
    assert slimtune(*words)[0] == 1
    assert slimtune(*words, "--overwrite")[0] == 0


def test_the_demo_does_not_replace_a_directory_of_other_files(slimtune, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    code, value = slimtune("demo", "--out", tmp_path, "--overwrite")
    assert code == 1
    assert "other files than an earlier demo" in value["error"]["message"]
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_device_in_a_folder_of_pictures_is_named_and_not_read(slimtune, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "p" / name).mkdir(parents=True)
        Image.fromarray(np.full((9, 9, 3), 50, np.uint8)).save(tmp_path / "p" / name / "1.png")
    (tmp_path / "p" / "a" / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "p" / "a" / "endless").symlink_to("/dev/zero")
    code, value = slimtune("data", "check", tmp_path / "p")
    assert code == 1
    details = [p["detail"] for p in value["problems"] if p["path"].endswith("endless.jpg")]
    assert details == ["is no regular file"]


def test_a_table_of_predictions_replaces_neither_picture_nor_model(slimtune, tmp_path):
    picture = tmp_path / "rose.jpg"
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(picture)
    before = picture.read_bytes()
    code, value = slimtune("predict", "m.pb", picture, "--csv", picture, "--overwrite")
    assert code == 2
    assert "would replace what is read" in value["error"]["message"]
    assert picture.read_bytes() == before


@pytest.mark.parametrize("empty", ["", " , "])
def test_an_option_that_names_nothing_is_wrong_usage(slimtune, empty):
    code, value = slimtune("plan", "--classes", 5, "--trainable", empty)
    assert code == 2
    assert "names nothing" in value["error"]["message"]


def test_errors_of_the_system_name_the_place_that_was_asked_for(slimtune, tmp_path):
    (tmp_path / "file").write_text("")
    code, value = slimtune("data", "sample", "digits", tmp_path / "file" / "x", "--per-class", 2)
    assert code == 1
    assert ".partial" not in value["error"]["message"]
    assert value["error"]["next"].startswith("Check that the place exists")


@pytest.mark.tensorflow
def test_pictures_that_are_too_small_for_a_net_are_refused(slimtune):
    words = ("plan", "--net", "inception_v3_sample", "--checkpoint", "none", "--classes", 5)
    code, value = slimtune(*words, "--image-size", 3)
    assert code == 1
    assert value["error"]["message"] == (
        "inception_v3_sample cannot be built for pictures of 3 x 3 pixels."
    )


@pytest.mark.tensorflow
def test_a_mistyped_exclude_is_noticed_without_a_checkpoint_too(slimtune):
    words = ("plan", "--net", "inception_v3_sample", "--checkpoint", "none", "--classes", 5)
    code, value = slimtune(*words, "--exclude", "InceptionV3/AuxLogts")
    assert code == 1
    assert "InceptionV3/AuxLogits" in value["error"]["message"]


@pytest.mark.parametrize(
    ("words", "received"),
    [
        (("predict", "m.pb", "a.jpg", "--top", "many"), "many"),
        (("predict", "m.pb", "a.jpg", "--top=-3"), "-3"),
        (("predict", "m.pb", "a.jpg", "--tip", "3"), "--tip"),
        (("predict", "my model.pb"), "slimtune predict 'my model.pb' --json"),
        (("evlauate", "run"), "slimtune evlauate run --json"),
    ],
)
def test_wrong_usage_says_what_was_typed(slimtune, words, received):
    code, value = slimtune(*words)
    assert code == 2
    assert value["error"]["received"] == received


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "", "data"),
        ("inspect", ""),
        ("convert", "run", ""),
        ("convert", "run", "m.pb", "--labels", ""),
        ("train", "data", "--run", ""),
        ("predict", "m.pb", "a.jpg", "", "b.jpg"),
        ("data", "check", ""),
        ("average", "a", "", "b"),
    ],
)
def test_an_empty_path_is_not_this_directory(slimtune, words):
    code, value = slimtune(*words)
    assert code == 2
    assert "is empty and names nothing" in value["error"]["message"]


def test_labels_that_are_no_text_are_shown_with_their_line(slimtune, tmp_path):
    (tmp_path / "labels.txt").write_bytes(b"tea\ncaf\xe9\n")
    (tmp_path / "m.pb").write_bytes(b"")
    words = ("convert", tmp_path / "m.pb", tmp_path / "n.pb", "--labels", tmp_path / "labels.txt")
    code, value = slimtune(*words)
    assert code == 1
    error = value["error"]
    assert error["message"].endswith(
        "labels.txt is not UTF-8 text: line 2 holds bytes that are none."
    )
    assert error["received"] == "caf\\xe9"
    assert error["next"].startswith("Of Latin-1, iconv -f LATIN1 -t UTF-8 ")


def test_what_is_not_there_is_told_without_what_else_is(slimtune, tmp_path):
    for name in ("notes.txt", "holiday.jpg", "model.ckpt.npz"):
        (tmp_path / name).write_text("")
    code, value = slimtune("inspect", tmp_path / "zebra")
    assert code == 1
    assert value["error"]["received"] == f"no file or checkpoint of this name in {tmp_path}"
    assert slimtune("inspect", tmp_path / "notes.text")[1]["error"]["next"] == (
        f"Did you mean {tmp_path / 'notes.txt'}?"
    )
    code, value = slimtune("inspect", tmp_path / "a" / "b" / "c")
    assert value["error"]["received"] == f"the directory {tmp_path / 'a'} is not there"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="Linux's")
@pytest.mark.parametrize("verb", ["inspect", "verify"])
@pytest.mark.parametrize("name", ["m.ckpt", "m.pb", "m.index", "m.npz", "m.tfrecord"])
def test_what_cannot_be_read_is_named(slimtune, tmp_path, verb, name):
    path = tmp_path / "deeper" / name
    path.parent.mkdir()
    path.symlink_to("/proc/self/mem")
    code, value = slimtune(verb, path)
    assert code == 1
    assert value["error"]["message"].startswith(f"{path} cannot be read: ")
    code, value = slimtune("inspect", tmp_path)
    assert value["error"]["message"] == f"The directory {tmp_path} holds no checkpoint."


def test_a_link_that_leads_nowhere_is_told_as_one(slimtune, tmp_path):
    (tmp_path / "loopa").symlink_to(tmp_path / "loopb")
    (tmp_path / "loopb").symlink_to(tmp_path / "loopa")
    (tmp_path / "m.ckpt").symlink_to(tmp_path / "gone")
    error = slimtune("inspect", tmp_path / "loopa")[1]["error"]
    assert error["received"] == "a link that leads in a circle"
    assert "Did you mean" not in error["next"]
    error = slimtune("inspect", tmp_path / "loopa" / "x")[1]["error"]
    assert error["received"] == f"{tmp_path / 'loopa'} is a link that leads in a circle"
    for verb in ("inspect", "verify"):
        error = slimtune(verb, tmp_path / "m.ckpt")[1]["error"]
        assert error["received"] == f"a link to {tmp_path / 'gone'}, which is not there"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.npz", b""),
        ("m.npz", b"PK\x03\x04" + bytes(50)),
        ("m.npz", b"\xfe\x00\x01\x99" * 9),
        ("m.safetensors", b""),
        ("m.safetensors", b"\xfe\x00\x01\x99" * 9),
    ],
)
def test_damaged_arrays_are_no_other_file(slimtune, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    code, value = slimtune("inspect", path)
    assert (code, value["error"]["type"]) == (1, "CheckpointError")
    assert value["error"]["message"].startswith(str(path))
    assert "download it again" in value["error"]["next"]
    code, value = slimtune("verify", path)
    assert (code, value["problems"][0]["kind"]) == (1, "index")
