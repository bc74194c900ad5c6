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
