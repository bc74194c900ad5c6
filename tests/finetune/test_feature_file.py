"""slimtune features: arrays of a run's bottleneck, once a picture."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


def test_every_picture_of_every_split_is_written_once(slimtune, run, colours, tmp_path):
    out = tmp_path / "features.npz"
    code, printed, _ = slimtune("features", run, colours, out, "--json")
    assert code == 0
    value = json.loads(printed)
    assert (value["count"], value["channels"]) == (60, 16)
    assert value["classes"] == ["blue", "green", "red"]
    with np.load(out) as arrays:
        assert {name: (arrays[name].shape, arrays[name].dtype.kind) for name in arrays} == {
            "features": ((60, 16), "f"),
            "labels": ((60,), "i"),
            "paths": ((60,), "U"),
            "splits": ((60,), "U"),
            "classes": ((3,), "U"),
        }
        assert len(set(arrays["paths"])) == 60
        for path, label in zip(arrays["paths"], arrays["labels"], strict=True):
            assert path.startswith(arrays["classes"][label])
        assert dict(zip(*np.unique(arrays["splits"], return_counts=True), strict=True)) == {
            "train": 44,
            "val": 16,
        }
        assert arrays["features"].std() > 0


def test_an_existing_file_is_not_replaced_unasked(slimtune, run, colours, tmp_path):
    out = tmp_path / "features.npz"
    out.write_bytes(b"mine")
    code, _, told = slimtune("features", run, colours, out)
    assert code == 1
    assert "--overwrite" in told
    assert out.read_bytes() == b"mine"
    assert slimtune("features", run, colours, out, "--overwrite")[0] == 0


def test_a_folder_of_pictures_is_one_split_and_stays_as_it_was(
    slimtune, run, colour_pictures, tmp_path
):
    before = sorted(path.name for path in colour_pictures.parent.iterdir())
    out = tmp_path / "features.npz"
    assert slimtune("features", run, colour_pictures, out)[0] == 0
    with np.load(out) as arrays:
        assert set(arrays["splits"]) == {"test"}
        assert len(arrays["features"]) == 60
    assert sorted(path.name for path in colour_pictures.parent.iterdir()) == before
