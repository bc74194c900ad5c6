"""What is said of files, folders and arrays."""

import csv
import shutil
import types

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, NotFoundError, UsageError
from finetune import predict
from finetune.prediction import read_listed_paths, write_csv

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def model(colour_model, tmp_path):
    return colour_model.write_pb(tmp_path / "m.pb")


@pytest.fixture
def pixels():
    """uint8 [16, 16, 3], plainly green, from 0 to 255."""
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:, :, 1] = 255
    return pixels


def save(path, array):
    np.save(path, array)
    return path


def first(predictions):
    return [(p.path, p.classes[0]["label"]) for p in predictions]


def test_files_folders_and_arrays_in_the_order_given(model, colour_pictures, pixels, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    for name in ("red", "blue"):
        shutil.copy(colour_pictures / name / "3.png", folder / f"{name}.png")
    Image.fromarray(pixels).save(tmp_path / "g.png")
    inputs = pixels / 127.5 - 1
    one, two = save(tmp_path / "1.npy", inputs), save(tmp_path / "2.npy", np.stack([inputs] * 2))
    found = predict(model, [tmp_path / "g.png", one, folder, two], top=1)
    assert first(found) == [
        (str(tmp_path / "g.png"), "green"),
        (str(one), "green"),
        (str(folder / "blue.png"), "blue"),
        (str(folder / "red.png"), "red"),
        (f"{two}[0]", "green"),
        (f"{two}[1]", "green"),
    ]
    assert all(len(p.classes) == 1 for p in found)


def test_more_pictures_than_a_batch_holds(model, colour_pictures):
    found = predict(model, [colour_pictures])
    assert len(found) == 60
    assert all(f"/{p.classes[0]['label']}/" in p.path for p in found)


@pytest.mark.parametrize("batch", [1, 5])
def test_a_graph_with_a_fixed_batch_takes_several_pictures(
    colour_model, colour_pictures, tmp_path, batch
):
    model = colour_model.write_pb(tmp_path / "fixed.pb", batch=batch)
    found = predict(model, [colour_pictures / "green"])
    assert [p.classes[0]["label"] for p in found] == ["green"] * 20


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda p: p / 255, ("values from 0 to 1;", "on -1 to 1", "pictures from 0 to 1")),
        (lambda p: p, ("values from 0 to 255;", "on -1 to 1", "pixels from 0 to 255")),
        (lambda p: p / 127.5 - 3, ("values from -3 to -1;", "on -1 to 1", "worthless; give the")),
    ],
)
def test_arrays_in_another_range_get_a_warning(model, pixels, tmp_path, heard, values, words):
    predict(model, [save(tmp_path / "x.npy", values(pixels))], progress=heard)
    (line,) = heard.said
    assert line.startswith(f"Warning: {tmp_path / 'x.npy'} holds ")
    assert all(word in line for word in words)


def test_arrays_in_the_right_range_get_none(model, pixels, tmp_path, heard):
    predict(model, [save(tmp_path / "x.npy", pixels / 127.5 - 1)], progress=heard)
    assert heard.said == []


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((8, 8, 3)), "is not the net's input"),
        (np.full((16, 16, 3), np.nan), "no numbers"),
        (np.array([{"a": 1}]), "is no array"),
    ],
)
def test_arrays_that_are_no_input_are_refused(model, tmp_path, array, message):
    with pytest.raises(DataError, match=message):
        predict(model, [save(tmp_path / "x.npy", array)])


def test_all_files_that_are_no_pictures_are_named(model, tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_text("no picture")
    with pytest.raises(DataError, match="2 files cannot be read") as caught:
        predict(model, [tmp_path / "a.jpg", tmp_path / "b.jpg"])
    assert "a.jpg" in caught.value.message
    assert "b.jpg" in caught.value.message


def test_several_bad_files_have_one_next_step(model, tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"no picture")
    with pytest.raises(DataError) as caught:
        predict(model, [tmp_path / "a.jpg", tmp_path / "b.jpg"])
    assert str(caught.value).count("Next: ") == str(caught.value).count("Expected: ") == 1


def test_broken_pictures_are_told_and_the_others_classified(model, colour_pictures, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    for name in ("red", "blue"):
        shutil.copy(colour_pictures / name / "3.png", folder / f"{name}.png")
    (folder / "empty.jpg").write_bytes(b"")
    whole = (folder / "red.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    broken = []
    found = predict(model, [folder], top=1, on_broken=broken.append)
    assert first(found) == [
        (str(folder / "blue.png"), "blue"),
        (str(folder / "red.png"), "red"),
    ]
    assert [(error.name, error.kind) for error in broken] == [
        (str(folder / "cut.png"), "truncated"),
        (str(folder / "empty.jpg"), "empty"),
    ]


def test_what_tensorflow_cannot_decode_is_a_broken_picture_too(model, tmp_path, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(b"")
    monkeypatch.setattr(
        "finetune.prediction.clean", lambda file: types.SimpleNamespace(encoded=b"\xff\xd8\xff")
    )
    with pytest.raises(DataError, match=r"a\.jpg: cannot be decoded by TensorFlow"):
        predict(model, [tmp_path / "a.jpg"])


def test_a_list_has_a_path_a_line():
    assert read_listed_paths(["a b.jpg\n", "\n", " c.jpg\r\n"]) == ["a b.jpg", " c.jpg"]
    with pytest.raises(NotFoundError, match="names no picture"):
        read_listed_paths(["\n"])


def test_the_table_has_a_line_a_picture(model, colour_pictures, tmp_path):
    found = predict(model, [colour_pictures / "red" / "1.png"], top=2)
    write_csv(found, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        head, row = csv.reader(file)
    assert head == ["path", "label_1", "probability_1", "label_2", "probability_2"]
    assert row[:2] == [str(colour_pictures / "red" / "1.png"), "red"]
    assert float(row[2]) == pytest.approx(found[0].classes[0]["probability"], abs=1e-6)


def test_names_that_are_no_text_go_into_the_table_as_they_are(model, colour_pictures, tmp_path):
    name = b"gr\xfcn.png".decode("utf-8", "surrogateescape")
    shutil.copy(colour_pictures / "green" / "1.png", tmp_path / name)
    write_csv(predict(model, [tmp_path / name]), tmp_path / "out.csv")
    assert b"gr\xfcn.png,green," in (tmp_path / "out.csv").read_bytes()


def test_a_picture_in_the_place_of_the_model(model, colour_pictures):
    picture = colour_pictures / "red" / "1.png"
    with pytest.raises(UsageError, match="is a picture, not a model") as caught:
        predict(picture, [model])
    assert caught.value.next_step == f"Name {model} first."
