import csv
import io
import json
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def model(colour_model, tmp_path):
    return colour_model.write_pb(tmp_path / "m.pb")


def test_paths_come_from_stdin(slimtune, model, colour_pictures, monkeypatch):
    red, blue = colour_pictures / "red" / "1.png", colour_pictures / "blue" / "2.png"
    stdin = io.TextIOWrapper(io.BytesIO(f"{red}\n\n{blue}\n".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = slimtune("predict", model, "-", colour_pictures / "green" / "3.png", "--json")
    found = json.loads(out)["predictions"]
    assert code == 0
    assert [p["classes"][0]["label"] for p in found] == ["red", "blue", "green"]
    assert [p["path"] for p in found][:2] == [str(red), str(blue)]


def test_stdin_is_read_once(slimtune, model):
    code, _, err = slimtune("predict", model, "-", "-")
    assert code == 2
    assert "can be read once" in err


def test_the_table_and_the_warning(slimtune, model, tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 16, 16, 3), 255, np.uint8))
    code, out, err = slimtune("predict", model, tmp_path / "x.npy", "--csv", tmp_path / "o.csv")
    assert code == 0
    assert "values from 255 to 255; the model was trained on -1 to 1" in err
    assert out.count("x.npy[") == 2
    with (tmp_path / "o.csv").open(newline="") as file:
        assert [row[0] for row in csv.reader(file)] == [
            "path",
            f"{tmp_path}/x.npy[0]",
            f"{tmp_path}/x.npy[1]",
        ]


def test_top(slimtune, model, colour_pictures):
    code, out, _ = slimtune("predict", model, colour_pictures / "red", "--top", 2, "--json")
    assert code == 0
    assert {len(p["classes"]) for p in json.loads(out)["predictions"]} == {2}


def test_labels_alone_describe_no_model(slimtune, model):
    code, _, err = slimtune("predict", model, "a.jpg", "--labels", "names.txt")
    assert code == 2
    assert "--labels goes with --preprocessing." in err


def test_a_broken_picture_is_told_and_ends_with_1(slimtune, model, colour_pictures, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "a.jpg").write_text("no picture")
    (folder / "b.png").write_bytes((colour_pictures / "red" / "1.png").read_bytes())
    words = ("predict", model, folder, "--csv", tmp_path / "o.csv", "--top", 1)
    code, out, err = slimtune(*words, "--json")
    found = json.loads(out)
    assert code == 1
    assert [(p["path"], p["classes"][0]["label"]) for p in found["predictions"]] == [
        (str(folder / "b.png"), "red")
    ]
    assert found["skipped"] == [
        {
            "path": str(folder / "a.jpg"),
            "kind": "not-a-picture",
            "detail": "is text, not a picture",
        }
    ]
    assert f"Skipped {folder / 'a.jpg'}: is text, not a picture." in err
    assert "1 path could not be read as pictures." in err
    assert (tmp_path / "o.csv").read_text().count("\n") == 2
    code, out, _ = slimtune(*words, "--overwrite")
    assert (code, out.count("\n")) == (1, 1)


def test_a_name_with_a_new_line_is_one_line(slimtune, model, colour_pictures, tmp_path):
    (tmp_path / "a\nb.png").write_bytes((colour_pictures / "red" / "1.png").read_bytes())
    (tmp_path / "c\nd.png").write_text("no picture")
    code, out, err = slimtune("predict", model, tmp_path / "a\nb.png", tmp_path / "c\nd.png")
    assert (code, out.count("\n")) == (1, 1) and out.startswith(f"{tmp_path}/a\\nb.png: red ")
    assert f"Skipped {tmp_path}/c\\nd.png: is text, not a picture." in err


def test_without_one_picture_that_can_be_read_the_answer_is_empty(slimtune, model, tmp_path):
    (tmp_path / "a.jpg").write_text("no picture")
    code, out, _ = slimtune("predict", model, tmp_path / "a.jpg", "--json")
    assert code == 1
    assert json.loads(out)["predictions"] == []


def test_what_a_list_and_a_folder_lack_is_told(
    slimtune, model, colour_pictures, monkeypatch, tmp_path
):
    folder, empty = tmp_path / "some", tmp_path / "empty"
    folder.mkdir()
    empty.mkdir()
    (folder / "x.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (folder / "b.png").write_bytes((colour_pictures / "red" / "1.png").read_bytes())
    np.save(folder / "c.npy", np.zeros((16, 16, 3), np.float32))
    listed = f"{folder}\n{tmp_path / 'gone.jpg'}\n{empty}\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed)))
    code, out, err = slimtune("predict", model, "-", "--json")
    found = json.loads(out)
    assert code == 1
    assert [p["path"] for p in found["predictions"]] == [str(folder / "b.png")]
    assert sorted((s["path"], s["detail"]) for s in found["skipped"]) == [
        (str(empty), "holds no pictures"),
        (str(tmp_path / "gone.jpg"), "is not there"),
        (str(folder / "x.jpg"), "is not there"),
    ]
    assert f"Note: 1 array in {folder} left out, as c.npy" in err
    assert "3 paths could not be read as pictures." in err


def test_one_path_that_is_not_there_is_an_error(slimtune, model, tmp_path):
    code, out, _ = slimtune("predict", model, tmp_path / "gone.jpg", "--json")
    assert code == 1
    assert json.loads(out)["error"]["message"] == f"{tmp_path / 'gone.jpg'} is not there."
